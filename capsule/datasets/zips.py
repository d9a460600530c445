"""The entries of an untrusted zip file, in bounded memory and the same on every Python.

`zipfile` holds the whole directory in objects, cuts names at NUL, decodes them by rules that differ
between versions of Python, and in older ones unpacks entries that overlap.
"""

from __future__ import annotations

import os
import struct
import zlib
from array import array
from collections.abc import Iterator
from dataclasses import dataclass
from typing import BinaryIO

from capsule.errors import DamagedError
from capsule.image.compression import Method, copy, decompress

_END = struct.Struct("<4s4H2LH")
_END_64_PLACE = struct.Struct("<4sLQL")
_END_64 = struct.Struct("<4sQ2H2L4Q")
_ENTRY = struct.Struct("<4s6H3L5H2L")
_LOCAL = struct.Struct("<4s5H3L2H")
_EXTRA = struct.Struct("<HH")
_MOST_COMMENT_BYTES = (1 << 16) - 1
_FULL_16, _FULL_32 = (1 << 16) - 1, (1 << 32) - 1
_ENCRYPTED, _PATCHED, _STRONG, _UTF8, _MASKED = 1, 1 << 5, 1 << 6, 1 << 11, 1 << 13
_SIZES_64, _UNICODE_NAME = 0x0001, 0x7075
_METHODS: dict[int, Method | None] = {0: None, 8: "deflate", 12: "bzip2"}


@dataclass(frozen=True, kw_only=True, slots=True)
class ZipEntry:
    """An entry of a zip's directory.

    Attributes:
        raw_name: As it is written in both headers.
        name: Decoded as a path of this machine, whatever encoding the archive has.
        mode: Of Unix, with the kind of file; 0 if it is not stated.
        method: How it is compressed, None if it is not.
        packed_bytes: Size in the archive.
        size: Size of the content in bytes.
        crc: CRC-32 of the content.
        place: Place of its local header.
    """

    raw_name: bytes
    name: str
    mode: int
    method: Method | None
    packed_bytes: int
    size: int
    crc: int
    place: int


class ZipReader:
    """The entries of a zip file, in the order of its directory.

    An error at the end tells that some of them share bytes: a small archive could be huge then.

    Args:
        stream: The file.
        where: Its name, for messages.
        most_entries: The largest number of entries.

    Raises:
        DamagedError: It has no directory that can be read, or more entries.
    """

    def __init__(self, stream: BinaryIO, *, where: str, most_entries: int) -> None:
        self._stream, self._where = stream, where
        self._count, self._bytes, self._place = self._find_directory()
        if self._count > most_entries:
            raise self._damage(f"more than {most_entries} entries")
        if self._count * _LOCAL.size > self._place:
            raise self._damage("entries overlap")

    def __iter__(self) -> Iterator[ZipEntry]:
        begins, ends = array("Q"), array("Q")
        place = self._place
        for _ in range(self._count):
            self._stream.seek(place)
            entry, entry_bytes = self._parse()
            place += entry_bytes
            end = entry.place + _LOCAL.size + len(entry.raw_name) + entry.packed_bytes
            if place > self._place + self._bytes:
                raise self._damage(f"the directory exceeds its stated size, {self._bytes} bytes")
            if end > self._place:
                raise self._damage("entries overlap")
            begins.append(entry.place)
            ends.append(end)
            yield entry
        # intervals are apart if, each list by itself in order, one ends before the next begins
        for end, begin in zip(sorted(ends), sorted(begins)[1:], strict=False):
            if end > begin:
                raise self._damage("entries overlap")

    def pieces(self, entry: ZipEntry) -> Iterator[bytes]:
        """Yield the content of an entry.

        Raises:
            DamagedError: It is cut short, broken, or has another size or checksum than stated.
        """
        self._stream.seek(entry.place)
        fields = _LOCAL.unpack(self._read(_LOCAL.size))
        flags, name_bytes, extra_bytes = fields[2], fields[9], fields[10]
        if fields[0] != b"PK\3\4" or self._read(name_bytes) != entry.raw_name:
            raise self._damage(
                f"the local header of {entry.name!a} differs from its directory entry"
            )
        self._refuse_flags(flags, entry.name)
        self._stream.seek(extra_bytes, os.SEEK_CUR)
        left = entry.packed_bytes

        def read(count: int) -> bytes:
            nonlocal left
            piece = self._stream.read(min(count, left))
            left -= len(piece)
            return piece

        packed = entry.method
        pieces = copy(read) if packed is None else decompress(read, packed, where=self._where)
        crc = size = 0
        for piece in pieces:
            crc, size = zlib.crc32(piece, crc), size + len(piece)
            if size > entry.size:
                break
            yield piece
        if (size, crc) != (entry.size, entry.crc):
            raise self._damage(
                f"{entry.name!a} has {'at least ' * (size > entry.size)}{size} bytes and CRC-32"
                f" {crc:08x}, expected {entry.size} bytes and {entry.crc:08x} as in the directory"
            )

    def _find_directory(self) -> tuple[int, int, int]:
        """Return the number of entries, size and place of the directory."""
        total = self._stream.seek(0, os.SEEK_END)
        tail_place = max(0, total - _END.size - _MOST_COMMENT_BYTES)
        self._stream.seek(tail_place)
        tail = self._stream.read()
        at = tail.rfind(b"PK\5\6")
        while at >= 0 and at + _END.size + int.from_bytes(tail[at + 20 : at + 22], "little") != len(
            tail
        ):
            at = tail.rfind(b"PK\5\6", 0, at)
        if at < 0:
            raise self._damage(
                "no directory at the end: the file is truncated, or other data follows"
            )
        _, disk, first_disk, here, count, size, place, _ = _END.unpack_from(tail, at)
        end = tail_place + at
        if _FULL_16 in (disk, first_disk, here, count) or _FULL_32 in (size, place):
            end, (disk, first_disk, here, count, size, place) = self._find_directory_64(
                end, (disk, first_disk, here, count, size, place)
            )
        if disk or first_disk or here != count:
            raise self._damage("the file is one part of a split archive")
        if place + size > end or count * _ENTRY.size > size:
            raise self._damage(
                f"the directory of {count} entries is stated as {size} bytes at byte {place},"
                f" expected at least {count * _ENTRY.size} bytes that end by byte {end}"
            )
        return count, size, place

    def _find_directory_64(
        self, end: int, fields: tuple[int, ...]
    ) -> tuple[int, tuple[int, int, int, int, int, int]]:
        place = end - _END_64_PLACE.size
        if place >= 0:
            self._stream.seek(place)
            mark, _, place_64, _ = _END_64_PLACE.unpack(self._read(_END_64_PLACE.size))
            if mark == b"PK\6\7":
                if place_64 + _END_64.size > place:
                    raise self._damage(
                        f"the ZIP64 end record is stated at byte {place_64}, expected at most byte"
                        f" {place - _END_64.size}"
                    )
                self._stream.seek(place_64)
                mark, _, _, _, *fields_64 = _END_64.unpack(self._read(_END_64.size))
                if mark != b"PK\6\6":
                    raise self._damage(
                        f"found {mark!r} at byte {place_64}, expected a ZIP64 end record"
                    )
                disk, first_disk, here, count, size, at = fields_64
                return place_64, (disk, first_disk, here, count, size, at)
        # exactly as many as the largest number
        disk, first_disk, here, count, size, at = fields
        return end, (disk, first_disk, here, count, size, at)

    def _parse(self) -> tuple[ZipEntry, int]:
        """Return the entry that comes next in the directory, and the bytes that it takes there."""
        fields = _ENTRY.unpack(self._read(_ENTRY.size))
        mark, _, _, flags, method = fields[:5]
        crc, packed_bytes, size, name_bytes, extra_bytes, comment_bytes, disk = fields[7:14]
        attributes, place = fields[15:]
        if mark != b"PK\1\2":
            raise self._damage("the directory is corrupt")
        variable = self._read(name_bytes + extra_bytes)
        raw_name, extra = variable[:name_bytes], variable[name_bytes:]
        encoded = raw_name if flags & _UTF8 else _recode(raw_name)
        sizes = [size, packed_bytes, place]
        for tag, value in _extras(extra):
            if tag == _SIZES_64:
                sizes = self._widen(sizes, value, os.fsdecode(raw_name))
            elif tag == _UNICODE_NAME and not flags & _UTF8:
                encoded = _unicode_name(raw_name, value) or encoded
        name = os.fsdecode(encoded)
        if disk not in (0, _FULL_16):
            raise self._damage("the file is one part of a split archive")
        self._refuse_flags(flags, name)
        if method not in _METHODS:
            raise self._damage(
                f"{name!a} uses compression method {method}, expected stored (0), deflate (8) or"
                " bzip2 (12)"
            )
        entry = ZipEntry(
            raw_name=raw_name,
            name=name,
            mode=attributes >> 16,
            method=_METHODS[method],
            size=sizes[0],
            packed_bytes=sizes[1],
            crc=crc,
            place=sizes[2],
        )
        if entry.method is None and entry.size != entry.packed_bytes:
            raise self._damage(
                f"the uncompressed entry {name!a} has {entry.packed_bytes} packed and {entry.size}"
                " unpacked bytes, expected equal numbers"
            )
        return entry, _ENTRY.size + name_bytes + extra_bytes + comment_bytes

    def _widen(self, sizes: list[int], value: bytes, name: str) -> list[int]:
        """Return size, packed size and place, of which those that do not fit are in an extra
        field.
        """
        wide = iter(struct.unpack(f"<{len(value) // 8}Q", value[: len(value) // 8 * 8]))
        try:
            return [next(wide) if size == _FULL_32 else size for size in sizes]
        except StopIteration:
            raise self._damage(
                f"the ZIP64 field of {name!a} has {len(value)} bytes, expected at least"
                f" {8 * sizes.count(_FULL_32)} bytes"
            ) from None

    def _refuse_flags(self, flags: int, name: str) -> None:
        if flags & (_ENCRYPTED | _STRONG | _MASKED):
            raise self._damage(f"{name!a} is encrypted")
        if flags & _PATCHED:
            raise self._damage(f"{name!a} is a patch of another file")

    def _read(self, count: int) -> bytes:
        data = self._stream.read(count)
        if len(data) < count:
            raise self._damage("it is truncated")
        return data

    def _damage(self, what: str) -> DamagedError:
        return DamagedError(f"cannot read the zip: {what}", where=self._where)


def _extras(extra: bytes) -> Iterator[tuple[int, bytes]]:
    at = 0
    while at + _EXTRA.size <= len(extra):
        tag, size = _EXTRA.unpack_from(extra, at)
        at += _EXTRA.size
        yield tag, extra[at : at + size]
        at += size


def _unicode_name(raw_name: bytes, value: bytes) -> bytes | None:
    """Return the name in UTF-8 from its extra field, if that belongs to this name."""
    is_same = value[:1] == b"\1" and value[1:5] == zlib.crc32(raw_name).to_bytes(4, "little")
    return value[5:] if is_same else None


def _recode(raw_name: bytes) -> bytes:
    """Return a name whose encoding is not stated: macOS writes UTF-8, others that of DOS."""
    try:
        raw_name.decode()
    except UnicodeDecodeError:
        return raw_name.decode("cp437").encode()
    return raw_name
