"""Strict JSON out of a capsule: `schema.parse`, and strings that can be written again.

Text that is byte for byte what its value is written as, has neither doubled keys nor numbers that
overflow nor half a surrogate pair: a capsule's own documents are read by orjson, in a twentieth of
the time. Anything else, whole or damaged, is left to the slow reader, which says what is wrong.
"""

from __future__ import annotations

import resource
from typing import Any

import orjson

from capsule import digest, schema
from capsule.errors import DamagedError

_INDENTED = orjson.OPT_SORT_KEYS | orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE
# so far right stands what is nested as deep as `schema.parse` allows
_TOO_DEEP = b"\n" + b" " * 128
_FEW_BRACKETS = 64
# orjson ends the process where it is given no memory
MEMORY_IS_LIMITED = resource.getrlimit(resource.RLIMIT_AS)[0] != resource.RLIM_INFINITY


def parse(data: bytes, *, where: str) -> Any:
    """Strict JSON whose strings can also be written again.

    Raises:
        DamagedError: Says what is wrong and in which line.
    """
    value = None if _TOO_DEEP in data else _is_canonical(data, _INDENTED)
    return _slowly(data, where) if value is None else value


def parse_line(data: bytes, *, where: str) -> Any:
    """The same for a line of JSON Lines, which has no spaces.

    Raises:
        DamagedError: Says what is wrong.
    """
    few = data.count(b"{") + data.count(b"[") <= _FEW_BRACKETS
    value = _is_canonical(data, orjson.OPT_SORT_KEYS) if few else None
    return _slowly(data, where) if value is None else value


def _is_canonical(data: bytes, options: int) -> Any:
    """The value if it is written as it was read, else None."""
    if MEMORY_IS_LIMITED:
        return None
    try:
        value = orjson.loads(data)
        return value if orjson.dumps(value, option=options) == data else None
    except (orjson.JSONDecodeError, orjson.JSONEncodeError):
        return None


def _slowly(data: bytes, where: str) -> Any:
    value = schema.parse(data, where=where)
    try:
        digest.canonical_json(value)
    except UnicodeEncodeError:
        raise DamagedError("a string holds half a surrogate pair", where=where) from None
    return value
