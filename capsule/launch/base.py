"""The small interface that every launcher fulfils: start all ranks, wait for all, end all."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from capsule.runtimes.base import Ended, Invocation, Prepared, Runtime


class Launched(Protocol):
    """Ranks that were started together."""

    def wait(self, timeout_seconds: float) -> tuple[Ended, ...] | None:
        """Wait at most so long; None while a rank still runs, else how each ended, by rank."""

    def tasks(self) -> int:
        """How many processes and threads all ranks have now."""

    def stop(self) -> None:
        """End every rank and all that they started; returns when nothing is left."""


class Launcher(Protocol):
    """What starts ranks.

    A rank that fails takes the others with it: they would wait for it in vain.
    """

    name: str

    def start(
        self, runtime: Runtime, prepared: Prepared, invocations: Sequence[Invocation]
    ) -> Launched:
        """Start one process for each invocation, by rank, and return at once."""
