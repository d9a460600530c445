"""SIF files that are refused, each by what is wrong with it."""

from __future__ import annotations

from collections.abc import Callable

from capsule.errors import CannotRunError, CapsuleError, DamagedError
from tests.support.sifs import PLAIN, Part, Squashfs, gzipped, make_sif, plain_sif

Refused = tuple[Callable[[], bytes], type[CapsuleError], str]


def _squashfs(**superblock: int) -> bytes:
    return make_sif(Part(body=Squashfs().write(PLAIN, **superblock)))


def _inode(kind: int, start: int, value: bytes) -> Callable[[int, bytes], bytes]:
    def change(of: int, data: bytes) -> bytes:
        return data[:start] + value + data[start + len(value) :] if of == kind else data

    return change


REFUSED: dict[str, Refused] = {
    "cut in its header": (lambda: plain_sif()[:100], DamagedError, "truncated"),
    "cut in its data": (lambda: plain_sif()[:-9], DamagedError, "invalid part of the SIF"),
    "more parts than are there": (
        lambda: make_sif(Part(body=b""), total=4000),
        DamagedError,
        "invalid list of parts",
    ),
    "no root file system": (make_sif, DamagedError, "has 0 root file systems"),
    "two root file systems": (
        lambda: make_sif(*[Part(body=Squashfs().write(PLAIN))] * 2),
        DamagedError,
        "has 2 root file systems",
    ),
    "an overlay": (
        lambda: make_sif(Part(body=Squashfs().write(PLAIN)), Part(body=b"ext3", use=4, system=2)),
        CannotRunError,
        "has an overlay",
    ),
    "encrypted": (
        lambda: make_sif(Part(body=b"x" * 200, system=5)),
        CannotRunError,
        "encrypted",
    ),
    "writable": (
        lambda: make_sif(Part(body=b"x" * 200, system=2)),
        CannotRunError,
        "found file system type 2",
    ),
    "of no architecture": (
        lambda: make_sif(Part(body=b"x" * 200, architecture=b"99\0")),
        DamagedError,
        "names the unknown architecture",
    ),
    "no squashfs": (
        lambda: make_sif(Part(body=b"x" * 200)),
        DamagedError,
        "expected a squashfs 4.0",
    ),
    "packed with lz4": (lambda: _squashfs(compressor=5), CannotRunError, "compressed with lz4"),
    "blocks of a gigabyte": (lambda: _squashfs(block=1 << 30), DamagedError, "invalid block size"),
    "a root outside": (lambda: _squashfs(root=1 << 60), DamagedError, "invalid position"),
    "a file without end": (
        lambda: make_sif(
            Part(body=Squashfs(inode=_inode(2, 28, b"\xff\xff\xff\x7f")).write(PLAIN))
        ),
        DamagedError,
        "unpacks to more than",
    ),
    "a link without a target": (
        lambda: make_sif(Part(body=Squashfs(inode=_inode(3, 20, b"\0\0\0\0")).write(PLAIN))),
        DamagedError,
        "invalid length of a link",
    ),
    "an inode of no kind": (
        lambda: make_sif(Part(body=Squashfs(inode=_inode(3, 0, b"\x63\0")).write(PLAIN))),
        DamagedError,
        "unknown inode type 99",
    ),
    "a name that leads out": (
        lambda: make_sif(Part(body=Squashfs(name=lambda _: b"..").write(PLAIN))),
        DamagedError,
        "invalid name",
    ),
    "two files of one name": (
        lambda: make_sif(Part(body=Squashfs(name=lambda _: b"one").write(PLAIN))),
        DamagedError,
        "contains the name 'one' twice",
    ),
    "a folder in itself": (
        lambda: make_sif(
            Part(body=Squashfs(inode=_inode(1, 24, b"\x18\0\0\0")).write({"a": {"a": {}}}))
        ),
        DamagedError,
        "has two parent folders",
    ),
    "packed bytes that are none": (
        lambda: make_sif(Part(body=Squashfs(pack=lambda data: data[::-1]).write(PLAIN))),
        DamagedError,
        "squashfs is damaged",
    ),
    "a block that unpacks without end": (
        lambda: make_sif(
            Part(body=Squashfs(pack=lambda data: gzipped(data + bytes(1 << 20))).write(PLAIN))
        ),
        DamagedError,
        "a block exceeds its limit",
    ),
}
