"""One rank on this node: the engine starts it itself."""

from __future__ import annotations

from collections.abc import Sequence

from capsule.runtimes.base import Ended, Invocation, Prepared, Running, Runtime


class Local:
    """Starts a single process, with nothing between it and the engine."""

    name = "local"

    def start(
        self, runtime: Runtime, prepared: Prepared, invocations: Sequence[Invocation]
    ) -> LocalRank:
        """Start the one rank."""
        (invocation,) = invocations
        return LocalRank(runtime.start(prepared, invocation))


class LocalRank:
    """The one rank, as a group of one."""

    def __init__(self, running: Running) -> None:
        self._running = running

    def wait(self, timeout_seconds: float) -> tuple[Ended, ...] | None:
        """Wait at most so long; None while it still runs."""
        ended = self._running.wait(timeout_seconds)
        return None if ended is None else (ended,)

    def tasks(self) -> int:
        """Those of the one rank."""
        return self._running.tasks()

    def stop(self) -> None:
        """End it and everything it started."""
        self._running.stop()
