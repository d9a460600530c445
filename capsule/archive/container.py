"""The zip file: one byte string for one list of entries, stored, so that a reader can demand it.

An entry is a local header, then its bytes; entries follow each other without a gap, sorted by
name; then the directory. Everything that zip lets a writer choose is fixed: no compression, the
date 1980-01-01, mode 0644, no comment, no extra field but zip64's where a number needs it.
"""

from __future__ import annotations

import os
import shlex
import struct
from array import array
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from hashlib import sha256
from io import BufferedRandom
from pathlib import Path
from weakref import finalize
from zlib import crc32

from capsule import sizes
from capsule.archive.limits import MOST_DIRECTORY_BYTES, MOST_ENTRIES, MOST_NAME_BYTES
from capsule.archive.table import Table
from capsule.digest import Digest
from capsule.errors import DamagedError, ExecutionError

CHUNK = 1 << 20
_FULL32 = 0xFFFFFFFF
_FULL16 = 0xFFFF
_DATE_1980_01_01 = 0x0021
_MADE_BY_UNIX = 3 << 8
_MODE_0644 = 0o100644 << 16
_LOCAL = struct.Struct("<4s5H3L2H")
_CENTRAL = struct.Struct("<4s6H3L5H2L")
_END = struct.Struct("<4s4H2LH")
_END64 = struct.Struct("<4sQ2H2L4Q")
_LOCATOR64 = struct.Struct("<4sLQL")
_FOREIGN = "another program wrote or changed the zip directory"


@dataclass(frozen=True, kw_only=True, slots=True)
class Entry:
    """One file in the zip: `offset` is where its local header starts, both in bytes."""

    name: str
    size_bytes: int
    crc: int
    offset: int

    @property
    def data_offset(self) -> int:
        """Return the offset of the entry's bytes."""
        return self.offset + len(local_header(self))

    @property
    def end(self) -> int:
        """Return the offset of the next entry."""
        return self.data_offset + self.size_bytes


def local_header(entry: Entry) -> bytes:
    """Return the bytes in front of an entry's data."""
    name = entry.name.encode("ascii")
    big = entry.size_bytes >= _FULL32
    extra = struct.pack("<2H2Q", 1, 16, entry.size_bytes, entry.size_bytes) if big else b""
    size = _FULL32 if big else entry.size_bytes
    return (
        _LOCAL.pack(
            b"PK\x03\x04",
            45 if big else 20,
            0,
            0,
            0,
            _DATE_1980_01_01,
            entry.crc,
            size,
            size,
            len(name),
            len(extra),
        )
        + name
        + extra
    )


def directory(entries: list[Entry]) -> bytes:
    """Return everything after the last entry: the central directory and its end records."""
    records = b"".join(map(_central_header, entries))
    start = entries[-1].end if entries else 0
    return records + _end_records(len(entries), start, len(records))


def _end_records(count: int, start: int, size: int) -> bytes:
    """Return the end records of a directory at an offset, with its entries and bytes."""
    tail = b""
    if count >= _FULL16 or start >= _FULL32 or size >= _FULL32:
        tail = _END64.pack(
            b"PK\x06\x06", _END64.size - 12, _MADE_BY_UNIX | 45, 45, 0, 0, count, count, size, start
        ) + _LOCATOR64.pack(b"PK\x06\x07", 0, start + size, 1)
    short_count = min(count, _FULL16)
    end = _END.pack(
        b"PK\x05\x06", 0, 0, short_count, short_count, min(size, _FULL32), min(start, _FULL32), 0
    )
    return tail + end


def _central_header(entry: Entry) -> bytes:
    name = entry.name.encode("ascii")
    big_size, big_offset = entry.size_bytes >= _FULL32, entry.offset >= _FULL32
    wide = [entry.size_bytes] * 2 * big_size + [entry.offset] * big_offset
    extra = struct.pack(f"<2H{len(wide)}Q", 1, 8 * len(wide), *wide) if wide else b""
    size = _FULL32 if big_size else entry.size_bytes
    version = 45 if wide else 20
    return (
        _CENTRAL.pack(
            b"PK\x01\x02",
            _MADE_BY_UNIX | version,
            version,
            0,
            0,
            0,
            _DATE_1980_01_01,
            entry.crc,
            size,
            size,
            len(name),
            len(extra),
            0,
            0,
            0,
            _MODE_0644,
            min(entry.offset, _FULL32),
        )
        + name
        + extra
    )


class ZipWriter:
    """A zip under construction in an open, empty file that can seek."""

    def __init__(self, file: BufferedRandom) -> None:
        self._file = file
        self._entries: list[Entry] = []

    def add(self, name: str, size_bytes: int, chunks: Iterable[bytes]) -> Digest:
        """Append one entry; entries come in the order of their names.

        Args:
            name: Path within the zip.
            size_bytes: How many bytes will come: the header needs it before they do.
            chunks: The bytes.

        Returns:
            Their digest.

        Raises:
            ExecutionError: Another number of bytes came.
        """
        offset = self._entries[-1].end if self._entries else 0
        entry = Entry(name=name, size_bytes=size_bytes, crc=0, offset=offset)
        self._file.write(local_header(entry))
        digest, crc, count = sha256(), 0, 0
        for chunk in chunks:
            digest.update(chunk)
            crc = crc32(chunk, crc)
            count += len(chunk)
            self._file.write(chunk)
        if count != size_bytes:
            raise ExecutionError(
                f"the file changed during sealing: found {count} bytes, expected {size_bytes}",
                where=name,
                advice="end the program that writes to the file, then continue with --resume",
            )
        entry = replace(entry, crc=crc)
        self._file.seek(offset)
        self._file.write(local_header(entry))
        self._file.seek(entry.end)
        self._entries.append(entry)
        return Digest(hex=digest.hexdigest())

    def finish(self) -> None:
        """Write the directory, after which nothing more fits."""
        self._file.write(directory(self._entries))
        self._file.flush()


class Zip:
    """An open zip whose every header is what this module would have written.

    Args:
        path: The file; it stays open until `close`, and only this one descriptor is read.

    Raises:
        DamagedError: It is cut short, or any byte outside the entries' data is not the writer's.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        # also closed when it is dropped: most who read a capsule want its record alone
        self.close = finalize(self, os.close, self._fd)
        # in columns: there can be a quarter of a million entries
        names, lengths = list[str](), array("Q")
        self._offsets, self._checksums = array("Q"), array("I")
        for entry in self._read_directory():
            names.append(entry.name)
            lengths.append(entry.size_bytes)
            self._offsets.append(entry.offset)
            self._checksums.append(entry.crc)
        self._sizes = Table(names, lengths)
        self._check_headers()

    @property
    def sizes(self) -> Mapping[str, int]:
        """Return every entry's name and size in bytes, in the order of the file."""
        return self._sizes

    def chunks(self, name: str, most: int = CHUNK) -> Iterator[bytes]:
        """Yield the bytes of an entry, at most so many at a time.

        Raises:
            DamagedError: At the end, when their CRC is not the recorded one.
        """
        entry = self._entry(name)
        offset, left, crc = entry.data_offset, entry.size_bytes, 0
        while left and (chunk := os.pread(self._fd, min(most, left), offset)):
            offset, left, crc = offset + len(chunk), left - len(chunk), crc32(chunk, crc)
            yield chunk
        if left or crc != entry.crc:
            raise DamagedError(f"wrong checksum of {name}", where=str(self._path))

    def _entry(self, name: str) -> Entry:
        place = self._sizes.place(name)
        return Entry(
            name=name,
            size_bytes=self._sizes[name],
            crc=self._checksums[place],
            offset=self._offsets[place],
        )

    def _read_directory(self) -> Iterator[Entry]:
        size = os.fstat(self._fd).st_size
        count, start = self._read_end(size)
        if count > MOST_ENTRIES:
            raise self._damage(f"the zip has {count} entries, the limit is {MOST_ENTRIES}")
        data = os.pread(self._fd, size - start, start)
        position = offset = 0
        before = ""
        for _ in range(count):
            entry = self._read_central(data, position)
            header = _central_header(entry)
            # one comparison refuses comments, extra fields, methods, flags, links, odd modes and
            # dates; the offset overlaps, gaps and joined zips: no writer of ours leaves any
            if entry.offset != offset or not data.startswith(header, position):
                raise self._repacked(f"{_FOREIGN} at byte {position}, entry {entry.name!r}")
            if position and entry.name <= before:
                raise self._repacked(
                    f"zip entry {entry.name!r} follows {before!r}, expected ascending names"
                )
            yield entry
            position, offset, before = position + len(header), entry.end, entry.name
        if offset != start or data[position:] != _end_records(count, start, position):
            raise self._repacked(f"{_FOREIGN} at its end, byte {position}")

    def _read_end(self, size: int) -> tuple[int, int]:
        """Return the number of entries, and the offset of the directory."""
        end = os.pread(self._fd, _END.size, max(0, size - _END.size))
        if len(end) != _END.size or end[:4] != b"PK\x05\x06":
            raise self._damage(
                "not a capsule: truncated, or followed by other data; expected the end record of a"
                f" zip in the last {_END.size} bytes",
                advice="download the capsule again from its publisher",
            )
        count, start = int(_END.unpack(end)[4]), int(_END.unpack(end)[6])
        position = size - _END.size - _LOCATOR64.size - _END64.size
        if (count == _FULL16 or start == _FULL32) and position >= 0:
            end64 = os.pread(self._fd, _END64.size, position)
            if end64[:4] == b"PK\x06\x06":
                count, start = _END64.unpack(end64)[7], _END64.unpack(end64)[9]
        if start > size:
            raise self._damage(
                f"the zip directory starts at byte {start}, after the end of the file, byte {size}"
            )
        if size - start > MOST_DIRECTORY_BYTES:
            found, limit = sizes.size(size - start), sizes.size(MOST_DIRECTORY_BYTES)
            raise self._damage(f"the zip directory has {found}, the limit is {limit}")
        return count, start

    def _read_central(self, data: bytes, position: int) -> Entry:
        try:
            fields = _CENTRAL.unpack_from(data, position)
            crc, size, name_length, extra_length, offset = (fields[n] for n in (7, 9, 10, 11, 16))
            start = position + _CENTRAL.size
            if name_length > MOST_NAME_BYTES:
                raise self._damage(
                    f"the name of a zip entry has {name_length} bytes, the limit is"
                    f" {MOST_NAME_BYTES} bytes"
                )
            name = data[start : start + name_length].decode("ascii")
            extra = data[start + name_length : start + name_length + extra_length]
            wide = list(struct.unpack(f"<{max(0, len(extra) - 4) // 8}Q", extra[4:]))
            if size == _FULL32:
                size = wide[0]
            if offset == _FULL32:
                offset = wide[-1]
        except (struct.error, UnicodeDecodeError, IndexError):
            raise self._damage(f"the zip directory cannot be read at byte {position}") from None
        return Entry(name=name, size_bytes=size, crc=crc, offset=offset)

    def _check_headers(self) -> None:
        for entry in map(self._entry, self._sizes):
            expected = local_header(entry)
            if os.pread(self._fd, len(expected), entry.offset) != expected:
                raise self._repacked(
                    f"the zip header of {entry.name!r} contradicts the zip directory"
                )

    def _repacked(self, what: str) -> DamagedError:
        """Return the error of a zip that another program made of the same files, or that was
        changed.
        """
        path = str(self._path)
        return DamagedError(
            f"{what}: another program has repacked or changed the file",
            where=path,
            advice=f"unpack the file (unzip {shlex.quote(path)} -d unpacked), remove __MACOSX and"
            " .DS_Store, and give the folder that contains bagit.txt",
        )

    def _damage(self, what: str, *, advice: str | None = None) -> DamagedError:
        return DamagedError(what, where=str(self._path), advice=advice)
