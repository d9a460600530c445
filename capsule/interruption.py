"""The folder of a run that was interrupted, read again on this machine or another of its site."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from capsule import archive, notes, quick
from capsule import earlier as earlier_runs
from capsule import manifest as manifests
from capsule import plan as planning
from capsule import record as records
from capsule.earlier import Earlier
from capsule.errors import CannotRunError, DamagedError, UsageError
from capsule.execute import payload
from capsule.execute.placement import this_node
from capsule.execute.workspace import Workspace, read_file
from capsule.extension import Extended
from capsule.options import Limits
from capsule.origin import Extension, Verification, changes, original_id, other_device
from capsule.plan import Plan
from capsule.record import Execution, FrozenClaim, Setup
from capsule.resolve import Request, Resolved, Used
from capsule.runtimes import keyring, programs
from capsule.trust import ledger
from capsule.trust.outlook import Outlook

_OF_SITES = (notes.BIND, notes.LIBRARY)


@dataclass(frozen=True, kw_only=True)
class CutOff:
    """A run that was interrupted, as its folder has it."""

    workspace: Workspace
    plan: Plan
    setup: Setup
    earlier: Earlier | Extended | None = None
    only: frozenset[str] | None = None

    def prospect(self, output: Path | None, limits: Limits = Limits()) -> Outlook:
        """Return the outlook on the run, including the finished trials."""
        return Outlook(plan=self.plan, work=self.workspace.folder, output=output, limits=limits)

    @property
    def request(self) -> Request:
        """Return the request for this machine, equal to the earlier one."""
        return Request(
            manifest=self.plan.manifest,
            used=Used(image=self.setup.image, datasets=self.setup.datasets),
            only=self.only,
            runtime=self.setup.runtime,
            levels=self.workspace.levels,
            inputs=self.workspace.inputs,
            data=self.workspace.datasets,
            # nobody else's folder says that its workload may have this user's keys
            keep_keyring=keyring.is_kept(self.setup.image_observations)
            and ledger.has_begun(self.workspace.folder),
        )


def reopen(folder: Path, *, verifies: str | None, claims: Sequence[FrozenClaim] = ()) -> CutOff:
    """Read the folder of a run that was interrupted, on this machine or another one of its site.

    Args:
        folder: Whose name the interrupted run printed.
        verifies: Id of the capsule that it verifies, None for a run of its own.
        claims: Those of that capsule.

    Raises:
        UsageError: It is not a run folder, or verifies something else.
        DamagedError: Its manifest makes another plan than the one that was begun, or what it adds
            to is not as it was sealed.
    """
    workspace = Workspace.open(folder)
    header = workspace.header
    if (verified := original_id(header.setup.origin)) != verifies:
        raise _other_run(folder, verified, wanted=verifies)
    manifest = manifests.read(
        read_file(workspace.manifest),
        where=str(workspace.manifest),
        folder=header.folder,
        subjects=header.subjects,
        changed=changes(header.setup.origin),
        device=other_device(header.setup.origin),
    )
    kept = payload.drop_release(header.setup.levels, manifest)
    setup = replace(header.setup, levels=kept)
    nonce = setup.origin.nonce if isinstance(setup.origin, Verification) else None
    only = quick.deciding(setup.origin, claims)
    plan = planning.make(manifest, verifies=verified, runs=header.runs, nonce=nonce, only=only)
    if str(plan.digest) != header.plan:
        raise DamagedError(
            f"the manifest in the run folder gives plan {plan.digest}, expected {header.plan}",
            where=str(workspace.manifest),
            advice="the folder was changed, or made by another version of capsule; start a new run",
        )
    _rehearse(workspace, plan, setup)
    earlier: Earlier | Extended | None = None
    if isinstance(setup.origin, Extension):
        earlier = Extended(capsule=earlier_runs.reopen_capsule(workspace.earlier, setup.origin.of))
    if isinstance(setup.origin, Verification) and setup.origin.added:
        earlier = earlier_runs.reopen(workspace.earlier, setup.origin)
    return CutOff(workspace=workspace, plan=plan, setup=setup, earlier=earlier, only=only)


def _rehearse(workspace: Workspace, plan: Plan, setup: Setup) -> None:
    """Hold what the folder keeps against the form of a record, before anything goes on."""
    execution = Execution(
        attempts=tuple(attempt for _, attempt in workspace.log.attempts),
        samples=(),
        software={},
        effective={},
        logs=(),
    )
    nodes = workspace.nodes()
    try:
        if forged := [note.code for note in setup.notes if notes.is_forged(note)]:
            raise DamagedError(f"a note contradicts its code and facts: {forged[0]}")
        archive.rehearse(records.assemble(setup, plan, execution, nodes=nodes, ended=setup.started))
    except DamagedError as error:
        raise DamagedError(
            f"the run folder contains data that a capsule cannot contain: {error}",
            where=str(workspace.folder),
            advice="the folder was changed; start a new run",
        ) from None


def require_its_node(cut_off: CutOff) -> None:
    """Check that an interrupted pair resumes on the machine where it began.

    Raises:
        CannotRunError: The pair began on another machine, or this machine has changed since.
    """
    if cut_off.workspace.find_node(this_node(cut_off.workspace)) is None:
        raise CannotRunError(
            "this pair began on another machine, or this machine has changed since; a pair's two"
            " sides must run on one machine",
            where=str(cut_off.workspace.to_resume),
            advice="resume the pair on the machine where the pair began, or start a new pair",
        )


def require_same_programs(cut_off: CutOff, resolved: Resolved) -> None:
    """Check that programs outside containers are the same as when the run began.

    Raises:
        CannotRunError: A program of a run without a container has changed since the run began.
    """
    places, prepared = cut_off.workspace.header.programs, resolved.prepared
    observed = cut_off.setup.image_observations
    for word, place in places.items():
        before = f"{place} ({observed.get(programs.PREFIX + word)})"
        now = f"{prepared.programs.get(word)} ({prepared.observations.get(programs.PREFIX + word)})"
        if before != now:
            raise CannotRunError(
                f"{word} is now {now}; {word} was {before} when the run began",
                where=str(cut_off.workspace.to_resume),
                advice="set PATH as it was when the run began, or start a new run",
            )


def require_same_binds(cut_off: CutOff, resolved: Resolved) -> None:
    """Check that containers see the same files of the machine as when the run began.

    Raises:
        CannotRunError: The site file gave containers other files when the run began.
    """
    before, now = (
        {name: text for name, text in observations.items() if name.startswith(_OF_SITES)}
        for observations in (cut_off.setup.image_observations, resolved.prepared.observations)
    )
    if before == now:
        return
    name = min(set(before.items()) ^ set(now.items()))[0]
    here = before.get(name, "nothing"), now.get(name, "nothing")
    raise CannotRunError(
        f"the site file (`binds`, `mpi`) now gives containers {name.partition(' ')[2]} from"
        f" {here[1]} of the machine, expected {here[0]} as when the run began",
        where=str(cut_off.workspace.to_resume),
        advice="restore the site file as it was when the run began, or start a new run",
    )


def add_begun_controls(cut_off: CutOff) -> Plan:
    """Return the plan with the control runs that were begun."""
    groups = cut_off.plan.groups
    planned = {group.id for group in groups}
    fresh = {
        trial.id.rpartition("/")[0]
        for group in groups
        if planning.is_fresh(group)
        for trial in group.trials
    }
    begun = [start for start in cut_off.workspace.log.starts if start.group not in planned]
    names = [name.rpartition("/") for start in begun for name in start.trials]
    controls = [
        f"{subject}/{seed}" for subject, _, seed in names if subject in fresh and seed.isdecimal()
    ]
    return planning.add_controls(cut_off.plan, controls)


def _other_run(folder: Path, verifies: str | None, *, wanted: str | None) -> UsageError:
    if verifies is None:
        return UsageError(
            "`capsule run` made this run folder, expected a run folder of `capsule verify`",
            where=str(folder),
            advice=f"capsule run --resume {folder}",
        )
    due = (
        "a run folder of `capsule run`" if wanted is None else f"a verification of capsule {wanted}"
    )
    return UsageError(
        f"this run folder belongs to a verification of capsule {verifies}, expected {due}",
        where=str(folder),
        advice="replace CAPSULE by the path of that capsule:"
        f" capsule verify CAPSULE --resume {folder}",
    )
