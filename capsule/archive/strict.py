"""Strict JSON out of a capsule: `schema.parse`, and strings that can be written again.

Text that is byte for byte what its value is written as, has neither doubled keys nor numbers that
overflow nor half a surrogate pair: a capsule's own documents are read by orjson, in a twentieth of
the time. Anything else, whole or damaged, is left to the slow reader, which says what is wrong.
"""

from __future__ import annotations

import re
import resource
from collections.abc import Callable, Iterator
from typing import Any

import orjson

from capsule import digest, schema, sizes
from capsule.errors import DamagedError

_INDENTED = orjson.OPT_SORT_KEYS | orjson.OPT_INDENT_2
# a document larger than this has its first list of objects parsed in parts of about this size
_LARGE = 1 << 20
_LIST = re.compile(rb'\n  "([a-z_]+)": \[(?=\n    \{)')
_ITEM_END, _LIST_END = b"\n    }", b"\n    }\n  ]"
# so many items of a list are compared at once
_ITEMS = 1000
# numbers that Python writes otherwise than orjson; each ends its line, as no string does
_SMALL = re.compile(rb"0\.0000\d+(?=,?(?:\n|$))")
_EXPONENT = re.compile(rb"e(-?)(\d+)(?=,?(?:\n|$))")
# what others wrote takes several times the memory
_MOST_FOREIGN = 32 << 20
# so far right stands what is nested as deep as `schema.parse` allows
_TOO_DEEP = b"\n" + b" " * 128
_BLANK_LINE = b"\n\n"
_FEW_BRACKETS = 64
# bytes of a line that an error shows
_SHOWN = 40
# orjson ends the process where it is given no memory
MEMORY_IS_LIMITED = resource.getrlimit(resource.RLIMIT_AS)[0] != resource.RLIM_INFINITY

Visit = Callable[[Any], None]
"""May put what is equal into the place of a value's parts."""


def parse(data: bytes, *, where: str, visit: Visit | None = None) -> Any:
    """Strict JSON whose strings can also be written again.

    Args:
        data: The document.
        where: Its name in messages.
        visit: Called with each item of a large document's long list, once it is read.

    Raises:
        DamagedError: Says what is wrong and in which line.
    """
    is_foreign = _TOO_DEEP in data or _BLANK_LINE in data
    value = None if is_foreign else _fast(data, _is_indented, visit)
    if value is not None:
        return value
    if len(data) > _MOST_FOREIGN and not MEMORY_IS_LIMITED:
        raise DamagedError(
            f"another program formatted this JSON: found {sizes.size(len(data))}, expected at most"
            f" {sizes.size(_MOST_FOREIGN)}",
            where=where,
        )
    return _slowly(data, where)


def parse_line(data: bytes, *, where: str) -> Any:
    """Return the same for a line of JSON Lines, which has no spaces.

    Raises:
        DamagedError: Says what is wrong.
    """
    value = parse_canonical_line(data)
    return _slowly(data, where) if value is None else value


def parse_canonical_line(data: bytes) -> Any:
    """Return the value of a line that is byte for byte what it is written as; None for any
    other.
    """
    few = data.count(b"{") + data.count(b"[") <= _FEW_BRACKETS
    return _fast(data, _is_line) if few else None


def require_canonical(data: bytes, due: bytes, *, where: str) -> None:
    """Raise unless a line of JSON Lines is what its value is written as.

    Args:
        data: The line, without its line end.
        due: The line that the value is written as, with its line end.
        where: Place for the message.

    Raises:
        DamagedError: Names the first byte that differs.
    """
    found = data + b"\n"
    if found != due:
        pairs = enumerate(zip(due, found, strict=False))
        at = next(place for place, (right, wrong) in pairs if right != wrong)
        raise DamagedError(
            f"found {found[at : at + _SHOWN]!r} at byte {at} of the line, expected"
            f" {due[at : at + _SHOWN]!r} as in the canonical form",
            where=where,
        )


def _fast(
    data: bytes, is_canonical: Callable[[Any, bytes], bool], visit: Visit | None = None
) -> Any:
    """Return the value if it is written as it was read, else None."""
    if MEMORY_IS_LIMITED:
        return None
    try:
        value = _load(data, visit)
        return value if is_canonical(value, data) else None
    except (orjson.JSONDecodeError, orjson.JSONEncodeError):
        return None


def _load(data: bytes, visit: Visit | None) -> Any:
    """Return the value of a document, of which a long list of objects is parsed some at a time.

    Whole, it takes orjson four times its bytes besides the value. Where a list begins and an object
    ends is told by the spaces before it: what is no document in our form comes out as anything, or
    not at all, and is found to be none when it is compared.
    """
    match = _LIST.search(data) if len(data) > _LARGE else None
    if match is None:
        return orjson.loads(data)
    place, end = match.end(), data.find(_LIST_END, match.end()) + len(_ITEM_END)
    items: list[Any] = []
    while place < end:
        cut = data.find(_ITEM_END + b",", place + _LARGE, end)
        stop = end if cut < 0 else cut + len(_ITEM_END)
        read = orjson.loads(b"[%b]" % data[place:stop])
        if visit:
            for item in read:
                visit(item)
        items += read
        place = stop + 1
    rest = memoryview(data)
    value = orjson.loads(b"".join((rest[: match.end()], rest[max(match.end(), end) :])))
    value[match[1].decode()] = items
    return value


def _is_line(value: Any, data: bytes) -> bool:
    return orjson.dumps(value, option=orjson.OPT_SORT_KEYS) == data


def _is_indented(value: Any, data: bytes) -> bool:
    """Return whether a document is what `pretty` makes of its value, compared a piece at a time."""
    place = 0
    for piece in _pieces(value):
        due = piece if data.startswith(piece, place) else _in_python(piece)
        if not data.startswith(due, place):
            return False
        place += len(due)
    return place == len(data)


def _pieces(value: Any) -> Iterator[bytes]:
    """Yield a value as indented JSON, in pieces: whole, it takes as much memory as all that it
    holds.
    """
    if type(value) is not dict or not value:
        yield orjson.dumps(value, option=_INDENTED)
        yield b"\n"
        return
    before = b"{"
    for name in sorted(value):
        yield before + b"\n  " + orjson.dumps(name) + b": "
        before = b","
        member = value[name]
        if type(member) is not list or not member:
            yield orjson.dumps(member, option=_INDENTED).replace(b"\n", b"\n  ")
            continue
        for start in range(0, len(member), _ITEMS):
            items = orjson.dumps(member[start : start + _ITEMS], option=_INDENTED)
            yield (b"," if start else b"[") + items[1:-2].replace(b"\n", b"\n  ")
        yield b"\n  ]"
    yield b"\n}\n"


def _in_python(piece: bytes) -> bytes:
    """Return the same with the numbers written as Python writes them."""
    return _EXPONENT.sub(_exponent, _SMALL.sub(_small, piece))


def _small(match: re.Match[bytes]) -> bytes:
    is_whole = not match.string[max(0, match.start() - 1) : match.start()].isdigit()
    return repr(float(match[0])).encode() if is_whole else match[0]


def _exponent(match: re.Match[bytes]) -> bytes:
    return b"e" + (match[1] or b"+") + match[2].zfill(2)


def _slowly(data: bytes, where: str) -> Any:
    value = schema.parse(data, where=where)
    try:
        digest.canonical_json(value)
    except UnicodeEncodeError as error:
        half = error.object[error.start]
        raise DamagedError(
            f"a string contains {half!a}, half a surrogate pair", where=where
        ) from None
    return value
