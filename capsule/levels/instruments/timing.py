"""Time single calls, with nothing but a clock reading between one call and the next.

Each duration so holds one reading of the clock and the loop around it: some 80 ns where the kernel
lets a process read the clock by itself, twice that and more where it does not. `empty_call_ns` is
how much it is in this process; no duration is corrected by it.
"""

from __future__ import annotations

import gc
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from operator import sub
from statistics import median
from time import perf_counter_ns
from typing import Any, Callable

_EMPTY_CALLS = 1000


def measure(
    call: Callable[..., Any],
    arguments: tuple[Any, ...],
    calls: int,
    synchronize: Callable[[], None] | None = None,
) -> tuple[list[int], Any]:
    """Run `call(*arguments)` `calls` times and time each on its own.

    The clock is read once after each call, so the durations add up to the time of the whole loop.
    As in any loop of calls, the last call's result is released before the next one is there, and
    each duration but the first holds one release. The garbage collector rests meanwhile.

    Args:
        call: The native operation of a framework.
        arguments: Its operands, on the device that it runs on.
        calls: At least 1, warm-up included.
        synchronize: Waits until the device is idle; None where calls return when they are done.

    Returns:
        Every duration in nanoseconds, in order; what the last call returned.
    """
    with rest_collector():
        if synchronize is None:
            readings, result = _loop(call, arguments, calls)
        else:
            readings, result = _loop_with_waits(call, arguments, calls, synchronize)
    return list(map(sub, readings[1:], readings)), result


@contextmanager
def rest_collector() -> Iterator[None]:
    """Pause the garbage collector."""
    collected = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collected:
            gc.enable()


def measure_apart(
    call: Callable[..., Any],
    arguments: tuple[Any, ...],
    indices: Iterable[int],
    before: Callable[[int], None],
    synchronize: Callable[[], None] | None = None,
) -> tuple[list[int], Any]:
    """`measure`, with something before each call that is in no duration, nor is a release.

    Args:
        call: See `measure`.
        arguments: Likewise.
        indices: A number for each call, at least one.
        before: Gets it.
        synchronize: See `measure`.
    """
    clock, wait = perf_counter_ns, synchronize or _do_nothing
    durations: list[int] = []
    result = None
    with rest_collector():
        for index in indices:
            result = None
            before(index)
            wait()
            begin = clock()
            result = call(*arguments)
            wait()
            durations.append(clock() - begin)
    return durations, result


def empty_call_ns(synchronize: Callable[[], None] | None = None) -> int:
    """Return the median time that `measure` records for an empty call, in nanoseconds.

    Args:
        synchronize: As for `measure`; waiting for a device that is idle is part of the result.
    """
    durations, _ = measure(_do_nothing, (), _EMPTY_CALLS, synchronize)
    return round(median(durations))


def _do_nothing() -> None:
    pass


def _loop(
    call: Callable[..., Any], arguments: tuple[Any, ...], calls: int
) -> tuple[list[int], Any]:
    clock = perf_counter_ns
    readings = [0] * (calls + 1)
    result = None
    readings[0] = clock()
    for index in range(1, calls + 1):
        result = None  # never two results at once
        result = call(*arguments)
        readings[index] = clock()
    return readings, result


def _loop_with_waits(
    call: Callable[..., Any],
    arguments: tuple[Any, ...],
    calls: int,
    synchronize: Callable[[], None],
) -> tuple[list[int], Any]:
    # a loop of its own: an empty call in the other one would cost each sample about 40 ns
    clock = perf_counter_ns
    readings = [0] * (calls + 1)
    result = None
    synchronize()
    readings[0] = clock()
    for index in range(1, calls + 1):
        result = None
        result = call(*arguments)
        synchronize()
        readings[index] = clock()
    return readings, result
