"""Time calls by the clock of a device: marks in its queue, with one call or many between two.

The value of a sample is the time of one call, the total over the number of calls, as DeepBench
reports it. A sample has as many calls as last `SAMPLE_SECONDS` together, for a mark and the steps
of the clock take a microsecond or two. It has fewer where the host does not queue as many within
`_LONGEST_HOLD`, and one where something goes before each call.

A device may wait for the launches of short calls. So calls are queued in one of two ways:

    alone       the device is held until all calls of a sample are in its queue: no launch is part
                of the time, which is the device's work
    in a row    calls follow each other without a wait, as in a program: where the device waits for
                launches, the waits are part of the time

A device adapts its clock rates to its load. So calls go before the samples, in windows of
`WINDOW_NS`: for `LEAST_WARMUP_NS`, and on until the medians of two windows in turn differ by no
more than `AGREEMENT`, or for `MOST_WARMUP_NS`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain, count, islice
from math import ceil
from statistics import median
from time import perf_counter_ns
from typing import Any, Callable

from ..frameworks.base import DeviceClock, Mark
from .between import OWN, Before
from .spans import SPANS
from .timing import rest_collector

SAMPLE_SECONDS = 500e-6
WINDOW_NS = 20_000_000
LEAST_WARMUP_NS = 100_000_000
MOST_WARMUP_NS = 1_000_000_000
AGREEMENT = 0.01

_MOST_CALLS, _GROWTH = 1000, 10.0
_EMPTY_RANGES = 100
_SHORTEST_HOLD, _LONGEST_HOLD = 100e-6, 5e-3
# how often the device comes to the first call of a sample too early before there are fewer calls
_STRIKES = 3


class Sampler:
    """Samples of one call.

    Attributes:
        last: Result of the last call.
    """

    def __init__(
        self,
        clock: DeviceClock,
        call: Callable[..., Any],
        arguments: tuple[Any, ...],
        *,
        alone: bool,
        single: bool = False,
        before: Before = None,
        first: int = 0,
    ) -> None:
        """Take no sample yet.

        Args:
            clock: The device's.
            call: The native operation of a framework.
            arguments: Its operands, on the device.
            alone: True if no launch is to be part of the time. A call that waits for the device
                itself cannot be queued ahead, and goes in a row.
            single: True if a sample has one call.
            before: See `between`; part of no sample.
            first: Number of the first call for `before`; the next ones follow, and the last one of
                all has `OWN`.
        """
        self.last: Any = None
        self._clock, self._call, self._arguments = clock, call, arguments
        self._before, self._numbers = before, count(first)
        self._alone, self._hold = alone, _SHORTEST_HOLD
        self._calls = 1
        self._fits = single or before is not None

    @SPANS.measured
    def settle(self, calls: int) -> list[float]:
        """Warm the device up; return the median seconds of a call in each window.

        Args:
            calls: The fewest.
        """
        medians: list[float] = []
        done = 0
        with rest_collector():
            self._fit()
            samples, begin = self._go_on(self._numbers), perf_counter_ns()
            while True:
                window = _fill_window(samples)
                medians.append(median(window))
                done += len(window) * self._calls
                passed = perf_counter_ns() - begin
                if done < calls or passed < LEAST_WARMUP_NS:
                    continue
                if passed >= MOST_WARMUP_NS or _agree(medians[-2:]):
                    self.last = None
                    return medians

    @SPANS.measured
    def take(self, samples: int) -> list[float]:
        """Return seconds of a call, of each sample.

        Args:
            samples: How many, at least 1.
        """
        with rest_collector():
            self._fit()
            return list(self._go_on(chain(islice(self._numbers, samples - 1), (OWN,))))

    def _fit(self) -> None:
        """Find how many calls last as long as a sample."""
        while not self._fits:
            (seconds,) = self._go_on((OWN,))
            whole = seconds * self._calls
            self._fits |= 2 * whole >= SAMPLE_SECONDS or self._calls == _MOST_CALLS
            if not self._fits:
                growth = min(_GROWTH, SAMPLE_SECONDS / whole) if whole else _GROWTH
                self._calls = min(_MOST_CALLS, ceil(self._calls * growth))

    def _go_on(self, numbers: Iterable[int]) -> Iterator[float]:
        """Yield seconds of a call, of a sample for each number.

        A sample is read when the next one is in the queue, which so never runs empty.
        """
        unread: tuple[Mark, Mark, int] | None = None
        for number in numbers:
            sample = self._sample(number)
            if unread is not None:
                yield self._read(*unread)
            unread = sample
        if unread is not None:
            yield self._read(*unread)

    def _read(self, begin: Mark, end: Mark, calls: int) -> float:
        return self._clock.seconds(begin, end) / calls

    def _sample(self, number: int) -> tuple[Mark, Mark, int]:
        """Queue a sample; return its two marks and the number of calls between them."""
        strikes = 0
        while self._alone:
            sample = self._put(number, self._hold)
            if not self._clock.has_passed(sample[0]):
                return sample
            strikes += self._hold == _LONGEST_HOLD
            self._hold = min(2 * self._hold, _LONGEST_HOLD)
            if strikes == _STRIKES:
                strikes = 0
                self._alone, self._fits = self._calls > 1, True
                self._calls = max(1, self._calls // 2)
        return self._put(number, 0.0)

    def _put(self, number: int, hold: float) -> tuple[Mark, Mark, int]:
        if self._before is not None:
            self._before(number)
        if hold:
            self._clock.hold(hold)
        begin = self._clock.mark()
        for _ in range(self._calls):
            self.last = None  # never two results at once
            self.last = self._call(*self._arguments)
        return begin, self._clock.mark(), self._calls


def empty_range_ns(clock: DeviceClock) -> int:
    """Return the median time between two marks with nothing between them, in nanoseconds."""
    sampler = Sampler(clock, lambda: None, (), alone=True, single=True)
    return round(median(sampler.take(_EMPTY_RANGES)) * 1e9)


def _fill_window(samples: Iterator[float]) -> list[float]:
    """Return what comes within a window, at least one."""
    end = perf_counter_ns() + WINDOW_NS
    window = [next(samples)]
    while perf_counter_ns() < end:
        window.append(next(samples))
    return window


def _agree(medians: list[float]) -> bool:
    """Return whether these are two that hardly differ."""
    return len(medians) > 1 and max(medians) - min(medians) <= AGREEMENT * max(medians)
