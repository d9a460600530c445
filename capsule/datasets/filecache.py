"""Remember what this user hashed and generated, so that a second look at a terabyte is instant.

What is remembered is believed, so it lies where nobody else can write it.
"""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path

from capsule.places import weak_spot
from capsule.site import own_cache_folder

_NAME = "file-digests-1.sqlite"
_RACY_NANOSECONDS = 2_000_000_000
_PATIENCE_SECONDS = 10.0


class Digests:
    """The known digests: of files, path -> (stamp, SHA-256 in hex), and of generated data.

    Any number of processes may use one folder. It is only a help: where it cannot be kept (a
    read-only or full disk, a network file system without locks), nothing is known, nothing fails.
    """

    def __init__(self, connection: sqlite3.Connection | None) -> None:
        self._connection = connection

    def find(self, path: str) -> tuple[str, str] | None:
        """Return the stamp and digest that a file had when it was last hashed."""
        if self._connection is None:
            return None
        try:
            row = self._connection.execute(
                "SELECT stamp, sha256 FROM files WHERE path = ?", (path,)
            ).fetchone()
        except sqlite3.Error:
            return None
        return (row[0], row[1]) if row else None

    def keep(self, rows: Iterable[tuple[str, str, str]]) -> None:
        """Remember (path, stamp, SHA-256 in hex) of some files."""
        if self._connection is None:
            return
        try:
            with self._connection:
                self._connection.executemany("REPLACE INTO files VALUES (?, ?, ?)", rows)
        except sqlite3.Error:
            return

    def find_generated(self, key: str) -> tuple[str, str] | None:
        """Return the digest of the files, and of the arrays in them, that were generated under a
        key.
        """
        if self._connection is None:
            return None
        try:
            row = self._connection.execute(
                "SELECT tree, arrays FROM generated WHERE key = ?", (key,)
            ).fetchone()
        except sqlite3.Error:
            return None
        return (row[0], row[1]) if row else None

    def keep_generated(self, key: str, tree: str, arrays: str) -> None:
        """Remember what was generated under a key."""
        if self._connection is None:
            return
        try:
            with self._connection:
                row = (key, tree, arrays)
                self._connection.execute("REPLACE INTO generated VALUES (?, ?, ?)", row)
        except sqlite3.Error:
            return


@contextmanager
def open_digests(folder: Path) -> Iterator[Digests]:
    """Open the database of a cache folder, or of the usual one if others may write there."""
    for place in (folder, own_cache_folder()):
        with suppress(OSError, sqlite3.Error):
            place.mkdir(mode=0o700, parents=True, exist_ok=True)
            if weak_spot(place / _NAME) is None:
                connection = _connect(place / _NAME)
                break
    else:
        yield Digests(None)
        return
    with closing(connection):
        yield Digests(connection)


def _connect(path: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(path, timeout=_PATIENCE_SECONDS)
    try:
        connection.execute(
            "CREATE TABLE IF NOT EXISTS files"
            " (path TEXT PRIMARY KEY, stamp TEXT NOT NULL, sha256 TEXT NOT NULL)"
        )
        connection.execute(
            "CREATE TABLE IF NOT EXISTS generated"
            " (key TEXT PRIMARY KEY, tree TEXT NOT NULL, arrays TEXT NOT NULL)"
        )
    except sqlite3.DatabaseError as error:
        connection.close()
        if not isinstance(error, sqlite3.OperationalError):  # not a database: the next run's is new
            path.unlink(missing_ok=True)
        raise
    return connection


def stamp(status: os.stat_result) -> str:
    """Return values that change with a file's bytes: size, times, inode, device.

    The change time is in it because anybody can set a modification time back.
    """
    times = f"{status.st_mtime_ns} {status.st_ctime_ns}"
    return f"{status.st_size} {times} {status.st_ino} {status.st_dev}"


def is_settled(status: os.stat_result) -> bool:
    """Return whether a write from now on must change the stamp.

    A file that was written a moment ago can be written again within one tick of its file system's
    clock, which leaves the stamp as it is (git calls such an entry racy).
    """
    latest = max(status.st_mtime_ns, status.st_ctime_ns)
    return time.time_ns() - latest > _RACY_NANOSECONDS
