"""Scaling of trainings over their number of ranks, for reports."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from capsule import population, stats, summary
from capsule.manifest import Benchmark, scaling
from capsule.record import Record
from capsule.summary import MetricRuns

LEVEL = 0.95
"""Confidence of the intervals."""

_PER_CORE = "threads_per_core"
_LARGEST = 700.0


@dataclass(frozen=True, kw_only=True)
class Mean:
    """Mean over the runs of a metric.

    Attributes:
        value: In the metric's unit; of ratios the geometric mean.
        interval: Interval of the mean at `LEVEL`, half of the rest on either side; None of one run.
    """

    value: float
    interval: tuple[float, float] | None


@dataclass(frozen=True, kw_only=True)
class Size:
    """A training at one number of ranks.

    Attributes:
        case: Its name.
        ranks: Number of ranks.
        base: Name of the case that it is held to; None where it is the one that others are.
        throughput: Samples a second.
        step_time: Seconds, of the slowest rank's median step.
        speedup: Against `base`.
        efficiency: Likewise.
        communication_share: Share of the steps' seconds, from 0 to 1; None of one rank alone.
        bytes_sent: Bytes of the rank that sends most in its median step.
        shared: Ranks that have fewer cores than threads, with whom they share them, in any run:
            how fast they are says nothing of a machine.
    """

    case: str
    ranks: int
    base: str | None
    throughput: Mean | None
    step_time: Mean | None
    speedup: Mean | None
    efficiency: Mean | None
    communication_share: Mean | None
    bytes_sent: Mean | None
    shared: tuple[int, ...]


@dataclass(frozen=True, kw_only=True)
class Sweep:
    """A training in one framework, at all its numbers of ranks.

    Attributes:
        benchmark: Its id.
        framework: Its name.
        kind: True if all ranks share one batch, whatever their number, or each has its own.
        sizes: In the order of their cases.
    """

    benchmark: str
    framework: str
    kind: Literal["strong", "weak"]
    sizes: tuple[Size, ...]


def find(record: Record) -> Iterator[Sweep]:
    """Yield the sweeps over ranks of a record, as far as they were planned."""
    for one in record.manifest.benchmarks:
        if one.scaling is None:
            continue
        metrics = summary.run_values(record)
        for framework in one.frameworks:
            if f"{one.id}/{one.cases[0].name}/{framework}/{scaling.THROUGHPUT}" in metrics:
                sizes = tuple(_size(one, case.name, framework, metrics) for case in one.cases)
                kind = one.scaling.kind
                yield Sweep(benchmark=one.id, framework=framework, kind=kind, sizes=sizes)


def _size(
    benchmark: Benchmark, case: str, framework: str, metrics: Mapping[str, MetricRuns]
) -> Size:
    assert benchmark.scaling is not None

    def mean(name: str, *, is_ratio: bool = False) -> Mean | None:
        metric = metrics.get(f"{benchmark.id}/{case}/{framework}/{name}")
        return None if metric is None else _mean(metric, is_ratio=is_ratio)

    return Size(
        case=case,
        ranks=scaling.ranks_of(benchmark, case) or 1,
        base=benchmark.scaling.bases.get(case),
        throughput=mean(scaling.THROUGHPUT),
        step_time=mean("step_time"),
        speedup=mean(scaling.SPEEDUP.name, is_ratio=True),
        efficiency=mean(scaling.EFFICIENCY.name, is_ratio=True),
        communication_share=mean(scaling.SHARE.name),
        bytes_sent=mean("bytes_sent"),
        shared=_list_sharers(metrics.get(f"{benchmark.id}/{case}/{framework}/{_PER_CORE}")),
    )


def _mean(metric: MetricRuns, *, is_ratio: bool) -> Mean | None:
    runs = population.runs(metric)
    if not runs.n:
        return None
    is_log = is_ratio and runs.positive
    runs = runs.log() if is_log else runs
    interval = stats.location(runs, alpha=(1 - LEVEL) / 2)
    numbers = (runs.mean,) if interval is None else (runs.mean, interval.lower, interval.upper)
    value, *ends = map(_exp, numbers) if is_log else numbers
    return Mean(value=value, interval=(ends[0], ends[1]) if ends else None)


def _exp(number: float) -> float:
    """Return the exponential; of what has none that is a double, a very large one."""
    return math.exp(min(number, _LARGEST))


def _list_sharers(metric: MetricRuns | None) -> tuple[int, ...]:
    lines = () if metric is None else (line for run in metric.runs for line in run.samples)
    return tuple(sorted({line.rank for line in lines if max(line.values) > 1}))


def explain_sharing(sweeps: Sequence[Sweep]) -> Iterator[str]:
    """Describe shared cores, a sentence for each training: its efficiency belongs to no machine."""
    for sweep in sweeps:
        names = [f"{one.case} ({_name(one.shared)})" for one in sweep.sizes if one.shared]
        if names:
            yield (
                f"{sweep.benchmark} in {sweep.framework}: ranks share cores in {', '.join(names)},"
                " so the speed-up and efficiency do not apply to a machine with one core for each"
                " thread"
            )


def _name(ranks: Sequence[int]) -> str:
    """Return ranks as a list in which neighbours stand as a range.

    >>> _name([0, 1, 2, 5])
    'ranks 0-2, 5'
    """
    ranges: list[list[int]] = []
    for rank in ranks:
        if ranges and ranges[-1][-1] == rank - 1:
            ranges[-1][1:] = [rank]
        else:
            ranges.append([rank])
    return "ranks " + ", ".join("-".join(map(str, one)) for one in ranges)
