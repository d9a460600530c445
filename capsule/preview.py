"""What a run would start here, told without starting, fetching or writing anything."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from capsule import launch
from capsule import plan as planning
from capsule import resolve as resolving
from capsule import session as sessions
from capsule import site as sites
from capsule.errors import CannotRunError
from capsule.execute import payload
from capsule.execute.header import Header
from capsule.execute.inputs import collect
from capsule.execute.kinds import workload_of
from capsule.execute.workload import Setting
from capsule.execute.workspace import Workspace
from capsule.image import Image
from capsule.manifest import Manifest
from capsule.options import RunOptions
from capsule.plan import Plan
from capsule.resolve import Request, Resolved
from capsule.runtimes import gpus
from capsule.runtimes.base import Invocation, Prepared, Runtime
from capsule.runtimes.docker import Docker
from capsule.session import Terms

# stands for the run's folder, as in what is sealed
RUN = "$RUN"


@dataclass(frozen=True, kw_only=True)
class Preview:
    """What a run would start.

    Attributes:
        plan: Every process start.
        engine: Name of the engine, None where none can be used here.
        fault: Why not, or why its image cannot be told; empty where neither is so.
        contained: Whether the engine starts an image.
        recipe: Folder that the image would be built of, None for one that exists.
        image: What it starts, None without a container, for a recipe, and with a fault.
        is_kept: Whether the engine has the image here already.
        input_bytes: Size of each input file, by its path below `inputs/`.
        invocation: The first process start; paths in the run's folder begin with `RUN`.
        walltime_seconds: After which the run is cut off, None for never.
    """

    plan: Plan
    engine: str | None
    fault: str
    contained: bool
    recipe: str | None
    image: Image | None
    is_kept: bool
    input_bytes: Mapping[str, int]
    invocation: Invocation
    walltime_seconds: float | None


def preview(manifest: Manifest, options: RunOptions) -> Preview:
    """Tell what a run with these options would start.

    Raises:
        UsageError: The manifest or an option is wrong, or a capsule has no room for all of it.
        DamagedError: An input is not there, or the registry serves what its digest does not name.
        CannotRunError: So many ranks cannot be started here.
    """
    plan = planning.make(manifest)
    request = Request(
        manifest=manifest, runtime=options.runtime, image=options.image, inputs=manifest.folder
    )
    recipe = manifest.image.build if manifest.image and options.image is None else None
    runtime, image, fault = _choose(request, recipe)
    inputs = collect(manifest, manifest.folder).files
    limits = (manifest.resources.walltime_seconds, options.walltime)
    contained = runtime is None or runtime.contained
    return Preview(
        plan=plan,
        engine=runtime.name if runtime else None,
        fault=fault,
        contained=contained,
        recipe=recipe if contained else None,
        image=image,
        is_kept=bool(runtime and image and runtime.keeps(image, cache=_cache())),
        input_bytes={name: path.stat().st_size for name, path in inputs.items()},
        # every engine shows a workload the same
        invocation=_first_start(plan, runtime or Docker(), image, inputs, options),
        walltime_seconds=min((limit for limit in limits if limit), default=None),
    )


def _choose(request: Request, recipe: str | None) -> tuple[Runtime | None, Image | None, str]:
    """The engine, its image, and why there is none: a plan can be read where it cannot be run."""
    runtime = None
    try:
        runtime = resolving.choose_engine(request)
        # to resolve a recipe is to build it
        image = None if recipe and runtime.contained else resolving.choose(request).image
    except CannotRunError as error:
        return runtime, None, error.what
    return runtime, image, ""


def _cache() -> Path:
    return sites.cache_folder(sites.load())


def _first_start(
    plan: Plan,
    runtime: Runtime,
    image: Image | None,
    inputs: Mapping[str, Path],
    options: RunOptions,
) -> Invocation:
    """How the first process would be started, by the code that starts it."""
    manifest, group = plan.manifest, plan.groups[0]
    resources = manifest.resources
    resolved = Resolved(
        runtime=runtime,
        image=None,
        override=None,
        prepared=Prepared(handle=""),
        datasets=(),
        data={spec.name: _lies(manifest, spec.path) for spec in manifest.datasets},
        inputs=inputs,
        sources=(),
        levels=payload.OWN_LEVELS,
        threads=resolving.threads(manifest),
        devices=gpus.by_rank(resources.gpus_per_rank, resources.ranks),
        launcher=launch.choose(resources.ranks),
        notes=(),
    )
    setup = sessions.set_up(plan, resolved, Terms(image=resolved.override))
    header = Header(
        setup=setup,
        folder=manifest.folder,
        keep_hosts=options.keep_hosts,
        salt="",
        runs=None,
        plan=str(plan.digest),
        subjects=(),
    )
    setting = Setting(
        runtime=runtime,
        prepared=resolved.prepared,
        image=image,
        launcher=resolved.launcher,
        data=resolved.data,
        threads=resolved.threads,
        device="cuda" if any(resolved.devices) else "cpu",
        devices=resolved.devices,
        determinism=manifest.determinism,
        label="",
        nodes=(0,) * resources.ranks,
        deadline=None,
        limits=options,
    )
    # a folder that is never made: what is asked of it is where things will lie
    workspace = Workspace(Path("/") / RUN, header)
    start = workspace.start(1, group.ranks)
    return _abbreviate(workload_of(group).invocation(workspace, group, start, setting, 0))


def _abbreviate(invocation: Invocation) -> Invocation:
    """The same with the run's folder, which is nowhere yet, by its short name."""

    def abbreviate(text: object) -> str:
        return str(text).replace(f"/{RUN}", RUN)

    return replace(
        invocation,
        command=tuple(map(abbreviate, invocation.command)),
        environment={name: abbreviate(value) for name, value in invocation.environment.items()},
        mounts=tuple(
            replace(one, source=Path(abbreviate(one.source))) for one in invocation.mounts
        ),
        cwd=abbreviate(invocation.cwd),
    )


def _lies(manifest: Manifest, path: str | None) -> Path:
    """Where a dataset lies, as far as the manifest tells."""
    return Path("...") if path is None else (manifest.folder or Path()) / path
