"""Names in ELF files: of a library, and of the libraries that a program needs.

The form is that of the System V ABI, chapters 4 and 5, as glibc's `elf.h` has it: of 64 bits, with
the lowest byte first, as on every machine that numpy and torch have wheels for.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from capsule import leavings

_BEGINS = b"\x7fELF\x02\x01"
# e_phoff, e_phentsize and e_phnum; p_type, p_offset, p_vaddr and p_memsz; d_tag and d_val
_HEADER, _SEGMENT, _ENTRY = struct.Struct("<32xQ14xHH"), struct.Struct("<I4xQQ16xQ"), "<qQ"
_LOAD, _DYNAMIC = 1, 2
_NEEDED, _STRTAB, _SONAME, _RPATH, _RUNPATH = 1, 5, 14, 15, 29
_MOST_BYTES = 1 << 20
_MOST_NEEDED = 1000
_LONGEST_NAME, _LONGEST_PATH = 256, 1 << 14


@dataclass(frozen=True, kw_only=True)
class Needs:
    """Files that the loader needs before a program starts.

    Attributes:
        libraries: Names of the shared libraries that it needs itself (DT_NEEDED), in order.
        folders: Where it says that they are looked for (DT_RUNPATH, else DT_RPATH), as written.
    """

    libraries: tuple[str, ...]
    folders: tuple[str, ...]


def soname(path: Path) -> str | None:
    """Return the name by which programs ask for a library, empty where it has none; None for no
    library.

    Args:
        path: Path of the file itself, which no link leads to.
    """
    stream = leavings.open_file(path)
    if stream is None:
        return None
    with stream:
        dynamic = _Dynamic.read(stream)
        if dynamic is None:
            return None
        try:
            return dynamic.text(stream, _SONAME, _LONGEST_NAME) or ""
        except _FAULTS:
            return None


def needs(stream: BinaryIO) -> Needs | None:
    """Return the libraries that a program needs; None for what is no dynamic ELF file.

    Args:
        stream: The file, which may be anything.
    """
    dynamic = _Dynamic.read(stream)
    if dynamic is None:
        return None
    try:
        libraries = dynamic.texts(stream, _NEEDED, _LONGEST_NAME)
        folders = dynamic.text(stream, _RUNPATH, _LONGEST_PATH)
        folders = folders or dynamic.text(stream, _RPATH, _LONGEST_PATH) or ""
    except _FAULTS:
        return None
    return Needs(libraries=libraries, folders=tuple(filter(None, folders.split(":"))))


_FAULTS = (OSError, ValueError, OverflowError, KeyError, StopIteration, struct.error)


@dataclass(frozen=True, kw_only=True)
class _Dynamic:
    """The dynamic section of a file.

    Attributes:
        entries: Values by tag, in order.
        loaded: Offset, address and length of each segment.
    """

    entries: dict[int, list[int]]
    loaded: tuple[tuple[int, int, int], ...]

    @classmethod
    def read(cls, stream: BinaryIO) -> _Dynamic | None:
        """Read the needs of an ELF file; None for other files, or without a dynamic section."""
        try:
            return cls._read(stream)
        except _FAULTS:
            return None

    @classmethod
    def _read(cls, stream: BinaryIO) -> _Dynamic | None:
        head = stream.read(_HEADER.size)
        if not head.startswith(_BEGINS):
            return None
        offset, size, count = _HEADER.unpack(head)
        stream.seek(offset)
        table = stream.read(size * count)
        segments = [_SEGMENT.unpack_from(table, start) for start in range(0, size * count, size)]
        place, length = next((one[1], one[3]) for one in segments if one[0] == _DYNAMIC)
        stream.seek(place)
        text = stream.read(min(length, _MOST_BYTES))
        if len(text) < length:
            return None
        entries: dict[int, list[int]] = {}
        for tag, value in struct.iter_unpack(_ENTRY, text[: len(text) // 16 * 16]):
            if tag == 0:
                break
            entries.setdefault(tag, []).append(value)
        loaded = tuple(one[1:] for one in segments if one[0] == _LOAD)
        return cls(entries=entries, loaded=loaded)

    def text(self, stream: BinaryIO, tag: int, longest: int) -> str | None:
        """Return the first text of a tag, None where there is none."""
        return next(iter(self.texts(stream, tag, longest)), None)

    def texts(self, stream: BinaryIO, tag: int, longest: int) -> tuple[str, ...]:
        """Return every text of a tag."""
        texts = []
        for value in self.entries.get(tag, ())[:_MOST_NEEDED]:
            address = self.entries[_STRTAB][0] + value
            segments = (one for one in self.loaded if one[1] <= address < one[1] + one[2])
            offset, start, _ = next(segments)
            stream.seek(offset + address - start)
            texts.append(stream.read(longest).split(b"\0")[0].decode(errors="replace"))
        return tuple(texts)
