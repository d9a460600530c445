"""Blocks of whole lines, of bytes that come cut anywhere."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

from capsule import sizes
from capsule.archive.limits import MOST_LINE_BYTES, require_short_lines
from capsule.errors import DamagedError

# so many bytes of lines are taken together: more of their values no longer stay in the cache
PIECE = 1 << 17

_Line = TypeVar("_Line")


def of(pieces: Iterable[bytes], where: str, most: int = MOST_LINE_BYTES) -> Iterator[bytes]:
    """Yield the same bytes, cut behind the ends of lines.

    Args:
        pieces: They.
        where: Their name in messages.
        most: How many bytes a line may have.

    Raises:
        DamagedError: A line is too long, or the last one does not end.
    """
    rest: list[bytes] = []
    for piece in pieces:
        end = piece.rfind(b"\n") + 1
        if end:
            block = b"".join([*rest, piece[:end]])
            require_short_lines(block, where=where, most=most)
            yield block
            rest = []
        rest.append(piece[end:])
        if sum(map(len, rest)) > most:
            raise DamagedError(f"a line is longer than {sizes.size(most)}, the limit", where=where)
    if any(rest):
        raise DamagedError("the last line lacks its line end", where=where)


def pieces(block: bytes) -> Iterator[tuple[int, int]]:
    """Yield blocks that end with a whole line."""
    start = 0
    while start < len(block):
        end = block.rfind(b"\n", start, start + PIECE) + 1 or block.find(b"\n", start) + 1
        yield start, end
        start = end


def lines(block: bytes, start: int, stop: int) -> Iterator[tuple[int, int]]:
    """Yield the start and the end of each line in a part of a block.

    Not to copy the lines spares a fifth of the time, and not to hold all blocks most of the memory.
    """
    while (end := block.find(b"\n", start, stop)) >= 0:
        yield start, end
        start = end + 1


def read(
    pieces: Iterable[bytes],
    read_line: Callable[[bytes, str], _Line],
    *,
    where: str,
    most: int = MOST_LINE_BYTES,
) -> tuple[_Line, ...]:
    """Return the value of each line.

    Args:
        pieces: The bytes of the file, cut anywhere.
        read_line: Returns the value of a line, from its bytes without the line end and from its
            place for messages.
        where: Name of the file in messages.
        most: Largest number of bytes of a line.

    Raises:
        DamagedError: A line is too long, or the last line does not end; and whatever `read_line`
            raises.
    """
    values: list[_Line] = []
    for block in of(pieces, where, most):
        for start, end in lines(block, 0, len(block)):
            values.append(read_line(block[start:end], f"{where}:{len(values) + 1}"))
    return tuple(values)
