"""Read a SIF file as Apptainer makes it: its platform, and the tree of its root file system.

The header and the descriptors are those of github.com/apptainer/sif, little-endian and packed.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import BinaryIO

from capsule.digest import Digest
from capsule.errors import CannotRunError, DamagedError
from capsule.image import squashfs

MAGIC = b"SIF_MAGIC\0"
MAGIC_OFFSET = 32
_HEADER = struct.Struct("<32s10s3s3s16sqqqqqqqq")
_DESCRIPTOR = struct.Struct("<i?IIIqqqqqqq128s384s")
_PARTITION = struct.Struct("<ii3s")
_PARTITION_DATA = 0x4004
_SQUASHFS, _ENCRYPTED = 1, 5
_SYSTEM, _OVERLAY = 2, 4
_MOST_DESCRIPTORS = 4096
_ARCHITECTURES = {b"01": "386", b"02": "amd64", b"03": "arm", b"04": "arm64"} | {
    b"06": "ppc64le",
    b"11": "s390x",
    b"12": "riscv64",
}


@dataclass(frozen=True, kw_only=True)
class Sif:
    """Contents of a SIF file.

    Attributes:
        platform: Operating system and architecture, as registries name them.
        tree: Digest of the root file system's tree.
    """

    platform: tuple[str, str]
    tree: Digest


@dataclass(frozen=True, kw_only=True)
class _Partition:
    kind: int
    system: int
    architecture: bytes
    start: int
    size: int


def read(stream: BinaryIO, *, where: str) -> Sif:
    """Read a SIF file.

    Args:
        stream: Seekable.
        where: The file, for messages.

    Raises:
        DamagedError: Not a SIF, or one that contradicts itself.
        CannotRunError: What starts of it is not what its root file system shows.
    """
    size = stream.seek(0, 2)
    partitions = _partitions(stream, size, where)
    if any(partition.kind == _OVERLAY for partition in partitions):
        raise CannotRunError(
            "the SIF has an overlay, so its files can change",
            where=where,
            advice="build a SIF without overlay: apptainer build NEW.sif OLD.sif",
        )
    systems = [partition for partition in partitions if partition.kind == _SYSTEM]
    if len(systems) != 1:
        raise DamagedError(
            f"the SIF has {len(systems)} root file systems, expected one", where=where
        )
    (system,) = systems
    if system.system == _ENCRYPTED:
        raise CannotRunError(
            "the SIF is encrypted, so verifiers cannot run it",
            where=where,
            advice="build a SIF without --encrypt",
        )
    if system.system != _SQUASHFS:
        raise CannotRunError(
            "expected a read-only squashfs as root file system of the SIF, found file system type"
            f" {system.system}",
            where=where,
            advice="build a read-only SIF: apptainer build NEW.sif OLD.sif",
        )
    architecture = _ARCHITECTURES.get(system.architecture[:2])
    if architecture is None:
        code = system.architecture[:2].decode(errors="replace")
        known = ", ".join(sorted(_ARCHITECTURES.values()))
        raise DamagedError(
            f"the SIF names the unknown architecture {code!r}, expected one of {known}", where=where
        )
    tree = squashfs.read(stream, start=system.start, size=system.size, where=where)
    return Sif(platform=("linux", architecture), tree=tree.digest())


def _partitions(stream: BinaryIO, size: int, where: str) -> list[_Partition]:
    stream.seek(0)
    try:
        header = _HEADER.unpack(stream.read(_HEADER.size))
    except struct.error:
        raise DamagedError("the SIF is truncated", where=where) from None
    magic, total, start = header[1], header[8], header[9]
    if magic != MAGIC:
        raise DamagedError("not a SIF file", where=where)
    if not 0 <= total <= _MOST_DESCRIPTORS or not 0 <= start <= size - total * _DESCRIPTOR.size:
        raise DamagedError(
            f"invalid list of parts in the SIF: {total} parts from byte {start}, expected at"
            f" most {_MOST_DESCRIPTORS} parts within the {size} bytes of the file",
            where=where,
        )
    stream.seek(start)
    data = stream.read(total * _DESCRIPTOR.size)
    partitions = []
    for kind, is_used, _, _, _, offset, length, *_, extra in _DESCRIPTOR.iter_unpack(data):
        if not is_used or kind != _PARTITION_DATA:
            continue
        if not 0 <= length <= size or not 0 <= offset <= size - length:
            raise DamagedError(
                f"invalid part of the SIF: {length} bytes from byte {offset}, expected a part"
                f" within the {size} bytes of the file",
                where=where,
            )
        system, use, architecture = _PARTITION.unpack_from(extra)
        partitions.append(
            _Partition(
                kind=use, system=system, architecture=architecture, start=offset, size=length
            )
        )
    return partitions
