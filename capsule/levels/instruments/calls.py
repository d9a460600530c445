"""Metrics of a trial's timed calls, for operators and networks alike."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from time import perf_counter
from typing import Any, Callable

from ..frameworks import Framework
from ..frameworks.base import Call
from ..operators import several
from ..report import Report
from . import errors, timing
from .between import Before
from .memory import Watch
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
        seconds: Seconds of each call.
        first: As `keep` made it.
        last: As the framework returned it.
        peak: Bytes of memory that the first call took at most; those that follow may find what it
            left, or pile up what is not given back.
    """

    seconds: tuple[float, ...]
    first: Any
    last: tuple[Any, ...]
    peak: int


def time_and_keep(
    framework: Framework,
    call: Callable[..., Any],
    arguments: tuple[Any, ...],
    calls: int,
    keep: Callable[[tuple[Any, ...]], Any],
    watch: Watch,
    before: Before = None,
) -> Timed:
    """`time` that keeps the first result too, which may be another one than those that follow.

    Args:
        framework: Where.
        call: What is timed.
        arguments: Its operands.
        calls: At least 1.
        keep: Makes a copy of the first result, in the host's memory; outside of every duration.
        watch: Sees the peak of memory.
        before: See `between`.
    """
    if before is not None:
        before(0)
    watch.reset_peak()
    seconds, last = time(framework, call, arguments, 1)
    peak = watch.peak()
    first = keep(last)
    if calls > 1:
        del last
        others, last = time(framework, call, arguments, calls - 1, before, 1)
        seconds += others
    return Timed(seconds, first, last, peak)


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
