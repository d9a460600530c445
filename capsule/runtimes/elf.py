"""What a shared library of this machine calls itself: the SONAME of its dynamic section.

The form is that of the System V ABI, chapters 4 and 5, as glibc's `elf.h` has it: of 64 bits, with
the lowest byte first, as on every machine that numpy and torch have wheels for.
"""

from __future__ import annotations

import struct
from pathlib import Path
from typing import BinaryIO

from capsule import leavings

_BEGINS = b"\x7fELF\x02\x01"
# e_phoff, e_phentsize and e_phnum; p_type, p_offset, p_vaddr and p_memsz; d_tag and d_val
_HEADER, _SEGMENT, _ENTRY = struct.Struct("<32xQ14xHH"), struct.Struct("<I4xQQ16xQ"), "<qQ"
_LOAD, _DYNAMIC = 1, 2
_STRTAB, _SONAME = 5, 14
_MOST_BYTES = 1 << 20


def soname(path: Path) -> str | None:
    """The name by which programs ask for a library, empty where it has none; None for no library.

    Args:
        path: Of the file itself, which no link leads to.
    """
    stream = leavings.open_file(path)
    if stream is None:
        return None
    with stream:
        try:
            return _read_soname(stream)
        except (OSError, ValueError, OverflowError, KeyError, StopIteration, struct.error):
            return None


def _read_soname(stream: BinaryIO) -> str | None:
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
    entries: dict[int, int] = {}
    for tag, value in struct.iter_unpack(_ENTRY, text[: len(text) // 16 * 16]):
        entries.setdefault(tag, value)
    if _SONAME not in entries:
        return ""
    address = entries[_STRTAB] + entries[_SONAME]
    loaded = (one[1:] for one in segments if one[0] == _LOAD)
    first, start = next((one[0], one[1]) for one in loaded if one[1] <= address < one[1] + one[2])
    stream.seek(first + address - start)
    return stream.read(256).split(b"\0")[0].decode(errors="replace")
