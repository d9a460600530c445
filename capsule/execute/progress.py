"""Progress of a running process start: its trial, its output and its time limit."""

from __future__ import annotations

import time
from typing import Protocol

from capsule.execute.talk import Talk
from capsule.execute.workload import Begins
from capsule.execute.workspace import RankFiles
from capsule.plan import Group


class Listener(Protocol):
    """Receiver of the progress of a process start."""

    hears_output: bool

    def trial(self, trial: str) -> None:
        """Report that a trial begins."""

    def output(self, line: str) -> None:
        """Report a printed line."""


class Progress:
    """Follows the first rank: all of them run the same trials in the same order.

    Args:
        group: Its trials have limits of their time.
        begins: Tells which trial begins.
        files: Where the rank prints to.
        is_told: True if whoever is told has been told of the trials, when something ran before.
    """

    def __init__(
        self, group: Group, begins: Begins, files: RankFiles, *, is_told: bool = False
    ) -> None:
        self._begins = begins
        self._is_told = is_told
        self._talk = Talk(files)
        self._limits = {trial.id: trial.benchmark.timeout_seconds for trial in group.trials}
        self._current: str | None = None
        self._since = time.monotonic()

    def tell(self, listener: Listener, *, ended: bool) -> None:
        """Tell which trials began since the last call, and what was printed.

        Args:
            listener: Is told; what nobody hears is not read.
            ended: The process has.
        """
        for trial in self._begins.new():
            self._current, self._since = trial, time.monotonic()
            if not self._is_told:
                listener.trial(trial)
        if listener.hears_output:
            for line in self._talk.new_lines(ended=ended):
                listener.output(line)

    def overdue(self) -> bool:
        """Return whether the current trial has used up its benchmark's time limit."""
        limit = self._limits[self._current] if self._current else None
        return limit is not None and time.monotonic() - self._since > limit
