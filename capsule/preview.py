"""Dry runs: what a run or a verification would start, without starting or fetching anything."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from capsule import launch, places, rerun
from capsule import plan as planning
from capsule import resolve as resolving
from capsule import session as sessions
from capsule import site as sites
from capsule.archive import Capsule
from capsule.datasets import find
from capsule.errors import CannotRunError
from capsule.execute import payload
from capsule.execute.header import Header
from capsule.execute.inputs import collect
from capsule.execute.kinds import workload_of
from capsule.execute.workload import Setting
from capsule.execute.workspace import Workspace
from capsule.image import Image
from capsule.manifest import Manifest, commands
from capsule.options import RunOptions, VerifyOptions
from capsule.plan import Plan
from capsule.quick import LeftOut
from capsule.resolve import Request, Resolved
from capsule.runtimes import binds, programs
from capsule.runtimes.base import Invocation, Mount, Prepared, Runtime
from capsule.runtimes.docker import Docker
from capsule.session import Terms
from capsule.trust import policy as trust
from capsule.trust.outlook import Outlook

# stands for the run's folder, as in what is sealed
RUN = "$RUN"


@dataclass(frozen=True, kw_only=True)
class Data:
    """A dataset that a run would use.

    Attributes:
        name: Its name in the manifest.
        size_bytes: None while it is unknown.
        path: Its place, None while it is unknown; in the run folder if the capsule carries it.
        carried: Whether the verified capsule carries it.
        generator: The generator that would make it, None for an existing one.
    """

    name: str
    size_bytes: int | None
    path: Path | None
    carried: bool
    generator: str | None


@dataclass(frozen=True, kw_only=True)
class Preview:
    """A run that was not started.

    Attributes:
        plan: Every process start.
        engine: Name of the engine, None if none works here.
        fault: Why no engine works, or why its image is unknown; empty otherwise.
        contained: Whether the engine starts an image.
        image: The image, None without a container and with a fault.
        is_kept: Whether the engine has the image already.
        programs: Path of each program that the commands start, for runs without a container.
        input_bytes: Size of each input file, by its path below `inputs/`.
        setup: The command before the first process start, None without one.
        data: The datasets that the run needs.
        invocation: The first process start; paths in the run folder begin with `RUN`.
        prospect: The extent of the run.
        walltime_seconds: Time limit of the run, None without one.
        left_out: What a quick verification leaves out, None for any other.
    """

    plan: Plan
    engine: str | None
    fault: str
    contained: bool
    image: Image | None
    is_kept: bool
    programs: Mapping[str, Path | None]
    input_bytes: Mapping[str, int]
    setup: Invocation | None
    data: tuple[Data, ...]
    invocation: Invocation
    prospect: Outlook
    walltime_seconds: float | None
    left_out: LeftOut | None = None

    def is_restored(self, mount: Mount) -> bool:
        """Return whether a mount holds writable inputs, which are restored before each start."""
        return Path(RUN, "work") in mount.source.parents


def preview(manifest: Manifest, options: RunOptions) -> Preview:
    """Return what a run with these options would start.

    Raises:
        UsageError: The manifest or an option is wrong, or a capsule has no room for all of it.
        DamagedError: An input is missing, or the registry serves other bytes than the digest names.
        CannotRunError: This machine cannot start so many ranks.
    """
    request = Request.of(
        manifest, options.runtime, options.image, keep_keyring=options.keep_keyring
    )
    inputs = collect(manifest, manifest.folder).files
    prospect = Outlook(
        plan=planning.make(manifest), work=options.work, output=options.output, limits=options
    )
    terms = Terms(image=options.image, keep_hosts=options.keep_hosts)
    sizes = {name: path.stat().st_size for name, path in inputs.items()}
    return _preview(request, prospect, terms, sizes, carried=inputs)


def preview_verification(original: Capsule, options: VerifyOptions) -> Preview:
    """Return what a verification with these options would start.

    Raises:
        UsageError: An option is wrong, or there is nothing to run.
        DamagedError: A capsule to add is no verification of this capsule.
        CannotRunError: This machine cannot start so many ranks.
    """
    request = rerun.request(original, options, Path(RUN))
    planned = rerun.plan(original, options)
    code = trust.of_capsule(original, own_levels=options.levels == "own")
    prospect = rerun.prospect(original, planned, options, own=code.own)
    terms = planned.terms(options.image, options)
    sizes = {name.removeprefix("inputs/"): size for name, size in code.inputs.items()}
    shown = _preview(request, prospect, terms, sizes, kept=_copies(original))
    return replace(shown, left_out=planned.left_out)


def _copies(original: Capsule) -> dict[str, Path]:
    """Return the future place of each dataset in a capsule: a folder, or its one file."""
    copies: dict[str, Path] = {}
    for dataset in original.record.datasets:
        if dataset.embedded:
            top = f"datasets/{dataset.name}"
            names = [name for name in original.digests if name.startswith(f"{top}/")]
            is_file = str(original.digests[names[0]]) == dataset.digest
            copies[dataset.name] = Path(RUN, names[0] if is_file else top)
    return copies


def _preview(
    request: Request,
    prospect: Outlook,
    terms: Terms,
    sizes: Mapping[str, int],
    *,
    carried: Mapping[str, Path] = {},
    kept: Mapping[str, Path] = {},
) -> Preview:
    """Return the preview that a run and a verification have in common.

    Args:
        request: What is wanted.
        prospect: What would come of it.
        terms: What else the run's folder would keep.
        sizes: Of input files.
        carried: Where input files lie that a capsule must have room for.
        kept: Where datasets lie that a capsule carries.
    """
    runtime, image, shown, fault = _choose(request)
    data = tuple(_data(request, kept))
    limits = (request.manifest.resources.walltime_seconds, prospect.limits.walltime)
    contained = runtime is None or runtime.contained
    resolved = _resolve(request, runtime or Docker(), data, carried)
    # every engine shows a workload the same
    setup, invocation = _first_start(prospect, terms, resolved, image, sizes)
    return Preview(
        plan=prospect.plan,
        engine=runtime.name if runtime else None,
        fault=fault,
        contained=contained,
        image=image,
        is_kept=bool(runtime and image and runtime.keeps(image, cache=_cache())),
        programs=_programs(request.manifest) if not contained else {},
        input_bytes=sizes,
        data=data,
        setup=None if setup is None else replace(setup, mounts=(*setup.mounts, *shown)),
        invocation=replace(invocation, mounts=(*invocation.mounts, *shown)),
        prospect=prospect,
        walltime_seconds=min((limit for limit in limits if limit), default=None),
    )


def _choose(
    request: Request,
) -> tuple[Runtime | None, Image | None, tuple[Mount, ...], str]:
    """The engine, its image, what of the machine that is shown, and why one of them is missing.

    A plan can be read where it cannot be run.
    """
    runtime: Runtime | None = None
    shown: tuple[Mount, ...] = ()
    try:
        runtime = resolving.choose_engine(request)
        shown = binds.find(sites.load()) if runtime.contained else ()
        image = resolving.choose(request).image
    except CannotRunError as error:
        return runtime, None, shown, error.what
    return runtime, image, shown, ""


def _python(runtime: Runtime) -> str:
    """Return the Python that would start capsule's program; the user's own is not tried."""
    if runtime.contained:
        return "python3"
    chosen, _ = sites.interpreter(sites.load())
    return chosen or sys.executable


def _programs(manifest: Manifest) -> dict[str, Path | None]:
    return {word: programs.find(word) for word in commands.programs(manifest.benchmarks)}


def _cache() -> Path:
    return sites.cache_place(sites.load())


def _data(request: Request, kept: Mapping[str, Path]) -> Iterator[Data]:
    """Every dataset that is needed, of which nothing is read."""
    there = {one.name: one for one in request.used.datasets} if request.used else {}
    site = sites.load()
    for spec in request.datasets:
        facts = there.get(spec.name)
        known = replace(spec, digest=facts.digest if facts else spec.digest)
        place = find.locate(known, folder=request.manifest.folder, site=site, cache=_cache())
        yield Data(
            name=spec.name,
            size_bytes=facts.bytes if facts else None,
            path=kept.get(spec.name) or (place.path.absolute() if place else None),
            carried=spec.name in kept,
            generator=spec.generator,
        )


def _resolve(
    request: Request, runtime: Runtime, data: Sequence[Data], carried: Mapping[str, Path]
) -> Resolved:
    """Return the resources of a run, as far as known before anything is fetched."""
    manifest, resources = request.manifest, request.manifest.resources
    launcher = launch.choose(resources, sites.load())
    shown = Prepared(handle="", python=_python(runtime))
    return Resolved(
        runtime=runtime,
        image=None,
        override=None,
        prepared=launch.share_network(shown, runtime, resources, launcher),
        datasets=(),
        data={one.name: one.path or Path("...") for one in data},
        inputs=carried,
        embedded={},
        sources=(),
        levels=payload.OWN_LEVELS,
        threads=resolving.threads(manifest),
        launcher=launcher,
        notes=(),
    )


def _first_start(
    prospect: Outlook,
    terms: Terms,
    resolved: Resolved,
    image: Image | None,
    names: Iterable[str],
) -> tuple[Invocation | None, Invocation]:
    """Return setup and command of the first process start, made by the code that starts it."""
    plan = prospect.plan
    manifest, group = plan.manifest, plan.groups[0]
    header = Header(
        setup=sessions.set_up(plan, resolved, terms),
        folder=manifest.folder,
        keep_hosts=terms.keep_hosts,
        salt="",
        runs=None,
        plan=str(plan.digest),
        subjects=(),
        programs={},
    )
    setting = Setting(
        runtime=resolved.runtime,
        prepared=resolved.prepared,
        image=image,
        launcher=resolved.launcher,
        data=resolved.data,
        formats=manifest.formats,
        generators=manifest.generators,
        threads=resolved.threads,
        device=manifest.resources.device,
        gpus_per_rank=manifest.resources.gpus_per_rank,
        ranks_per_node=manifest.resources.ranks_per_node,
        determinism=manifest.determinism,
        label="",
        nodes=(0,) * manifest.resources.ranks,
        deadline=None,
        limits=prospect.limits,
    )
    with places.scratch() as folder:
        workspace = Workspace(folder, header)
        # a word may be the path of an input: their names are all that is looked at
        for name in names:
            path = workspace.inputs / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.touch()
        start = workspace.start(1, group.ranks)
        # without a container each start has a HOME of its own, whose path nobody knows yet
        own = () if resolved.runtime.contained else ("HOME",)
        workload = workload_of(group)
        before = workload.setup(workspace, group, start, setting, 0)
        invocation = workload.invocation(workspace, group, start, setting, 0)
        return (
            None if before is None else _abbreviate(before, workspace.folder, own),
            _abbreviate(invocation, workspace.folder, own),
        )


def _abbreviate(invocation: Invocation, folder: Path, left_out: Sequence[str] = ()) -> Invocation:
    """The same with the run's folder, which is another one then, by its short name.

    Args:
        invocation: As it would be.
        folder: Of the run.
        left_out: Variables that it does without.
    """

    def abbreviate(text: object) -> str:
        return str(text).replace(str(folder), RUN)

    return replace(
        invocation,
        command=tuple(map(abbreviate, invocation.command)),
        environment={
            name: abbreviate(value)
            for name, value in invocation.environment.items()
            if name not in left_out
        },
        mounts=tuple(
            replace(one, source=Path(abbreviate(one.source))) for one in invocation.mounts
        ),
        cwd=abbreviate(invocation.cwd),
        stdin=None if invocation.stdin is None else Path(abbreviate(invocation.stdin)),
    )
