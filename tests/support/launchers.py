"""A launcher for tests that really starts every rank, as processes of this node."""

from __future__ import annotations

import time
from collections.abc import Sequence

from capsule.runtimes.base import Ended, Invocation, Prepared, Running, Runtime

_POLL_SECONDS = 0.005


class NodeLauncher:
    """Starts all ranks by the engine itself; one that fails takes the others with it."""

    name = "node"

    def start(
        self, runtime: Runtime, prepared: Prepared, invocations: Sequence[Invocation]
    ) -> Ranks:
        """Start one process for each invocation."""
        return Ranks([runtime.start(prepared, invocation) for invocation in invocations])


class Ranks:
    """Processes that run side by side."""

    def __init__(self, running: Sequence[Running]) -> None:
        self._running = running
        self._ended: list[Ended | None] = [None] * len(running)

    def wait(self, timeout_seconds: float) -> tuple[Ended, ...] | None:
        """Wait at most so long; None while one still runs."""
        deadline = time.monotonic() + timeout_seconds
        while True:
            for rank, running in enumerate(self._running):
                self._ended[rank] = self._ended[rank] or running.wait(0)
            if any(ended is not None and _failed(ended) for ended in self._ended):
                self._end_the_others()
            if None not in self._ended:
                return tuple(ended for ended in self._ended if ended is not None)
            if time.monotonic() > deadline:
                return None
            time.sleep(_POLL_SECONDS)

    def tasks(self) -> int:
        """Those of all ranks."""
        return sum(running.tasks() for running in self._running)

    def stop(self) -> None:
        """End every rank."""
        for running in self._running:
            running.stop()

    def _end_the_others(self) -> None:
        for rank, running in enumerate(self._running):
            if self._ended[rank] is None:
                running.stop()
                self._ended[rank] = running.wait(0) or Ended(exit_code=None, signal=15)


def _failed(ended: Ended) -> bool:
    return ended.exit_code != 0 or ended.engine_fault is not None
