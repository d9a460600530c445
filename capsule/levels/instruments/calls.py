"""What a trial makes of the calls that it times, the same for operators and for networks."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Callable

from ..frameworks import Framework
from ..operators import several
from . import errors, timing

AGAIN = 5
"""Calls after the timed ones whose results must be the same bits."""


@dataclass(frozen=True)
class Series:
    """Every value of one metric, of which the first `warmup` are warm-up."""

    metric: str
    warmup: int
    values: tuple[float, ...]


def timed(
    framework: Framework, call: Callable[..., Any], arguments: tuple[Any, ...], calls: int
) -> tuple[tuple[float, ...], tuple[Any, ...]]:
    """Seconds of each call, and what the last one returned."""
    nanoseconds, result = timing.measure(call, arguments, calls, framework.synchronize)
    return tuple(each / 1e9 for each in nanoseconds), several(result)


def arrays(
    framework: Framework,
    name: str,
    dtype: str,
    results: tuple[Any, ...],
    shapes: Iterable[tuple[int, ...]],
) -> tuple[Any, ...]:
    """Results as numpy arrays, once they have the shapes and the dtype that are due.

    Raises:
        ValueError: They have not; the message says what `name` returned.
    """
    due = "float32" if dtype == "tf32" else dtype
    found = [(framework.dtype_of(each), tuple(map(int, each.shape))) for each in results]
    wanted = [(due, tuple(shape)) for shape in shapes]
    if found != wanted:
        raise ValueError(f"{name} returned {_told(found)}, expected {_told(wanted)}")
    return tuple(map(framework.to_numpy, results))


def repeatable(
    framework: Framework,
    call: Callable[..., Any],
    arguments: tuple[Any, ...],
    first: tuple[Any, ...],
) -> bool:
    """Whether `AGAIN` more calls yield the bits of the first one's arrays."""
    again = (several(call(*arguments)) for _ in range(AGAIN))
    return all(errors.same_bits(first, map(framework.to_numpy, each)) for each in again)


def _told(found: list[tuple[str, tuple[int, ...]]]) -> str:
    return " and ".join(f"{dtype} {shape}" for dtype, shape in found)
