"""Unpack an archive that a stranger made: files and folders alone, inside, and no more than due.

Of tar (plain, gzip, bzip2, xz) and zip. `tarfile` reads the headers; what is written is decided
here, the same on every Python: its own filters are not in all of those that capsule runs on.
"""

from __future__ import annotations

import bz2
import errno
import gzip
import io
import lzma
import os
import stat
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import BinaryIO, Protocol, cast

from capsule.errors import CannotRunError, DamagedError

_CHUNK_BYTES = 1 << 20
# before a file of a tar: its header, names, and what else is said of it
_MOST_HEADER_BYTES = 1 << 20
_MOST_DIRECTORY_BYTES = 64 << 20
_MOST_LINK_BYTES = 4096
_XZ_MEMORY_BYTES = 256 << 20
_METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2)
_ENCRYPTED = 0x1
_BAD_NAMES = (errno.ENAMETOOLONG, errno.EILSEQ, errno.EINVAL)
_MAGIC = {b"\x1f\x8b": "gzip", b"BZh": "bzip2", b"\xfd7zXZ\0": "xz"}
_LONGEST_MAGIC = 6
_UNREAD = {
    b"\x28\xb5\x2f\xfd": "zstd",
    b"7z\xbc\xaf": "7-Zip",
    b"Rar!": "RAR",
    b"\x1f\x9d": "compress",
}
# what readers of archives end in when one is broken or made to break them
_FAULTS = (
    tarfile.TarError,
    zipfile.BadZipFile,
    zlib.error,
    lzma.LZMAError,
    EOFError,
    ArithmeticError,
    AttributeError,
    LookupError,
    NotImplementedError,
    RecursionError,
    RuntimeError,
    TypeError,
    ValueError,
)


class _Decompressor(Protocol):
    """What `bz2` and `lzma` have alike."""

    @property
    def eof(self) -> bool:
        """Whether its stream has ended."""

    @property
    def needs_input(self) -> bool:
        """Whether more compressed bytes are due."""

    @property
    def unused_data(self) -> bytes:
        """What came behind the end."""

    def decompress(self, data: bytes, max_length: int) -> bytes:
        """The next bytes."""


def unpack(archive: Path, target: Path, *, most_bytes: int, most_files: int, where: str) -> None:
    """Write what an archive holds into a new folder.

    Links are made last and only as a dataset may have them: relative, and inside. Modes, owners
    and times are nobody's.

    Args:
        archive: The file.
        target: The folder, which is made.
        most_bytes: That all files may have together.
        most_files: Number of entries that there may be.
        where: What an error names.

    Raises:
        DamagedError: It is no such archive, is broken, holds something else than files, folders
            and links inside, or more than it may.
        CannotRunError: The folder cannot be written.
    """
    writer = _Writer(target, most_bytes, most_files)
    try:
        target.mkdir(parents=True)
        with archive.open("rb") as stream:
            head = stream.read(_LONGEST_MAGIC)
            stream.seek(0)
            if head.startswith((b"PK\x03\x04", b"PK\x05\x06")):
                _unpack_zip(stream, writer)
            else:
                with _open_tar(stream, head) as tar:
                    _unpack_tar(tar, writer)
        writer.make_links()
    except DamagedError as error:
        raise DamagedError(error.what, where=where) from None
    except _FAULTS as error:
        reason = str(error)[:200] or repr(error)
        raise DamagedError(f"cannot be unpacked: {reason}", where=where) from None
    except OSError as error:
        # without a number it is a reader's own
        if error.errno is None or error.errno in _BAD_NAMES:
            reason = error.strerror or str(error)
            raise DamagedError(f"cannot be unpacked: {reason}", where=where) from None
        raise CannotRunError(
            f"cannot be unpacked: {error.strerror}",
            where=str(target),
            advice="free some space, or name another folder with CAPSULE_CACHE",
        ) from None


class _Writer:
    """Writes entries below a folder, each once, and counts what they take."""

    def __init__(self, target: Path, most_bytes: int, most_files: int) -> None:
        self._target = target
        self._most_bytes = self._left_bytes = most_bytes
        self._most_files = self._left_files = most_files
        self._links: list[tuple[str, str]] = []

    def add_folder(self, name: str) -> None:
        """Make a folder, unless it is there."""
        if place := self._place(name):
            self._make_folder(self._target / place)

    def add_file(self, name: str, stream: BinaryIO, size_bytes: int) -> None:
        """Write a file of so many bytes."""
        place = self._require_place(name)
        self._spend(size_bytes)
        path = self._target / place
        self._make_folder(path.parent)
        with self._create(path) as copy:
            left = size_bytes
            while left and (piece := stream.read(min(left, _CHUNK_BYTES))):
                copy.write(piece)
                left -= len(piece)
        if left:
            raise DamagedError(f"ends within {name!a}")

    def add_copy(self, name: str, of: str) -> None:
        """Write a file again under another name, which a hard link gives it."""
        source = self._target / self._require_place(of)
        if not source.is_file():
            raise DamagedError(f"{name!a} is a link to {of!a}, which does not come before")
        with source.open("rb") as stream:
            self.add_file(name, stream, source.stat().st_size)

    def add_link(self, name: str, to: str) -> None:
        """Keep a link for the end: nothing is ever written through one."""
        place = PurePosixPath(self._require_place(name))
        self._spend(0)
        within = os.path.normpath(place.parent / to)
        if to.startswith("/") or within.split("/")[0] == "..":
            raise DamagedError(f"{name!a} is a link that leads out of it, to {to!a}")
        self._links.append((str(place), to))

    def make_links(self) -> None:
        """Make the links, now that all files are there; `datasets.tree` looks where they lead."""
        for place, to in self._links:
            path = self._target / place
            self._make_folder(path.parent)
            try:
                path.symlink_to(to)
            except FileExistsError:
                raise self._repeat(place) from None

    def _make_folder(self, path: Path) -> None:
        try:
            # no link is followed: none is made before the end
            path.mkdir(parents=True, exist_ok=True)
        except (FileExistsError, NotADirectoryError):
            place = path.relative_to(self._target)
            raise DamagedError(f"has a file where {str(place)!a} is a folder") from None

    def _create(self, path: Path) -> BinaryIO:
        try:
            return cast("BinaryIO", path.open("xb"))
        except FileExistsError:
            raise self._repeat(str(path.relative_to(self._target))) from None

    def _repeat(self, place: str) -> DamagedError:
        return DamagedError(f"has {place!a} twice")

    def _place(self, name: str) -> str:
        """Where an entry goes below the folder, empty for the folder itself."""
        parts = [part for part in name.split("/") if part not in ("", ".")]
        if name.startswith("/") or ".." in parts or "\0" in name or "\\" in name:
            raise DamagedError(f"has an entry that would lie elsewhere: {name!a}")
        self._left_files -= 1
        if self._left_files < 0:
            raise DamagedError(f"has more than {self._most_files} entries")
        return "/".join(parts)

    def _require_place(self, name: str) -> str:
        if place := self._place(name):
            return place
        raise DamagedError("has a file without a name")

    def _spend(self, size_bytes: int) -> None:
        self._left_bytes -= size_bytes
        if size_bytes < 0 or self._left_bytes < 0:
            what = f"unpacks to more than the {self._most_bytes} bytes that it may have"
            raise DamagedError(what)


def _unpack_tar(stream: _Forward, writer: _Writer) -> None:
    stream.allow(_MOST_HEADER_BYTES)
    # not as a stream of tarfile's own: what that reads at once has no limit
    try:
        tar = tarfile.open(fileobj=cast("BinaryIO", stream), mode="r:")  # noqa: SIM115 - below
    except tarfile.ReadError:
        raise DamagedError("is neither a tar nor a zip archive") from None
    with tar:
        while True:
            stream.allow(_MOST_HEADER_BYTES)
            member = tar.next()
            if member is None:
                # a broken header ends it as zeros do
                if stream.last_piece.strip(b"\0"):
                    raise DamagedError("cannot be unpacked: a header in it is broken")
                return
            # it would keep every one to its end
            tar.members.clear()  # type: ignore[attr-defined]
            stream.allow(max(0, member.size) + _MOST_HEADER_BYTES)
            _write_member(tar, member, writer)


def _write_member(tar: tarfile.TarFile, member: tarfile.TarInfo, writer: _Writer) -> None:
    if member.isdir():
        writer.add_folder(member.name)
    elif member.isreg():
        content = tar.extractfile(member)
        assert content is not None
        writer.add_file(member.name, cast("BinaryIO", content), member.size)
    elif member.issym():
        writer.add_link(member.name, member.linkname)
    elif member.islnk():
        writer.add_copy(member.name, member.linkname)
    else:
        raise DamagedError(f"{member.name!a} is neither a file, a folder nor a link")


def _unpack_zip(stream: BinaryIO, writer: _Writer) -> None:
    with _Sparing(stream) as sparing, zipfile.ZipFile(sparing) as archive:
        for entry in archive.infolist():
            kind = stat.S_IFMT(entry.external_attr >> 16)
            if entry.flag_bits & _ENCRYPTED:
                raise DamagedError(f"{entry.filename!a} is encrypted")
            if entry.compress_type not in _METHODS:
                raise DamagedError(f"{entry.filename!a} is compressed in a way that is not read")
            if entry.is_dir():
                writer.add_folder(entry.filename)
            elif kind in (0, stat.S_IFREG):
                with archive.open(entry) as content:
                    writer.add_file(entry.filename, cast("BinaryIO", content), entry.file_size)
            elif kind == stat.S_IFLNK and entry.file_size <= _MOST_LINK_BYTES:
                writer.add_link(entry.filename, os.fsdecode(archive.read(entry)))
            else:
                raise DamagedError(f"{entry.filename!a} is neither a file, a folder nor a link")


class _Sparing(io.BufferedReader):
    """A file of which nobody reads more at once than a zip's directory may have."""

    def __init__(self, stream: BinaryIO) -> None:
        super().__init__(cast("io.RawIOBase", stream))

    def read(self, size: int | None = -1, /) -> bytes:
        """So many bytes, or all that are left."""
        if size is None or size < 0:
            place = self.tell()
            size = self.seek(0, os.SEEK_END) - place
            self.seek(place)
        if size > _MOST_DIRECTORY_BYTES:
            raise ValueError(f"its directory has more than {_MOST_DIRECTORY_BYTES} bytes")
        return super().read(size)


class _Forward:
    """A file that is only read forward, and no further than somebody allowed.

    Args:
        read: Gives at most so many bytes, none at the end.

    Attributes:
        last_piece: What was read last.
    """

    def __init__(self, read: Callable[[int], bytes]) -> None:
        self._read = read
        self._place = 0
        self._allowed = 0
        self.last_piece = b""

    def allow(self, size_bytes: int) -> None:
        """Take this instead of what was allowed before."""
        self._allowed = size_bytes

    def tell(self) -> int:
        """How far it was read."""
        return self._place

    def seek(self, place: int) -> int:
        """Read on to a place."""
        if place < self._place:
            raise ValueError("an entry begins before the one that it follows")
        while place > self._place and self._take(min(place - self._place, _CHUNK_BYTES)):
            pass
        return self._place

    def read(self, size: int) -> bytes:
        """So many bytes, fewer at the end."""
        pieces = bytearray()
        if not 0 <= size <= self._allowed:
            raise ValueError("an entry has a header that is too large")
        self._allowed -= size
        while len(pieces) < size and (piece := self._take(size - len(pieces))):
            pieces += piece
        self.last_piece = bytes(pieces)
        return self.last_piece

    def _take(self, size: int) -> bytes:
        piece = self._read(size)
        self._place += len(piece)
        return piece


@contextmanager
def _open_tar(stream: BinaryIO, head: bytes) -> Iterator[_Forward]:
    """What a tar is compressed from."""
    for magic, name in _UNREAD.items():
        if head.startswith(magic):
            what = f"is packed by {name}, which is not read: zip and tar are, by gzip, bzip2 or xz"
            raise DamagedError(what)
    kind = next((name for magic, name in _MAGIC.items() if head.startswith(magic)), None)
    match kind:
        case "gzip":
            with gzip.GzipFile(fileobj=stream) as plain:
                yield _Forward(plain.read)
        case "bzip2":
            yield _Forward(_Pieces(stream, bz2.BZ2Decompressor).read)
        case "xz":
            yield _Forward(
                _Pieces(stream, lambda: lzma.LZMADecompressor(memlimit=_XZ_MEMORY_BYTES)).read
            )
        case _:
            yield _Forward(stream.read)


class _Pieces:
    """What streams of one kind, one behind the other, are compressed from; never much at once."""

    def __init__(self, stream: BinaryIO, make: Callable[[], _Decompressor]) -> None:
        self._stream = stream
        self._make = make
        self._rest = b""
        self._decompressor: _Decompressor | None = make()

    def read(self, size: int) -> bytes:
        """At most so many bytes, none at the end."""
        while self._decompressor is not None:
            if self._decompressor.eof:
                # zeros may pad what is behind the last stream
                self._rest = self._decompressor.unused_data or self._stream.read(_CHUNK_BYTES)
                self._decompressor = self._make() if self._rest.strip(b"\0") else None
                continue
            if self._decompressor.needs_input and not self._rest:
                self._rest = self._stream.read(_CHUNK_BYTES)
                if not self._rest:
                    raise EOFError("its compressed part ends too early")
            piece = self._decompressor.decompress(self._rest, size)
            self._rest = b""
            if piece:
                return piece
        return b""
