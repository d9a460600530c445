"""What a verification is besides a run: the same again, looked at as planned."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

from capsule import session as sessions
from capsule import verdict
from capsule.archive import Capsule
from capsule.diff import inability
from capsule.earlier import Earlier
from capsule.errors import CannotRunError, UsageError
from capsule.execute import payload
from capsule.judgement import judge
from capsule.options import VerifyOptions
from capsule.record import Execution, Record
from capsule.resolve import Request, Used
from capsule.session import Session
from capsule.verdict import Verdict
from capsule.watch import Watch


def request(original: Capsule, options: VerifyOptions, scratch: Path) -> Request:
    """What a capsule's plan needs: its image and data, its inputs and its measuring program.

    Args:
        original: The capsule.
        options: May replace its image and its program.
        scratch: A folder to lay its files out in.
    """
    record = original.record
    original.extract("inputs", scratch / "inputs")
    levels = payload.OWN_LEVELS
    if options.levels == "capsule":
        levels = scratch / "levels"
        original.extract("levels", levels)
    return Request(
        manifest=record.manifest,
        used=Used(image=record.image, datasets=record.datasets),
        runtime=options.runtime,
        image=options.image,
        levels=levels,
        inputs=scratch / "inputs",
    )


def require_clock(original: Capsule) -> None:
    """Stop where runs would be dated before the capsule that they verify: nobody would take them.

    Raises:
        CannotRunError: This machine's clock is behind.
    """
    now, ended = datetime.now(UTC), datetime.fromisoformat(original.record.ended)
    if now < ended:
        raise CannotRunError(
            f"this machine's clock says {now.isoformat(timespec='seconds')}, and the capsule's runs"
            f" ended at {original.record.ended}",
            where=str(original.path),
            advice="set the clock: a verification from before its original is refused",
        )


def runs(
    record: Record, wanted: int | None, looks: tuple[int, ...], earlier: Earlier | None = None
) -> int:
    """How many fresh seeds a verification has at most.

    Args:
        record: Of the original.
        wanted: By whoever verifies, None for the next planned look.
        looks: The planned ones, if all of them are taken.
        earlier: A verification whose runs count.

    Raises:
        UsageError: It is no number of runs, or all of them are there.
    """
    if wanted is not None and wanted < 1:
        raise UsageError(f"a verification has one run or more, not {wanted}")
    there = len(earlier.seeds) if earlier else 0
    most = looks[-1] if looks else wanted or verdict.advise_runs(record, there)
    if most is None or (earlier and most <= there):
        assert earlier is not None
        those = f"{most} runs in all are asked for" if wanted else "every planned look was taken"
        raise UsageError(
            f"{there} runs are there already, and {those}",
            where=str(earlier.capsule.path),
            advice="--runs N says how many fresh seeds there are to be, with those",
        )
    return most


def looks(record: Record, *, until_decided: bool, runs: int | None = None) -> tuple[int, ...]:
    """The planned looks of a verification that stops once it is decided, else none.

    Raises:
        UsageError: No claim is looked at twice, or a number of runs was given too.
    """
    if not until_decided:
        return ()
    if runs is not None:
        raise UsageError("--runs and --until-decided exclude each other")
    planned = sorted({number for claim in record.claims for number in claim.looks})
    if not planned:
        raise UsageError(
            "no claim of the capsule is decided by the number of its runs, so there is nothing to"
            " wait for",
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
            f"the run was begun with {runs} fresh seeds, and not with --until-decided",
            advice="leave --until-decided out; `verify --add` goes on from what it seals",
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
    """The trials that tell what is at fault where every re-run of a benchmark failed alike."""
    trials = inability.controls(original.record, sessions.assemble(session, execution))
    if trials:
        watch.control(trials)
    return trials


def _is_decided(judged: Verdict) -> bool:
    """Whether no primary claim waits for more runs: none that failed alike is helped by them."""
    return all(
        claim.word != "INCONCLUSIVE" or claim.fault is not None
        for claim in judged.claims
        if claim.decisive
    )
