"""The record that survives a kill: JSON lines, appended in one write each."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

FORMAT = "capsule-journal/1"
_MESSAGE_CHARACTERS = 2000


class Journal:
    """Appends events to a file; `hello`, `end` and `bye` return once they are on the disk.

    Raises:
        OSError: The file cannot be written, also because the disk is full.
    """

    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)

    def __enter__(self) -> Journal:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        os.close(self._file)

    def hello(self, software: dict[str, Any], environment: dict[str, Any]) -> None:
        """Say what is measuring, and in which state."""
        self._append(
            {
                "event": "hello",
                "format": FORMAT,
                "software": software,
                "environment": environment,
            }
        )
        os.fsync(self._file)

    def begin(self, trial: str) -> None:
        """Say that a trial starts."""
        self._append({"event": "begin", "trial": trial})

    def samples(self, trial: str, metric: str, warmup: int, values: Sequence[float]) -> None:
        """Give every value of one metric, of which the first `warmup` are warm-up."""
        self._append(
            {
                "event": "samples",
                "trial": trial,
                "metric": metric,
                "warmup": warmup,
                "values": [_number(value) for value in values],
            }
        )

    def end(self, trial: str, reason: str | None, message: str, seconds: float) -> None:
        """Say how a trial ended; it has completed when there is no reason why it failed."""
        self._append(
            {
                "event": "end",
                "trial": trial,
                "outcome": "failed" if reason else "completed",
                "reason": reason,
                "message": message[:_MESSAGE_CHARACTERS],
                "seconds": seconds,
            }
        )
        os.fsync(self._file)

    def bye(self) -> None:
        """Say that every trial of the job has had its turn."""
        self._append({"event": "bye"})
        os.fsync(self._file)

    def _append(self, event: dict[str, Any]) -> None:
        rest = json.dumps(event, allow_nan=False).encode() + b"\n"
        while rest:
            rest = rest[os.write(self._file, rest) :]


def _number(value: float) -> float | str:
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    return value
