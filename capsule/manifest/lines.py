"""Say in which line of a JSON text each value stands, and which keys and numbers JSON refuses."""

from __future__ import annotations

import json
import math
import re
from dataclasses import dataclass, field
from typing import NamedTuple

from capsule.schema import pointer

# an unterminated string is swallowed to the end: retrying at each quote would be quadratic
_TOKEN = re.compile(r'"[^"\\]*+(?:\\.[^"\\]*+)*+"?|[\[\]{}:,]|[^\s\[\]{}:,"]+', re.DOTALL)
_LONGEST_POINTER = 1000  # beyond it pointers stop growing: 100 000 brackets would take 30 s


class Lines(NamedTuple):
    """Lines of the entries of a JSON text.

    Attributes:
        of: JSON pointer -> line, from 1: the line of an object's key, of a list's item.
        duplicates: (pointer, line) of each key that its object already had.
        not_numbers: (pointer, line, text) of each NaN and infinity, spelled out or by overflow.
    """

    of: dict[str, int]
    duplicates: tuple[tuple[str, int], ...]
    not_numbers: tuple[tuple[str, int, str], ...]

    def line(self, where: str) -> int:
        """Return the line of the pointer `where`, or of its nearest enclosing value that exists."""
        while where and where not in self.of:
            where = where.rpartition("/")[0]
        return self.of.get(where, 1)


def scan(text: str) -> Lines:
    r"""Walk over a JSON text once; linear, without recursion, and it never fails.

    >>> scan('{"a": 1,\n "b": [true,\n false]}').of["/b/1"]
    3
    """
    walk = _Walk()
    line, counted = 1, 0
    for token in _TOKEN.finditer(text):
        line += text.count("\n", counted, token.start())
        counted = token.start()
        walk.step(token.group(), line)
    return Lines(of=walk.of, duplicates=tuple(walk.duplicates), not_numbers=tuple(walk.not_numbers))


@dataclass
class _Container:
    pointer: str
    key: str | int | None  # None: an object whose next key has not come yet
    keys: set[str] = field(default_factory=set)


class _Walk:
    def __init__(self) -> None:
        self.of: dict[str, int] = {}
        self.duplicates: list[tuple[str, int]] = []
        self.not_numbers: list[tuple[str, int, str]] = []
        self._stack: list[_Container] = []

    def step(self, word: str, line: int) -> None:
        top = self._stack[-1] if self._stack else None
        if word in "]}":
            del self._stack[-1:]
        elif word == ",":
            if top:
                top.key = top.key + 1 if isinstance(top.key, int) else None
        elif word != ":":
            if top and top.key is None:
                self._key(top, _unquote(word), line)
            else:
                self._value(top, word, line)

    def _key(self, top: _Container, key: str, line: int) -> None:
        top.key = key
        here = self._place(top, line)
        if key in top.keys:
            self.duplicates.append((here, line))
        top.keys.add(key)

    def _value(self, top: _Container | None, word: str, line: int) -> None:
        here = self._place(top, line)
        if word in "[{":
            self._stack.append(_Container(here, None if word == "{" else 0))
        elif _is_not_a_number(word):
            self.not_numbers.append((here, line, word[:40]))

    def _place(self, top: _Container | None, line: int) -> str:
        if top is None or top.key is None:
            return ""
        if len(top.pointer) > _LONGEST_POINTER:
            return top.pointer
        here = top.pointer + pointer(str(top.key)[:200])
        self.of.setdefault(here, line)
        return here


def _unquote(word: str) -> str:
    try:
        return str(json.loads(word, strict=False))
    except ValueError:
        return word


def _is_not_a_number(word: str) -> bool:
    if word in {"NaN", "Infinity", "-Infinity"}:
        return True
    try:
        return word[0] in "-0123456789" and math.isinf(float(word))
    except ValueError:
        return False
