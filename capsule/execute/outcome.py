"""Decide what became of each trial of a process start, from what it wrote and how it ended."""

from __future__ import annotations

import signal
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from capsule.execute.journal import MAX_MESSAGE, Journal, TrialReport
from capsule.plan import Trial
from capsule.record import Attempt, Outcome, Reason
from capsule.runtimes.base import Ended

Cut = Literal["timeout", "walltime", "interrupt", "lost"]

# signals by which a program ends itself; any other came from outside
_CRASHES = {signal.SIGSEGV, signal.SIGABRT, signal.SIGFPE, signal.SIGBUS, signal.SIGILL}


@dataclass(frozen=True, kw_only=True)
class ProcessEnd:
    """How a process start ended, and whether it was us who ended it.

    Attributes:
        ended: What the engine saw, None when nobody saw it (`cut` is then `lost`).
        cut: Why we ended it, None when it ended by itself.
        seconds: Duration of the process, None when nobody saw its end.
        words: The end of its standard error.
    """

    ended: Ended | None
    cut: Cut | None
    seconds: float | None
    words: str


@dataclass(frozen=True, kw_only=True)
class Context:
    """What every attempt of one process start has in common.

    Attributes:
        group: Id of its group.
        started: When it was started, ISO 8601 UTC.
        node: Index of the node that it ran on.
        earlier: How many attempts each trial had before.
    """

    group: str
    started: str
    node: int
    earlier: dict[str, int]


def settle(
    trials: Sequence[Trial], journal: Journal, end: ProcessEnd, context: Context
) -> tuple[Attempt, ...]:
    """One attempt for each trial that this process finished, was at, or kept from starting.

    A trial whose turn never came gets no attempt: it stays to be done.

    Args:
        trials: The trials given to the process.
        journal: What it wrote.
        end: How it ended.
        context: What all its attempts have in common.
    """
    by_id = {trial.id: trial for trial in trials}
    attempts = []
    for report in journal.reports:
        trial = by_id[report.trial]
        if report.outcome is None:
            outcome, reason, message = _fate(end, journal)
            attempts.append(_attempt(trial, outcome, reason, message, end, context))
        else:
            attempts.append(_reported(trial, report, context))
    if not journal.reports:
        # it never came to its first trial, and would not the next time: a fault of all of them
        outcome, reason, message = _fate(end, journal)
        concerned = trials if outcome == "failed" else trials[:1]
        attempts = [_attempt(each, outcome, reason, message, end, context) for each in concerned]
    return tuple(attempts)


def _reported(trial: Trial, report: TrialReport, context: Context) -> Attempt:
    return Attempt(
        trial=trial.id,
        attempt=context.earlier.get(trial.id, 0) + 1,
        group=context.group,
        seed=trial.seed,
        seed_source=trial.seed_source,
        outcome=report.outcome or "failed",
        reason=report.reason,
        message=report.message,
        started=context.started,
        node=context.node,
        seconds=report.seconds,
    )


def _attempt(
    trial: Trial,
    outcome: Outcome,
    reason: Reason,
    message: str,
    end: ProcessEnd,
    context: Context,
) -> Attempt:
    return Attempt(
        trial=trial.id,
        attempt=context.earlier.get(trial.id, 0) + 1,
        group=context.group,
        seed=trial.seed,
        seed_source=trial.seed_source,
        outcome=outcome,
        reason=reason,
        message=message[-MAX_MESSAGE:],
        exit_code=end.ended.exit_code if end.ended else None,
        signal=end.ended.signal if end.ended else None,
        started=context.started,
        node=context.node,
        seconds=end.seconds,
    )


def _fate(end: ProcessEnd, journal: Journal) -> tuple[Outcome, Reason, str]:
    """What the end of its process means for a trial under way."""
    if end.cut is not None:
        return _cut(end.cut)
    ended = end.ended
    if ended is None:
        return _cut("lost")
    if ended.engine_fault is not None:
        return "interrupted", "engine", ended.engine_fault
    if ended.out_of_memory:
        return "failed", "out-of-memory", "ended by the kernel's out-of-memory killer"
    if ended.signal is not None:
        name = signal.Signals(ended.signal).name
        if ended.signal in _CRASHES:
            return "failed", "signal", f"crashed with {name}\n{end.words}"
        return "interrupted", "killed", f"ended from outside by {name}"
    if ended.exit_code:
        return "failed", "exit", f"exit code {ended.exit_code}\n{end.words}"
    if journal.defect is not None:
        return "failed", "bad-result", f"its journal is not sound: {journal.defect}"
    return "failed", "no-result", "ended with exit code 0 and without a result"


def _cut(cut: Cut) -> tuple[Outcome, Reason, str]:
    if cut == "timeout":
        return "failed", "timeout", "exceeded the benchmark's time limit"
    if cut == "walltime":
        return "interrupted", "walltime", "the run's walltime was used up"
    if cut == "interrupt":
        return "interrupted", "killed", "capsule was interrupted"
    return "interrupted", "lost", "the process that ran it died"


def settle_command(
    trial: Trial, report: TrialReport | None, end: ProcessEnd, context: Context
) -> Attempt:
    """The attempt of a command's trial.

    Args:
        trial: The one trial of the process.
        report: Its results, None unless it ended with exit code 0.
        end: How it ended.
        context: As for `settle`.
    """
    if report is None:
        outcome, reason, message = _fate(end, _SILENT)
        return _attempt(trial, outcome, reason, message, end, context)
    return Attempt(
        trial=trial.id,
        attempt=context.earlier.get(trial.id, 0) + 1,
        group=context.group,
        seed=trial.seed,
        seed_source=trial.seed_source,
        outcome=report.outcome or "failed",
        reason=report.reason,
        message=report.message,
        exit_code=0,
        started=context.started,
        node=context.node,
        seconds=end.seconds,
    )


_SILENT = Journal(software={}, environment={}, reports=())
