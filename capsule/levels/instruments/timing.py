"""Time single calls, with nothing but a clock reading between one call and the next."""

from __future__ import annotations

import gc
from operator import sub
from time import perf_counter_ns
from typing import Any, Callable


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
    collected = gc.isenabled()
    gc.disable()
    try:
        if synchronize is None:
            readings, result = _loop(call, arguments, calls)
        else:
            readings, result = _loop_synchronized(call, arguments, calls, synchronize)
    finally:
        if collected:
            gc.enable()
    return list(map(sub, readings[1:], readings)), result


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


def _loop_synchronized(
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
