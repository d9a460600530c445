"""Traces of a process start that a later one could find: inputs, /dev/shm, its own HOME."""

from __future__ import annotations

import json
import os
import re
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from capsule import leavings, places, plain, process, segments, site
from capsule.execute import payload
from capsule.execute.limits import disk_bytes
from capsule.execute.log import Left
from capsule.execute.reports import MAX_MESSAGE, writable
from capsule.execute.workload import Setting, place_below
from capsule.execute.workspace import Start, Workspace
from capsule.manifest import Command, commands
from capsule.plan import Group
from capsule.record import Attempt
from capsule.runtimes.base import KeepsScratch
from capsule.segments import Segment

_SHOWN = 8
_LEDGER = "segments.jsonl"
_MOST_BYTES = 1 << 20
# looking at all processes may take a twentieth of one processor's time
_SHARE = 20
_EXISTS = re.compile(r"File exists|FileExistsError|EEXIST|already exists", re.IGNORECASE)


@dataclass(frozen=True, kw_only=True)
class Earlier:
    """A segment that an earlier trial left, as the ledger of this user has it.

    Attributes:
        path: In /dev/shm.
        device, inode: Which tell it from another one of its name.
        trial: Who left it.
        at: When that trial ended, ISO 8601 UTC.
    """

    path: str
    device: int
    inode: int
    trial: str
    at: str

    @property
    def segment(self) -> Segment:
        """The same, as it lies there."""
        return Segment(os.fsencode(self.path), self.device, self.inode)


class Traces:
    """Follows one process start. Made before it, when nothing else of its run is running.

    The inputs that it may write in are as they were sealed from then on.

    Args:
        workspace: The run folder.
        group: Group of the start.
        setting: How it is started.

    Raises:
        DamagedError, ExecutionError: The inputs cannot be restored.
    """

    def __init__(self, workspace: Workspace, group: Group, setting: Setting) -> None:
        payload.restore_inputs(workspace, setting.writable)
        self._workspace = workspace
        self._group = group
        self._setting = setting
        self._copied = [
            place_below("inputs", subject.cwd).removeprefix("inputs/")
            for subject in [trial.benchmark.subject for trial in group.trials]
            if isinstance(subject, Command) and subject.copies_cwd and subject.cwd
        ]
        # each container has a /dev/shm of its own
        self._is_shared = not setting.runtime.contained
        self._before = segments.list_own() if self._is_shared else frozenset()
        self._used: frozenset[Segment] = frozenset()
        self._next = 0.0
        self.spared_bytes = self._count_spared() if setting.limits.disk is not None else 0

    def folders(self, start: Start) -> Iterator[Path]:
        """Everything that the start can leave on the disk of this machine."""
        yield start.folder
        if self._setting.writable:
            yield self._workspace.work
        if isinstance(self._setting.runtime, KeepsScratch):
            yield from self._setting.runtime.scratch(self._setting.label)

    def look(self) -> None:
        """See which new segments its processes use, now and then while it runs."""
        now = time.monotonic()
        if not self._is_shared or now < self._next:
            return
        if segments.list_own() - self._before - self._used:
            pids = process.find_marked(self._setting.label)
            self._used |= segments.find(pids) - self._before
        self._next = now + _SHARE * (time.monotonic() - now)

    def end(self) -> Left:
        """Remove its segments, and restore the inputs.

        Returns:
            What it had changed among them, and what stays in /dev/shm.
        """
        changed = [
            name
            for name in payload.restore_inputs(self._workspace, self._setting.writable)
            if not commands.is_below(name, self._copied)
        ]
        return Left(
            inputs=len(changed),
            first=tuple(map(plain.clean, changed[:_SHOWN])),
            segments=tuple(self._end_segments()),
        )

    def clear(self) -> None:
        """Remove its HOME and temporary folders on this machine, however far it got."""
        if isinstance(self._setting.runtime, KeepsScratch):
            self._setting.runtime.clear_scratch(self._setting.label)

    def explain(self, attempts: Sequence[Attempt]) -> tuple[Attempt, ...]:
        """The same attempts; one that failed on a segment says whose that is."""
        if not self._is_shared or all(one.outcome == "completed" for one in attempts):
            return tuple(attempts)
        ledger = {one.segment: one for one in read_ledger()}
        before = [one for one in self._before if segments.is_there(one)]
        return tuple(_explain(attempt, before, ledger) for attempt in attempts)

    def _end_segments(self) -> Iterator[str]:
        if not self._is_shared:
            return
        new = segments.list_own() - self._before
        if not new:
            return
        segments.remove(self._used & new)
        new = frozenset(filter(segments.is_there, new))
        # what a process uses now is no trial's, all of whose have ended
        left = sorted(new - segments.find_mapped(new), key=lambda one: one.path)
        _add_to_ledger(left, self._group.trials[0].id)
        yield from (os.fsdecode(one.path) for one in left)

    def _count_spared(self) -> int:
        """Return the size of the inputs in bytes, without those that the start has copied."""
        work = self._workspace.work
        if not self._setting.writable:
            return 0
        copies = [work / place_below("inputs", name) for name in self._copied]
        counted = sum(disk_bytes(one, sys.maxsize) for one in copies)
        return disk_bytes(work, sys.maxsize) - counted


def describe(paths: Sequence[str], trial: str) -> str:
    """Return the sentence on segments that a trial left, with the command that removes them."""
    return (
        f"{', '.join(map(plain.clean, paths))} appeared while {trial} ran, and no process uses this"
        " shared memory now. The next trial may find the shared memory; to remove it:"
        f" {segments.removal(paths)}"
    )


def read_ledger() -> list[Earlier]:
    """The segments that trials of this user left and that are still there."""
    stream = leavings.open_file(_ledger())
    if stream is None or places.weak_spot(_ledger()) is not None:
        return []
    with stream:
        lines = stream.read(_MOST_BYTES).splitlines()
    entries = []
    for line in lines:
        with suppress(ValueError, TypeError, RecursionError, OverflowError):
            entry = Earlier(**json.loads(line))
            if segments.is_there(entry.segment):
                entries.append(entry)
    return entries


def _add_to_ledger(left: Sequence[Segment], trial: str) -> None:
    """Remember whose they are; where that cannot be written, nobody is told later."""
    if not left:
        return
    at = datetime.now(UTC).isoformat(timespec="seconds")
    entries = [
        *read_ledger(),
        *(
            Earlier(
                path=os.fsdecode(one.path), device=one.device, inode=one.inode, trial=trial, at=at
            )
            for one in left
        ),
    ]
    path = _ledger()
    with suppress(OSError):
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        partial = path.with_name(f".{path.name}.{os.getpid()}")
        partial.write_text("".join(f"{json.dumps(asdict(one))}\n" for one in entries))
        partial.replace(path)


def _ledger() -> Path:
    return site.state_folder() / _LEDGER


def _explain(
    attempt: Attempt, before: Sequence[Segment], ledger: dict[Segment, Earlier]
) -> Attempt:
    if attempt.outcome == "completed":
        return attempt
    named = [one for one in before if _names(attempt.message, one)]
    if not named and _EXISTS.search(attempt.message):
        named = [one for one in before if one in ledger]
    if not named:
        return attempt
    sentences = []
    for one in sorted(named, key=lambda one: one.path)[:_SHOWN]:
        path, known = os.fsdecode(one.path), ledger.get(one)
        whose = (
            plain.clean(f"was left by {known.trial}, which ended at {known.at}")
            if known
            else "existed before this trial began"
        )
        sentences.append(f"{plain.clean(path)} {whose}; to remove it: {segments.removal([path])}")
    told = writable("\n".join(sentences))[:MAX_MESSAGE]
    message = attempt.message[-(MAX_MESSAGE - len(told) - 1) :]
    return replace(attempt, message=f"{message}\n{told}"[-MAX_MESSAGE:])


def _names(message: str, segment: Segment) -> bool:
    """Return whether a message names a segment as programs do: without the folder."""
    name = Path(os.fsdecode(segment.path)).name.removeprefix("sem.")
    return bool(re.search(rf"(?<![\w.-]){re.escape(name)}(?![\w-]|\.\w)", message))
