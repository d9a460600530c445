"""Run what is left of a plan, one process start after the other, and lose nothing that finished."""

from __future__ import annotations

import json
import time
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Protocol

from capsule.errors import CannotRunError, CapsuleError, ExecutionError
from capsule.execute import journal, results, workload
from capsule.execute.outcome import Context, Cut, ProcessEnd, settle, settle_command
from capsule.execute.progress import Progress
from capsule.execute.workload import Setting
from capsule.execute.workspace import Start, Workspace
from capsule.plan import Group, Plan, Trial
from capsule.record import Attempt
from capsule.runtimes.base import Ended, Running

MAX_ATTEMPTS = 3
_POLL_SECONDS = 0.05
_TAIL_BYTES = 2000


class Watch(Protocol):
    """Who is told how the run goes."""

    def trial(self, trial: str) -> None:
        """A trial begins."""

    def attempt(self, attempt: Attempt) -> None:
        """An attempt ended."""


def run(workspace: Workspace, plan: Plan, setting: Setting, watch: Watch) -> None:
    """Execute every trial of the plan that has no final outcome yet.

    Raises:
        ExecutionError: A trial was interrupted three times, or the walltime is used up. What
            finished is kept, and the same call goes on with the rest.
    """
    recover(workspace, plan)
    for group in plan.groups:
        tries = 0
        while trials := _open_trials(workspace, group):
            _run_group(workspace, replace(group, trials=trials), setting, watch)
            stuck = _open_trials(workspace, group)
            tries = tries + 1 if stuck == trials else 0
            if tries == MAX_ATTEMPTS:
                raise _gave_up(workspace, stuck[0])


def recover(workspace: Workspace, plan: Plan) -> None:
    """Settle the process starts that an earlier, dead process of capsule left open."""
    groups = {group.id: group for group in plan.groups}
    for begun in workspace.begun():
        if begun.ended:
            continue
        start = workspace.start(begun.number)
        group = groups[begun.group]
        trials = tuple(trial for trial in group.trials if trial.id in set(begun.trials))
        end = ProcessEnd(ended=None, cut="lost", seconds=None, words="")
        context = Context(
            group=group.id, started=begun.at, node=begun.node, earlier=_counts(workspace)
        )
        workspace.end(start, _settled(trials, start, end, context))


def _open_trials(workspace: Workspace, group: Group) -> tuple[Trial, ...]:
    final = {
        attempt.trial for _, attempt in workspace.attempts() if attempt.outcome != "interrupted"
    }
    return tuple(trial for trial in group.trials if trial.id not in final)


def _counts(workspace: Workspace) -> dict[str, int]:
    counts: dict[str, int] = {}
    for _, attempt in workspace.attempts():
        counts[attempt.trial] = max(counts.get(attempt.trial, 0), attempt.attempt)
    return counts


def _gave_up(workspace: Workspace, trial: Trial) -> CapsuleError:
    last = [each for _, each in workspace.attempts() if each.trial == trial.id][-1]
    message = f"interrupted {MAX_ATTEMPTS} times without getting further: {last.message.strip()}"
    kind = CannotRunError if last.reason == "engine" else ExecutionError
    return kind(
        message,
        where=trial.id,
        advice=f"when the cause is gone: capsule run --resume {workspace.folder}",
    )


def _run_group(workspace: Workspace, group: Group, setting: Setting, watch: Watch) -> None:
    """One process start, from its folder to its attempts in the log."""
    _check_walltime(workspace, setting)
    at = datetime.now(UTC).isoformat(timespec="milliseconds")
    start = workspace.begin(group.id, tuple(trial.id for trial in group.trials), setting.node, at)
    context = Context(group=group.id, started=at, node=setting.node, earlier=_counts(workspace))
    if group.trials[0].benchmark.command is None:
        start.job.write_text(json.dumps(workload.job(workspace, group, setting), indent=1))
    began = time.monotonic()
    running = setting.runtime.start(
        setting.prepared, workload.invocation(workspace, group, start, setting)
    )
    ended: Ended | None = None
    cut: Cut | None = "interrupt"
    try:
        ended, cut = _follow(running, group, start, setting, watch)
    finally:
        if ended is None:
            running.stop()
        end = ProcessEnd(
            ended=ended, cut=cut, seconds=time.monotonic() - began, words=tail(start.stderr)
        )
        attempts = _settled(group.trials, start, end, context)
        workspace.end(start, attempts)
        for attempt in attempts:
            watch.attempt(attempt)


def _check_walltime(workspace: Workspace, setting: Setting) -> None:
    if setting.deadline is not None and time.monotonic() > setting.deadline:
        raise ExecutionError(
            "the manifest's walltime is used up",
            where="/resources/walltime",
            advice=f"what finished is kept; go on: capsule run --resume {workspace.folder}",
        )


def _follow(
    running: Running, group: Group, start: Start, setting: Setting, watch: Watch
) -> tuple[Ended | None, Cut | None]:
    """Wait for the end of a process, tell of its trials, and end it when its time is over."""
    progress = Progress(group, start)
    while True:
        ended = running.wait(_POLL_SECONDS)
        for trial in progress.begun():
            watch.trial(trial)
        if ended is not None:
            return ended, None
        if progress.overdue():
            return None, "timeout"
        if setting.deadline is not None and time.monotonic() > setting.deadline:
            return None, "walltime"


def _settled(
    trials: tuple[Trial, ...], start: Start, end: ProcessEnd, context: Context
) -> tuple[Attempt, ...]:
    if trials[0].benchmark.command is None:
        return settle(trials, journal.read(start.journal, trials), end, context)
    finished = end.ended is not None and end.ended.exit_code == 0 and not end.ended.engine_fault
    report = results.read(start.results, trials[0]) if finished else None
    return (settle_command(trials[0], report, end, context),)


def tail(path: Path) -> str:
    """The end of a log, as text; empty when there is none."""
    try:
        with path.open("rb") as stream:
            stream.seek(max(0, path.stat().st_size - _TAIL_BYTES))
            return stream.read().decode(errors="replace").strip()
    except OSError:
        return ""
