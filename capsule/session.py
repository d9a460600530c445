"""One run on this machine, from a manifest to a sealed capsule, new or taken up again."""

from __future__ import annotations

import os
import shutil
import time
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from capsule import archive, datasets, image, inventory, manifest, runtimes
from capsule import plan as planning
from capsule import record as records
from capsule import site as sites
from capsule.console import Console
from capsule.errors import DamagedError, UsageError
from capsule.execute import gather, loop, payload
from capsule.execute.workload import Setting, environment
from capsule.execute.workspace import Workspace
from capsule.manifest import Manifest
from capsule.notes import Note
from capsule.plan import Plan
from capsule.record import Dataset, Execution, FrozenClaim, Record, Setup
from capsule.runtimes import gpus
from capsule.runtimes.base import Prepared, Runtime
from capsule.trust import ledger


@dataclass(frozen=True, kw_only=True)
class Original:
    """The capsule that a run verifies, as far as the run needs it."""

    id: str
    manifest: Manifest
    image: image.Image | None
    datasets: tuple[Dataset, ...]
    claims: tuple[FrozenClaim, ...]


@dataclass(frozen=True, kw_only=True)
class Request:
    """What a new run is asked to do.

    Attributes:
        manifest: What to run.
        original: What it verifies, None for an original run.
        runtime: Name of an engine, or `auto`.
        image: Reference that replaces the manifest's image, None to use that.
        work: Folder of the run while it is under way, None for one in the current folder.
        keep_hosts: Record host names and serial numbers in the clear.
        runs: Number of fresh seeds of a verification, None for as many as the original has.
        levels: Folder of the measuring program.
        inputs: Folder that the manifest's input paths are relative to.
    """

    manifest: Manifest
    original: Original | None
    runtime: str
    image: str | None
    work: Path | None
    keep_hosts: bool
    runs: int | None
    levels: Path
    inputs: Path | None


@dataclass(frozen=True, kw_only=True)
class Session:
    """A run with everything at hand that its process starts need."""

    workspace: Workspace
    plan: Plan
    setup: Setup
    setting: Setting
    claims: tuple[FrozenClaim, ...] | None

    @property
    def done(self) -> int:
        """How many trials have their outcome already."""
        logged = self.workspace.attempts()
        return len({each.trial for _, each in logged if each.outcome != "interrupted"})

    @property
    def total(self) -> int:
        """How many trials the plan has."""
        return sum(len(group.trials) for group in self.plan.groups)


def begin(request: Request, console: Console) -> Session:
    """Resolve everything that a run needs, and make its folder.

    Nothing is executed, and no folder is made before all of it is at hand.

    Raises:
        CannotRunError: An engine, the image, a dataset or a device is missing here.
        DamagedError: An image or a dataset is not what its digest names.
    """
    asked, original = request.manifest, request.original
    site = sites.load()
    engine = site.runtime if site.runtime and request.runtime == "auto" else request.runtime
    runtime = runtimes.choose(engine, needs_image=_wants_image(request))
    chosen = _image(request, runtime)
    plan = planning.make(asked, verifies=original.id if original else None, runs=request.runs)
    inputs = payload.inputs(asked, request.inputs)
    found, data = _datasets(asked, original.datasets if original else (), site, console)
    prepared = _prepared(runtime, chosen, site, asked, console)
    run = uuid.uuid4()
    setup = Setup(
        uuid=str(run),
        verifies=original.id if original else None,
        started=_now(),
        runtime=runtime.name,
        contained=runtime.contained,
        image=chosen,
        image_observations=prepared.observations,
        image_override=request.image,
        variables={},
        threads=_threads(asked),
        levels=payload.levels_facts(request.levels),
        datasets=found,
        notes=tuple(_notes(request, runtime, prepared)),
    )
    folder = request.work or Path(f"{asked.name}-{run.hex[:8]}.run")
    workspace = Workspace.create(
        folder,
        {
            "setup": archive.setup_to_json(setup),
            "folder": str(asked.folder) if asked.folder else None,
            "keep_hosts": request.keep_hosts,
            "salt": uuid.uuid4().hex,
            "runs": request.runs,
            "plan": str(plan.digest),
            "subjects": planning.to_json(plan)["subjects"],
        },
    )
    payload.fill(workspace, asked, inputs, request.levels)
    return _session(workspace, plan, setup, runtime, prepared, data, original)


def reopen(folder: Path, original: Original | None, console: Console) -> Session:
    """Take up a run that was interrupted, on this machine or another one of the same site.

    Raises:
        UsageError: It is not a run folder, or belongs to a verification and no capsule is given.
        DamagedError: Its manifest makes another plan than the one that was begun.
    """
    workspace = Workspace.open(folder)
    header = workspace.header
    setup = archive.setup_from_json(header["setup"])
    if setup.verifies != (original.id if original else None):
        raise UsageError(
            f"this run verifies capsule {setup.verifies}"
            if setup.verifies
            else "this run verifies no capsule",
            where=str(folder),
            advice=f"capsule verify CAPSULE --resume {folder}"
            if setup.verifies
            else f"capsule run --resume {folder}",
        )
    beside = Path(header["folder"]) if header["folder"] else None
    asked = manifest.read(
        workspace.manifest.read_bytes(),
        where=str(workspace.manifest),
        folder=beside,
        subjects=header["subjects"],
    )
    plan = planning.make(asked, verifies=setup.verifies, runs=header["runs"])
    if str(plan.digest) != header["plan"]:
        raise DamagedError(
            f"the manifest in the run folder now makes plan {plan.digest}, not {header['plan']}",
            where=str(workspace.manifest),
            advice="it was changed, or begun by another version of capsule; start anew",
        )
    runtime = runtimes.choose(setup.runtime, needs_image=setup.image is not None)
    site = sites.load()
    _, data = _datasets(asked, setup.datasets, site, console)
    prepared = _prepared(runtime, setup.image, site, asked, console)
    ended = runtime.reap(setup.uuid)
    if ended:
        console.say(f"ended {ended} process(es) that the interrupted run had left running")
    return _session(workspace, plan, setup, runtime, prepared, data, original)


def perform(session: Session, console: Console) -> None:
    """Run every trial that has no outcome yet.

    Raises:
        ExecutionError: It could not be finished; the run folder can be taken up again.
    """
    loop.recover(session.workspace, session.plan)
    with console.progress(session.total, session.done) as watch:
        loop.run(session.workspace, session.plan, session.setting, watch)


def look(session: Session, runs: int) -> Session:
    """The same run as far as its first `runs` fresh seeds."""
    return replace(session, plan=planning.first(session.plan, runs))


def assemble(session: Session, execution: Execution) -> Record:
    """The record of what ran so far, with its claims frozen."""
    from capsule import summary, verdict

    record = records.assemble(
        session.setup,
        session.plan,
        execution,
        nodes=session.workspace.nodes(),
        ended=_now(),
    )
    claims = session.claims
    if claims is None:
        claims = verdict.freeze(record.manifest.claims, summary.run_values(record))
    return replace(record, claims=claims)


def seal(session: Session, target: Path) -> tuple[Record, str]:
    """Write the capsule and note it as this user's own.

    Returns:
        What it holds, and its id.
    """
    execution = gather.collect(session.workspace, session.plan)
    if any(group.trials[0].benchmark.command for group in session.plan.groups):
        software = dict(execution.software)
        software["command"] = gather.probe(session.workspace, session.setting)
        execution = replace(execution, software=software)
    record = assemble(session, execution)
    files = [*payload.carried(session.workspace), *execution.logs]
    capsule_id = archive.write(record, files, target)
    ledger.add(capsule_id)
    shutil.rmtree(session.workspace.folder)
    return record, capsule_id


def capsule_name(session: Session) -> str:
    """File name of the capsule to seal: the manifest's name and the run's first digits."""
    suffix = ".verification" if session.setup.verifies else ""
    return f"{session.plan.manifest.name}-{session.setup.uuid[:8]}{suffix}.capsule.zip"


def _session(
    workspace: Workspace,
    plan: Plan,
    setup: Setup,
    runtime: Runtime,
    prepared: Prepared,
    data: Mapping[str, Path],
    original: Original | None,
) -> Session:
    resources = plan.manifest.resources
    node = inventory.node(
        salt=workspace.header["salt"], keep_hosts=bool(workspace.header["keep_hosts"])
    )
    limit = resources.walltime_seconds
    setting = Setting(
        runtime=runtime,
        prepared=prepared,
        data=data,
        threads=setup.threads,
        device="cuda" if resources.gpus_per_rank else "cpu",
        gpus=resources.gpus_per_rank,
        determinism=plan.manifest.determinism,
        label=setup.uuid,
        node=workspace.add_node(node),
        deadline=time.monotonic() + limit if limit else None,
    )
    return Session(
        workspace=workspace,
        plan=plan,
        setup=replace(setup, variables=environment(setting)),
        setting=setting,
        claims=original.claims if original else None,
    )


def _wants_image(request: Request) -> bool:
    return request.manifest.image is not None or request.image is not None


def _image(request: Request, runtime: Runtime) -> image.Image | None:
    if not runtime.contained:
        return None
    original = request.original
    if original is not None and request.image is None:
        if original.image is None:
            raise UsageError(
                "the original ran without an image, so no engine can run the same one",
                advice="verify it with --runtime host, or name an image with --image",
            )
        return original.image
    if request.manifest.image is None and request.image is None:
        raise UsageError(
            f"the manifest names no image, which {runtime.name} needs",
            where="/image",
            advice="add one, name one with --image, or use --runtime host",
        )
    return image.resolve(
        request.manifest.image, folder=request.manifest.folder, override=request.image
    )


def _datasets(
    asked: Manifest, used: tuple[Dataset, ...], site: sites.Site, console: Console
) -> tuple[tuple[Dataset, ...], dict[str, Path]]:
    """Every dataset of the manifest; one that was used before must be the same bytes again."""
    known = {each.name: each.digest for each in used}
    found: list[Dataset] = []
    data: dict[str, Path] = {}
    for spec in asked.datasets:
        dataset, path = datasets.obtain(
            replace(spec, digest=known.get(spec.name, spec.digest)),
            folder=asked.folder,
            site=site,
            cache=sites.cache_folder(site),
            progress=console.counter(f"dataset {spec.name}"),
        )
        found.append(dataset)
        data[spec.name] = path
    return tuple(found), data


def _prepared(
    runtime: Runtime,
    chosen: image.Image | None,
    site: sites.Site,
    asked: Manifest,
    console: Console,
) -> Prepared:
    if chosen is not None:
        console.say(f"image {chosen.pinned or chosen.reference} by {runtime.name}")
    count = asked.resources.gpus_per_rank
    if count:
        # a missing device is told before an image of gigabytes is fetched
        gpus.require(count, chosen)
    prepared = runtime.prepare(chosen, cache=sites.cache_folder(site))
    if count:
        runtime.check_gpus(count, prepared, chosen)
    return prepared


def _threads(asked: Manifest) -> int:
    return asked.resources.cpus_per_rank or len(os.sched_getaffinity(0))


def _notes(request: Request, runtime: Runtime, prepared: Prepared) -> Iterator[Note]:
    manifest = request.manifest
    if not runtime.contained:
        yield Note(
            code="uncontained",
            sentence="nothing was contained: the host's own Python and libraries were measured",
        )
        if _wants_image(request):
            yield Note(code="image-unused", sentence="the manifest's image was not used")
    if manifest.narrowed_from is not None:
        kept = ", ".join(dict.fromkeys(n for each in manifest.benchmarks for n in each.frameworks))
        yield Note(
            code="narrowed",
            sentence=f"measured with {kept} alone: a part of the manifest {manifest.narrowed_from}",
        )
    if request.image is not None:
        yield Note(
            code="image-replaced",
            sentence=f"the image was replaced on the command line by {request.image}",
        )
    isolation = prepared.observations.get("network_isolation", "")
    if isolation.startswith("refused"):
        yield Note(code="online", sentence=f"workloads could reach the network: {isolation}")
    threads, cpus = _threads(manifest), len(os.sched_getaffinity(0))
    if threads > cpus:
        yield Note(
            code="oversubscribed", sentence=f"{threads} threads were asked for on {cpus} CPUs"
        )


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")
