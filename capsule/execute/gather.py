"""Read everything that the process starts of a run left behind."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from capsule.errors import CapsuleError
from capsule.execute import journal, results, workload
from capsule.execute.loop import tail
from capsule.execute.workload import Setting
from capsule.execute.workspace import Start, Workspace
from capsule.plan import Group, Plan
from capsule.record import Attempt, Execution, File, Samples
from capsule.schema import parse

# importing a framework from a cold disk takes half a minute
_PROBE_SECONDS = 600


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
        return {"missing": (ended.engine_fault or tail(start.stderr))[-500:]}
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
                results.read(start.results, group.trials[0]),
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
