"""Which trial a process is at, from the lines that its journal gained."""

from __future__ import annotations

import json
import time

from capsule.execute import journal
from capsule.execute.workspace import Start
from capsule.plan import Group


class Progress:
    """Which trial a process is at, from the lines that its journal gained."""

    def __init__(self, group: Group, start: Start) -> None:
        self._path = start.journal
        self._limits = {trial.id: trial.benchmark.timeout_seconds for trial in group.trials}
        self._offset = 0
        self._current: str | None = None
        self._since = time.monotonic()
        self._first = group.trials[0].id if group.trials[0].benchmark.command else None

    def begun(self) -> list[str]:
        """The trials that began since the last call."""
        if self._first is not None:
            self._current, self._first = self._first, None
            return [self._current]
        found = [trial for trial in self._new_begins() if trial in self._limits]
        if found:
            self._current, self._since = found[-1], time.monotonic()
        return found

    def overdue(self) -> bool:
        """Whether the current trial has used up its benchmark's time limit."""
        limit = self._limits.get(self._current) if self._current else None
        return limit is not None and time.monotonic() - self._since > limit

    def _new_begins(self) -> list[str]:
        try:
            with self._path.open("rb") as stream:
                stream.seek(self._offset)
                data = stream.read(journal.MAX_LINE_BYTES)
        except OSError:
            return []
        whole = data[: data.rfind(b"\n") + 1]
        self._offset += len(whole)
        begins = []
        for line in whole.split(b"\n"):
            # samples lines may be long, and only a whole read of the journal judges them
            if b'"begin"' in line[:200]:
                try:
                    begins.append(str(json.loads(line).get("trial")))
                except (ValueError, AttributeError):
                    continue
        return begins
