"""Which trial a running process start is at, and whether its time is over."""

from __future__ import annotations

import time
from collections.abc import Sequence

from capsule.execute.workload import Begins
from capsule.plan import Group


class Progress:
    """Follows the first rank: all of them run the same trials in the same order."""

    def __init__(self, group: Group, begins: Begins) -> None:
        self._begins = begins
        self._limits = {trial.id: trial.benchmark.timeout_seconds for trial in group.trials}
        self._current: str | None = None
        self._since = time.monotonic()

    def new_trials(self) -> Sequence[str]:
        """The trials that began since the last call."""
        trials = self._begins.new()
        if trials:
            self._current, self._since = trials[-1], time.monotonic()
        return trials

    def overdue(self) -> bool:
        """Whether the current trial has used up its benchmark's time limit."""
        limit = self._limits[self._current] if self._current else None
        return limit is not None and time.monotonic() - self._since > limit
