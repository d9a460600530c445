"""Percentiles of the latencies of networks that are served, one a run, out of its raw samples."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from capsule.levels.catalog.serving import LATENCY, PERCENTILES
from capsule.manifest import Benchmark
from capsule.manifest import serving as meaning
from capsule.runs import MetricRuns, Run

Metrics = Mapping[str, MetricRuns]
"""Metrics by path."""


def derive(benchmark: Benchmark, metrics: Metrics) -> Iterator[tuple[str, MetricRuns]]:
    """Yield metrics that are derived from a benchmark's latencies, with their paths.

    A run that has not a latency for each query has failed as far as these go.

    Args:
        benchmark: Any.
        metrics: Metrics of its trials; those of a framework may be left out.
    """
    serving = meaning.of(benchmark)
    if serving is None:
        return
    for metric in meaning.metrics(benchmark):
        for case in benchmark.cases:
            for framework in benchmark.frameworks:
                unit = f"{benchmark.id}/{case.name}/{framework}"
                latency = metrics.get(f"{unit}/{LATENCY}")
                if latency is None:
                    continue
                how = PERCENTILES[metric.name], serving.queries
                path = f"{unit}/{metric.name}"
                yield (
                    path,
                    replace(
                        latency,
                        metric=path,
                        per=metric.per,
                        runs=tuple(_reduce(run, *how) for run in latency.runs),
                        controls=tuple(_reduce(run, *how) for run in latency.controls),
                    ),
                )


def percentile(ordered: list[float], share: float) -> float:
    """Return the smallest value that is at least as large as a share of all values.

    Args:
        ordered: At least one, the smallest first.
        share: Above 0 and at most 1.

    >>> percentile([1.0, 2.0, 3.0, 4.0], 0.5), percentile([1.0, 2.0, 3.0, 4.0], 0.9)
    (2.0, 4.0)
    """
    return ordered[rank(len(ordered), share) - 1]


def rank(count: int, share: float) -> int:
    """Return the number of values below or at the percentile.

    >>> rank(1000, 0.99), rank(10, 0.9), rank(11, 0.9)
    (990, 9, 10)
    """
    percent = round(100 * share)
    return -(-count * percent // 100)


def _reduce(run: Run, share: float, queries: int) -> Run:
    if run.value is None:
        return replace(run, samples=())
    values = [value for line in run.samples for value in line.values[line.warmup :]]
    if len(values) != queries:
        return replace(run, status="failed", value=None, samples=())
    return replace(run, value=percentile(sorted(values), share), samples=())
