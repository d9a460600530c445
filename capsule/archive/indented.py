"""JSON to be read by people, in one form: sorted keys, two spaces, a newline at the end."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Mapping
from json.encoder import encode_basestring
from typing import Any

_MARGIN, _INNER = "\n", "\n    "
_COMPACT = json.JSONEncoder(allow_nan=False).encode


class Written(str):
    """Text that is JSON already, indented for its place."""

    __slots__ = ()


def pretty(value: Any) -> bytes:
    """JSON to be read by people, in one form: sorted keys, two spaces, a newline at the end."""
    return f"{_indent(value, _MARGIN)}{_MARGIN}".encode()


def pretty_list(
    head: Mapping[str, Any], name: str, items: Iterable[Mapping[str, Any] | Written]
) -> Iterator[bytes]:
    """Yield the output of `pretty` for an object with a long list, one item at a time.

    Args:
        head: The other members, one or more, whose names are sorted before `name`.
        name: The list's.
        items: What is in it: objects, whose members may be iterators in place of long lists.
    """
    return _pieces(head, name, (_texts(item, _INNER) for item in items), "[]")


def pretty_members(
    head: Mapping[str, Any], name: str, members: Iterable[tuple[str, Any]]
) -> Iterator[bytes]:
    """Return the same of an object with a large object in it, a member at a time.

    Args:
        head: As above.
        name: The large one's.
        members: Names and values of what is in it, sorted.
    """
    texts = ((f"{encode_basestring(key)}: ", _indent(value, _INNER)) for key, value in members)
    return _pieces(head, name, texts, "{}")


def _texts(value: Mapping[str, Any] | Written, margin: str) -> Iterator[str]:
    """Yield the output of `_indent` for an object, items of iterators one by one."""
    if isinstance(value, Written):
        yield value
        return
    if not any(isinstance(member, Iterator) for member in value.values()):
        yield _indent(value, margin)
        return
    inner = f"{margin}  "
    before = "{"
    for key in sorted(value):
        yield f"{before}{inner}{encode_basestring(key)}: "
        before = ","
        yield from _list(value[key], inner)
    yield f"{margin}}}"


def _list(value: Any, margin: str) -> Iterator[str]:
    if not isinstance(value, Iterator):
        yield _indent(value, margin)
        return
    inner = f"{margin}  "
    before = "["
    for item in value:
        yield f"{before}{inner}{_indent(item, inner)}"
        before = ","
    yield f"{margin}]" if before == "," else "[]"


def _pieces(
    head: Mapping[str, Any], name: str, items: Iterable[Iterable[str]], brackets: str
) -> Iterator[bytes]:
    others = _indent(head, _MARGIN).removesuffix("\n}")
    yield f"{others},\n  {encode_basestring(name)}: ".encode()
    before = brackets[0]
    for texts in items:
        yield f"{before}{_INNER}".encode()
        yield from map(str.encode, texts)
        before = ","
    end = f"\n  {brackets[1]}" if before == "," else brackets
    yield f"{end}\n}}\n".encode()


def _indent(value: Any, margin: str) -> str:
    """Return the output of `json.dumps` with an indent of 2, which lacks C code."""
    kind = type(value)
    if kind is float and math.isfinite(value):
        return float.__repr__(value)
    if kind is str:
        return encode_basestring(value)
    if kind is int:
        return int.__repr__(value)
    if kind is Written:
        return str(value)
    inner = f"{margin}  "
    if isinstance(value, dict) and value:
        items = [f"{encode_basestring(key)}: {_indent(value[key], inner)}" for key in sorted(value)]
        return f"{{{inner}{f',{inner}'.join(items)}{margin}}}"
    if isinstance(value, list | tuple) and value:
        items = [_indent(item, inner) for item in value]
        return f"[{inner}{f',{inner}'.join(items)}{margin}]"
    return _COMPACT(value)
