"""The folder of a run under way: everything that a later process needs to go on with it.

    NAME-UUID.run/
      run.json        what was asked, and what it was resolved to
      lock            held by the process that works here
      attempts.jsonl  one line per process start and per attempt, flushed to disk as they happen
      manifest.json   inputs/   levels/   nodes/
      starts/NNNN/    job.json  stdout.txt  stderr.txt  out/ (the one folder the workload can write)

It has no bagit.txt and is never a capsule: a capsule appears whole, by one rename, at the end.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from capsule.errors import CannotRunError, ExecutionError, UsageError
from capsule.record import Attempt
from capsule.schema import parse

FORMAT = "capsule-run/1"


@dataclass(frozen=True, kw_only=True)
class Start:
    """The files of one process start."""

    number: int
    folder: Path

    @property
    def job(self) -> Path:
        """What `levels` is asked to do."""
        return self.folder / "job.json"

    @property
    def out(self) -> Path:
        """The folder that the workload may write."""
        return self.folder / "out"

    @property
    def journal(self) -> Path:
        """What `levels` says of itself."""
        return self.out / "journal.jsonl"

    @property
    def results(self) -> Path:
        """What a command reports."""
        return self.out / "results.jsonl"

    @property
    def stdout(self) -> Path:
        """Standard output of the workload."""
        return self.folder / "stdout.txt"

    @property
    def stderr(self) -> Path:
        """Standard error of the workload."""
        return self.folder / "stderr.txt"


@dataclass(frozen=True, kw_only=True)
class Begun:
    """A process start as the log has it: which group, which of its trials, where and when."""

    number: int
    group: str
    trials: tuple[str, ...]
    node: int
    at: str
    ended: bool


class Workspace:
    """One run folder. Create or open it, then hold `locked()` while changing it."""

    def __init__(self, folder: Path, header: Mapping[str, Any]) -> None:
        # workloads are started in other folders
        self.folder = folder.absolute()
        self.header = header

    @classmethod
    def create(cls, folder: Path, header: Mapping[str, Any]) -> Workspace:
        """Make the folder and write `run.json`.

        Raises:
            UsageError: Something lies there already.
            ExecutionError: It cannot be written.
        """
        try:
            folder.mkdir(parents=True)
        except FileExistsError:
            raise UsageError(
                "the run folder exists already",
                where=str(folder),
                advice=f"go on with it: capsule run --resume {folder}",
            ) from None
        except OSError as error:
            raise _cannot_write(folder, error) from None
        workspace = cls(folder, {"format": FORMAT, **header})
        _write_durably(folder / "run.json", json.dumps(workspace.header, indent=1).encode())
        return workspace

    @classmethod
    def open(cls, folder: Path) -> Workspace:
        """Open what an earlier process left.

        Raises:
            UsageError: It is not a run folder.
        """
        path = folder / "run.json"
        if not path.is_file():
            raise UsageError(
                "not a run folder: it has no run.json",
                where=str(folder),
                advice="name the folder that the interrupted run printed; its name ends in .run",
            )
        header = parse(path.read_bytes(), where=str(path))
        if not isinstance(header, dict) or header.get("format") != FORMAT:
            raise UsageError(f"not of the form {FORMAT}", where=str(path))
        return cls(folder, header)

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Hold the folder for this process; the kernel lets go when the process dies.

        Raises:
            CannotRunError: Another process works here.
        """
        with (self.folder / "lock").open("w") as stream:
            try:
                fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise CannotRunError(
                    "another process is working on this run",
                    where=str(self.folder),
                    advice="wait for it, or end it first",
                ) from None
            yield

    @property
    def manifest(self) -> Path:
        """The manifest as it was given."""
        return self.folder / "manifest.json"

    @property
    def inputs(self) -> Path:
        """Copies of the manifest's input files."""
        return self.folder / "inputs"

    @property
    def levels(self) -> Path:
        """The measuring program that this run uses, from start to end."""
        return self.folder / "levels"

    def nodes(self) -> tuple[dict[str, Any], ...]:
        """The inventory of every node that worked here, in the order of their index."""
        paths = sorted((self.folder / "nodes").glob("*.json"))
        return tuple(parse(path.read_bytes(), where=str(path)) for path in paths)

    def add_node(self, node: Mapping[str, Any]) -> int:
        """Keep a node's inventory, unless this node worked here before; returns its index."""
        known = self.nodes()
        for index, other in enumerate(known):
            if other["identity"] == node["identity"] and other["class"] == node["class"]:
                return index
        path = self.folder / "nodes" / f"{len(known):04}.json"
        path.parent.mkdir(exist_ok=True)
        _write_durably(path, json.dumps(node, indent=1).encode())
        return len(known)

    def start(self, number: int) -> Start:
        """The files of process start `number`, counted from 1."""
        return Start(number=number, folder=self.folder / "starts" / f"{number:04}")

    def begin(self, group: str, trials: tuple[str, ...], node: int, at: str) -> Start:
        """Make the folder of the next process start and log that it begins."""
        number = len(self.begun()) + 1
        start = self.start(number)
        try:
            start.out.mkdir(parents=True)
        except OSError as error:
            raise _cannot_write(start.folder, error) from None
        self._log({"start": number, "group": group, "trials": trials, "node": node, "at": at})
        return start

    def end(self, start: Start, attempts: tuple[Attempt, ...]) -> None:
        """Log how a process start ended for each of its trials, in one write."""
        self._log({"end": start.number, "attempts": [asdict(each) for each in attempts]})

    def begun(self) -> tuple[Begun, ...]:
        """Every process start, in order."""
        events = self._events()
        ended = {event["end"] for event in events if "end" in event}
        return tuple(
            Begun(
                number=event["start"],
                group=event["group"],
                trials=tuple(event["trials"]),
                node=event["node"],
                at=event["at"],
                ended=event["start"] in ended,
            )
            for event in events
            if "start" in event
        )

    def attempts(self) -> tuple[tuple[int, Attempt], ...]:
        """Every attempt, each with the number of its process start."""
        return tuple(
            (event["end"], Attempt(**attempt))
            for event in self._events()
            if "end" in event
            for attempt in event["attempts"]
        )

    def _events(self) -> list[dict[str, Any]]:
        path = self.folder / "attempts.jsonl"
        if not path.exists():
            return []
        lines = path.read_bytes().split(b"\n")
        # what follows the last newline is a line that a killed process did not finish
        return [parse(line, where=str(path)) for line in lines[:-1]]

    def _log(self, event: Mapping[str, Any]) -> None:
        line = json.dumps(event, allow_nan=False).encode() + b"\n"
        path = self.folder / "attempts.jsonl"
        try:
            with path.open("r+b" if path.exists() else "w+b") as stream:
                data = stream.read()
                stream.truncate(data.rfind(b"\n") + 1)
                stream.seek(0, os.SEEK_END)
                stream.write(line)
                stream.flush()
                os.fsync(stream.fileno())
        except OSError as error:
            raise _cannot_write(path, error) from None


def _write_durably(path: Path, data: bytes) -> None:
    partial = path.with_name(path.name + ".partial")
    try:
        with partial.open("wb") as stream:
            stream.write(data)
            stream.flush()
            os.fsync(stream.fileno())
        partial.replace(path)
    except OSError as error:
        raise _cannot_write(path, error) from None


def _cannot_write(path: Path, error: OSError) -> ExecutionError:
    return ExecutionError(
        f"cannot write: {error.strerror}",
        where=str(path),
        advice="free some space or choose another folder with --work; what was finished is kept",
    )
