"""Hash a dataset: in parallel, with progress, and never the same bytes twice."""

from __future__ import annotations

import hashlib
import os
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from pathlib import Path

from capsule.datasets.filecache import is_settled, open_digests, stamp
from capsule.datasets.tree import Entry, files
from capsule.digest import Digest, of_tree
from capsule.errors import CannotRunError, DamagedError

Progress = Callable[[int, int], None]

_CHUNK_BYTES = 1 << 20
_MAX_THREADS = 16  # more reads than this at once slow most disks down
_TICK_SECONDS = 0.1


@dataclass(frozen=True, kw_only=True)
class DatasetDigest:
    """Digest and size of a dataset.

    Attributes:
        digest: `capsule-data-1`, or of its arrays when it was generated.
        bytes: Sum of its files' sizes.
        files: Their number.
    """

    digest: Digest
    bytes: int
    files: int


@dataclass(frozen=True, kw_only=True)
class Survey:
    """A dataset's digest, and the files that hold other bytes than when they were last hashed."""

    dataset: DatasetDigest
    changed: tuple[str, ...]


def digest(
    path: Path, *, cache: Path, progress: Progress | None = None, rehash: bool = False
) -> DatasetDigest:
    """Return the digest of a file or folder, as the package's docstring defines it.

    Args:
        path: The file or folder.
        cache: Folder where the digests of files are kept between calls.
        progress: Called in this thread with (bytes done, bytes in all), about ten times a second
            and once at the end.
        rehash: Read every byte, also of files whose size and times are as they were.

    Raises:
        UsageError: It holds something that has no digest.
        CannotRunError: It does not exist or cannot be read.
        DamagedError: A file changed while it was read.
    """
    return survey(path, cache=cache, progress=progress, rehash=rehash).dataset


def survey(
    path: Path, *, cache: Path, progress: Progress | None = None, rehash: bool = False
) -> Survey:
    """Hash a dataset as `digest` does, and list files that changed since the last time."""
    entries = files(path)
    with open_digests(cache) as kept:
        before = {entry.name: kept.find(entry.path) for entry in entries}
        digests = {} if rehash else _reuse(entries, before)
        todo = [entry for entry in entries if entry.name not in digests]
        work = _Work(
            todo=iter(todo),
            done_bytes=sum(e.status.st_size for e in entries if e.name in digests),
            total_bytes=sum(entry.status.st_size for entry in entries),
        )
        settled = [entry for entry in todo if is_settled(entry.status)]
        _hash_all(work, len(todo), progress)
        kept.keep((e.path, stamp(e.status), work.digests[e.name]) for e in settled)
    digests |= work.digests
    single = path.is_file()
    named = Digest(hex=next(iter(digests.values()))) if single else _of_folder(digests)
    return Survey(
        dataset=DatasetDigest(digest=named, bytes=work.total_bytes, files=len(entries)),
        changed=tuple(
            sorted(name for name, row in before.items() if row and row[1] != digests[name])
        ),
    )


def _of_folder(digests: dict[str, str]) -> Digest:
    return of_tree({name: Digest(hex=hex_) for name, hex_ in digests.items()})


def _reuse(entries: list[Entry], before: dict[str, tuple[str, str] | None]) -> dict[str, str]:
    rows = ((entry, before[entry.name]) for entry in entries)
    return {entry.name: row[1] for entry, row in rows if row and row[0] == stamp(entry.status)}


@dataclass(kw_only=True)
class _Work:
    """Work shared by the hashing threads."""

    todo: Iterator[Entry]
    done_bytes: int
    total_bytes: int
    digests: dict[str, str] = field(default_factory=dict)
    stop: threading.Event = field(default_factory=threading.Event)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def run(self) -> None:
        """Hash file after file until none is left or somebody says stop."""
        while not self.stop.is_set():
            with self.lock:
                entry = next(self.todo, None)
            if entry is None:
                return
            self.digests[entry.name] = self._hash(entry)

    def _hash(self, entry: Entry) -> str:
        sha256 = hashlib.sha256()
        buffer = memoryview(bytearray(_CHUNK_BYTES))
        try:
            with open(entry.path, "rb", buffering=0) as file:  # noqa: PTH123 - as in tree.py
                while not self.stop.is_set() and (size := file.readinto(buffer)):
                    sha256.update(buffer[:size])
                    with self.lock:
                        self.done_bytes += size
                after = os.fstat(file.fileno())
        except OSError as error:
            raise CannotRunError(
                f"cannot be read: {error.strerror}",
                where=entry.path,
                advice="make the file readable",
            ) from error
        if (after.st_size, after.st_mtime_ns) != (entry.status.st_size, entry.status.st_mtime_ns):
            raise DamagedError(
                "changed during hashing",
                where=entry.path,
                advice="stop every process that writes to the dataset, and run again",
            )
        return sha256.hexdigest()


def _hash_all(work: _Work, count: int, progress: Progress | None) -> None:
    threads = min(count, len(os.sched_getaffinity(0)), _MAX_THREADS)
    if threads:
        with ThreadPoolExecutor(threads) as pool:
            pending = {pool.submit(work.run) for _ in range(threads)}
            try:
                while pending:
                    done, pending = wait(pending, _TICK_SECONDS, FIRST_EXCEPTION)
                    for future in done:
                        future.result()
                    if progress and pending:
                        progress(work.done_bytes, work.total_bytes)
            except BaseException:
                work.stop.set()  # or an interrupt would wait for the rest of a terabyte
                raise
    if progress:
        progress(work.total_bytes, work.total_bytes)
