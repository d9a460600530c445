"""Strict JSON out of a capsule: `schema.parse`, and strings that can be written again."""

from __future__ import annotations

from typing import Any

from capsule import digest, schema
from capsule.errors import DamagedError


def parse(data: bytes, *, where: str) -> Any:
    """Strict JSON whose strings can also be written again.

    Raises:
        DamagedError: Says what is wrong and in which line.
    """
    value = schema.parse(data, where=where)
    try:
        digest.canonical_json(value)
    except UnicodeEncodeError:
        raise DamagedError("a string holds half a surrogate pair", where=where) from None
    return value
