"""Speed-up, efficiency and communication share, derived from several cases or ranks.

Under each seed a case is held to that with the fewest ranks, which ran beside it. With X samples a
second by p ranks, and X_0 by the fewest p_0:

    speedup             X / X_0
    efficiency          (X / X_0) (p_0 / p)
    communication_share seconds of communication over seconds of steps, each of all ranks together

Throughput is what counts in strong scaling and in weak: which it is, the batch decides.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial

from capsule.manifest import Benchmark, Metric
from capsule.manifest import scaling as meaning
from capsule.runs import MetricRuns, Run, RunStatus

Metrics = Mapping[str, MetricRuns]
"""Metrics by path."""

Rule = Callable[[Run, Run], float]
"""Value of two runs, both of which have a value."""

_COMMUNICATION, _STEP = "communication_time", "step_time"


def derive(benchmark: Benchmark, metrics: Metrics) -> Iterator[tuple[str, MetricRuns]]:
    """Yield metrics that are derived from several cases, with their paths.

    A run without outcome, in one of the cases that are compared, leaves none; one that failed, or
    that took no time, a failure.

    Args:
        benchmark: Any.
        metrics: Metrics of its trials; those of a framework may be left out.
    """
    if benchmark.scaling is None:
        return
    for case in benchmark.cases:
        base = benchmark.scaling.bases.get(case.name, case.name)
        ranks, fewest = (meaning.ranks_of(benchmark, name) or 1 for name in (case.name, base))
        throughputs = (case.name, meaning.THROUGHPUT), (base, meaning.THROUGHPUT)
        sides: Mapping[Metric, tuple[tuple[str, str], tuple[str, str]]] = {
            meaning.SHARE: ((case.name, _COMMUNICATION), (case.name, _STEP)),
            meaning.SPEEDUP: throughputs,
            meaning.EFFICIENCY: throughputs,
        }
        rules: Mapping[Metric, Rule] = {
            meaning.SHARE: _share,
            meaning.SPEEDUP: partial(_gain, part=1.0),
            meaning.EFFICIENCY: partial(_gain, part=fewest / ranks),
        }
        for framework in benchmark.frameworks:
            for metric in meaning.metrics(benchmark, case.name):
                paths = [f"{benchmark.id}/{name}/{framework}/{of}" for name, of in sides[metric]]
                path = f"{benchmark.id}/{case.name}/{framework}/{metric.name}"
                if all(one in metrics for one in paths):
                    yield path, _join(path, metric, [metrics[one] for one in paths], rules[metric])


def _gain(own: Run, base: Run, *, part: float) -> float:
    assert own.value is not None
    assert base.value is not None
    return own.value / base.value * part


def _share(communication: Run, steps: Run) -> float:
    return _sum(communication) / _sum(steps)


def _sum(run: Run) -> float:
    return math.fsum(math.fsum(line.values) for line in run.samples)


def _join(path: str, metric: Metric, sides: Sequence[MetricRuns], rule: Rule) -> MetricRuns:
    """Return a metric with one run for each of the first side's, which has its seed and trial."""
    return replace(
        sides[0],
        metric=path,
        unit=metric.unit,
        direction=metric.direction,
        resolution=metric.resolution,
        per=metric.per,
        runs=tuple(_join_runs([side.runs for side in sides], rule)),
        controls=tuple(_join_runs([side.controls for side in sides], rule)),
    )


def _join_runs(columns: Sequence[Sequence[Run]], rule: Rule) -> Iterator[Run]:
    by_seed = [{run.seed: run for run in runs} for runs in columns]
    for own in columns[0]:
        runs = [column[own.seed] for column in by_seed if own.seed in column]
        status: RunStatus = "missing"
        value: float | None = None
        if len(runs) == len(columns) and all(run.status != "missing" for run in runs):
            value = _reckon(runs, rule) if all(run.value is not None for run in runs) else None
            status = "failed" if value is None else "ok"
        failures = [run.failure for run in runs if run.failure is not None]
        yield replace(
            own,
            status=status,
            value=value,
            samples=(),
            not_finite=None,
            failure=failures[0] if status == "failed" and failures else None,
            started=max((run.started for run in runs if run.started is not None), default=None),
            interrupted=sum(run.interrupted for run in runs),
        )


def _reckon(runs: Sequence[Run], rule: Rule) -> float | None:
    try:
        value = rule(runs[0], runs[1])
    except (ZeroDivisionError, OverflowError):
        return None
    return value if math.isfinite(value) else None
