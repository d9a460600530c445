"""Run what is left of a plan, one process start after the other, and lose nothing that finished."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Protocol

from capsule import journal, workload
from capsule.errors import CannotRunError, CapsuleError, ExecutionError
from capsule.outcome import Context, Cut, ProcessEnd, settle, settle_command
from capsule.plan import Group, Plan, Trial
from capsule.record import Attempt, Execution, File, Samples
from capsule.runtimes.base import Ended, Running
from capsule.schema import parse
from capsule.workload import Setting
from capsule.workspace import Start, Workspace

MAX_ATTEMPTS = 3
_POLL_SECONDS = 0.05
_TAIL_BYTES = 2000
_PROBE_SECONDS = 120


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
            ended=ended, cut=cut, seconds=time.monotonic() - began, words=_tail(start.stderr)
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
    progress = _Progress(group, start)
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


class _Progress:
    """Which trial a process is at, from the lines that its journal gained."""

    def __init__(self, group: Group, start: Start) -> None:
        self._path = start.journal
        self._limits = {trial.id: trial.benchmark.timeout_seconds for trial in group.trials}
        self._offset = 0
        self._current: str | None = None
        self._since = time.monotonic()
        self._first = group.trials[0].id if group.trials[0].benchmark.command else None

    def begun(self) -> list[str]:
        """The trials that began since the last call."""
        if self._first is not None:
            self._current, self._first = self._first, None
            return [self._current]
        found = [trial for trial in self._new_begins() if trial in self._limits]
        if found:
            self._current, self._since = found[-1], time.monotonic()
        return found

    def overdue(self) -> bool:
        """Whether the current trial has used up its benchmark's time limit."""
        limit = self._limits.get(self._current) if self._current else None
        return limit is not None and time.monotonic() - self._since > limit

    def _new_begins(self) -> list[str]:
        try:
            with self._path.open("rb") as stream:
                stream.seek(self._offset)
                data = stream.read(journal.MAX_LINE_BYTES)
        except OSError:
            return []
        whole = data[: data.rfind(b"\n") + 1]
        self._offset += len(whole)
        begins = []
        for line in whole.split(b"\n"):
            # samples lines may be long, and only a whole read of the journal judges them
            if b'"begin"' in line[:200]:
                try:
                    begins.append(str(json.loads(line).get("trial")))
                except (ValueError, AttributeError):
                    continue
        return begins


def _settled(
    trials: tuple[Trial, ...], start: Start, end: ProcessEnd, context: Context
) -> tuple[Attempt, ...]:
    if trials[0].benchmark.command is None:
        return settle(trials, journal.read(start.journal, trials), end, context)
    finished = end.ended is not None and end.ended.exit_code == 0 and not end.ended.engine_fault
    report = journal.read_results(start.results, trials[0]) if finished else None
    return (settle_command(trials[0], report, end, context),)


def _tail(path: Path) -> str:
    try:
        with path.open("rb") as stream:
            stream.seek(max(0, path.stat().st_size - _TAIL_BYTES))
            return stream.read().decode(errors="replace").strip()
    except OSError:
        return ""


def probe(workspace: Workspace, setting: Setting) -> Mapping[str, Any]:
    """Ask the image what software it holds.

    Returns:
        What `levels probe` prints, or {"missing": reason} for an image without Python.
    """
    start = Start(number=0, folder=workspace.folder / "probe")
    start.out.mkdir(parents=True, exist_ok=True)
    for stream in (start.stdout, start.stderr):
        stream.unlink(missing_ok=True)
    running = setting.runtime.start(setting.prepared, workload.probe(workspace, start, setting))
    ended = running.wait(_PROBE_SECONDS)
    if ended is None:
        running.stop()
        return {"missing": f"python3 did not answer within {_PROBE_SECONDS} seconds"}
    if ended.exit_code != 0:
        return {"missing": (ended.engine_fault or _tail(start.stderr))[-500:]}
    try:
        found = parse(start.stdout.read_bytes(), where="levels probe")
    except CapsuleError as error:
        return {"missing": str(error)}
    return found if isinstance(found, dict) else {"missing": "levels probe printed no object"}


def collect(workspace: Workspace, plan: Plan) -> Execution:
    """Read everything that the process starts of a run left behind."""
    groups = {group.id: group for group in plan.groups}
    logged = workspace.attempts()
    software: dict[str, Any] = {}
    effective: dict[str, Any] = {}
    samples: list[Samples] = []
    logs: list[File] = []
    for begun in workspace.begun():
        group, start = groups[begun.group], workspace.start(begun.number)
        attempts = {each.trial: each for number, each in logged if number == begun.number}
        for name in ("stdout.txt", "stderr.txt"):
            path = start.folder / name
            if path.is_file() and path.stat().st_size:
                logs.append(File(path=f"logs/{begun.number:04}-{name}", source=path))
        if group.trials[0].benchmark.command is not None:
            reports: tuple[journal.TrialReport, ...] = (
                journal.read_results(start.results, group.trials[0]),
            )
        else:
            found = journal.read(start.journal, group.trials)
            software.setdefault(group.framework, found.software)
            effective.setdefault(group.framework, found.environment)
            reports = found.reports
        samples += _samples(reports, attempts, group)
    return Execution(
        attempts=tuple(attempt for _, attempt in logged),
        samples=tuple(samples),
        software=software,
        effective=effective,
        logs=tuple(logs),
    )


def _samples(
    reports: tuple[journal.TrialReport, ...], attempts: Mapping[str, Attempt], group: Group
) -> list[Samples]:
    trials = {trial.id: trial for trial in group.trials}
    found = []
    for report in reports:
        attempt = attempts.get(report.trial)
        if attempt is None:
            continue
        trial = trials[report.trial]
        metrics = {metric.name: metric for metric in trial.benchmark.metrics}
        for series in report.series:
            metric = metrics[series.metric]
            found.append(
                Samples(
                    metric=f"{trial.benchmark.id}/{trial.case.name}/{trial.framework}/{metric.name}",
                    trial=trial.id,
                    attempt=attempt.attempt,
                    seed=trial.seed,
                    unit=metric.unit,
                    direction=metric.direction,
                    kind=metric.kind,
                    resolution=metric.resolution,
                    warmup=series.warmup,
                    values=series.values,
                    steps=series.steps,
                )
            )
    return found
