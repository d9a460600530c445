"""One number that was read, and what keeps one from being read."""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

from capsule.jsons import Json

MOST_VALUES = 200_000
_LONGEST = 80
_NUMBER = re.compile(
    # no possessive ones: those of Python 3.11.2 take "1e" for a number
    r"[+\-\u2212]?(?:(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?|inf(?:inity)?|nan)",
    re.IGNORECASE | re.ASCII,
)


_ANSI = re.compile(
    rb"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[ -/]+[0-~]|[78=>M])"
)


class UnreadError(Exception):
    """A text does not give a metric's values.

    Attributes:
        reason: `no-result` where nothing is there, `bad-result` where something else is.
    """

    def __init__(self, reason: Literal["no-result", "bad-result"], message: str) -> None:
        super().__init__(message)
        self.reason = reason


@dataclass(frozen=True, kw_only=True, slots=True)
class Value:
    """A number that was read.

    Attributes:
        value: May be NaN or infinite.
        step: Where on its way it was taken, None where that is not said.
        line: Where it stands, from 1; None where there are no lines.
        words: What is quoted of a text without lines.
    """

    value: float
    step: float | None = None
    line: int | None = None
    words: str = ""


def to_number(text: str, what: str) -> float:
    """Return a number as programs print them.

    Raises:
        UnreadError: It is none.
    """
    word = text.strip()
    if not _NUMBER.fullmatch(word):
        hint = "; print the number without grouped digits" if "," in word else ""
        raise UnreadError("bad-result", f"{what}: expected a number, found {cut(text)!a}{hint}")
    return float(word.replace("\u2212", "-"))


def json_number(value: Json, what: str) -> float:
    """Return a number of a JSON document, in which NaN and infinities may stand as Python writes
    them.

    Raises:
        UnreadError: It is none.
    """
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise UnreadError("bad-result", f"{what}: expected a number, found {cut(repr(value))}")
    try:
        return float(value)
    except OverflowError:
        message = (
            f"{what}: an integer of {int(value).bit_length()} bits exceeds 1.8e308, the largest"
            " floating-point number, in magnitude"
        )
        raise UnreadError("bad-result", message) from None


class Found(NamedTuple):
    """Values of one metric read from a text.

    Attributes:
        values: In the order of the text.
        lines: How many lines a pattern fits, of which these are; None for what has no pattern.
        notes: What whoever reads the numbers must know of them.
    """

    values: tuple[Value, ...]
    lines: int | None = None
    notes: tuple[str, ...] = ()


def check_steps(values: Sequence[Value]) -> None:
    """Stop where steps do not increase, or are no numbers.

    Raises:
        UnreadError: Says which.
    """
    before = None
    for value in values:
        step = value.step
        if step is None:
            continue
        if step - step != 0:
            message = f"line {value.line} has step {step}, expected a finite number"
            raise UnreadError("bad-result", message)
        if before is not None and step <= before:
            raise UnreadError(
                "bad-result",
                f"line {value.line} has step {step:g} after step {before:g}; steps must increase",
            )
        before = step


def require_room(count: int) -> None:
    """Stop before there are more values than a trial may have.

    Raises:
        UnreadError: There are.
    """
    if count > MOST_VALUES:
        raise UnreadError("bad-result", f"more than {MOST_VALUES} values")


def cut(text: str) -> str:
    """Return the beginning of a text that is quoted."""
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."


def lines(text: bytes) -> Iterator[tuple[int, bytes]]:
    r"""Yield the lines with their numbers; a bar that is drawn anew by `\r` is several in one.

    >>> list(lines(b"10%\r20%\nend"))
    [(1, b'10%'), (1, b'20%'), (2, b'end')]
    """
    start, number = len(codecs.BOM_UTF8) * text.startswith(codecs.BOM_UTF8), 1
    while start < len(text):
        end = text.find(b"\n", start)
        end = len(text) if end < 0 else end
        line = text[start:end]
        if b"\r" in line:
            yield from ((number, part) for part in line.split(b"\r") if part)
        elif line:
            yield number, line
        start, number = end + 1, number + 1


def without_colours(line: bytes) -> bytes:
    r"""Return a line without what colours it on a terminal, or moves its cursor.

    >>> without_colours(b"loss: \x1b[32m0.25\x1b[0m")
    b'loss: 0.25'
    """
    return _ANSI.sub(b"", line)
