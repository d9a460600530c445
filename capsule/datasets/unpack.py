"""Unpack an untrusted archive: tar (plain, gzip, bzip2 or xz) or zip.

Only files and folders are written, inside a new folder, and no more than is allowed. No link is
made on the disk. Links are resolved after the last entry, by the names of the entries alone: one
that leads to a file of the same archive becomes a copy of it.
"""

from __future__ import annotations

import errno
import os
import re
import stat
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import BinaryIO

from capsule import sizes
from capsule.datasets.zips import ZipEntry, ZipReader
from capsule.errors import CannotRunError, DamagedError
from capsule.image.compression import Source, copy, decompress, find_method
from capsule.image.tars import BLOCK_BYTES, Entry, TarReader, is_header

_MAX_LINKS = 40  # as the kernel
_MAX_LINK_BYTES = 4096
# the first two as most file systems and the kernel
_MAX_PART_BYTES, _MAX_NAME_BYTES, _MAX_DEPTH = 255, 4000, 100
# nothing but a bomb gains more by being compressed
_MAX_GAIN, _FREE_GAIN_BYTES = 200, 256 << 20
# nor do its files take less of an archive: 100 bytes are few
_FREE_ENTRIES, _MIN_ENTRY_BYTES = 50_000, 32
# a tar that is not larger is looked through before anything is written, as every zip is
_MAX_LOOK_BYTES = 64 << 20
_LONGEST_MAGIC = 6
_UNREAD = {
    b"\x28\xb5\x2f\xfd": "zstd",
    b"7z\xbc\xaf": "7-Zip",
    b"Rar!": "RAR",
    b"\x1f\x9d": "compress",
}
_ASK = "correct the URL of the dataset, or ask the publisher of the data for another archive"
_BY_HAND = "if you trust the archive, unpack it by hand, and add the folder to the site file"
_DRIVE = re.compile(r"[A-Za-z]:(/|$)")
_CREATE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_BAD_NAMES = (errno.ENAMETOOLONG, errno.EILSEQ, errno.EINVAL)


def unpack(archive: Path, target: Path, *, most_bytes: int, most_files: int, where: str) -> None:
    """Write the content of an archive to a new folder; modes, owners and times are not kept.

    Args:
        archive: The file.
        target: The folder, which is made.
        most_bytes: The largest size of all files together. It is lower for a small archive.
        most_files: The largest number of entries and folders. It is lower for a small archive.
        where: The name of the archive in errors.

    Raises:
        DamagedError: It is no such archive, it is broken, it exceeds a limit, or it holds something
            other than files, folders and links to its own files.
        CannotRunError: The folder cannot be written.
    """
    try:
        target.mkdir(parents=True)
        with archive.open("rb") as stream:
            packed_bytes = os.fstat(stream.fileno()).st_size
            most_bytes = min(most_bytes, _FREE_GAIN_BYTES + _MAX_GAIN * packed_bytes)
            most_files = min(most_files, _FREE_ENTRIES + packed_bytes // _MIN_ENTRY_BYTES)
            head = stream.read(_LONGEST_MAGIC)
            is_zip = head.startswith((b"PK\x03\x04", b"PK\x05\x06"))
            read = _read_zip if is_zip else _read_tar
            if is_zip or packed_bytes <= _MAX_LOOK_BYTES:
                # what is refused now has cost no files, which take most of the time
                read(stream, _Inventory(most_bytes, most_files), where)
            read(stream, _Writer(target, most_bytes, most_files), where)
    except DamagedError as error:
        raise DamagedError(error.what, where=where, advice=error.advice or _ASK) from None
    except OSError as error:
        if error.errno in _BAD_NAMES:
            raise DamagedError(
                f"cannot unpack: {error.strerror}", where=where, advice=_BY_HAND
            ) from None
        raise CannotRunError(
            f"cannot unpack: {error.strerror}",
            where=str(target),
            advice="free some space, or set CAPSULE_CACHE to another folder",
        ) from None


class _Inventory:
    """The files and folders of an archive, each once, and what they take; nothing is written."""

    def __init__(self, most_bytes: int, most_files: int) -> None:
        self._most_bytes = self._left_bytes = most_bytes
        self.most_files = self._left_files = most_files
        self._folders = {""}
        self._files: dict[str, int] = {}
        self._links: dict[str, tuple[str, str]] = {}

    def add_folder(self, name: str) -> None:
        """Add a folder, unless it is there."""
        place = _clean(name)
        if place in self._folders:
            self._count()
        self._make_folder(place)

    def add_file(self, name: str, pieces: Iterable[bytes], size_bytes: int) -> None:
        """Add a file of so many bytes."""
        place = self._claim(name)
        self._add(place, pieces, size_bytes)
        self._files[place] = size_bytes

    def add_link(self, name: str, to: str, *, is_hard: bool = False) -> None:
        """Keep a link for the end, when all files are there.

        Args:
            name: Name of the entry.
            to: A path from the entry's folder, of a hard link from the top of the archive.
            is_hard: True if it is a hard link.
        """
        place = self._claim(name)
        if to.startswith("/") or "\0" in to or "\\" in to:
            raise DamagedError(f"{name!a} is a link out of the archive, to {to!a}")
        self._make_folder(_parent(place))
        self._links[place] = "" if is_hard else _parent(place), to

    def copy_links(self) -> None:
        """Add a copy of the file that each link leads to."""
        sources: dict[str, tuple[str, int]] = {}
        for place in self._links:
            source = self._follow(place, sources)
            self._add(place, self._content(source), self._files[source])

    def _follow(self, place: str, known: dict[str, tuple[str, int]]) -> str:
        """Return the file that a link leads to.

        Args:
            place: Place of the link.
            known: Link -> its file and the number of links on the way; is added to.
        """
        way: list[str] = []
        here, more = place, 0
        while here not in self._files:
            if here in known:
                here, more = known[here]
                break
            if here not in self._links:
                what = "a folder" if here in self._folders else "missing in the archive"
                raise DamagedError(f"{place!a} is a link to {here!a}, which is {what}")
            way.append(here)
            if len(way) > _MAX_LINKS:
                break
            here = self._resolve(here)
        if len(way) + more > _MAX_LINKS:
            raise DamagedError(f"{place!a} leads through more than {_MAX_LINKS} links, the limit")
        for count, link in enumerate(reversed(way), start=more + 1):
            known[link] = here, count
        return here

    def _resolve(self, place: str) -> str:
        """Return the place that a link names: each step on the way is a folder of the archive."""
        here, to = self._links[place]
        for part in to.split("/"):
            if part in ("", "."):
                continue
            if here not in self._folders:
                raise DamagedError(f"{place!a} is a link through {here!a}, expected a folder")
            if part != "..":
                here = f"{here}/{part}" if here else part
            elif here:
                here = _parent(here)
            else:
                raise DamagedError(f"{place!a} is a link out of the archive, to {to!a}")
        return here

    def _add(self, place: str, pieces: Iterable[bytes], size_bytes: int) -> None:
        self._left_bytes -= size_bytes
        if self._left_bytes < 0:
            raise DamagedError(
                f"unpacks to more than {sizes.size(self._most_bytes)}, the limit", advice=_BY_HAND
            )
        self._make_folder(_parent(place))
        self._write(place, pieces, size_bytes)

    def _make_folder(self, place: str) -> None:
        missing = []
        while place not in self._folders:
            missing.append(place)
            place = _parent(place)
        for folder in reversed(missing):
            self._count()
            if folder in self._files or folder in self._links:
                raise _conflict(folder)
            self._make(folder)
            self._folders.add(folder)

    def _claim(self, name: str) -> str:
        """Return the place of a file or link, which nothing else may have."""
        self._count()
        place = _clean(name)
        if not place:
            raise DamagedError(
                f"contains a file named {name!a}, expected a name below the folder of the archive"
            )
        if place in self._files or place in self._links:
            raise DamagedError(f"contains {place!a} twice")
        if place in self._folders:
            raise _conflict(place)
        return place

    def _count(self) -> None:
        self._left_files -= 1
        if self._left_files < 0:
            raise DamagedError(
                f"contains more than {self.most_files} files and folders, the limit",
                advice=_BY_HAND,
            )

    def _make(self, folder: str) -> None:
        """Make a new folder, whose parent is there."""

    def _write(self, place: str, pieces: Iterable[bytes], size_bytes: int) -> None:
        """Write a new file, whose folder is there."""

    def _content(self, place: str) -> Iterator[bytes]:  # noqa: ARG002 - as below
        """Read a file that was written."""
        return iter(())


class _Writer(_Inventory):
    """Writes what it adds below a new folder, which nobody else writes."""

    def __init__(self, target: Path, most_bytes: int, most_files: int) -> None:
        super().__init__(most_bytes, most_files)
        self._target = target

    def _make(self, folder: str) -> None:
        try:
            (self._target / folder).mkdir()
        except FileExistsError:
            # on a file system without regard to case, or to how letters are composed
            raise DamagedError(f"contains {folder!a} twice") from None

    def _write(self, place: str, pieces: Iterable[bytes], size_bytes: int) -> None:
        left = size_bytes
        try:
            # with half the system calls of a file object, which counts for a million files
            file = os.open(self._target / place, _CREATE, 0o666)
        except FileExistsError:
            raise DamagedError(f"contains {place!a} twice") from None
        try:
            for piece in pieces:
                left -= len(piece)
                rest = memoryview(piece)
                while rest:
                    rest = rest[os.write(file, rest) :]
        finally:
            os.close(file)
        if left:
            raise DamagedError(f"is truncated within {place!a}")

    def _content(self, place: str) -> Iterator[bytes]:
        with (self._target / place).open("rb") as stream:
            yield from copy(stream.read)


def _conflict(place: str) -> DamagedError:
    return DamagedError(f"contains {place!a} both as a folder and as a file or link")


def _clean(name: str) -> str:
    """Return the place of an entry below the folder; empty for the folder itself."""
    parts = [part for part in name.split("/") if part not in ("", ".")]
    place = "/".join(parts)
    if (
        name.startswith("/")
        or ".." in parts
        or "\0" in name
        or "\\" in name
        or _DRIVE.match(place) is not None
    ):
        raise DamagedError(f"contains an entry outside the folder of the archive: {name!a}")
    # no letter takes more than four bytes
    if len(name) > _MAX_PART_BYTES // 4:
        longest = max((len(os.fsencode(part)) for part in parts), default=0)
        for found, most, unit in (
            (len(parts), _MAX_DEPTH, "levels"),
            (len(os.fsencode(place)), _MAX_NAME_BYTES, "bytes"),
            (longest, _MAX_PART_BYTES, "bytes in one level"),
        ):
            if found > most:
                raise DamagedError(
                    f"contains a name of {found} {unit}, the limit is {most} {unit}:"
                    f" {name[:100]!a}..."
                )
    return place


def _parent(place: str) -> str:
    return place.rpartition("/")[0]


def _read_tar(stream: BinaryIO, inventory: _Inventory, where: str) -> None:
    stream.seek(0)
    head = stream.read(_LONGEST_MAGIC)
    stream.seek(0)
    for magic, name in _UNREAD.items():
        if head.startswith(magic):
            raise DamagedError(
                f"is packed with {name}, expected zip, or tar with gzip, bzip2 or xz",
                advice="unpack the archive by hand, and add the folder to the site file",
            )
    method = find_method(head)
    if method is None:
        pieces = copy(stream.read)
    else:
        content = decompress(stream.read, method, where=where, may_be_padded=True)
        pieces = _limit_gain(content, stream)
    source = Source(pieces)
    block = source.peek(BLOCK_BYTES)
    if not is_header(block):
        raise DamagedError(
            f"expected a tar or zip archive, found data that begins with {bytes(block[:8])!r}"
        )
    reader = TarReader(source.pull, source.skip, where=where, reads_sparse=True)
    for entry in reader:
        _add_tar_entry(entry, reader, inventory)
    inventory.copy_links()


def _limit_gain(pieces: Iterator[bytes], stream: BinaryIO) -> Iterator[bytes]:
    """Stop at content that is out of all proportion to what was read of the archive."""
    content_bytes = 0
    for piece in pieces:
        content_bytes += len(piece)
        _require_gain(content_bytes, stream.tell())
        yield piece


def _require_gain(content_bytes: int, packed_bytes: int) -> None:
    most = _FREE_GAIN_BYTES + _MAX_GAIN * packed_bytes
    if content_bytes > most:
        raise DamagedError(
            f"unpacks to more than {sizes.size(most)}, the limit for"
            f" {sizes.size(packed_bytes)} of packed data",
            advice=_BY_HAND,
        )


def _add_tar_entry(entry: Entry, reader: TarReader, inventory: _Inventory) -> None:
    name, target = os.fsdecode(entry.path), os.fsdecode(entry.target)
    if entry.kind == "d" and not entry.size:
        inventory.add_folder(name)
    elif entry.kind == "f":
        inventory.add_file(name, reader.pieces(), entry.size)
    elif entry.kind in ("l", "h"):
        inventory.add_link(name, target, is_hard=entry.kind == "h")
    else:
        what = "a device or pipe" if entry.kind == "x" else f"a folder of {entry.size} bytes"
        raise DamagedError(f"{name!a} is {what}, expected a file, a folder of 0 bytes or a link")


def _read_zip(stream: BinaryIO, inventory: _Inventory, where: str) -> None:
    reader = ZipReader(stream, where=where, most_entries=inventory.most_files)
    content_bytes = packed_bytes = 0
    for entry in reader:
        content_bytes, packed_bytes = content_bytes + entry.size, packed_bytes + entry.packed_bytes
        _require_gain(content_bytes, packed_bytes)
        _add_zip_entry(entry, reader, inventory)
    inventory.copy_links()


def _add_zip_entry(entry: ZipEntry, reader: ZipReader, inventory: _Inventory) -> None:
    kind = stat.S_IFMT(entry.mode)
    is_folder = entry.name.endswith("/") or kind == stat.S_IFDIR
    if is_folder and kind in (0, stat.S_IFDIR, stat.S_IFREG) and not entry.size:
        inventory.add_folder(entry.name)
    elif not is_folder and kind in (0, stat.S_IFREG):
        inventory.add_file(entry.name, reader.pieces(entry), entry.size)
    elif not is_folder and kind == stat.S_IFLNK and entry.size <= _MAX_LINK_BYTES:
        inventory.add_link(entry.name, os.fsdecode(b"".join(reader.pieces(entry))))
    else:
        raise DamagedError(
            f"{entry.name!a} has the mode {entry.mode:#o} and {entry.size} bytes, expected a file,"
            f" a folder of 0 bytes or a link of at most {_MAX_LINK_BYTES} bytes"
        )
