"""The life of a run folder: begin, take up, perform, seal."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from capsule import (
    __version__,
    archive,
    deviceseries,
    notes,
    places,
    rankseries,
    reexecution,
    summary,
    verdict,
)
from capsule import earlier as earlier_runs
from capsule import plan as planning
from capsule import record as records
from capsule.earlier import Earlier
from capsule.execute import audit, gather, loop, payload, placement
from capsule.execute.header import Header
from capsule.execute.workload import Setting, environment, find_writable
from capsule.execute.workspace import Workspace
from capsule.extension import Extended
from capsule.interruption import (
    CutOff,
    add_begun_controls,
    require_same_binds,
    require_same_programs,
)
from capsule.manifest import Command, commands, looks
from capsule.options import Limits
from capsule.origin import Origin, Original, Side, Verification
from capsule.plan import Plan
from capsule.record import Execution, FrozenClaim, Record, Setup
from capsule.resolve import Resolved
from capsule.runtimes import keyring
from capsule.trust import ledger
from capsule.trust.privacy import Privacy
from capsule.watch import Watch

# no run of this program began before its first line was written
_WRITTEN = datetime(2026, 11, 21, tzinfo=UTC)


@dataclass(frozen=True, kw_only=True)
class Terms:
    """Request of a run, stored in its run folder beside the resolved setup.

    Attributes:
        runs: Number of fresh seeds of a verification, None for a run of its own.
        image: Reference that took the place of the image, None when that one is used.
        keep_hosts: Record host names and serial numbers in the clear.
        side: Which side of a pair it is, None for a run by itself.
        quick: True if the plan of a verification leaves out what decides nothing.
    """

    runs: int | None = None
    image: str | None = None
    keep_hosts: bool = False
    side: Side | None = None
    quick: bool = False


@dataclass(frozen=True, kw_only=True)
class Session:
    """A run with everything at hand that its process starts need.

    Attributes:
        claims: Those of the capsule that it verifies; None for the manifest's, frozen at the end.
        gatherer: Reads what the process starts leave behind.
        room: True if all that they say can be sealed.
        earlier: A capsule whose trials are not run again, and count; None for none.
        own: True if what it executes is this user's: its capsule is, then, too.
        follows: When the original that it verifies ended, ISO 8601 UTC; None for other runs.
    """

    workspace: Workspace
    plan: Plan
    setup: Setup
    setting: Setting
    claims: tuple[FrozenClaim, ...] | None
    gatherer: gather.Gatherer
    room: archive.Projection
    earlier: Earlier | Extended | None = None
    own: bool = True
    follows: str | None = None

    @property
    def rest(self) -> Plan:
        """Return the part of the plan that runs here."""
        if self.earlier is None:
            return self.plan
        return planning.without(self.plan, self.earlier.trials)


def begin(
    plan: Plan,
    resolved: Resolved,
    terms: Terms,
    *,
    work: Path | None,
    claims: tuple[FrozenClaim, ...] | None = None,
    earlier: Earlier | Extended | None = None,
    own: bool = True,
    follows: str | None = None,
) -> Session:
    """Make the folder of a new run, whole or not at all.

    Args:
        plan: What will run.
        resolved: What it uses.
        terms: What else the folder keeps.
        work: The folder to make, None for one of a new name in the current folder.
        claims: Those of the capsule that is verified.
        earlier: A verification of it whose runs count with these.
        own: True if what it executes is this user's.
        follows: When that capsule's runs ended.

    Raises:
        UsageError: The folder exists already.
        ExecutionError: It cannot be written.
    """
    setup = set_up(plan, resolved, terms, claims=claims, earlier=earlier)
    folder = work or Path(f"{plan.manifest.name}-{setup.uuid[:8]}.run")
    _require_keyless(resolved, folder)
    with places.new_folder(folder) as partial:
        lay_out(partial, plan, setup, resolved, terms, place=folder, earlier=earlier)
    session = enter(folder, plan, setup, resolved, claims=claims)
    return replace(session, earlier=earlier, own=own, follows=follows)


def set_up(
    plan: Plan,
    resolved: Resolved,
    terms: Terms,
    *,
    claims: Sequence[FrozenClaim] | None = None,
    earlier: Earlier | Extended | None = None,
) -> Setup:
    """Return the facts that are fixed before the first process start.

    Raises:
        UsageError: A capsule has no room for all that the plan will leave behind.
        CannotRunError: What it uses cannot be read without the user's keys.
    """
    archive.require_room(plan, carried=tuple(resolved.copies.values()))
    _require_keyless(resolved, Path())
    started = datetime.now(UTC)
    early = notes.NOTES(notes.EARLY_CLOCK, began=started.isoformat(), release=__version__)
    return Setup(
        uuid=str(uuid.uuid4()),
        origin=_origin(plan, resolved, terms, claims or (), earlier),
        started=started.isoformat(timespec="milliseconds"),
        runtime=resolved.runtime.name,
        contained=resolved.runtime.contained,
        image=resolved.image,
        image_observations=resolved.prepared.observations,
        variables={},
        threads=resolved.threads,
        levels=payload.levels_facts(resolved.levels, plan.manifest),
        datasets=resolved.datasets,
        notes=(*resolved.notes, early) if started < _WRITTEN else resolved.notes,
        sources=resolved.sources,
    )


def lay_out(
    folder: Path,
    plan: Plan,
    setup: Setup,
    resolved: Resolved,
    terms: Terms,
    *,
    place: Path | None,
    earlier: Earlier | Extended | None = None,
) -> None:
    """Fill a new run folder with everything that a later process needs, and note it as begun.

    Args:
        folder: To fill.
        plan: What will run.
        setup: What was decided of it.
        resolved: What it uses.
        terms: What else the folder keeps.
        place: Where the folder will lie, None where nobody is to go on with it.
        earlier: A verification whose runs count with these.

    Raises:
        ExecutionError: It cannot be written.
    """
    with Workspace.create(folder, _header(plan, setup, resolved, terms)) as workspace:
        payload.fill(workspace, plan.manifest, resolved.copies, resolved.levels, setup.datasets)
        placement.place(workspace, resolved.launcher, plan.manifest.resources.ranks)
        if earlier is not None:
            earlier_runs.keep(earlier, workspace.earlier)
    if place is not None:
        ledger.begin(place, folder / "run.json")


def enter(
    folder: Path,
    plan: Plan,
    setup: Setup,
    resolved: Resolved,
    *,
    claims: tuple[FrozenClaim, ...] | None = None,
) -> Session:
    """Be ready to work in a folder that was laid out."""
    return _session(Workspace.open(folder), plan, setup, resolved, claims)


def take_up(
    cut_off: CutOff,
    resolved: Resolved,
    watch: Watch,
    *,
    claims: tuple[FrozenClaim, ...] | None = None,
    own: bool = True,
    follows: str | None = None,
) -> Session:
    """End what the dead run left behind, and be ready to go on; the folder must be locked.

    Raises:
        DamagedError: What it copied when it was begun has changed, or the log is none of this plan.
        CannotRunError: Without a container, its programs are others here than where it was begun;
            in one, what of the machine it is shown.
    """
    require_same_programs(cut_off, resolved)
    require_same_binds(cut_off, resolved)
    _require_keyless(resolved, cut_off.workspace.folder)
    payload.check_copies(cut_off.workspace, cut_off.plan.manifest)
    processes = resolved.runtime.reap(cut_off.workspace.label)
    if processes:
        watch.leftovers(processes)
    plan = add_begun_controls(cut_off)
    audit.check(cut_off.workspace, plan)
    loop.recover(cut_off.workspace, plan)
    session = _session(cut_off.workspace, plan, cut_off.setup, resolved, claims)
    return replace(session, earlier=cut_off.earlier, own=own, follows=follows)


def perform(session: Session, watch: Watch, *, keep_going: bool = True) -> Execution:
    """Run every trial that has no outcome yet, and read what all of them left behind.

    Raises:
        FirstTrialError: The first one failed, and the run is not to `keep_going`.
        ExecutionError: It could not be finished; the run folder can be taken up again.
    """
    rest = session.rest
    loop.run(session.workspace, rest, session.setting, watch, session.room, keep_going=keep_going)
    return session.gatherer.collect(rest)


def probe(session: Session, execution: Execution) -> Execution:
    """Add what software the image holds, where commands ran, which do not tell it."""
    if not any(isinstance(group.subject, Command) for group in session.plan.groups):
        return execution
    words = commands.programs(session.plan.manifest.benchmarks)
    software = {
        **execution.software,
        "command": gather.probe(session.workspace, session.setting, words),
    }
    return replace(execution, software=software)


def limit(session: Session, limits: Limits) -> Session:
    """Return the same run within limits: its time is counted from now on."""
    setting, setup = replace(session.setting, limits=limits), session.setup
    if limits.memory is not None:
        is_held = setting.runtime.limits_memory()
        note = notes.NOTES("memory-limit", most_bytes=limits.memory, is_held=is_held)
        setup = replace(setup, notes=(*setup.notes, note))
    if limits.walltime is not None:
        deadline = time.monotonic() + limits.walltime
        if setting.deadline is None or deadline < setting.deadline:
            setting = replace(setting, deadline=deadline, deadline_from="--walltime")
    return replace(session, setting=setting, setup=setup)


@contextmanager
def follow(session: Session, watch: Watch) -> Iterator[None]:
    """Tell the watch that trials start, and that no more do."""
    log = session.workspace.log
    total = sum(len(group.trials) for group in session.rest.groups)
    watch.begin(session.workspace.folder, total, sum(map(log.is_settled, log.last)))
    for note in session.setup.notes:
        if note.code == notes.EARLY_CLOCK:
            watch.note(note.sentence)
    try:
        yield
    finally:
        watch.end()


def remaining_looks(session: Session, looks: Sequence[int]) -> list[int]:
    """Return the planned looks but for those that were taken, or that the run went past already."""
    seeds = {group.id: group.seed for group in session.plan.groups if planning.is_fresh(group)}
    begun = {seeds[start.group] for start in session.workspace.log.starts if start.group in seeds}
    taken = len(session.earlier.seeds) if session.earlier else 0
    return [runs for runs in looks if runs > taken and runs >= taken + len(begun)]


def look(session: Session, runs: int) -> Session:
    """Return the same run as far as its first `runs` fresh seeds, which a planned look ends."""
    origin = session.setup.origin
    assert isinstance(origin, Verification) and session.claims is not None
    plan = planning.first(session.plan, runs)
    number = looks.place((claim.looks for claim in session.claims), _count_fresh(plan))
    setup = replace(session.setup, origin=replace(origin, look=number))
    return replace(session, plan=plan, setup=setup)


def add_controls(session: Session, trials: Sequence[str]) -> Session:
    """Return the same run, and after it a run of each of these trials that is evidence of
    nothing.
    """
    return replace(session, plan=planning.add_controls(session.plan, trials))


def assemble(session: Session, execution: Execution) -> Record:
    """Return the record of what ran so far, earlier runs included, with its claims frozen."""
    record = records.assemble(
        session.setup,
        session.plan,
        execution,
        nodes=session.workspace.nodes(),
        ended=_end(session),
    )
    claims = session.claims
    if claims is None:
        claims = verdict.freeze(record.manifest.claims, summary.run_values(record))
    record = Privacy(session.workspace.folder).clean_record(replace(record, claims=claims))
    if session.earlier:
        record = earlier_runs.merge(record, session.earlier)
    # of all runs that it has now
    due = [rankseries.note(record.samples), deviceseries.note(record)]
    codes = {notes.REDUCED, notes.WITHOUT_GPU}
    if session.follows is not None:
        due.append(reexecution.clock_note(session.follows, record))
        codes.add(notes.CLOCKS)
    kept = (one for one in record.notes if one.code not in codes)
    return replace(record, notes=(*kept, *filter(None, due)))


def _require_keyless(resolved: Resolved, folder: Path) -> None:
    """Stop where workloads could not read what they need, since they have no keys of the user's.

    Raises:
        CannotRunError: Names the path.
    """
    prepared = resolved.prepared
    if prepared.keyring == "kept":
        return
    keyring.require_reachable(
        [
            folder,
            resolved.levels,
            *resolved.data.values(),
            *(Path(place) for place in (prepared.handle, *prepared.programs.values()) if place),
            *(bind.source for bind in prepared.binds),
        ]
    )


def _header(plan: Plan, setup: Setup, resolved: Resolved, terms: Terms) -> Header:
    return Header(
        setup=setup,
        folder=plan.manifest.folder,
        keep_hosts=terms.keep_hosts,
        salt=uuid.uuid4().hex,
        runs=terms.runs,
        plan=str(plan.digest),
        subjects=planning.to_json(plan)["subjects"],
        programs=resolved.prepared.programs,
    )


def _origin(
    plan: Plan,
    resolved: Resolved,
    terms: Terms,
    claims: Sequence[FrozenClaim],
    earlier: Earlier | Extended | None,
) -> Origin:
    if terms.side is not None:
        return terms.side
    if isinstance(earlier, Extended):
        return earlier.name_origin(plan.manifest)
    if plan.verifies is None:
        return Original(image=terms.image)
    seeds = _count_fresh(plan)
    return Verification(
        of=plan.verifies,
        nonce=plan.nonce,
        look=looks.place((claim.looks for claim in claims), seeds),
        runs=seeds,
        image=terms.image,
        levels="own" if resolved.levels == payload.OWN_LEVELS else "capsule",
        set=plan.manifest.changed,
        added=earlier.chain if earlier else (),
        quick=terms.quick,
        device=plan.manifest.other_device,
    )


def _session(
    workspace: Workspace,
    plan: Plan,
    setup: Setup,
    resolved: Resolved,
    claims: tuple[FrozenClaim, ...] | None,
) -> Session:
    limit = plan.manifest.resources.walltime_seconds
    setting = Setting(
        runtime=resolved.runtime,
        prepared=resolved.prepared,
        launcher=resolved.launcher,
        data={**resolved.data, **payload.place_datasets(workspace, setup.datasets, resolved.data)},
        formats=plan.manifest.formats,
        generators=plan.manifest.generators,
        threads=setup.threads,
        device=plan.manifest.resources.device,
        gpus_per_rank=plan.manifest.resources.gpus_per_rank,
        ranks_per_node=plan.manifest.resources.ranks_per_node,
        determinism=plan.manifest.determinism,
        image=setup.image,
        label=workspace.label,
        nodes=placement.place(workspace, resolved.launcher, plan.manifest.resources.ranks),
        deadline=time.monotonic() + limit if limit else None,
        writable=find_writable(plan.manifest, contained=resolved.runtime.contained),
    )
    room = archive.Projection(plan)
    return Session(
        workspace=workspace,
        plan=plan,
        setup=replace(setup, variables=environment(setting)),
        setting=setting,
        claims=claims,
        gatherer=gather.Gatherer(workspace, room.kept),
        room=room,
    )


def _count_fresh(plan: Plan) -> int:
    return len({group.seed for group in plan.groups if planning.is_fresh(group)})


def _end(session: Session) -> str:
    # not now: sealed again after a kill it keeps its id; nor does a clock end it before its start
    return max(session.setup.started, session.workspace.log.last_end or "")
