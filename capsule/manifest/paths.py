"""Metric paths, `benchmark/case/framework/metric`, and the patterns that claims name them by."""

from __future__ import annotations

from collections.abc import Iterable

from capsule.manifest.model import Benchmark, Metric

SEGMENTS = ("benchmark", "case", "framework", "metric")


def match(pattern: str, path: str) -> bool:
    """Whether a claim's pattern names a metric path; `*` stands for one whole segment.

    >>> match("gemm/*/torch/l2_error", "gemm/m64n64k64/torch/l2_error")
    True
    >>> match("gemm/*/l2_error", "gemm/m64n64k64/torch/l2_error")
    False
    """
    wanted, found = pattern.split("/"), path.split("/")
    return len(wanted) == len(found) and all(
        each in ("*", segment) for each, segment in zip(wanted, found, strict=True)
    )


def metric_paths(benchmarks: Iterable[Benchmark]) -> tuple[tuple[str, Metric], ...]:
    """Every metric path that these benchmarks yield, with what its numbers mean, in their order."""
    return tuple(
        (f"{benchmark.id}/{case.name}/{framework}/{metric.name}", metric)
        for benchmark in benchmarks
        for case in benchmark.cases
        for framework in benchmark.frameworks
        for metric in benchmark.metrics
    )
