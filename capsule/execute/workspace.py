"""The folder of a run under way: everything that a later process needs to go on with it.

    NAME-UUID.run/
      run.json        what was asked, and what it was resolved to; written last, of a whole folder
      lock            held by the process that works here
      attempts.jsonl  one line per process start and per attempt, flushed to disk as they happen
      manifest.json   inputs/   datasets/   levels/   nodes/
      work/inputs/    another copy of inputs that workloads may write in; see `workingcopy`
      digests.txt     what the files of inputs/, datasets/ and levels/ were when they were copied
      earlier.capsule the verification whose runs count with these, if there is one
      sealing.json    where its capsule is written, once that is begun
      starts/NNNN/    job.json  stdout.txt  stderr.txt  telemetry.jsonl (of its devices)
                      gpus.json (the GPUs and CPUs that its node dealt to it);
                      out/ (what the workload can write);
                      setup/ (stdout.txt, stderr.txt of what ran before), scalars/ (of event files);
                      of several ranks each has all but the first in rank-RRRR/; all share shared/
                      and hook/ (what notes the world that they make)

It has no bagit.txt and is never a capsule: a capsule appears whole, by one rename, at the end.
"""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from capsule import leavings, places
from capsule.archive import strict
from capsule.archive.limits import MOST_DOCUMENT_BYTES
from capsule.errors import CannotRunError, UsageError, add_advice
from capsule.execute.header import Header
from capsule.execute.log import Begun, Log, cannot_write
from capsule.execute.workingcopy import WorkingCopy
from capsule.jsons import JsonObject
from capsule.origin import Side
from capsule.plan import Group
from capsule.sizes import size

_CHANGED = "the run folder was changed; start a new run"
_FILES = ("run.json", "manifest.json", "attempts.jsonl", "digests.txt", "lock")


@dataclass(frozen=True, kw_only=True)
class RankFiles:
    """The files of one rank of a process start."""

    folder: Path

    @property
    def out(self) -> Path:
        """Return the folder that the workload may write."""
        return self.folder / "out"

    @property
    def journal(self) -> Path:
        """Return the path of the journal that `levels` writes."""
        return self.out / "journal.jsonl"

    @property
    def results(self) -> Path:
        """Return the path of the results that a command reports."""
        return self.out / "results.jsonl"

    @property
    def telemetry(self) -> Path:
        """Return the path of the samples of the rank's devices."""
        return self.folder / "telemetry.jsonl"

    @property
    def seeding(self) -> Path:
        """Return the path of the report on seeded generators."""
        return self.out / ".capsule-seeding.jsonl"

    @property
    def setup(self) -> RankFiles:
        """Return the logs of what is run before the workload."""
        return RankFiles(folder=self.folder / "setup")

    @property
    def stdout(self) -> Path:
        """Return the standard output of the workload."""
        return self.folder / "stdout.txt"

    @property
    def stderr(self) -> Path:
        """Return the standard error of the workload."""
        return self.folder / "stderr.txt"


@dataclass(frozen=True, kw_only=True)
class Start:
    """The files of one process start.

    Attributes:
        number: From 1.
        ranks: World size.
    """

    number: int
    folder: Path
    ranks: int = 1

    @property
    def job(self) -> Path:
        """Return the path of the job that `levels` reads."""
        return self.folder / "job.json"

    @property
    def meeting_folder(self) -> Path:
        """Return the folder that several ranks may all write; one that is alone has none."""
        return self.folder / "shared"

    @property
    def hook(self) -> Path:
        """Return the folder of what notes the world that several ranks make."""
        return self.folder / "hook"

    def sighting(self, rank: int) -> Path:
        """Return the path of a rank's report on its world."""
        return self.meeting_folder / f".capsule-world-{rank:04}.jsonl"

    def rank(self, rank: int) -> RankFiles:
        """Return the files of one rank; a single rank uses the start's own folder."""
        alone = self.ranks == 1
        return RankFiles(folder=self.folder if alone else self.folder / f"rank-{rank:04}")

    def rank_files(self) -> tuple[RankFiles, ...]:
        """Return the files of all ranks, in order."""
        return tuple(map(self.rank, range(self.ranks)))


class Workspace:
    """One run folder. Create or open it, then hold `lock()` while changing it.

    Attributes:
        copy: The inputs that workloads may write in, None before the first process start.
    """

    def __init__(self, folder: Path, header: Header) -> None:
        # workloads are started in other folders
        self.folder = folder.absolute()
        self.header = header
        self.log = Log(self.folder / "attempts.jsonl")
        # kept, since without a container a workload could change the files
        self._nodes = _read_nodes(self.folder)
        self.copy: WorkingCopy | None = None

    @classmethod
    @contextmanager
    def create(cls, folder: Path, header: Header) -> Iterator[Workspace]:
        """Make the folder, and once it is filled write `run.json`, without which it is none.

        Raises:
            UsageError: Something lies there already.
            ExecutionError: It cannot be written.
        """
        path = folder / "run.json"
        if path.exists():
            raise UsageError(
                "the run folder already exists",
                where=str(folder),
                advice=f"resume it: capsule run --resume {folder}",
            )
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise cannot_write(folder, error) from None
        yield cls(folder, header)
        write_durably(path, json.dumps(header.to_json(), indent=1).encode())

    @classmethod
    @add_advice(_CHANGED)
    def open(cls, folder: Path) -> Workspace:
        """Open what an earlier process left.

        Raises:
            UsageError: It is not a run folder, or another version of capsule began it.
        """
        path = folder / "run.json"
        if not os.path.lexists(folder):
            raise UsageError(
                "the run folder does not exist",
                where=str(folder),
                advice="after sealing, capsule removes the folder; give the folder that the"
                " interrupted run printed",
            )
        if not leavings.is_file(path):
            raise UsageError(
                "not a run folder: run.json is missing",
                where=str(folder),
                advice="give the folder NAME.run that the interrupted run printed",
            )
        _refuse_what_is_no_file(folder)
        value = strict.parse(read_file(path), where=str(path))
        return cls(folder, Header.from_json(value, where=str(path)))

    @contextmanager
    def lock(self) -> Iterator[None]:
        """Hold the folder for this process; the kernel lets go when the process dies.

        Raises:
            UsageError: Another process has finished with it, and removed it.
            CannotRunError: Another process works here, or the file system has no locks.
            ExecutionError: It cannot be locked.
        """
        try:
            lock = places.hold(self.folder)
        except FileNotFoundError:
            raise UsageError(
                "the run folder no longer exists: another process has sealed this run",
                where=str(self.folder),
                advice="use the capsule that the other process sealed",
            ) from None
        except places.NoLocksError as error:
            raise places.locks_error(
                error,
                self.folder,
                "move the run folder to another file system, and resume it there",
            ) from None
        except OSError as error:
            raise cannot_write(self.folder / "lock", error) from None
        if lock is None:
            raise CannotRunError(
                "another process uses this run folder",
                where=str(self.folder),
                advice="wait for that process, or end it",
            )
        with lock:
            # what another process noted before it let go counts
            self.log = Log(self.folder / "attempts.jsonl")
            self._nodes = _read_nodes(self.folder)
            yield

    @property
    def label(self) -> str:
        """Return the label that marks the processes and containers of this folder's run, and of no
        other folder's.

        A folder keeps its inode where it is renamed, and no copy has it: whoever hands out a folder
        that bears the name of somebody's run must not have that run's processes ended.
        """
        return f"{self.header.setup.uuid}.{self.folder.stat().st_ino}"

    @property
    def to_resume(self) -> Path:
        """Return the folder by which this run is taken up: of a side it is the pair's."""
        side = isinstance(self.header.setup.origin, Side)
        return self.folder.parent if side else self.folder

    @property
    def manifest(self) -> Path:
        """Return the manifest as it was given."""
        return self.folder / "manifest.json"

    @property
    def inputs(self) -> Path:
        """Return copies of the manifest's input files."""
        return self.folder / "inputs"

    @property
    def work(self) -> Path:
        """Return the folder of a further copy of the inputs that workloads may write to."""
        return self.folder / "work"

    @property
    def datasets(self) -> Path:
        """Return copies of the datasets that its capsule will carry."""
        return self.folder / "datasets"

    @property
    def levels(self) -> Path:
        """Return the measuring code that this run uses, from start to end."""
        return self.folder / "levels"

    @property
    def digests(self) -> Path:
        """Return the path of the digests of copied files, in the form of `sha256sum`."""
        return self.folder / "digests.txt"

    @property
    def clean_logs(self) -> Path:
        """Return logs without the paths of this machine, laid out while they are sealed."""
        return self.folder / "clean"

    @property
    def earlier(self) -> Path:
        """Return a copy of the verification that this run adds to."""
        return self.folder / "earlier.capsule"

    @property
    def earlier_files(self) -> Path:
        """Return the folder of files laid out for the new capsule during sealing."""
        return self.folder / "earlier"

    @property
    def sealing(self) -> Path:
        """Return the path of the note about an unfinished sealing."""
        return self.folder / "sealing.json"

    def nodes(self) -> tuple[JsonObject, ...]:
        """Return the inventory of every node that worked here, in the order of their index."""
        return self._nodes

    def add_node(self, node: JsonObject) -> int:
        """Keep a node's inventory, unless this node worked here before; returns its index."""
        known = self.find_node(node)
        if known is not None:
            return known
        nodes = self.nodes()
        path = self.folder / "nodes" / f"{len(nodes):04}.json"
        path.parent.mkdir(exist_ok=True)
        write_durably(path, json.dumps(node, indent=1).encode())
        self._nodes = (*nodes, node)
        return len(nodes)

    def find_node(self, node: JsonObject) -> int | None:
        """Return the index of a node that worked here before, None of one that did not."""
        for index, known in enumerate(self.nodes()):
            if known["identity"] == node["identity"] and known["class"] == node["class"]:
                return index
        return None

    def start(self, number: int, ranks: int) -> Start:
        """Return the files of process start `number`, counted from 1."""
        return Start(number=number, folder=self.folder / "starts" / f"{number:04}", ranks=ranks)

    def begin(self, group: Group, nodes: tuple[int, ...], at: str) -> Start:
        """Make the folder of the next process start and log that it begins.

        Args:
            group: Its trials are those that it is given.
            nodes: Index of the node of each rank.
            at: Now, ISO 8601 UTC.
        """
        start = self.start(len(self.log.starts) + 1, group.ranks)
        try:
            if os.path.lexists(start.folder):
                # capsule was killed, or the machine went down, before this start was on the disk
                leavings.remove(start.folder)
            for files in start.rank_files():
                files.out.mkdir(parents=True)
            if group.ranks > 1:
                start.meeting_folder.mkdir()
        except OSError as error:
            raise cannot_write(start.folder, error) from None
        self.log.begin(
            Begun(
                number=start.number,
                group=group.id,
                trials=tuple(trial.id for trial in group.trials),
                ranks=group.ranks,
                nodes=nodes,
                at=at,
            )
        )
        return start


@add_advice(_CHANGED)
def _read_nodes(folder: Path) -> tuple[JsonObject, ...]:
    paths = sorted((folder / "nodes").glob("*.json"))
    return tuple(strict.parse(read_file(path), where=str(path)) for path in paths)


def read_file(path: Path) -> bytes:
    """Return a file of a run folder, which may have come from elsewhere.

    Raises:
        UsageError: It is not there, or no file, or larger than any of them is.
    """
    if (size_bytes := leavings.size_bytes(path)) > MOST_DOCUMENT_BYTES:
        raise UsageError(
            f"the file is too large: found {size(size_bytes)}, expected at most"
            f" {size(MOST_DOCUMENT_BYTES)}",
            where=str(path),
            advice="restore the file, or start a new run",
        )
    stream = leavings.open_file(path)
    if stream is None:
        raise UsageError(
            "missing from the run folder, or not a readable file",
            where=str(path),
            advice="restore the file, or start a new run",
        )
    with stream:
        return stream.read()


def _refuse_what_is_no_file(folder: Path) -> None:
    """Stop at a run folder in which something else stands for a file of ours.

    Somebody else may have made it: a FIFO would be waited for, and a link written through.

    Raises:
        UsageError: Names it.
    """
    listed = (folder / name for name in _FILES)
    for path in (*listed, *(folder / "nodes").glob("*.json")):
        if os.path.lexists(path) and not stat.S_ISREG(path.lstat().st_mode):
            raise UsageError(
                "not a regular file: something replaced the file that capsule wrote",
                where=str(path),
                advice="restore the file, or start a new run",
            )


def write_durably(path: Path, data: bytes) -> None:
    """Write a file that is there whole after a crash, or not at all.

    Raises:
        ExecutionError: It cannot be written.
    """
    partial = path.with_name(path.name + ".partial")
    try:
        with partial.open("wb") as stream:
            stream.write(data)
            stream.flush()
            os.fsync(stream.fileno())
        partial.replace(path)
    except OSError as error:
        raise cannot_write(path, error) from None
