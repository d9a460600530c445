"""SIF files made by hand, so that any of their numbers can be wrong."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

BLOCK_BYTES = 4096
# a file's bytes, a link's target, or a folder
Content = bytes | str | Mapping[str, "Content"]
PLAIN: dict[str, Content] = {
    "bin": {"sh": b"#!", "big": bytes(range(256)) * 40},
    "etc": {"hosts": b"engine's own", "name": b"made"},
    "lib": "bin",
    ".singularity.d": {"runscript": b"anything"},
}


@dataclass(kw_only=True)
class Squashfs:
    """Writes a squashfs 4.0, its blocks unpacked or packed with gzip.

    Attributes:
        pack: How metadata and data are packed.
        inode: Changes the bytes of an inode, given its kind.
        name: Changes the name of an entry.
    """

    pack: Callable[[bytes], bytes] | None = None
    inode: Callable[[int, bytes], bytes] = lambda _, data: data
    name: Callable[[str], bytes] = str.encode
    data: bytearray = field(default_factory=bytearray)
    _inodes: bytearray = field(default_factory=bytearray)
    _directories: bytearray = field(default_factory=bytearray)
    _numbers: int = 0

    def write(self, content: Mapping[str, Content], **superblock: int) -> bytes:
        """The file system; fields of its superblock may be given other values."""
        self.data = bytearray(96)
        place = self._folder(content)
        inode_table = len(self.data)
        inodes, starts = self._table(self._inodes)
        self.data += inodes
        directory_table = len(self.data)
        self.data += self._table(self._directories)[0]
        fields = {
            "magic": 0x73717368,
            "inodes": self._numbers,
            "time": 0,
            "block": BLOCK_BYTES,
            "fragments": 0,
            "compressor": 1,
            "log": 12,
            "flags": 0,
            "ids": 1,
            "major": 4,
            "minor": 0,
            "root": starts[place // 8192] << 16 | place % 8192,
            "used": len(self.data),
            "id_table": 0,
            "xattrs": 0,
            "inode_table": inode_table,
            "directory_table": directory_table,
            "fragment_table": 0,
            "export": 0,
        } | superblock
        self.data[:96] = struct.pack("<IIIIIHHHHHHQQQQQQQQ", *fields.values())
        return bytes(self.data)

    def _table(self, data: bytes | bytearray) -> tuple[bytes, list[int]]:
        table, starts = bytearray(), []
        for place in range(0, len(data), 8192):
            starts.append(len(table))
            piece = bytes(data[place : place + 8192])
            packed = self.pack(piece) if self.pack else piece
            table += struct.pack("<H", len(packed) | (0 if self.pack else 0x8000)) + packed
        return bytes(table), starts

    def _folder(self, content: Mapping[str, Content]) -> int:
        entries = []
        for name, below in sorted(content.items()):
            if isinstance(below, Mapping):
                entries.append((name, self._folder(below), 1))
            elif isinstance(below, str):
                target = struct.pack("<II", 1, len(below)) + below.encode()
                entries.append((name, self._add(3, 0o777, target), 3))
            else:
                entries.append((name, self._file(below), 2))
        start, size = len(self._directories), 3
        assert start < 8192, "one block of entries is all that is needed here"
        for name, place, kind in entries:
            word = self.name(name)
            entry = struct.pack("<III", 0, 0, 0)
            entry += struct.pack("<HhHH", place, 0, kind, len(word) - 1) + word
            self._directories += entry
            size += len(entry)
        return self._add(1, 0o755, struct.pack("<IIHHI", 0, 2, size, start, 0))

    def _file(self, content: bytes) -> int:
        start, fields = len(self.data), b""
        for place in range(0, len(content), BLOCK_BYTES):
            piece = content[place : place + BLOCK_BYTES]
            packed = self.pack(piece) if self.pack else piece
            self.data += packed
            fields += struct.pack("<I", len(packed) | (0 if self.pack else 1 << 24))
        rest = struct.pack("<IIII", start, 0xFFFFFFFF, 0, len(content)) + fields
        return self._add(2, 0o644, rest)

    def _add(self, kind: int, mode: int, rest: bytes) -> int:
        self._numbers += 1
        place = len(self._inodes)
        assert place < 8192, "one block of inodes is all that is needed here"
        head = struct.pack("<HHHHII", kind, mode, 0, 0, 0, self._numbers)
        self._inodes += self.inode(kind, head + rest)
        return place


def gzipped(data: bytes) -> bytes:
    """Packed as mksquashfs does by default."""
    return zlib.compress(data, 9)


@dataclass(frozen=True, kw_only=True)
class Part:
    """A part of a SIF: a partition unless `kind` says otherwise."""

    body: bytes
    kind: int = 0x4004
    system: int = 1
    use: int = 2
    architecture: bytes = b"02\0"


def make_sif(*parts: Part, total: int | None = None, cut: int | None = None) -> bytes:
    """A SIF of some parts.

    Args:
        parts: Of it.
        total: How many it says it has.
        cut: Where it ends too early.
    """
    count = len(parts) if total is None else total
    start = 128 + 585 * len(parts)
    descriptors, bodies = b"", b""
    for number, part in enumerate(parts, 1):
        place = start + len(bodies)
        extra = struct.pack("<ii3s", part.system, part.use, part.architecture)
        descriptors += struct.pack(
            "<i?IIIqqqqqqq128s384s",
            *(part.kind, True, number, 1, 0, place, len(part.body), len(part.body)),
            *(0, 0, 0, 0, b"part", extra),
        )
        bodies += part.body
    header = struct.pack(
        "<32s10s3s3s16sqqqqqqqq",
        *(b"#!/usr/bin/env run-singularity\n", b"SIF_MAGIC\0", b"01\0", b"02\0", b"u" * 16),
        *(0, 0, 0, count, 128, 585 * count, start, len(bodies)),
    )
    return (header + descriptors + bodies)[:cut]


def plain_sif(content: Mapping[str, Content] = PLAIN) -> bytes:
    """An honest one."""
    return make_sif(Part(body=Squashfs(pack=gzipped).write(content)))
