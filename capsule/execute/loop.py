"""Run what is left of a plan, one process start after the other, and lose nothing that finished."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import Protocol

from capsule import leavings, places, plain
from capsule.archive import Projection
from capsule.errors import (
    CannotRunError,
    CapsuleError,
    ExecutionError,
    FirstStartError,
    FirstTrialError,
)
from capsule.execute import devices, meeting
from capsule.execute import traces as traced
from capsule.execute.hints import Scene, hint
from capsule.execute.kinds import workload_of
from capsule.execute.limits import Guard
from capsule.execute.log import Begun, Left, Log, goes_further
from capsule.execute.outcome import (
    MAX_ATTEMPTS,
    Context,
    Cut,
    ProcessEnd,
    describe_hung,
    settle,
)
from capsule.execute.progress import Listener, Progress
from capsule.execute.reports import Journal, Series
from capsule.execute.traces import Traces
from capsule.execute.workload import Setting, out_mount
from capsule.execute.workspace import RankFiles, Start, Workspace
from capsule.launch.base import Launched
from capsule.plan import Group, Plan, Trial
from capsule.record import Attempt
from capsule.runtimes.base import Ended, Invocation, KeepsScratch, Scratch
from capsule.starts import MOST_TRIALS

_POLL_SECONDS = 0.05
_TAIL_LETTERS = 2000


class Watch(Listener, Protocol):
    """Receiver of the progress of an execution."""

    def attempt(self, attempt: Attempt) -> None:
        """An attempt ended."""

    def remains(self, sentence: str) -> None:
        """A trial left something in this machine's shared memory."""


def run(
    workspace: Workspace,
    plan: Plan,
    setting: Setting,
    watch: Watch,
    room: Projection,
    *,
    keep_going: bool = True,
) -> None:
    """Execute every trial of the plan that has no final outcome yet.

    Args:
        workspace: Keeps what finishes.
        plan: What runs.
        setting: How it is started.
        watch: Is told.
        room: Of the whole plan, whether all of it can be sealed.
        keep_going: Go on where no process start has completed a trial.

    Raises:
        FirstTrialError: None has, and the rest would most likely fail alike.
        FirstStartError: So, because the program is missing or cannot be executed.
        ExecutionError: A trial was interrupted three times, or the walltime is used up. What
            finished is kept, and the same call goes on with the rest.
        UsageError: No capsule has room for as much as all trials will have to say.
    """
    for group in plan.groups:
        finish(workspace, group, setting, watch, room)
        if not keep_going:
            _require_result(workspace, plan, setting)


def _require_result(workspace: Workspace, plan: Plan, setting: Setting) -> None:
    """Stop a run in which all that has an outcome failed."""
    log = workspace.log
    if any(attempt.outcome == "completed" for attempt in log.last.values()):
        return
    number, first = next(one for one in log.attempts if one[1].outcome == "failed")
    logs = places.near(workspace.folder / "starts" / f"{number:04}")
    hints = hint_at(workspace, first, plan.groups, setting)
    hints.append(
        f"the logs of the trial are in {logs}; correct the cause, test the correction with"
        " `run --try`, and run again"
    )
    kind = FirstStartError if first.reason == "not-started" else FirstTrialError
    raise kind(
        f"the first trial failed ({first.reason}); the run stopped, and nothing is sealed:"
        f" {first.message.strip()}",
        where=first.trial,
        advice="\n  ".join(hints),
    )


def finish(
    workspace: Workspace, group: Group, setting: Setting, watch: Watch, room: Projection
) -> None:
    """Execute every trial of a group that has no final outcome yet.

    Raises:
        ExecutionError: As for `run`.
    """
    tries = 0
    while trials := _next_trials(workspace, group):
        before = workspace.log.last.get(trials[0].id)
        _run_group(workspace, replace(group, trials=trials), setting, watch, room)
        room.require()
        stuck = _next_trials(workspace, group)
        if stuck == trials:
            last = workspace.log.last.get(stuck[0].id)
            tries = 1 if last and goes_further(before, last.resumed_after) else tries + 1
        else:
            tries = 0
        if tries == MAX_ATTEMPTS:
            raise _gave_up(workspace, stuck[0], group, setting)


def recover(workspace: Workspace, plan: Plan) -> None:
    """Settle the process starts that an earlier, dead process of capsule left open."""
    groups = {group.id: group for group in plan.groups}
    for begun in workspace.log.open_starts():
        group = part_of(groups[begun.group], begun)
        end = ProcessEnd(ended=None, cut="lost", seconds=None, words=("",) * begun.ranks)
        context = Context(
            group=group.id,
            started=begun.at,
            ranks=begun.ranks,
            nodes=begun.nodes,
            earlier=workspace.log.last,
            deaths=workspace.log.deaths,
        )
        _note_end(workspace, group, workspace.start(begun.number, begun.ranks), end, context)


def part_of(group: Group, begun: Begun) -> Group:
    """The group with those of its trials alone that one process start was given."""
    names = set(begun.trials)
    return replace(group, trials=tuple(trial for trial in group.trials if trial.id in names))


def _next_trials(workspace: Workspace, group: Group) -> tuple[Trial, ...]:
    """Those for the next process start, of all without a final outcome."""
    remaining = (trial for trial in group.trials if not workspace.log.is_settled(trial.id))
    return tuple(islice(remaining, MOST_TRIALS))


def hint_at(
    workspace: Workspace, attempt: Attempt, groups: Sequence[Group], setting: Setting
) -> list[str]:
    """Return advice for a failed trial of these groups, one sentence each."""
    trials = {trial.id: trial for group in groups for trial in group.trials}
    benchmark = trials[attempt.trial].benchmark
    number = next(n for n, one in reversed(workspace.log.attempts) if one == attempt)
    start = workspace.start(number, attempt.ranks)
    places = [setting.runtime.inside(out_mount(files)) for files in start.rank_files()]
    if isinstance(setting.runtime, KeepsScratch):
        for rank in range(attempt.ranks):
            own = Scratch(start=number, rank=rank)
            places += map(str, setting.runtime.find_homes(setting.label, own))
    return hint(attempt, Scene.of(workspace, benchmark, setting, places))


def _gave_up(workspace: Workspace, trial: Trial, group: Group, setting: Setting) -> CapsuleError:
    last = workspace.log.last[trial.id]
    message = (
        f"gave up after {MAX_ATTEMPTS} attempts that were interrupted at the same point:"
        f" {last.message.strip()}"
    )
    kind = CannotRunError if last.reason == "engine" else ExecutionError
    return kind(
        message,
        where=trial.id,
        advice="\n  ".join(
            (
                *hint_at(workspace, last, [group], setting),
                f"correct the cause, then resume the run folder {workspace.to_resume}",
            )
        ),
    )


def _run_group(
    workspace: Workspace, group: Group, setting: Setting, watch: Watch, room: Projection
) -> None:
    """One process start, from its folder to its attempts in the log."""
    _check_walltime(workspace, setting)
    meeting.require(workspace, group, setting)
    traces = Traces(workspace, group, setting)
    workload, nodes = workload_of(group), setting.nodes[: group.ranks]
    at = datetime.now(UTC).isoformat(timespec="milliseconds")
    start = workspace.begin(group, nodes, at)
    context = Context(
        group=group.id,
        started=at,
        ranks=group.ranks,
        nodes=nodes,
        earlier=workspace.log.last,
        deaths=workspace.log.deaths,
    )
    workload.write(workspace, group, start, setting)
    ranks, files = range(group.ranks), start.rank_files()
    before = [workload.setup(workspace, group, start, setting, rank) for rank in ranks]
    main = [workload.invocation(workspace, group, start, setting, rank) for rank in ranks]
    setups = [one for one in before if one is not None]
    stages = [_Stage(invocations=main, files=files, is_told=bool(setups))]
    if setups:
        own = tuple(one.setup for one in files)
        stages.insert(0, _Stage(invocations=setups, files=own, is_setup=True))
    ends: list[ProcessEnd] = []
    setup_seconds: float | None = None
    joined = False
    try:
        for stage in stages:
            ends.clear()
            invocations = stage.invocations
            if not stage.is_setup:
                invocations, joined = _join(workspace, group, start, setting, invocations)
            ready = replace(stage, invocations=invocations)
            _run_stage(ready, workspace, group, start, setting, watch, traces, ends)
            if ends[-1].cut or not ends[-1].well:
                break
            if stage.is_setup:
                setup_seconds = ends[-1].seconds
    finally:
        # one that could not even be started is taken up as lost
        attempts: tuple[Attempt, ...] = ()
        if ends:
            end = replace(ends[-1], setup_seconds=setup_seconds)
            attempts, journal = _note_end(
                workspace, group, start, end, context, traces, joined=joined
            )
            for report in journal.reports:
                room.add(report.trial, [(one.metric, _count_numbers(one)) for one in report.series])
        traces.clear()
        for attempt in attempts:
            watch.attempt(attempt)
        if left := workspace.log.left.get(start.number, Left()).segments:
            watch.remains(traced.describe(left, group.trials[0].id))
    _check_limits(workspace, attempts, ends[-1].fault if ends[-1].cut == "limit" else None)


def _join(
    workspace: Workspace,
    group: Group,
    start: Start,
    setting: Setting,
    invocations: Sequence[Invocation],
) -> tuple[Sequence[Invocation], bool]:
    """As `meeting.join`; where that refuses, no trial was begun."""
    try:
        return meeting.join(workspace, group, start, setting, invocations)
    except CapsuleError:
        workspace.log.end(start.number, ())
        raise


@dataclass(frozen=True, kw_only=True)
class _Stage:
    """Programs that are started together, one a rank.

    Attributes:
        files: Where each prints to.
        is_setup: Whether the workload itself comes after it.
        is_told: Whether it comes after a setup, which the trial began with.
    """

    invocations: Sequence[Invocation]
    files: Sequence[RankFiles]
    is_setup: bool = False
    is_told: bool = False


def _run_stage(
    stage: _Stage,
    workspace: Workspace,
    group: Group,
    start: Start,
    setting: Setting,
    watch: Watch,
    traces: Traces,
    ends: list[ProcessEnd],
) -> None:
    """Start, follow and end it; how it ended is added to `ends`, whatever comes in between."""
    first = stage.files[0]
    # a setup belongs to the trial that comes after it, and has as much time
    follower = workload_of(group).follow(group, first)
    progress = Progress(group, follower, first, is_told=stage.is_told)
    began = time.monotonic()
    launched = setting.launcher.start(setting.runtime, setting.prepared, stage.invocations)
    ended: tuple[Ended, ...] | None = None
    cut: Cut | None = "interrupt"
    fault: str | None = None
    try:
        guard = Guard(setting.limits, lambda: traces.folders(start), launched, traces.spared_bytes)
        ended, cut, fault = _follow(
            launched, progress, guard, workspace.log, setting, watch, traces
        )
    finally:
        if ended is None:
            launched.stop()
        ends.append(
            ProcessEnd(
                ended=ended,
                cut=cut,
                seconds=time.monotonic() - began,
                words=tuple(tail(files.stderr) for files in stage.files),
                fault=fault or "",
                hung=describe_hung(launched.stopped(), len(stage.files)),
                of_setup=stage.is_setup,
            )
        )


def _note_end(
    workspace: Workspace,
    group: Group,
    start: Start,
    end: ProcessEnd,
    context: Context,
    traces: Traces | None = None,
    *,
    joined: bool = False,
) -> tuple[tuple[Attempt, ...], Journal]:
    """Judge and note how a start ended, and what it left; None where nobody followed it."""
    journal = workload_of(group).read(workspace, group, start, ended_well=end.well)
    journal = meeting.judge(journal, group, joined=joined)
    journal = devices.judge(journal, group, start)
    attempts = settle(group.trials, journal, end, context)
    left = Left()
    try:
        if traces is not None:
            attempts = traces.explain(attempts)
            left = traces.end()
    finally:
        workspace.log.end(start.number, attempts, left)
    return attempts, journal


def _count_numbers(series: Series) -> int:
    return sum(
        len(numbers)
        for numbers in (series.values, series.steps, series.wall, series.active)
        if numbers is not None
    )


def _check_walltime(workspace: Workspace, setting: Setting) -> None:
    if setting.deadline is not None and time.monotonic() > setting.deadline:
        raise ExecutionError(
            "the walltime is used up",
            where=setting.deadline_from,
            advice=f"finished trials are kept; resume the run folder {workspace.to_resume}",
        )


def _check_limits(workspace: Workspace, attempts: tuple[Attempt, ...], fault: str | None) -> None:
    """Stop a run whose workload took more than it may: it would the next time, too."""
    for attempt in attempts:
        if attempt.reason == "limit" or fault is not None:
            raise ExecutionError(
                fault or attempt.message,
                where=attempt.trial,
                advice="finished trials are kept; raise the limit or correct the program, then"
                f" resume the run folder {workspace.to_resume}",
            )


def _follow(
    launched: Launched,
    progress: Progress,
    guard: Guard,
    log: Log,
    setting: Setting,
    watch: Watch,
    traces: Traces,
) -> tuple[tuple[Ended, ...] | None, Cut | None, str | None]:
    """Wait for the end of all ranks, tell of their trials, and end them when their time is over.

    Returns:
        How each ended, None where they are to be ended; why; and what they took too much of.
    """
    while True:
        ended = launched.wait(_POLL_SECONDS)
        progress.tell(watch, ended=ended is not None)
        if ended is not None:
            fault = guard.disk_fault()
            return ended, "limit" if fault else None, fault
        log.sync()
        traces.look()
        if excess := guard.look():
            return None, *excess
        if progress.overdue():
            return None, "timeout", None
        if setting.deadline is not None and time.monotonic() > setting.deadline:
            return None, "walltime", None


def tail(path: Path) -> str:
    """The last lines of a log, as text; empty when there is none."""
    stream = leavings.open_file(path)
    if stream is None:
        return ""
    with stream:
        # a letter has at most four bytes
        stream.seek(max(0, stream.seek(0, os.SEEK_END) - 4 * _TAIL_LETTERS))
        text = stream.read(4 * _TAIL_LETTERS).decode(errors="replace")
    return plain.last_lines(text.strip(), _TAIL_LETTERS)
