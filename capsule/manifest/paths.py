"""Metric paths, `benchmark/case/framework/metric`, and the patterns that claims name them by."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from capsule.manifest import energy, scaling, serving
from capsule.manifest.model import SCORE, SEARCH, Benchmark, Metric

SEGMENTS = ("benchmark", "case", "framework", "metric")


def match(pattern: str, path: str) -> bool:
    """Return whether a claim's pattern names a metric path; `*` stands for one whole segment.

    >>> match("gemm/*/torch/l2_error", "gemm/m64n64k64/torch/l2_error")
    True
    >>> match("gemm/*/l2_error", "gemm/m64n64k64/torch/l2_error")
    False
    """
    wanted_segments, segments = pattern.split("/"), path.split("/")
    return len(wanted_segments) == len(segments) and all(
        wanted in ("*", segment) for wanted, segment in zip(wanted_segments, segments, strict=True)
    )


def matches(pattern: str, benchmarks: Iterable[Benchmark]) -> list[tuple[Benchmark, Metric]]:
    """Return the benchmarks that a pattern names a metric of, with those metrics."""
    segments = pattern.split("/")
    if len(segments) != len(SEGMENTS):
        return []
    return [
        (benchmark, metric)
        for benchmark in benchmarks
        if segments[0] in ("*", benchmark.id)
        and (segments[2] == "*" or segments[2] in benchmark.frameworks)
        for metric in _metrics_in(benchmark, segments[1], segments[-1])
        if segments[-1] in ("*", metric.name)
    ]


def _metrics_in(benchmark: Benchmark, case: str, name: str) -> tuple[Metric, ...]:
    """Return the metrics in a case, or in any for `*`; the energy only by its name."""
    metrics: tuple[Metric, ...] = ()
    if case == "*" or case in benchmark.case_names:
        metrics = (*benchmark.metrics, *serving.metrics(benchmark))
        # many machines have no counter, so `*` does not stand for it
        metrics += energy.metrics(benchmark) if name == energy.ENERGY.name else ()
    metrics += scaling.metrics_in(benchmark, case)
    score = benchmark.score if case in ("*", SEARCH) else None
    return metrics if score is None else (*metrics, score)


def names(benchmark: Benchmark, place: int) -> Sequence[str]:
    """Return the names at one position of the trials' metric paths; they combine freely."""
    if place == 0:
        return (benchmark.id,)
    if place == 1:
        return [case.name for case in benchmark.cases]
    derived = (*scaling.metrics_in(benchmark, "*"), *serving.metrics(benchmark))
    metrics = (*benchmark.metrics, *derived)
    return benchmark.frameworks if place == 2 else [metric.name for metric in metrics]


def metric_paths(benchmarks: Sequence[Benchmark]) -> tuple[tuple[str, Metric], ...]:
    """Return every metric path that these benchmarks yield, with what its numbers mean, in their
    order.
    """
    scores = tuple(
        (f"{benchmark.id}/{SEARCH}/{framework}/{SCORE}", benchmark.score)
        for benchmark in benchmarks
        for framework in benchmark.frameworks
        if benchmark.score is not None
    )
    derived = tuple(
        (f"{benchmark.id}/{case.name}/{framework}/{metric.name}", metric)
        for benchmark in benchmarks
        for case in benchmark.cases
        for framework in benchmark.frameworks
        for metric in (*scaling.metrics(benchmark, case.name), *serving.metrics(benchmark))
    )
    counted = tuple(
        (f"{benchmark.id}/{case.name}/{framework}/{metric.name}", metric)
        for benchmark in benchmarks
        for case in benchmark.cases
        for framework in benchmark.frameworks
        for metric in energy.metrics(benchmark)
    )
    return trial_paths(benchmarks) + derived + scores + counted


def trial_paths(benchmarks: Iterable[Benchmark]) -> tuple[tuple[str, Metric], ...]:
    """Return the paths of metrics that a trial has samples of."""
    return tuple(
        (f"{benchmark.id}/{case.name}/{framework}/{metric.name}", metric)
        for benchmark in benchmarks
        for case in benchmark.cases
        for framework in benchmark.frameworks
        for metric in benchmark.due(framework)
    )
