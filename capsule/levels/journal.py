"""The record that survives a kill: JSON lines, appended in one write each."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from time import monotonic

FORMAT = "capsule-journal/1"

LINE_VALUES = 2**18
"""Most values in one line, so that a reader needs to hold no more than some MiB of it."""

_MESSAGE_CHARACTERS = 2000
_SYNC_SECONDS = 1.0


class JournalError(Exception):
    """The journal cannot be written, also because the disk is full; the message names it."""


@dataclass(frozen=True)
class Samples:
    """Values of one metric of a trial; those of several reports follow one another.

    Attributes:
        metric: Last segment of the metric path.
        values: In measured order; may hold NaN and infinities.
        warmup: How many of the first values are warm-up, fewer than all; 0 but in a metric's first
            report.
        steps: Where on a curve each value lies, increasing; None for values of repetitions.
        wall: Seconds from the trial's begin until each value was there.
        active: `wall` without the pauses.

    Raises:
        ValueError: There is no value, the warm-up leaves none or is below 0, or lengths differ.
    """

    metric: str
    values: tuple[float, ...]
    warmup: int = 0
    steps: tuple[float, ...] | None = None
    wall: tuple[float, ...] | None = None
    active: tuple[float, ...] | None = None

    def __post_init__(self) -> None:
        if not self.values:
            raise ValueError(f"{self.metric} was reported without a value")
        if not 0 <= self.warmup < len(self.values):
            raise ValueError(
                f"{self.metric} was reported with {len(self.values)} values and warmup"
                f" {self.warmup}, expected a warmup from 0 to {len(self.values) - 1}"
            )
        for name, column in self.columns().items():
            if len(column) != len(self.values):
                raise ValueError(
                    f"{self.metric} was reported with {len(self.values)} values and {len(column)}"
                    f" entries in {name}, expected {len(self.values)} entries, one for each value"
                )

    def columns(self) -> dict[str, tuple[float, ...]]:
        """Return further columns beside the values, by name."""
        columns = {"steps": self.steps, "wall": self.wall, "active": self.active}
        return {name: column for name, column in columns.items() if column is not None}


class Journal:
    """Appends events to a file.

    `hello`, `end` and `bye` return once they are on the disk. Samples are with the kernel at once,
    where a kill does not reach them, and on the disk a second later at most when more follow.

    Raises:
        JournalError: The file cannot be written.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        try:
            self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        except OSError as error:
            raise self._failure(error) from None
        self._synced = monotonic()

    def __enter__(self) -> Journal:
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._file)

    def hello(
        self,
        rank: int,
        ranks: int,
        software: Mapping[str, object],
        environment: Mapping[str, object],
    ) -> None:
        """Say which rank of how many is measuring, with what, and in which state."""
        self._append(
            {
                "event": "hello",
                "format": FORMAT,
                "rank": rank,
                "ranks": ranks,
                "software": software,
                "environment": environment,
            }
        )
        self._sync()

    def begin(self, trial: str) -> None:
        """Say that a trial starts."""
        self._append({"event": "begin", "trial": trial, "at": monotonic()})

    def resume(self, trial: str, epochs: int) -> None:
        """Say that a trial goes on where an earlier attempt at it was, after so many epochs."""
        self._append({"event": "resume", "trial": trial, "epochs": epochs})

    def samples(self, trial: str, samples: Samples) -> None:
        """Give values of one metric, in as many lines as they need."""
        for lines in _lines(samples):
            self._append({"event": "samples", "trial": trial, "metric": samples.metric, **lines})
        if monotonic() - self._synced >= _SYNC_SECONDS:
            self._sync()

    def end(
        self,
        trial: str,
        reason: str | None,
        message: str,
        seconds: float,
        facts: Mapping[str, object] = {},
    ) -> None:
        """Say how a trial ended.

        Args:
            trial: Its id.
            reason: Why it failed, None if it completed.
            message: Words of the failure, or a remark.
            seconds: Its duration.
            facts: Further fields: `timed` (spans of the monotonic clock in which it measured, in
                seconds), `leaves` (true if this process begins no other trial), `switches` and
                `off_tensor_cores`.
        """
        self._append(
            {
                **facts,
                "event": "end",
                "trial": trial,
                "outcome": "failed" if reason else "completed",
                "reason": reason,
                "message": message[:_MESSAGE_CHARACTERS],
                "seconds": seconds,
                "at": monotonic(),
            }
        )
        self._sync()

    def bye(self) -> None:
        """Say that every trial of the job has had its turn."""
        self._append({"event": "bye"})
        self._sync()

    def _append(self, event: Mapping[str, object]) -> None:
        # sorted and without spaces, as a reader knows it for strict without looking twice
        text = json.dumps(event, allow_nan=False, sort_keys=True, separators=(",", ":"))
        rest = text.encode() + b"\n"
        try:
            while rest:
                rest = rest[os.write(self._file, rest) :]
        except OSError as error:
            raise self._failure(error) from None

    def _sync(self) -> None:
        try:
            os.fsync(self._file)
        except OSError as error:
            raise self._failure(error) from None
        self._synced = monotonic()

    def _failure(self, error: OSError) -> JournalError:
        return JournalError(f"cannot write {self._path}: {error.strerror}")


def _lines(samples: Samples) -> Iterator[dict[str, object]]:
    """Yield the fields of each line: at most `LINE_VALUES` values, and what belongs to them.

    The first line has the whole warm-up and a value after it, however long that is.
    """
    columns = samples.columns()
    start, end = 0, max(LINE_VALUES, samples.warmup + 1)
    while start < len(samples.values):
        part = slice(start, end)
        yield {
            "warmup": 0 if start else samples.warmup,
            "values": [_number(value) for value in samples.values[part]],
            **{name: column[part] for name, column in columns.items()},
        }
        start, end = end, end + LINE_VALUES


def _number(value: float) -> float | str:
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    return value
