"""Stores of an image's blobs: a folder, or a tar that is read in place.

Links in a folder are not followed; a link inside a tar leads to another file of the tar or nowhere.
"""

from __future__ import annotations

import io
import posixpath
import re
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import BinaryIO, Protocol, cast

from capsule import leavings
from capsule.errors import CannotRunError, DamagedError
from capsule.image.allowance import Allowance
from capsule.image.layers import unpack
from capsule.image.tars import TarReader

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._/-]{0,254}")
_MOST_MEMBERS = 100_000
_GZIP = b"\x1f\x8b"


class Store(Protocol):
    """Files by name, each a stream of known length."""

    def has(self, name: str) -> bool:
        """Return whether there is a file of that name."""

    def open(self, name: str) -> tuple[BinaryIO, int]:
        """Return a file and its size in bytes.

        Raises:
            DamagedError: There is none of that name.
        """


class Folder:
    """A folder of the user's."""

    def __init__(self, path: Path) -> None:
        self._path = path.resolve()

    def has(self, name: str) -> bool:
        """Return whether there is a regular file of that name."""
        return leavings.is_file(self._path / name)

    def open(self, name: str) -> tuple[BinaryIO, int]:
        """Return a file and its size in bytes.

        Raises:
            DamagedError: There is none of that name, or a link leads there.
        """
        stream = leavings.open_below(self._path, name) if _NAME.fullmatch(name) else None
        if stream is None:
            raise _missing(name, str(self._path))
        size = stream.seek(0, io.SEEK_END)
        stream.seek(0)
        return stream, size


class Archive:
    """A tar, its headers read once."""

    def __init__(self, stream: BinaryIO, where: str) -> None:
        self._stream, self._where = stream, where
        self._members: dict[str, tuple[int, int]] = {}
        self._links: dict[str, str] = {}
        size = stream.seek(0, io.SEEK_END)
        stream.seek(0)
        for entry in TarReader(stream.read, partial(_skip, stream, size), where=where):
            name = posixpath.normpath(entry.path.decode(errors="replace")).removeprefix("./")
            if name in self._members or name in self._links:
                raise DamagedError(f"the archive contains {name[:200]!r} twice", where=where)
            if len(self._members) >= _MOST_MEMBERS:
                raise DamagedError(
                    f"the archive contains more than {_MOST_MEMBERS} files, the limit", where=where
                )
            if entry.kind == "f":
                place = stream.tell()
                if place + entry.size > size:
                    raise DamagedError("the archive is truncated", where=where)
                self._members[name] = place, entry.size
            elif entry.kind in "lh":
                target = entry.target.decode(errors="replace")
                base = posixpath.dirname(name) if entry.kind == "l" else ""
                self._links[name] = posixpath.normpath(posixpath.join(base, target))

    def has(self, name: str) -> bool:
        """Return whether there is a file of that name."""
        return name in self._members or name in self._links

    def open(self, name: str) -> tuple[BinaryIO, int]:
        """Return a file and its size in bytes; `docker save` links a layer to an equal one.

        Raises:
            DamagedError: There is none of that name, or its link leads to no file of the archive.
        """
        name = posixpath.normpath(name)
        if name in self._links and self._links[name] not in self._members:
            raise DamagedError(
                f"the link {name[:200]!r} names the file {self._links[name][:200]!r}, which is"
                " missing in the archive",
                where=self._where,
            )
        name = self._links.get(name, name)
        if name not in self._members:
            raise _missing(name, self._where)
        place, size = self._members[name]
        return cast(BinaryIO, io.BufferedReader(_Part(self._stream, place, size))), size


class _Part(io.RawIOBase):
    """A part of a file, from its beginning to its end."""

    def __init__(self, stream: BinaryIO, place: int, size: int) -> None:
        self._stream, self._place, self._end = stream, place, place + size

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        self._stream.seek(self._place)
        data = self._stream.read(min(len(buffer), self._end - self._place))
        buffer[: len(data)] = data
        self._place += len(data)
        return len(data)


@contextmanager
def open_archive(stream: BinaryIO, where: str) -> Iterator[Archive]:
    """Open the archive in a file; a gzipped one is unpacked beside it meanwhile.

    Raises:
        DamagedError: It is no tar, or unpacks without end.
        CannotRunError: There is no room to unpack it.
    """
    size = stream.seek(0, io.SEEK_END)
    stream.seek(0)
    is_packed = stream.read(len(_GZIP)) == _GZIP
    stream.seek(0)
    if not is_packed:
        yield Archive(stream, where)
        return
    allowance = Allowance(size, where=where)
    with tempfile.TemporaryFile(prefix="capsule-image-") as spool:
        try:
            for piece in unpack(stream.read, None, where):
                allowance.take(len(piece))
                spool.write(piece)
        except OSError as error:
            raise CannotRunError(
                f"cannot unpack the archive: {error}",
                where=where,
                advice="set TMPDIR to a folder with more room, or unpack the archive with gunzip",
            ) from None
        yield Archive(cast(BinaryIO, spool), where)


def _skip(stream: BinaryIO, size: int, count: int) -> None:
    # past the end there is nothing to read, which the next header's length tells
    stream.seek(min(stream.tell() + count, size))


def _missing(name: str, where: str) -> DamagedError:
    return DamagedError(f"file {name[:200]!r} is missing", where=where)
