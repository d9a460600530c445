"""Metrics of a trial's timed calls, for operators and networks alike."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from statistics import median
from time import perf_counter
from typing import Any, Callable

from ..frameworks import Framework
from ..frameworks.base import Call
from ..operators import several
from ..report import Report
from . import errors, timing
from .between import Before
from .memory import Watch
from .ranges import Sampler
from .spans import SPANS

AGAIN = 5
"""Calls after the timed ones whose results must be the same bits."""


@dataclass(frozen=True)
class Series:
    """Every value of one metric, of which the first `warmup` are warm-up."""

    metric: str
    values: tuple[float, ...]
    warmup: int = 0


def report_due(series: Iterable[Series], due: Iterable[str], report: Report) -> None:
    """Report each series as soon as it is there, but for metrics that are not due."""
    metrics = set(due)
    for one in series:
        if one.metric in metrics:
            report.samples(one.metric, one.values, one.warmup)


def make(make_call: Callable[[], Call]) -> tuple[Call, float]:
    """Return a call, and the seconds that it took to make."""
    begin = perf_counter()
    call = make_call()
    return call, perf_counter() - begin


@SPANS.measured
def time(
    framework: Framework,
    call: Callable[..., Any],
    arguments: tuple[Any, ...],
    calls: int,
    before: Before = None,
    first: int = 0,
) -> tuple[tuple[float, ...], tuple[Any, ...]]:
    """Return seconds of each call, and what the last one returned.

    Args:
        framework: Where.
        call: What is timed.
        arguments: Its operands.
        calls: How many, at least one.
        before: See `between`.
        first: Number of the first of them.
    """
    wait = framework.synchronize
    if before is None:
        durations, result = timing.measure(call, arguments, calls, wait)
    else:
        durations, result = timing.measure_apart(
            call, arguments, range(first, first + calls), before, wait
        )
    return tuple(nanoseconds / 1e9 for nanoseconds in durations), several(result)


@dataclass(frozen=True)
class Timed:
    """Timed calls, and what the first and the last one of them returned.

    Attributes:
        seconds: Seconds of each call; where the device has a clock, those that `ranges` measures.
        warmup: How many of these are warm-up.
        latencies: Where the device has a clock, seconds of single calls by the host's, which waits
            for the end of each; else empty.
        once: Seconds of the first call.
        first: As `keep` made it.
        last: As the framework returned it.
        peak: Bytes of memory that the first call took at most; those that follow may find what it
            left, or pile up what is not given back.
    """

    seconds: tuple[float, ...]
    warmup: int
    latencies: tuple[float, ...]
    once: float
    first: Any
    last: tuple[Any, ...]
    peak: int


def time_and_keep(
    framework: Framework,
    call: Callable[..., Any],
    arguments: tuple[Any, ...],
    warmup: int,
    calls: int,
    keep: Callable[[tuple[Any, ...]], Any],
    watch: Watch,
    before: Before = None,
    *,
    alone: bool = False,
) -> Timed:
    """`time` that keeps the first result too, which may be another one than those that follow.

    Args:
        framework: Where.
        call: What is timed.
        arguments: Its operands.
        warmup: How many of the calls are warm-up; where all are, no clock of a device is asked.
        calls: At least 1.
        keep: Makes a copy of the first result, in the host's memory; outside of every duration.
        watch: Sees the peak of memory.
        before: See `between`.
        alone: See `ranges`.
    """
    if before is not None:
        before(0)
    watch.reset_peak()
    seconds, last = time(framework, call, arguments, 1)
    once, peak = seconds[0], watch.peak()
    first = keep(last)
    clock, samples = framework.device_clock, calls - warmup
    if clock is None or not samples:
        if calls > 1:
            del last
            others, last = time(framework, call, arguments, calls - 1, before, 1)
            seconds += others
        return Timed(seconds, warmup, (), once, first, last, peak)
    del last
    sampler = Sampler(clock, call, arguments, alone=alone, before=before, first=calls)
    windows = sampler.settle(warmup)
    if calls > 1:
        seconds += time(framework, call, arguments, calls - 1, before, 1)[0]
    ranged = (*windows, *sampler.take(samples))
    return Timed(ranged, len(windows), seconds, once, first, several(sampler.last), peak)


def tell_times(way: str, timed: Timed, batch: int, warmup: int) -> Iterator[Series]:
    """Yield the times of a network.

    Args:
        way: `inference` or `training`.
        timed: Calls of it.
        batch: Examples of a call.
        warmup: How many of the single calls are warm-up.
    """
    yield Series(f"{way}_time", timed.seconds, timed.warmup)
    yield Series(f"{way}_latency", timed.latencies, warmup)
    rates = tuple(batch / max(duration, 1e-9) for duration in timed.seconds)
    yield Series(f"{way}_throughput", rates, timed.warmup)


def typical(
    framework: Framework,
    call: Callable[..., Any],
    arguments: tuple[Any, ...],
    calls: int,
    before: Before = None,
) -> float:
    """Return the median seconds of a call; where the device has a clock, of the device alone.

    Args:
        framework: Where.
        call: What is timed.
        arguments: Its operands.
        calls: How many calls or samples, at least one.
        before: See `between`.
    """
    clock = framework.device_clock
    if clock is None:
        return median(time(framework, call, arguments, calls, before)[0])
    return median(Sampler(clock, call, arguments, alone=True, before=before).take(calls))


def arrays(
    framework: Framework,
    name: str,
    dtype: str,
    results: tuple[Any, ...],
    shapes: Iterable[tuple[int, ...]],
    types: Sequence[str | None] = (),
) -> tuple[Any, ...]:
    """Return results as numpy arrays, once they have the shapes and the types that are due.

    Args:
        framework: Whose they are.
        name: Name of the operator or network that yielded them.
        dtype: The trial's.
        results: Results, of the framework's own type.
        shapes: Shape of each.
        types: numpy's name of the type of each, None for the trial's; empty where all have that.

    Raises:
        ValueError: They have not; the message says what `name` returned.
    """
    word = "float32" if dtype == "tf32" else dtype
    returned = [(framework.dtype_of(result), tuple(map(int, result.shape))) for result in results]
    due = list(shapes)
    expected = [
        (kind or word, tuple(shape)) for shape, kind in zip(due, types or [None] * len(due))
    ]
    if returned != expected:
        raise ValueError(f"{name} returned {_list(returned)}, expected {_list(expected)}")
    return tuple(map(framework.to_numpy, results))


def repeatable(
    framework: Framework,
    call: Callable[..., Any],
    arguments: tuple[Any, ...],
    first: tuple[Any, ...],
) -> bool:
    """Return whether `AGAIN` more calls yield the bits of the first one's arrays."""
    later = (several(call(*arguments)) for _ in range(AGAIN))
    return all(errors.same_bits(first, map(framework.to_numpy, results)) for results in later)


def _list(tensors: list[tuple[str, tuple[int, ...]]]) -> str:
    return " and ".join(f"{dtype} {shape}" for dtype, shape in tensors)
