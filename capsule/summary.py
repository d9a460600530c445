"""One number per run and metric, out of raw samples: for statistics, reports, `metrics.json`."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from capsule.manifest import Direction, Kind, Metric
from capsule.record import Attempt, Record, Samples

FORMAT = "capsule-metrics/1"
RunStatus = Literal["ok", "failed", "missing"]


@dataclass(frozen=True, kw_only=True)
class Run:
    """One planned run of one metric: a trial, whatever became of it.

    Attributes:
        seed: Unsigned 32-bit.
        seed_source: `manifest` or `fresh`.
        trial: Trial id.
        status: `ok` has a value; `failed` ended by the workload's own fault; `missing` has no
            final outcome, because every attempt was interrupted or none was made.
        value: Median of `values[warmup:]` in the metric's unit, None unless `ok`.
    """

    seed: int
    seed_source: str
    trial: str
    status: RunStatus
    value: float | None


@dataclass(frozen=True, kw_only=True)
class MetricRuns:
    """All planned runs of one metric path, sorted by seed."""

    metric: str
    unit: str
    direction: Direction
    kind: Kind
    resolution: float
    runs: tuple[Run, ...]

    @property
    def values(self) -> tuple[float, ...]:
        """The values of the runs that are `ok`, in the order of their seeds."""
        return tuple(run.value for run in self.runs if run.value is not None)


def run_values(record: Record) -> Mapping[str, MetricRuns]:
    """Every metric path of the plan with one value per run, sorted by path.

    A failed trial is a failed run of each of its metrics, and a trial without a final outcome a
    missing one: nothing that was planned drops out of sight.
    """
    final = {attempt.trial: attempt for attempt in record.attempts if final_outcome(attempt)}
    samples = {(line.trial, line.attempt, line.metric): line for line in record.samples}
    metrics = {benchmark.id: benchmark.metrics for benchmark in record.manifest.benchmarks}
    found: dict[str, tuple[Metric, list[Run]]] = {}
    for trial in planned_trials(record.plan):
        benchmark, case, framework, seed = trial["id"].split("/")
        attempt = final.get(trial["id"])
        for metric in metrics[benchmark]:
            path = f"{benchmark}/{case}/{framework}/{metric.name}"
            line = samples.get((trial["id"], attempt.attempt, path)) if attempt else None
            status, value = _outcome(attempt, line)
            run = Run(
                seed=int(seed),
                seed_source=trial["seed_source"],
                trial=trial["id"],
                status=status,
                value=value,
            )
            found.setdefault(path, (metric, []))[1].append(run)
    return {path: _metric_runs(path, *found[path]) for path in sorted(found)}


def planned_trials(plan: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """The trials of a record's plan, in executed order: at least `id` and `seed_source` each."""
    for group in plan["groups"]:
        yield from group["trials"]


def final_outcome(attempt: Attempt) -> bool:
    """Whether an attempt settled its trial: interrupted ones are tried again."""
    return attempt.outcome != "interrupted"


def run_value(samples: Samples) -> float | None:
    """The median of the values after warm-up, None when there is none or it is not finite.

    An even number of values has the mean of the two middle ones.
    """
    return median(samples.values[samples.warmup :])


def median(values: Sequence[float]) -> float | None:
    """The middle value, the mean of the two middle ones, or None when that is no finite number.

    >>> median([3.0, 1.0, 2.0, 4.0])
    2.5
    """
    if not values or not all(map(math.isfinite, values)):
        return None
    ordered = sorted(values)
    middle = len(ordered) // 2
    if len(ordered) % 2:
        return ordered[middle]
    # one addition, correctly rounded by IEEE 754: the same double on every machine
    value = (ordered[middle - 1] + ordered[middle]) / 2
    return value if math.isfinite(value) else None


def metrics_document(record: Record) -> dict[str, Any]:
    """`results/metrics.json` as a JSON value, the same on every machine: it can be recomputed.

    Order statistics and one correctly rounded sum alone make it; units are the metric's own.
    """
    paths = {path: _summary(runs) for path, runs in run_values(record).items()}
    return {"format": FORMAT, "metrics": paths}


def _outcome(attempt: Attempt | None, line: Samples | None) -> tuple[RunStatus, float | None]:
    if attempt is None:
        return "missing", None
    value = run_value(line) if line and attempt.outcome == "completed" else None
    return ("failed", None) if value is None else ("ok", value)


def _metric_runs(path: str, metric: Metric, runs: list[Run]) -> MetricRuns:
    return MetricRuns(
        metric=path,
        unit=metric.unit,
        direction=metric.direction,
        kind=metric.kind,
        resolution=metric.resolution,
        runs=tuple(sorted(runs, key=lambda run: run.seed)),
    )


def _summary(metric: MetricRuns) -> dict[str, Any]:
    values = metric.values
    return {
        "unit": metric.unit,
        "direction": metric.direction,
        "kind": metric.kind,
        "resolution": float(metric.resolution),
        "runs": [
            {
                "seed": run.seed,
                "seed_source": run.seed_source,
                "status": run.status,
                "value": run.value,
            }
            for run in metric.runs
        ],
        "n": len(values),
        "failed": sum(run.status == "failed" for run in metric.runs),
        "missing": sum(run.status == "missing" for run in metric.runs),
        "min": min(values, default=None),
        "median": median(values),
        "max": max(values, default=None),
        "mean": _mean(values),
    }


def _mean(values: Sequence[float]) -> float | None:
    if not values:
        return None
    try:
        return math.fsum(values) / len(values)
    except OverflowError:
        return None
