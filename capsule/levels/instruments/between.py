"""Preparation before timed calls, outside of any duration: other operand values, emptied caches.

Caches of a device are emptied by its clock, which has a place in the device's queue.

Caches of a CPU are emptied by reading other memory: twice the size of each cache that the
processors of this process have. Each processor reads its share, because caches of the first and
second level are private.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from pathlib import Path
from threading import Thread
from typing import Any, Optional

from ..frameworks import Framework

Before = Optional[Callable[[int], None]]
"""Called with the number of the call that follows, from 0; None where nothing is done."""

FRESH = 2**32
"""Added to a trial's seed for other values: no trial has such a seed."""

OWN = -1
"""Number of the call that gets the trial's own values: `FRESH` times one more is 0."""

_CPUS = Path("/sys/devices/system/cpu")
_UNITS = {"K": 2**10, "M": 2**20, "G": 2**30}


def prepare(
    conditions: Iterable[str],
    calls: int,
    refill: Callable[[int], object],
    framework: Framework,
) -> Before:
    """Return the preparation before each of some calls.

    The first and the last call have the trial's own values, so that what they yield can be held.

    Args:
        conditions: Words of `catalog.CONDITIONS`.
        calls: Number of calls.
        refill: Puts other values into the operands; gets what to add to the trial's seed.
        framework: Where the calls run.

    Raises:
        ValueError: The sizes of the machine's caches are not known.
    """
    steps: list[Callable[[int], None]] = []
    if "fresh" in conditions:

        def renew(index: int) -> None:
            if index:
                refill(0 if index == calls - 1 else FRESH * (index + 1))

        steps.append(renew)
    if "cold" in conditions:
        clock = framework.device_clock
        empty = empty_caches() if clock is None else clock.flush
        steps.append(lambda index: empty())  # noqa: ARG005
    if not steps:
        return None

    def run(index: int) -> None:
        for step in steps:
            step(index)

    return run


def reserve(conditions: Iterable[str], framework: Framework) -> int:
    """Return the bytes of a device that emptying its caches has yet to take."""
    clock = framework.device_clock
    return 0 if clock is None or "cold" not in conditions else clock.reserve()


def empty_caches() -> Callable[[], None]:
    """Return a function that removes the data of earlier calls from this machine's caches.

    Raises:
        ValueError: The sizes of the machine's caches are not known.
    """
    import numpy

    shares = {cpu: numpy.ones(2 * size, "uint8") for cpu, size in cache_shares().items()}

    def read() -> None:
        readers = [Thread(target=_read, args=item) for item in shares.items()]
        for reader in readers:
            reader.start()
        for reader in readers:
            reader.join()

    return read


def cache_shares() -> dict[int, int]:
    """Return each processor's cache bytes, or its share, for this process's processors.

    Raises:
        ValueError: The system does not say.
    """
    cpus = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else []
    shares = {}
    for cpu in cpus:
        sizes = []
        for cache in (_CPUS / f"cpu{cpu}" / "cache").glob("index*"):
            kind, size, shared = (
                (cache / name).read_text(encoding="ascii").strip()
                for name in ("type", "size", "shared_cpu_list")
            )
            if kind != "Instruction":
                by = len(_numbers(shared).intersection(cpus)) or 1
                sizes.append(int(size[:-1]) * _UNITS[size[-1]] // by)
        shares[cpu] = sum(sizes)
    if not shares or not all(shares.values()):
        raise ValueError(
            f"cannot read the sizes of this machine's caches in {_CPUS}: remove `cold`"
        )
    return shares


def _read(cpu: int, memory: Any) -> None:
    os.sched_setaffinity(0, {cpu})  # of this thread alone
    memory.max()


def _numbers(text: str) -> set[int]:
    """Parse a list of numbers, for example 0-3,8."""
    ranges = (part.partition("-") for part in text.split(","))
    return {number for low, _, high in ranges for number in range(int(low), int(high or low) + 1)}
