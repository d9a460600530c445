"""The runs of one metric as statistics takes them: independent ones, by seed, as curves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from capsule import stats
from capsule.summary import MetricRuns, Run

# beyond it a difference of two values may leave the range of doubles
LARGEST = 1e300


def independent(metric: MetricRuns) -> MetricRuns:
    """Return the runs without those that repeat another seed's, value by value."""
    if [run.trajectory for run in metric.runs].count(None) == len(metric.runs):
        return metric
    seen: set[int] = set()
    kept: list[Run] = []
    for run in metric.runs:
        if run.trajectory is None or run.trajectory not in seen:
            kept.append(run)
        if run.trajectory is not None:
            seen.add(run.trajectory)
    return replace(metric, runs=tuple(kept))


def values(metric: MetricRuns) -> dict[int, float]:
    """Seed to value, of the runs whose value can be reckoned with."""
    if len(numbers(metric)) == len(metric.runs):
        return dict(zip([run.seed for run in metric.runs], metric.values, strict=True))
    return {
        run.seed: value
        for run in metric.runs
        if (value := run.value) is not None and -LARGEST <= value <= LARGEST
    }


def numbers(metric: MetricRuns) -> Sequence[float]:
    """Return the values in the order of their seeds."""
    if -LARGEST <= min(metric.values, default=0.0) <= max(metric.values, default=0.0) <= LARGEST:
        return metric.values
    return [value for value in metric.values if -LARGEST <= value <= LARGEST]


def runs(metric: MetricRuns, resolution: float | None = None) -> stats.Runs:
    """Return the runs that have a value, at the metric's resolution or the one given."""
    resolution = metric.resolution if resolution is None else resolution
    kept = metric.reckoned
    if kept is None:
        return stats.Runs.of(values(metric), resolution=resolution)
    if resolution not in kept:
        kept[resolution] = stats.Runs.of(values(metric), resolution=resolution)
    return kept[resolution]


def keep(metric: MetricRuns | None) -> MetricRuns | None:
    """Return the same metric, of which `runs` is made once, for as long as this copy is there."""
    if metric is not None:
        metric = replace(metric)
        object.__setattr__(metric, "reckoned", {})
    return metric


def series(run: Run) -> Sequence[float]:
    """Return the values inside a run, after its warm-up."""
    return () if run.series is None else run.series.values[run.series.warmup :]


def curves(metric: MetricRuns) -> Mapping[int, stats.Curve]:
    """Seed to curve, of the runs that have one."""
    return {
        run.seed: stats.Curve(
            steps=tuple(run.series.steps[run.series.warmup :]), values=tuple(series(run))
        )
        for run in metric.runs
        if run.series is not None and run.series.steps is not None and _is_reckonable(series(run))
    }


def _is_reckonable(values: Sequence[float]) -> bool:
    return bool(values) and max(map(abs, values)) <= LARGEST
