"""One number per run and metric, out of raw samples: for statistics, reports, `metrics.json`."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from capsule.manifest import Direction, Kind, Metric
from capsule.record import Attempt, Record, Samples

FORMAT = "capsule-metrics/1"
RunStatus = Literal["ok", "failed", "missing"]
# numpy finds the median of more values sooner than it is sorted out, its import included
_FEW = 50_000
# and of these, when it is needed anyhow
_VERY_FEW = 500
# so many different counts do not follow each other twice by chance
_COUNTS = 5


@dataclass(frozen=True, kw_only=True)
class Run:
    """One planned run of one metric: a trial, whatever became of it.

    Attributes:
        seed: Unsigned 32-bit.
        seed_source: `manifest` or `fresh`.
        trial: Trial id.
        status: `ok` has a value; `failed` ended by the workload's own fault; `missing` has no
            final outcome, because every attempt was interrupted or none was made.
        value: Median of `values[warmup:]` in the metric's unit, or the last value of a curve; None
            unless `ok`.
        samples: All values and their steps, None without a completed attempt.
        trajectory: Lowest seed of all runs that went through exactly the same values: together
            they are one independent run. None when no other run did.
    """

    seed: int
    seed_source: str
    trial: str
    status: RunStatus
    value: float | None
    samples: Samples | None = None
    trajectory: int | None = None


@dataclass(frozen=True, kw_only=True)
class MetricRuns:
    """All planned runs of one metric path, sorted by seed."""

    metric: str
    unit: str
    direction: Direction
    kind: Kind
    resolution: float
    runs: tuple[Run, ...]
    test_set: int | None = None

    @property
    def values(self) -> tuple[float, ...]:
        """The values of the runs that are `ok`, in the order of their seeds."""
        return tuple(run.value for run in self.runs if run.value is not None)


def run_values(record: Record) -> Mapping[str, MetricRuns]:
    """Every metric path of the plan with one value per run, sorted by path.

    A failed trial is a failed run of each of its metrics, and a trial without a final outcome a
    missing one: nothing that was planned drops out of sight.
    """
    return _with_trajectories(_metrics(record))


def planned_trials(plan: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """The trials of a record's plan, in executed order: at least `id` and `seed_source` each."""
    for group in plan["groups"]:
        yield from group["trials"]


def final_outcome(attempt: Attempt) -> bool:
    """Whether an attempt settled its trial: interrupted ones are tried again."""
    return attempt.outcome != "interrupted"


def run_value(samples: Samples, few: int = _FEW) -> float | None:
    """The median of the values after warm-up, None when there is none or it is not finite.

    An even number of values has the mean of the two middle ones. A curve has its last value.

    Args:
        samples: All values.
        few: Of how many values numpy need not find the median.
    """
    values = samples.values[samples.warmup :]
    return median(values if samples.steps is None else values[-1:], few)


def calls(run: Run) -> tuple[float, ...]:
    """The values after warm-up of a run that has several, and is no curve; else none."""
    if run.samples is None or run.samples.steps is not None:
        return ()
    found = run.samples.values[run.samples.warmup :]
    return found if len(found) > 1 else ()


def median(values: Sequence[float], few: int = _FEW) -> float | None:
    """The middle value, the mean of the two middle ones, or None when that is no finite number.

    >>> median([3.0, 1.0, 2.0, 4.0])
    2.5
    """
    if len(values) > few:
        found = _middle(values)
        # -0.0 and 0.0 stand as they came where they are sorted out
        values = found if len(values) > _FEW or 0.0 not in found else values
    if not values or not finite(values):
        return None
    ordered = sorted(values)
    middle = len(ordered) // 2
    if len(ordered) % 2:
        return ordered[middle]
    # one addition, correctly rounded by IEEE 754: the same double on every machine
    value = (ordered[middle - 1] + ordered[middle]) / 2
    return value if math.isfinite(value) else None


def _middle(values: Sequence[float]) -> list[float]:
    """As few of many values as have the same median: the middle ones, or what is not finite."""
    import numpy as np

    found = np.array(values, dtype=float)
    if not np.isfinite(found).all():
        return [math.nan]
    middle = len(found) // 2
    places = [middle] if len(found) % 2 else [middle - 1, middle]
    found.partition(places)
    return [float(found[place]) + 0.0 for place in places]  # -0.0 and 0.0 sort as they like


def finite(values: Sequence[float]) -> bool:
    """Whether no value is NaN or infinite.

    >>> finite([1e308, 1e308]), finite([1.0, math.nan])
    (True, False)
    """
    # a sum is finite only of finite numbers, and made four times as fast as each is looked at
    return math.isfinite(sum(values)) or all(map(math.isfinite, values))


def metrics_document(record: Record) -> dict[str, Any]:
    """`results/metrics.json` as a JSON value, the same on every machine: it can be recomputed.

    Order statistics and one correctly rounded sum alone make it; units are the metric's own.
    """
    return {
        "format": FORMAT,
        "metrics": {path: _summary(runs) for path, runs in _metrics(record).items()},
    }


def _metrics(record: Record) -> Mapping[str, MetricRuns]:
    """`run_values` but for the trajectories, made once for a record: reading it needs it too."""
    found: Mapping[str, MetricRuns] = vars(record).get("_metrics") or _made_metrics(record)
    vars(record)["_metrics"] = found
    return found


def _made_metrics(record: Record) -> dict[str, MetricRuns]:
    final = {attempt.trial: attempt for attempt in record.attempts if final_outcome(attempt)}
    samples = {(line.trial, line.attempt, line.metric): line for line in record.samples}
    lengths = (len(line.values) for line in record.samples)
    few = _VERY_FEW if sum(each for each in lengths if each > _VERY_FEW) > _FEW else _FEW
    benchmarks = {benchmark.id: benchmark for benchmark in record.manifest.benchmarks}
    found: dict[str, tuple[Metric, list[Run]]] = {}
    for trial in planned_trials(record.plan):
        benchmark, case, framework, _ = trial["id"].split("/")
        attempt = final.get(trial["id"])
        for metric in benchmarks[benchmark].due(framework):
            path = f"{benchmark}/{case}/{framework}/{metric.name}"
            line = samples.get((trial["id"], attempt.attempt, path)) if attempt else None
            run = _run(trial, attempt, line, few)
            if path in found:
                found[path][1].append(run)
            else:
                found[path] = (metric, [run])
    return {path: _metric_runs(path, *found[path]) for path in sorted(found)}


def _run(trial: Mapping[str, Any], attempt: Attempt | None, line: Samples | None, few: int) -> Run:
    value = None
    if line and attempt and attempt.outcome == "completed":
        value = run_value(line, few)
    return Run(
        seed=int(trial["id"].rpartition("/")[2]),
        seed_source=trial["seed_source"],
        trial=trial["id"],
        status="missing" if attempt is None else "failed" if value is None else "ok",
        value=value,
        samples=None if value is None else line,
    )


def _metric_runs(path: str, metric: Metric, runs: list[Run]) -> MetricRuns:
    return MetricRuns(
        metric=path,
        unit=metric.unit,
        direction=metric.direction,
        kind=metric.kind,
        resolution=metric.resolution,
        runs=tuple(sorted(runs, key=lambda run: run.seed)),
        test_set=metric.test_set,
    )


def _with_trajectories(metrics: Mapping[str, MetricRuns]) -> dict[str, MetricRuns]:
    """Find runs of different seeds that are one and the same: a workload that ignores its seed.

    Two runs of a metric are the same when their series are, bit for bit, and the series says
    something; or when that holds for all portable metrics of their trials together. Metrics of a
    machine differ anyhow.
    """
    subjects: dict[str, list[MetricRuns]] = {}
    for path, metric in metrics.items():
        if metric.kind == "portable":
            subjects.setdefault(path.rpartition("/")[0], []).append(metric)
    found = dict(metrics)
    for group in subjects.values():
        # the runs of one trial stand in the same place of every metric
        trials = list(zip(*([run.samples for run in metric.runs] for metric in group), strict=True))
        together = _alike(trials)
        for place, metric in enumerate(group):
            alone = _alike([(trial[place],) for trial in trials])
            same = {**together, **alone}
            runs = tuple(
                replace(run, trajectory=metric.runs[same[index]].seed) if index in same else run
                for index, run in enumerate(metric.runs)
            )
            found[metric.metric] = replace(metric, runs=runs)
    return found


def _alike(runs: Sequence[tuple[Samples | None, ...]]) -> dict[int, int]:
    """For each place whose series all stand elsewhere too, the first place where they do."""
    places: dict[Any, list[int]] = {}
    for place, lines in enumerate(runs):
        if None not in lines:
            key = [(len(line.values), line.values[0], line.values[-1]) for line in lines if line]
            places.setdefault(tuple(key), []).append(place)
    first: dict[int, int] = {}
    for candidates in places.values():
        for index, place in enumerate(candidates):
            for earlier in candidates[:index]:
                if all(map(_equal, runs[place], runs[earlier])) and any(map(_tells, runs[place])):
                    first[place] = first[earlier] = first.get(earlier, earlier)
                    break
    return first


def _tells(line: Samples | None) -> bool:
    """Whether a series has enough in it not to be the same twice by chance."""
    assert line is not None
    different: set[float] = set()
    for value in line.values:
        different.add(value)
        if len(different) >= (_COUNTS if line.resolution > 0 else 2):
            return True
    return False


def _equal(one: Samples | None, other: Samples | None) -> bool:
    assert one is not None
    assert other is not None
    return one.values == other.values and one.steps == other.steps


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
