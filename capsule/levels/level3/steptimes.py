"""Times of steps that ranks take together, and of the exchanges in them."""

from __future__ import annotations

from collections import deque

from ..communicators import Clock, Span, Traffic
from ..frameworks.base import Mark


class StepTimes:
    """Seconds of steps, read from a clock as soon as it has them: nothing waits for a device.

    Attributes:
        whole: Of each step, in their order, of those that are read.
        exchanging: Of each, while an exchange was under way.
        waiting: Of each, while the rank did nothing else.
    """

    def __init__(self, clock: Clock) -> None:
        """Begin with no step taken."""
        self.whole: list[float] = []
        self.exchanging: list[float] = []
        self.waiting: list[float] = []
        self._clock = clock
        self._unread: deque[tuple[Mark, Mark, list[Span], list[Span]]] = deque()

    def note(self, begin: Mark, end: Mark, traffic: Traffic) -> None:
        """Take a step with its exchanges; no more marks are kept than a device has steps to do."""
        self._unread.append((begin, end, traffic.exchanges, traffic.waits))
        traffic.exchanges, traffic.waits = [], []
        while self._unread and self._clock.has_passed(self._unread[0][1]):
            self._read(*self._unread.popleft())

    def read_rest(self) -> None:
        """Wait for the steps that the device has yet to do."""
        while self._unread:
            self._read(*self._unread.popleft())

    def _read(self, begin: Mark, end: Mark, exchanges: list[Span], waits: list[Span]) -> None:
        self.whole.append(self._clock.seconds(begin, end))
        self.waiting.append(sum((self._clock.seconds(*one) for one in waits), 0.0))
        self.exchanging.append(self._measure_union(begin, exchanges))

    def _measure_union(self, begin: Mark, spans: list[Span]) -> float:
        """Return the seconds in which at least one span was under way.

        Args:
            begin: A mark before all of them.
            spans: In the order in which they end.
        """
        total = until = 0.0
        for span in spans:
            began, ended = (self._clock.seconds(begin, one) for one in span)
            total += max(0.0, ended - max(began, until))
            until = max(until, ended)
        return total
