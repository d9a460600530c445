"""The log of a run folder: every process start and attempt, parsed once, appended durably."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path

from capsule import leavings
from capsule.archive import strict
from capsule.archive.lines import attempt_from_json
from capsule.errors import ExecutionError, UsageError
from capsule.jsons import Json, JsonObject
from capsule.record import Attempt
from capsule.sizes import size

_SYNC_SECONDS = 1.0
# a hundred thousand trials, each tried again and again
_MOST_BYTES = 1 << 30


@dataclass(frozen=True, kw_only=True)
class Begun:
    """A process start as the log has it.

    Attributes:
        number: From 1.
        group: Id of its group.
        trials: Those of the group's that it was given.
        ranks: World size.
        nodes: Index of the node of each rank.
        at: When, ISO 8601 UTC.
    """

    number: int
    group: str
    trials: tuple[str, ...]
    ranks: int
    nodes: tuple[int, ...]
    at: str


@dataclass(frozen=True, kw_only=True)
class Left:
    """The traces of one process start that later ones could find.

    Attributes:
        inputs: How many of its inputs it changed, added or removed.
        first: Paths of the first of these.
        segments: Paths of what it left in /dev/shm.
    """

    inputs: int = 0
    first: tuple[str, ...] = ()
    segments: tuple[str, ...] = ()


class Log:
    """`attempts.jsonl`: one line per process start and per end.

    A line survives this process once a call returns. It survives the machine, too, about a second
    later: trials of a millisecond would else wait for the disk longer than they run.
    What it holds is kept in memory, so that a question costs no reading, however long the run.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._starts: list[Begun] = []
        self._ended: set[int] = set()
        self._attempts: list[tuple[int, Attempt]] = []
        self._last: dict[str, Attempt] = {}
        self._deaths: dict[str, tuple[int, int]] = {}
        self._left: dict[int, Left] = {}
        self._end_at: str | None = None
        self._whole_bytes = self._synced_bytes = 0
        self._synced_at = time.monotonic()
        if os.path.lexists(path):
            data = _read(path)
            # what follows the last newline is a line that a killed process did not finish
            self._whole_bytes = data.rfind(b"\n") + 1
            for line in data[: self._whole_bytes].splitlines():
                self._read_entry(line)

    @property
    def starts(self) -> Sequence[Begun]:
        """Return every process start, in order."""
        return self._starts

    @property
    def attempts(self) -> Sequence[tuple[int, Attempt]]:
        """Return every attempt in order, each with the number of its process start."""
        return self._attempts

    @property
    def left(self) -> Mapping[int, Left]:
        """Return the traces of process starts, by the number of the start."""
        return self._left

    @property
    def last(self) -> Mapping[str, Attempt]:
        """Return the latest attempt at each trial that has one."""
        return self._last

    @property
    def last_end(self) -> str | None:
        """Return when the last process start ended, ISO 8601 UTC, or None."""
        return self._end_at

    def deaths(self, trial: str, number: int) -> int:
        """Count the latest attempts at a trial in a row that this signal ended.

        None before those that left a later checkpoint counts: a training that every night's end
        cuts off gets there in the end.
        """
        last, times = self._deaths.get(trial, (number, 0))
        return times if last == number else 0

    def open_starts(self) -> list[Begun]:
        """Process starts whose end nobody noted."""
        return [start for start in self._starts if start.number not in self._ended]

    def is_settled(self, trial: str) -> bool:
        """Return whether a trial has its final outcome: interrupted ones are tried again."""
        last = self._last.get(trial)
        return last is not None and last.outcome != "interrupted"

    def begin(self, begun: Begun) -> None:
        """Note a process start before it takes place.

        Raises:
            ExecutionError: It cannot be written; so for `end`.
        """
        self._append({"start": asdict(begun)})
        self._starts.append(begun)

    def end(self, number: int, attempts: Sequence[Attempt], left: Left = Left()) -> None:
        """Note how a process start ended for each of its trials, in one write."""
        at = datetime.now(UTC).isoformat(timespec="milliseconds")
        entries = [asdict(attempt) for attempt in attempts]
        noted = {"left": asdict(left)} if left != Left() else {}
        self._append({"end": number, "at": at, "attempts": entries, **noted})
        self._keep_end(number, at, attempts, left)

    def sync(self) -> None:
        """Bring what was noted to the disk, unless that was done within the last second.

        To be called now and then while nothing is noted.

        Raises:
            ExecutionError: It cannot be written.
        """
        now = time.monotonic()
        if self._synced_bytes == self._whole_bytes or now - self._synced_at < _SYNC_SECONDS:
            return
        try:
            with self._path.open("rb") as stream:
                os.fsync(stream.fileno())
        except OSError as error:
            raise cannot_write(self._path, error) from None
        self._synced_bytes, self._synced_at = self._whole_bytes, now

    def _append(self, event: Mapping[str, Json]) -> None:
        line = json.dumps(event, allow_nan=False).encode() + b"\n"
        try:
            with self._path.open("r+b" if self._path.exists() else "w+b") as stream:
                # also what a failed write left behind
                stream.truncate(self._whole_bytes)
                stream.seek(0, os.SEEK_END)
                stream.write(line)
        except OSError as error:
            raise cannot_write(self._path, error) from None
        self._whole_bytes += len(line)
        self.sync()

    def _read_entry(self, line: bytes) -> None:
        event = strict.parse_line(line, where=str(self._path))
        try:
            if "start" in event:
                self._starts.append(_read_start(event["start"]))
            else:
                attempts = tuple(map(attempt_from_json, event["attempts"]))
                if not isinstance(event["end"], int) or not isinstance(event["at"], str):
                    raise TypeError(
                        f'the end of a process start has "end" {event["end"]!r:.40} and "at"'
                        f" {event['at']!r:.40}, expected an integer and a text"
                    )
                self._keep_end(event["end"], event["at"], attempts, _read_left(event))
        except (AttributeError, KeyError, TypeError) as error:
            raise UsageError(
                f"another version of capsule wrote this log: {error}",
                where=str(self._path),
                advice="finish the run with that version, or start a new run",
            ) from None

    def _keep_end(self, number: int, at: str, attempts: Sequence[Attempt], left: Left) -> None:
        self._ended.add(number)
        if left != Left():
            self._left[number] = left
        self._end_at = at
        for attempt in attempts:
            self._count_death(attempt)
            self._attempts.append((number, attempt))
            self._last[attempt.trial] = attempt

    def _count_death(self, attempt: Attempt) -> None:
        if attempt.reason == "killed" and attempt.signal is not None:
            before = self._last.get(attempt.trial)
            is_further = goes_further(before, attempt.resumed_after)
            times = 0 if is_further else self.deaths(attempt.trial, attempt.signal)
            self._deaths[attempt.trial] = attempt.signal, times + 1
        else:
            self._deaths.pop(attempt.trial, None)


def goes_further(before: Attempt | None, epochs: int | None) -> bool:
    """Return whether an attempt at a trial went on from a later checkpoint than the one before it.

    Args:
        before: The attempt before it, None at the first.
        epochs: After how many it went on, None where it began anew.
    """
    return (epochs or 0) > ((before.resumed_after or 0) if before else 0)


def _read_left(event: JsonObject) -> Left:
    match event.get("left"):
        case None:
            return Left()
        case {"inputs": int(inputs), "first": list(first), "segments": list(segments)}:
            return Left(
                inputs=inputs,
                first=tuple(name for name in first if isinstance(name, str)),
                segments=tuple(name for name in segments if isinstance(name, str)),
            )
    raise TypeError(
        f"`left` is {event['left']!r:.40}, expected an object with `inputs`, `first` and `segments`"
    )


def _read_start(start: JsonObject) -> Begun:
    match start:
        case {
            "number": int(number),
            "ranks": int(ranks),
            "group": str(group),
            "at": str(at),
            "trials": list(trials),
            "nodes": list(nodes),
        }:
            names = tuple(name for name in trials if isinstance(name, str))
            places = tuple(node for node in nodes if isinstance(node, int))
            if (len(names), len(places)) == (len(trials), len(nodes)):
                return Begun(
                    number=number, group=group, trials=names, ranks=ranks, nodes=places, at=at
                )
    raise TypeError(
        f"a process start is {start!r:.80}, expected an object with number, ranks, group, at,"
        " trials and nodes"
    )


def _read(path: Path) -> bytes:
    if (size_bytes := leavings.size_bytes(path)) > _MOST_BYTES:
        raise UsageError(
            f"the log of the run is too large: found {size(size_bytes)}, expected at most"
            f" {size(_MOST_BYTES)}",
            where=str(path),
            advice="restore the file, or start a new run",
        )
    stream = leavings.open_file(path)
    if stream is None:
        raise UsageError(
            "the log of the run is missing, or not a readable file",
            where=str(path),
            advice="restore the file, or start a new run",
        )
    with stream:
        return stream.read()


def cannot_write(path: Path, error: OSError) -> ExecutionError:
    """Return why a file of a run folder cannot be written, and what would help."""
    if isinstance(error, FileNotFoundError):
        missing = [folder for folder in (path, *path.parents) if not os.path.lexists(folder)]
        return ExecutionError(
            "cannot write: the folder was removed during the run",
            where=str(missing[-1] if missing else path),
            advice="check that neither the workload nor a cleaning job removes the folder, or name"
            " another folder with --work",
        )
    return ExecutionError(
        f"cannot write: {error.strerror}",
        where=str(path),
        advice="finished trials are kept; free some space if the disk is full, or name another"
        " folder with --work",
    )
