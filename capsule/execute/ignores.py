"""Patterns as `.gitignore` has them, matched in time that no pattern can make more than quadratic.

Of git's own matcher this leaves out what would need its configuration: case counts.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

MOST_PATTERNS = 2_000
MOST_CHARACTERS = 1_000

_CLASSES: dict[str, Callable[[str], bool]] = {
    "alnum": str.isalnum,
    "alpha": str.isalpha,
    "blank": lambda c: c in " \t",
    "cntrl": lambda c: c < " " or c == "\x7f",
    "digit": lambda c: c in "0123456789",
    "graph": lambda c: "!" <= c <= "~",
    "lower": str.islower,
    "print": lambda c: " " <= c <= "~",
    "punct": lambda c: "!" <= c <= "~" and not c.isalnum(),
    "space": lambda c: c in " \t\n\r\f\v",
    "upper": str.isupper,
    "xdigit": lambda c: c in "0123456789abcdefABCDEF",
}
_CLASS = re.compile(r"\[:([a-z]+):\]")

One = Callable[[str], bool]
"""Predicate on one character, or on one part of a path."""


@dataclass(frozen=True, kw_only=True)
class Pattern:
    """One line of an ignore file.

    Attributes:
        keeps: It begins with `!`: what fits is not left out after all.
        folders_only: It ends in `/`.
        anchored: It has a `/` before its end, and so begins in the file's own folder.
        parts: What fits each part of a path, None for any number of them (`**`).
    """

    keeps: bool
    folders_only: bool
    anchored: bool
    parts: tuple[One | None, ...]

    def fits(self, parts: Sequence[str], *, is_folder: bool) -> bool:
        """Return whether this names a path, which is relative to the file's folder."""
        if self.folders_only and not is_folder:
            return False
        return _match(self.parts, parts if self.anchored else parts[-1:])


def read(text: str) -> tuple[Pattern, ...]:
    """Return the patterns of an ignore file.

    Raises:
        ValueError: It has too many, or one that is too long.
    """
    lines = text.removeprefix("\ufeff").split("\n")
    patterns = tuple(filter(None, map(_read_line, lines)))
    if len(patterns) > MOST_PATTERNS:
        raise ValueError(f"has {len(patterns)} patterns, at most {MOST_PATTERNS} are allowed")
    return patterns


def decide(patterns: Sequence[Pattern], parts: Sequence[str], *, is_folder: bool) -> bool | None:
    r"""Return whether a path is left out, by the last pattern that names it; None where none does.

    >>> decide(read("*.log\n!keep.log\\nbuild/"), ["a", "x.log"], is_folder=False)
    True
    >>> decide(read("*.log\n!keep.log"), ["keep.log"], is_folder=False)
    False
    """
    for pattern in reversed(patterns):
        if pattern.fits(parts, is_folder=is_folder):
            return not pattern.keeps
    return None


def _read_line(line: str) -> Pattern | None:
    line = line.removesuffix("\r")
    if len(line) > MOST_CHARACTERS:
        raise ValueError(
            f"has a pattern of {len(line)} characters, at most {MOST_CHARACTERS} are allowed:"
            f" {line[:40]!a}..."
        )
    if line.startswith("#"):
        return None
    while line.endswith(" ") and not _is_escaped(line, len(line) - 1):
        line = line[:-1]
    keeps = line.startswith("!")
    line = line.removeprefix("!")
    folders_only = line.endswith("/")
    line = line.removesuffix("/")
    anchored = "/" in line
    names = line.removeprefix("/").split("/")
    if names == [""]:
        return None
    if anchored and names[-1] == "**":
        names.append("*")  # what lies below, and not the folder itself
    parts = tuple(None if anchored and name == "**" else _compile(name) for name in names)
    return Pattern(keeps=keeps, folders_only=folders_only, anchored=anchored, parts=parts)


def _is_escaped(line: str, place: int) -> bool:
    before = line[:place]
    return (len(before) - len(before.rstrip("\\"))) % 2 == 1


def _match(wanted: Sequence[One | None], items: Sequence[str]) -> bool:
    """Return whether each item fits in its turn, where None takes any number of them.

    What the last None took grows by one where the rest does not fit: earlier ones need not.
    """
    at = place = 0
    star, taken = -1, 0
    while place < len(items):
        one = wanted[at] if at < len(wanted) else _nothing
        if one is None:
            star, taken = at, place
            at += 1
        elif one(items[place]):
            at, place = at + 1, place + 1
        elif star >= 0:
            taken += 1
            at, place = star + 1, taken
        else:
            return False
    return all(one is None for one in wanted[at:])


def _nothing(_: str) -> bool:
    return False


def _compile(name: str) -> One:
    """Compile one part of a pattern; a truncated pattern matches nothing."""
    plain = name.strip("*")
    if not any(c in plain for c in "*?[\\"):
        stars = len(name) - len(name.lstrip("*")), len(name) - len(name.rstrip("*"))
        if stars == (0, 0):
            return name.__eq__
        if not plain:
            return lambda _: True
        if not stars[1]:
            return lambda part: part.endswith(plain)
        if not stars[0]:
            return lambda part: part.startswith(plain)
    try:
        tokens = tuple(_tokens(name))
    except ValueError:
        return _nothing
    return lambda part: _match(tokens, part)


def _tokens(name: str) -> Iterator[One | None]:
    place = 0
    while place < len(name):
        character = name[place]
        place += 1
        if character == "*":
            yield None
        elif character == "?":
            yield lambda _: True
        elif character == "[":
            one, place = _read_set(name, place)
            yield one
        elif character == "\\":
            if place == len(name):
                raise ValueError(f"pattern {name!a} ends with a backslash")
            yield name[place].__eq__
            place += 1
        else:
            yield character.__eq__


def _read_set(name: str, place: int) -> tuple[One, int]:
    """Read a set `[...]` of a pattern, and return its predicate and end.

    Raises:
        ValueError: It does not end, or names an unknown class.
    """
    negated = name[place : place + 1] in ("!", "^")
    place += negated
    start, ranges, classes = place, list[tuple[str, str]](), list[One]()
    while place == start or name[place : place + 1] != "]":
        if known := _CLASS.match(name, place):
            if known[1] not in _CLASSES:
                raise ValueError(f"pattern {name!a} has the unknown character class {known[1]}")
            classes.append(_CLASSES[known[1]])
            place = known.end()
            continue
        low, place = _read_member(name, place)
        high = low
        if name[place : place + 1] == "-" and name[place + 1 : place + 2] not in ("", "]"):
            high, place = _read_member(name, place + 1)
        ranges.append((low, high))

    def fits(character: str) -> bool:
        within = any(low <= character <= high for low, high in ranges)
        return (within or any(one(character) for one in classes)) != negated

    return fits, place + 1


def _read_member(name: str, place: int) -> tuple[str, int]:
    place += name[place : place + 1] == "\\"
    if place >= len(name):
        raise ValueError(f"pattern {name!a} has a set without its closing bracket ]")
    return name[place], place + 1
