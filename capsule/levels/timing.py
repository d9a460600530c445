"""Time single calls, with nothing but two clock readings between one call and the next."""

from __future__ import annotations

import gc
from time import perf_counter_ns
from typing import Any, Callable


def measure(
    call: Callable[..., Any],
    arguments: tuple[Any, ...],
    calls: int,
    synchronize: Callable[[], None] | None = None,
) -> tuple[list[int], Any]:
    """Run `call(*arguments)` `calls` times and time each on its own.

    The garbage collector rests meanwhile. A call's result is released before the next one starts,
    outside the timed span.

    Args:
        call: The native operation of a framework.
        arguments: Its operands, on the device that it runs on.
        calls: At least 1, warm-up included.
        synchronize: Waits until the device is idle; None where calls return when they are done.

    Returns:
        Every duration in nanoseconds, in order; what the last call returned.
    """
    collected = gc.isenabled()
    gc.collect()
    gc.disable()
    try:
        if synchronize is None:
            return _plain(call, arguments, calls)
        return _synchronized(call, arguments, calls, synchronize)
    finally:
        if collected:
            gc.enable()


def _plain(
    call: Callable[..., Any], arguments: tuple[Any, ...], calls: int
) -> tuple[list[int], Any]:
    clock = perf_counter_ns
    nanoseconds = [0] * calls
    result = None
    for index in range(calls):
        result = None
        start = clock()
        result = call(*arguments)
        nanoseconds[index] = clock() - start
    return nanoseconds, result


def _synchronized(
    call: Callable[..., Any],
    arguments: tuple[Any, ...],
    calls: int,
    synchronize: Callable[[], None],
) -> tuple[list[int], Any]:
    # a loop of its own: an empty call in the other one would cost each sample about 40 ns
    clock = perf_counter_ns
    nanoseconds = [0] * calls
    result = None
    synchronize()
    for index in range(calls):
        result = None
        start = clock()
        result = call(*arguments)
        synchronize()
        nanoseconds[index] = clock() - start
    return nanoseconds, result
