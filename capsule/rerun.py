"""Verification of a capsule: a run of its plan, judged at planned looks."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from capsule import earlier, quick, verdict
from capsule import manifest as manifests
from capsule import plan as plans
from capsule import resolve as resolving
from capsule import session as sessions
from capsule.archive import Capsule
from capsule.diff import inability
from capsule.earlier import Earlier
from capsule.errors import UsageError
from capsule.execute import payload
from capsule.judgement import judge
from capsule.manifest import Manifest, otherdevice
from capsule.options import Limits, VerifyOptions
from capsule.plan import Plan
from capsule.quick import LeftOut
from capsule.record import Execution, Record
from capsule.resolve import Request, Used
from capsule.session import Session, Terms
from capsule.trust.outlook import Measured, Outlook
from capsule.verdict import Verdict
from capsule.watch import SILENT, Watch

# how far an untrusted re-run may exceed the original: slower machines, imports from cold disks
_TIMES = 10
# the same on CPUs, of an original on GPUs
_TIMES_ON_CPUS = 1000
_START_SECONDS = 60.0
_SPARE_SECONDS = 600.0
# whatever its author wrote into it
_MOST_SECONDS = 30 * 86400.0
_SPARE_BYTES = 4 << 30
_SPARE_TASKS = 1024
_TASKS_PER_THREAD = 64


def request(original: Capsule, options: VerifyOptions, scratch: Path) -> Request:
    """Return the needs of a capsule's plan: image, data, inputs and measuring code.

    Nothing is written before `lay_out`: whether its code may run at all is asked in between.

    Args:
        original: The capsule.
        options: May replace its image and its program.
        scratch: The folder that its files will be laid out in.
    """
    record = original.record
    own = options.levels == "own"
    return Request(
        manifest=manifest(original, options),
        used=Used(image=record.image, datasets=record.datasets),
        only=quick.running(record.manifest, record.claims) if options.quick else None,
        runtime=options.runtime,
        image=options.image,
        levels=payload.OWN_LEVELS if own else scratch / "levels",
        inputs=scratch / "inputs",
        data=scratch / "datasets",
        keep_keyring=options.keep_keyring,
    )


def manifest(original: Capsule, options: VerifyOptions) -> Manifest:
    """Return the manifest of a capsule with the fields and the device that the options set.

    Raises:
        UsageError: A field is named twice, fixed, or has that value already.
        ManifestError: It makes no valid manifest.
    """
    changed = dict(options.set)
    if len(changed) < len(options.set):
        names = [place for place, _ in options.set]
        twice = next(name for name in names if names.count(name) > 1)
        raise UsageError(f"--set {twice} is given twice", advice="give one value")
    record = original.record
    return manifests.change(record.manifest, changed, record.plan["subjects"], options.device)


@dataclass(frozen=True, kw_only=True)
class Planned:
    """Plan of a verification.

    Attributes:
        looks: The planned looks, where it stops at the first that decides; else none.
        added: An earlier verification whose runs count.
        runs: Number of fresh seeds, with those that count.
        plan: Every process start, with those that count.
        left_out: What --quick leaves out, None where it was not asked for.
    """

    looks: tuple[int, ...]
    added: Earlier | None
    runs: int
    plan: Plan
    left_out: LeftOut | None = None

    @property
    def is_quick(self) -> bool:
        """Return whether something is left out: a quick verification of all is a whole one."""
        return self.left_out is not None and bool(self.left_out.benchmarks)

    def terms(self, image: str | None, options: VerifyOptions) -> Terms:
        """Return the terms stored in its run folder; `image` is the reference used instead."""
        return Terms(
            runs=self.runs, image=image, keep_hosts=options.keep_hosts, quick=self.is_quick
        )

    @property
    def rest(self) -> Plan:
        """Return the part of the plan that runs here."""
        return self.plan if self.added is None else plans.without(self.plan, self.added.trials)


def plan(original: Capsule, options: VerifyOptions, watch: Watch = SILENT) -> Planned:
    """Lay out what a verification runs.

    Args:
        original: The capsule.
        options: Number and choice of runs, and the verifications that count.
        watch: Is told what a quick one leaves out.

    Raises:
        UsageError: There is nothing to run, also on the device that is chosen, or options do not go
            together.
        DamagedError: What is to be added is no verification of the capsule.
    """
    record = original.record
    planned_looks = looks(record, until_decided=options.until_decided, runs=options.runs)
    left_out = _leave_out(original) if options.quick else None
    only = quick.running(record.manifest, record.claims) if options.quick else None
    is_quick = only is not None
    written = manifest(original, options)
    how = earlier.How(
        nonce=options.nonce,
        quick=is_quick,
        set=written.changed,
        device=written.resources.device,
    )
    added = earlier.take(original, options.add, how)
    number = runs(record, options.runs, planned_looks, added)
    planned = plans.make(written, verifies=original.id, runs=number, nonce=options.nonce, only=only)
    if left_out is not None:
        watch.quick(left_out.sentence)
    for sentence in _leave_out_of_device(planned):
        watch.note(f"not run on {written.resources.device}: {sentence}")
    return Planned(looks=planned_looks, added=added, runs=number, plan=planned, left_out=left_out)


def _leave_out(original: Capsule) -> LeftOut:
    """Return the benchmarks that --quick leaves out.

    Raises:
        UsageError: Nothing would be left.
    """
    left_out = quick.leave_out(original.record.manifest, original.record.claims)
    if not left_out.ran:
        raise UsageError(
            "--quick has no benchmark to run: the capsule has no primary claim other than `ratio`",
            where="/claims",
            advice="leave --quick out to run every benchmark and report every claim",
        )
    return left_out


def _leave_out_of_device(planned: Plan) -> tuple[str, ...]:
    """Return sentences on benchmarks and claims that do not run on the chosen device.

    Raises:
        UsageError: No benchmark runs there.
    """
    sentences = otherdevice.list_left_out(planned.manifest)
    if not planned.groups:
        raise UsageError(
            f"no benchmark of the capsule runs on {planned.manifest.resources.device}:"
            f" {'; '.join(sentences)}",
            where="/benchmarks",
            advice="leave --device out to verify the capsule on its own device",
        )
    return sentences


def prospect(original: Capsule, planned: Planned, options: VerifyOptions, *, own: bool) -> Outlook:
    """Return the outlook on a verification; `own` is True for this user's capsule."""
    # how long another device takes is unknown
    is_moved = otherdevice.differ(original.record.manifest, planned.plan.manifest)
    return Outlook(
        plan=planned.rest,
        original=None if is_moved else Measured.of(original.record, planned.rest),
        work=options.work,
        output=options.output,
        limits=limits(original, planned.plan, options, own=own),
    )


def lay_out(original: Capsule, request: Request) -> None:
    """Write the files that a request is about.

    Raises:
        DamagedError: The capsule was changed since it was read.
        ExecutionError: They cannot be written.
    """
    assert request.inputs is not None and request.data is not None
    original.extract("inputs", request.inputs)
    original.extract("datasets", request.data)
    if request.levels != payload.OWN_LEVELS:
        original.extract("levels", request.levels)


def limits(original: Capsule, planned: Plan, options: Limits, *, own: bool) -> Limits:
    """Return the limits of a verification: as requested, else multiples of an untrusted original's.

    Args:
        original: The capsule.
        planned: Plan of the verification.
        options: As asked for.
        own: True if the capsule is this user's, which needs no bounds.
    """
    asked_for = Limits(
        walltime=options.walltime, disk=options.disk, pids=options.pids, memory=options.memory
    )
    if own:
        return asked_for
    record = original.record
    trials = sum(len(group.trials) for group in planned.groups)
    # of what is planned alone: benchmarks that a quick one leaves out may be far shorter
    measured = Measured.of(record, planned)
    share = measured.seconds / max(1, measured.trials)
    logs = [size for name, size in original.sizes.items() if name.startswith("logs/")]
    ranks = planned.manifest.resources.ranks
    is_moved = otherdevice.differ(record.manifest, planned.manifest)
    has_gpus = bool(planned.manifest.resources.gpus_per_rank)
    times = _TIMES_ON_CPUS if is_moved and not has_gpus else _TIMES
    usual = Limits(
        walltime=min(
            times * trials * share + _START_SECONDS * len(planned.groups) + _SPARE_SECONDS,
            _MOST_SECONDS,
        ),
        disk=_TIMES * max(logs, default=0) + _SPARE_BYTES,
        pids=ranks * (_SPARE_TASKS + _TASKS_PER_THREAD * resolving.threads(planned.manifest)),
    )
    return Limits(
        walltime=usual.walltime if asked_for.walltime is None else asked_for.walltime,
        disk=usual.disk if asked_for.disk is None else asked_for.disk,
        pids=usual.pids if asked_for.pids is None else asked_for.pids,
        memory=asked_for.memory,
    )


def runs(
    record: Record, wanted: int | None, looks: tuple[int, ...], added: Earlier | None = None
) -> int:
    """Return the largest number of fresh seeds of a verification.

    Args:
        record: Record of the original.
        wanted: By whoever verifies, None for the next planned look.
        looks: The planned ones, if all of them are taken.
        added: A verification whose runs count.

    Raises:
        UsageError: It is no number of runs, or all of them are there.
    """
    if wanted is not None and wanted < 1:
        raise UsageError(
            f"a verification needs at least 1 run, found --runs {wanted}",
            advice="give --runs 1 or more",
        )
    there = len(added.seeds) if added else 0
    most = looks[-1] if looks else wanted or verdict.advise_runs(record, there)
    if most is None or (added and most <= there):
        assert added is not None
        those = f"--runs {most} is the total" if wanted else "every planned look was taken"
        first = "leave --until-decided out, and " * bool(looks)
        raise UsageError(
            f"no runs to add: the earlier verification has {there} runs, and {those}",
            where=str(added.capsule.path),
            advice=f"{first}give --runs {there + 1} or more: --runs includes the earlier runs",
        )
    return most


def looks(record: Record, *, until_decided: bool, runs: int | None = None) -> tuple[int, ...]:
    """Return the planned looks of a verification that stops once it is decided, else none.

    Raises:
        UsageError: No claim is looked at twice, or a number of runs was given too.
    """
    if not until_decided:
        return ()
    if runs is not None:
        raise UsageError(
            "--runs and --until-decided exclude each other", advice="give one of the two options"
        )
    planned = sorted({number for claim in record.claims for number in claim.looks})
    if not planned:
        raise UsageError(
            "--until-decided has no effect: no claim of the capsule depends on the number of runs",
            where="/claims",
            advice="leave --until-decided out",
        )
    return tuple(planned)


def require_all_looks(looks: tuple[int, ...], runs: int | None) -> None:
    """Stop where a run that goes on was not begun to wait for a decision.

    Args:
        looks: The planned ones, if it is to stop at one of them.
        runs: Number of fresh seeds that it was begun with.

    Raises:
        UsageError: They are not those of the last look.
    """
    if looks and runs != looks[-1]:
        raise UsageError(
            f"the run was begun with {runs} fresh seeds, without --until-decided",
            advice="leave --until-decided out; add runs to the sealed verification with --add",
        )


def perform(
    original: Capsule, session: Session, looks: tuple[int, ...], watch: Watch
) -> tuple[Session, Execution]:
    """Run as many of the planned looks as it takes, all of the plan where there are none.

    Returns:
        The part of the run that took place, and what it left behind.
    """
    for runs in sessions.remaining_looks(session, looks):
        part = sessions.look(session, runs)
        execution = sessions.perform(part, watch)
        if trials := _controls(original, part, execution, watch):
            session = sessions.add_controls(session, trials)
            part = sessions.add_controls(part, trials)
            execution = sessions.perform(part, watch)
        judged = judge(original, sessions.assemble(part, execution), None)
        watch.look(runs, judged)
        if runs == looks[-1] or _is_decided(judged):
            return part, execution
    execution = sessions.perform(session, watch)
    if trials := _controls(original, session, execution, watch):
        session = sessions.add_controls(session, trials)
        execution = sessions.perform(session, watch)
    return session, execution


def _controls(
    original: Capsule, session: Session, execution: Execution, watch: Watch
) -> tuple[str, ...]:
    """Return the trials that tell what is at fault where every re-run of a benchmark failed
    alike.
    """
    trials = inability.controls(original.record, sessions.assemble(session, execution))
    if trials:
        watch.control(trials)
    return trials


def _is_decided(judged: Verdict) -> bool:
    """Return whether no primary claim waits for more runs: none that failed alike is helped by
    them.
    """
    return all(
        claim.word != "INCONCLUSIVE" or claim.fault is not None
        for claim in judged.claims
        if claim.decisive
    )
