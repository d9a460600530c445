"""Classify each trial's outcome from its output and exit status."""

from __future__ import annotations

import signal
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from capsule import plain
from capsule.execute.log import goes_further
from capsule.execute.reports import MAX_MESSAGE, Journal, TrialReport, writable
from capsule.plan import Trial
from capsule.record import Attempt, Outcome, Reason
from capsule.runtimes.base import Ended

# so often a trial is tried that is interrupted without getting further
MAX_ATTEMPTS = 3

Cut = Literal["timeout", "walltime", "limit", "memory", "interrupt", "lost"]

# of ranks that hang, so many are named, and of so many it is told what they do
_NAMED, _SHOWN = 16, 4
# signals by which a program ends itself; any other came from outside
_CRASHES = {signal.SIGSEGV, signal.SIGABRT, signal.SIGFPE, signal.SIGBUS, signal.SIGILL}


@dataclass(frozen=True, kw_only=True)
class ProcessEnd:
    """End of a process start, and whether capsule ended it.

    Attributes:
        ended: What the engine saw, by rank; None when nobody saw it (`cut` then says why).
        cut: Why we ended it, None when it ended by itself.
        seconds: Duration of the process, None when nobody saw its end.
        words: The end of each rank's standard error.
        fault: What it took too much of, where that is why we ended it.
        hung: The ranks that still ran when we ended them, and what they did; empty for none.
        of_setup: Whether it is what was to run before the workload, which was then not started.
        setup_seconds: Duration of what ran before the workload and ended well, None for nothing.
    """

    ended: tuple[Ended, ...] | None
    cut: Cut | None
    seconds: float | None
    words: tuple[str, ...]
    fault: str = ""
    hung: str = ""
    of_setup: bool = False
    setup_seconds: float | None = None

    @property
    def well(self) -> bool:
        """Return whether every rank ended by itself with exit code 0."""
        return self.ended is not None and not any(map(_severity, self.ended))


@dataclass(frozen=True, kw_only=True)
class Context:
    """Facts that all attempts of one process start share.

    Attributes:
        group: Id of its group.
        started: When it was started, ISO 8601 UTC.
        ranks: World size.
        nodes: Index of the node of each rank.
        earlier: The latest attempt at each trial before this one.
        deaths: How many attempts at a trial in a row, up to that one, a signal has ended.
    """

    group: str
    started: str
    ranks: int
    nodes: tuple[int, ...]
    earlier: Mapping[str, Attempt]
    deaths: Callable[[str, int], int]


@dataclass(frozen=True, kw_only=True)
class _Fate:
    """Outcome of a trial, with its reason and message.

    Attributes:
        ended: The rank's end that decided it, None where no process did.
        resumed_after: Epochs that an earlier attempt trained, None for none.
        world: What is known of the world of its ranks.
    """

    outcome: Outcome
    reason: Reason | None
    message: str
    seconds: float | None
    ended: Ended | None = None
    resumed_after: int | None = None
    world: str = ""


def describe_hung(stopped: Mapping[int, str], ranks: int) -> str:
    """Return which ranks were still running when they were ended, and their state; empty for none.

    >>> describe_hung({1: "python3 (7) S, sleeping", 2: ""}, 4)
    'ranks 1, 2 of 4 were still running, rank 1: python3 (7) S, sleeping'
    """
    if not stopped:
        return ""
    told = [(rank, state) for rank, state in sorted(stopped.items()) if state][:_SHOWN]
    if ranks == 1:
        return f"still running: {told[0][1]}" if told else ""
    names = ", ".join(map(str, sorted(stopped)[:_NAMED]))
    more = f" and {len(stopped) - _NAMED} more" if len(stopped) > _NAMED else ""
    verb = "were" if len(stopped) > 1 else "was"
    which = f"rank{'s' * (len(stopped) > 1)} {names}{more} of {ranks}"
    states = "".join(f", rank {rank}: {state}" for rank, state in told)
    return f"{which} {verb} still running{states}"


def settle(
    trials: Sequence[Trial], journal: Journal, end: ProcessEnd, context: Context
) -> tuple[Attempt, ...]:
    """Return an attempt for each trial that this process finished, was running, or failed to start.

    A trial that did not begin gets no attempt, and remains to be run.

    Args:
        trials: The trials given to the process.
        journal: What its ranks wrote.
        end: How it ended.
        context: What all its attempts have in common.
    """
    by_id = {trial.id: trial for trial in trials}
    fates = [(by_id[report.trial], _fate(report, journal, end)) for report in journal.reports]
    if not fates:
        # it never came to its first trial, and would not the next time: a fault of all of them
        fate = _insist(trials[0], _end_fate(end, journal), context)
        concerned = trials if fate.outcome == "failed" else trials[:1]
        fates = [(trial, fate) for trial in concerned]
    return tuple(
        _attempt(trial, _insist(trial, fate, context), end, context) for trial, fate in fates
    )


def _insist(trial: Trial, fate: _Fate, context: Context) -> _Fate:
    """Return a failure for a trial that the same signal ends each time, else its fate unchanged.

    The sender of a signal is unknown, and engines report an exit status of 137 as a signal.
    """
    number = fate.ended.signal if fate.ended else None
    if fate.reason != "killed" or number is None:
        return fate
    if goes_further(context.earlier.get(trial.id), fate.resumed_after):
        return fate
    times = context.deaths(trial.id, number) + 1
    if times < MAX_ATTEMPTS:
        return fate
    assert fate.ended is not None
    message = f"ended {times} times in a row by {_describe_signal(fate.ended)}"
    return replace(fate, outcome="failed", reason="signal", message=message)


def _attempt(trial: Trial, fate: _Fate, end: ProcessEnd, context: Context) -> Attempt:
    prefix = "the setup command: " if end.of_setup else ""
    message = plain.first_and_last_lines(writable(fate.message), MAX_MESSAGE - len(prefix))
    before = context.earlier.get(trial.id)
    return Attempt(
        trial=trial.id,
        attempt=before.attempt + 1 if before else 1,
        group=context.group,
        seed=trial.seed,
        seed_source=trial.seed_source,
        outcome=fate.outcome,
        reason=fate.reason,
        message=f"{prefix}{message}",
        exit_code=fate.ended.exit_code if fate.ended else None,
        signal=fate.ended.signal if fate.ended else None,
        started=context.started,
        ranks=context.ranks,
        nodes=tuple(dict.fromkeys(context.nodes)),
        world=fate.world,
        seconds=fate.seconds,
        setup_seconds=end.setup_seconds,
        resumed_after=fate.resumed_after,
    )


def _fate(report: TrialReport, journal: Journal, end: ProcessEnd) -> _Fate:
    if report.outcome is None or _is_struck(report, end):
        return replace(_end_fate(end, journal), resumed_after=report.resumed_after)
    timed = report.seconds is not None
    return _Fate(
        outcome=report.outcome,
        reason=report.reason,
        message=report.message,
        # a trial without a time of its own is its process
        seconds=report.seconds if timed else end.seconds,
        ended=None if timed or end.ended is None else end.ended[0],
        resumed_after=report.resumed_after,
        world=report.world,
    )


def _is_struck(report: TrialReport, end: ProcessEnd) -> bool:
    """Return whether another rank was killed, which may be the cause of a reported failure."""
    if end.cut is not None or end.ended is None:
        return False
    signals = (end.ended[rank].signal for rank in report.unended)
    return any(number not in (None, signal.SIGTERM) for number in signals)


def _end_fate(end: ProcessEnd, journal: Journal) -> _Fate:
    """Return the outcome of the trial under way when its process ended."""
    if end.cut == "limit":
        return _of(end, None, ("interrupted", "limit", end.fault))
    if end.cut == "memory":
        return _of(end, None, ("failed", "out-of-memory", end.fault))
    if end.cut is not None:
        outcome, reason, message = _CUTS[end.cut]
        hung = f"; {end.hung}" if end.cut == "timeout" and end.hung else ""
        return _of(end, None, (outcome, reason, f"{message}{hung}"))
    if end.ended is None:
        return _of(end, None, _CUTS["lost"])
    severities = list(map(_severity, end.ended))
    rank = severities.index(max(severities))
    ended = end.ended[rank]
    outcome, reason, message = _decide(ended, end.words[rank], journal)
    if len(end.ended) > 1 and severities[rank]:
        message = f"rank {rank}: {message}"
    return _of(end, ended, (outcome, reason, message))


def _of(end: ProcessEnd, ended: Ended | None, what: tuple[Outcome, Reason, str]) -> _Fate:
    outcome, reason, message = what
    return _Fate(outcome=outcome, reason=reason, message=message, seconds=end.seconds, ended=ended)


def _severity(ended: Ended) -> int:
    """Return how much a rank's end reveals of the cause, for comparison.

    Those that one takes with it are told as ended by SIGTERM. Others fail for want of one that is
    killed, whether or not that is seen first: their connections to it break.
    """
    rules: tuple[Callable[[Ended], bool], ...] = (
        lambda one: one.engine_fault is not None,
        lambda one: one.out_of_memory or one.over_memory,
        lambda one: one.signal in _CRASHES,
        lambda one: one.signal not in (None, signal.SIGTERM),
        lambda one: bool(one.exit_code),
        lambda one: one.signal is not None,
    )
    return next((len(rules) - n for n, holds in enumerate(rules) if holds(ended)), 0)


def _decide(ended: Ended, words: str, journal: Journal) -> tuple[Outcome, Reason, str]:
    if ended.engine_fault is not None:
        if ended.lacks_program:
            return "failed", "not-started", ended.engine_fault
        return "interrupted", "engine", ended.engine_fault
    if ended.out_of_tasks:
        return "interrupted", "limit", "reached the limit of --pids: cannot start more threads"
    if ended.over_memory:
        return "failed", "out-of-memory", ended.memory
    if ended.out_of_memory:
        message = "the kernel killed the process: out of memory"
        return "failed", "out-of-memory", f"{message} ({ended.memory})" if ended.memory else message
    if ended.signal is not None:
        name = _signal_name(ended.signal)
        if ended.signal in _CRASHES:
            return "failed", "signal", f"crashed with {name}\n{words}"
        return "interrupted", "killed", f"ended by {_describe_signal(ended)}"
    if ended.exit_code:
        # how shells tell that SIGKILL ended what they had started
        cause = f", as after SIGKILL; {_LACK} ({ended.memory})" if ended.memory else ""
        return "failed", "exit", f"exit code {ended.exit_code}{cause}\n{words}"
    if journal.defect is not None:
        return "failed", "bad-result", f"invalid journal: {journal.defect}"
    return "failed", "no-result", "exit code 0, but no result"


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:  # most of the real-time ones have no name
        return f"signal {number}"


def _describe_signal(ended: Ended) -> str:
    """Return a signal, and for SIGKILL the most likely cause."""
    assert ended.signal is not None
    name = _signal_name(ended.signal)
    if ended.signal != signal.SIGKILL:
        return f"{name} (sender unknown)"
    known = f": {ended.memory}" if ended.memory else ""
    return f"{name} (sender unknown; {_LACK}{known})"


_LACK = "most likely a lack of memory"
_CUTS: Mapping[str, tuple[Outcome, Reason, str]] = {
    "timeout": ("failed", "timeout", "exceeded the benchmark's time limit"),
    "walltime": ("interrupted", "walltime", "the walltime of the run is used up"),
    "interrupt": ("interrupted", "killed", "capsule was interrupted"),
    "lost": ("interrupted", "lost", "the capsule process of the run died"),
}
