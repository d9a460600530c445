"""Spans of time that a trial measures, from which the host counts energy."""

from __future__ import annotations

from functools import wraps
from time import monotonic
from typing import Any, Callable, TypeVar

MOST_SPANS = 1000
"""Largest number of spans of a trial; of a trial with more spans, none is reported."""

_Function = TypeVar("_Function", bound=Callable[..., Any])


class Spans:
    """The spans of one trial after another, by the monotonic clock of the node, in seconds."""

    def __init__(self) -> None:
        self._spans: list[tuple[float, float]] = []
        self._depth = 0

    def measured(self, function: _Function) -> _Function:
        """Return the function with a span recorded for each outermost call."""

        @wraps(function)
        def call(*operands: Any, **options: Any) -> Any:
            begin = monotonic()
            self._depth += 1
            try:
                return function(*operands, **options)
            finally:
                self._depth -= 1
                if not self._depth:
                    self._spans.append((begin, monotonic()))

        return call  # type: ignore[return-value]

    def take(self) -> list[tuple[float, float]]:
        """Return the spans since the last `take`, in order; none if there are too many."""
        spans, self._spans = self._spans, []
        return spans if len(spans) <= MOST_SPANS else []


SPANS = Spans()
"""The spans of this process, which runs one trial at a time."""
