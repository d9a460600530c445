"""Check that a pattern's group takes a whole number rather than a part of one."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

from capsule.extraction.values import UnreadError
from capsule.patterns import (
    PLACEHOLDER,
    Match,
    Pattern,
    PatternError,
    compile_pattern,
    replace_value,
)

Kind = Literal[
    "digit",
    "sign",
    "point",
    "comma",
    "group",
    "exponent",
    "underscore",
    "clock",
    "word",
    "unit",
    "percent",
]
REASONS: Mapping[Kind, str] = {
    "digit": "more digits are adjacent",
    "sign": "a sign is adjacent",
    "point": "a point and more digits are adjacent",
    "comma": "the number has a decimal comma, or a comma between its digits",
    "group": "the digits of the number are grouped",
    "exponent": "an exponent is adjacent",
    "underscore": "an underscore is adjacent",
    "clock": "the number is part of a longer value, such as 12:30 or 5 min 3 s",
    "word": "the number is inside a word",
    "unit": "letters follow the number; neither the pattern nor the unit of the metric declares"
    " the letters",
    "percent": "a percent sign follows the number; neither the pattern nor the unit of the metric"
    " declares the sign",
}
# a number of these cannot be read by any pattern
_UNREADABLE = ("comma", "group", "underscore", "clock")
# what a pattern may spell out
SPELLABLE = ("word", "unit", "percent")
_NEAR_BYTES, _LONGEST_PATTERN, _LONGEST_UNIT = 64, 200, 24
# in longer lines nothing is tried out
_LONGEST_LINE = 1 << 20
_SIGNS = "+-\u2212\u2010\u2011\u2012\u2013\ufe63\uff0b\uff0d"
_HYPHENS = "-\u2010\u2011\u2013"
_COMMAS = ",\uff0c\u066b\u066c"
_GROUPING = "'\u2019\u00a0\u202f\u2009"
_PERCENTS = "%\uff05\ufe6a\u2030"
_UNITS = re.compile(
    r"[^\S\r\n]+(?P<unit>[%\uff05\ufe6a\u2030]|(?:[mun\u00b5\u03bc]?s|min|h|[kKMGT]?B|[KMGT]iB)(?:/s)?)(?![\w/%])"
)
_BEFORE, _BEHIND = re.compile(r"\S+$"), re.compile(r"\S+")
_LETTERS = re.compile(r"[^\W\d_]+")
_A_SECOND = re.compile(r"/sec(?:ond)?$")
# 12.3k
_SCALE = re.compile(r"[kKMGT](?![\w/%])")
_ONE_SPELLING = str.maketrans("\u00b5\u03bc\uff05\ufe6a", "uu%%")
_RATE = re.compile(r"/[^\W\d_]+")
_CUT_EXPONENT = re.compile(
    rf"\.?(?:[eEdD][{_SIGNS}]?|[fFqQ][{_SIGNS}])\d|(?:\*?\^|\*\*)\s*[{_SIGNS}(]?\d"
    r"|\s*[x\u00d7*\u00b7]\s*10\s*(?:\^|\*\*|[\u2070-\u2079\u207a\u207b\u00b9\u00b2\u00b3])"
)
_CLOCK = re.compile(r":(?:\d{1,2}(?![\d.])|[0-5]\d(?!\d))")
_CLOCK_FIELD = re.compile(r"[0-5]?\d|[0-5]\d\.\d*")
# 1.#QNAN, as some libraries of C print it
_ODD = re.compile(r"\.?#[A-Z]")
_THOUSANDS = re.compile(r"\d{1,3}")
# 5 min 3 s
_PARTS = re.compile(
    r"\s*(?P<unit>d(?:ays?)?|h(?:rs?|ours?)?|m(?:ins?|inutes?)?),?\s+\d+(?:\.\d+)?\s*"
    r"(?:h(?:rs?|ours?)?|m(?:ins?|inutes?)?|s(?:ecs?|econds?)?)\b"
)
_DECIMALS = re.compile(r".\d+(?![\d.,:eE])")
# 12,345.6 may be two cells of a table, but a pattern for the second spells out the comma
_GROUP = re.compile(r"\d{3}\.\d*")
_GROUPS = re.compile(r"(?<![\w.,])[1-9]\d{0,2}(?:,\d{3})*,$")
# as in checkpoint-500
_HYPHENED = re.compile(r"[A-Za-z]-\d+$")
_NUMBER = re.compile(r"[-+\u2212]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][-+]?[0-9]+)?")
_TYPE = re.compile(r"[A-Za-z_][\w.]*\($")
_WRAP = re.compile(r"(?:[A-Za-z_][\w.]*)?[^\w+.,;\u2212-]*(?=[-+.\u2212]?\d)")
_ESCAPE = re.compile(r"([\\.+*?()\[\]{}|^$])")
_NAMES: Mapping[str, tuple[str, ...]] = {
    "s": ("sec", "secs", "second", "seconds"),
    "ms": ("msec", "msecs", "millisecond", "milliseconds"),
    "us": ("\u00b5s", "\u03bcs", "usec", "microsecond", "microseconds"),
    "min": ("m", "mins", "minute", "minutes"),
    "h": ("hr", "hrs", "hour", "hours"),
    "By": ("byte", "bytes"),
    "%": ("\uff05", "\ufe6a", "percent", "pct"),
}


@dataclass(frozen=True, slots=True)
class Whole:
    """A number that was taken as it stands in the line.

    Attributes:
        unit: What stands behind it as its unit, empty for nothing.
        is_declared: True if the pattern or the metric's unit declares that, or nothing stands.
    """

    unit: str = ""
    is_declared: bool = True


@dataclass(frozen=True, slots=True)
class Fault:
    """A number of which something was left out.

    Attributes:
        kind: What touches the group.
        taken: What the group takes.
        word: All that stands there up to white space on both sides.
    """

    kind: Kind
    taken: str
    word: str


def judge(
    line: bytes,
    span: tuple[int, int],
    pattern: Pattern | None = None,
    group: int = 1,
    unit: str = "1",
) -> Whole | Fault:
    """Tell whether a group of a pattern takes a whole number out of a line.

    Args:
        line: The line, or the cell of a table.
        span: Where the group's number begins and ends, in bytes, without white space at its ends.
        pattern: What found it, None where nothing beside the number is asked for.
        group: Number of the group in the pattern.
        unit: Unit of the metric, `1` for none.
    """
    start, end = span
    if end == len(line) and line[max(0, start - 1) : start] in (b" ", b"=", b""):
        return Whole()
    left, right = (
        part.decode(errors="surrogateescape")
        for part in (line[max(0, start - _NEAR_BYTES) : start], line[end : end + _NEAR_BYTES])
    )
    word = line[start:end].decode(errors="surrogateescape")
    beside = _Beside(line, span, pattern, group)
    kind = _judge_left(left, word, beside)
    found = Whole()
    if kind is None:
        judged = _judge_right(left, word, right, beside, unit)
        if isinstance(judged, Whole):
            found = judged
        else:
            kind = judged
    if kind is None:
        return found
    before, after = _BEFORE.search(left), _BEHIND.match(right)
    return Fault(kind, word, f"{before[0] if before else ''}{word}{after[0] if after else ''}")


def is_placed(line: bytes, match: Match, pattern: Pattern, group: int) -> bool:
    """Return whether a pattern says where its group stands: it spells out what is before or behind
    it.

    Between both may be brackets, quotes, punctuation, and the name of a type with its bracket.
    """
    start, end = match.span(group)
    beside = _Beside(line, (start, end), pattern, group)
    left = line[max(0, start - _NEAR_BYTES) : start].decode(errors="surrogateescape")
    text = _TYPE.sub(lambda found: found[0][-1:] * len(found[0]), left)
    for place in range(len(text) - 1, -1, -1):
        if text[place] != left[place]:
            continue
        if beside.is_left_spelled(left[place], left[place + 1 :]):
            return True
        if left[place].isalnum():
            break
    behind = line[end : match.span()[1]].decode(errors="surrogateescape").lstrip()[:1]
    gap = line[end : match.span()[1]].decode(errors="surrogateescape")
    return bool(behind) and beside.is_right_spelled(behind, gap[: gap.index(behind)])


def is_in_column(line: bytes, match: Match, pattern: Pattern, group: int) -> bool:
    """Return whether a pattern says how far from a line's beginning its group is, as `^.{10}`
    does.
    """
    start = match.span()[0]
    if len(line) > _LONGEST_LINE:
        return False
    moved = pattern.search(b"".join((line[:start], b"~", line[start:])))
    return moved is None or moved.span(group)[0] != match.span(group)[0] + 1


def is_spelled_before(line: bytes, match: Match, pattern: Pattern, group: int) -> bool:
    """Return whether a pattern spells out the one character before its group."""
    span = match.span(group)
    char = line[max(0, span[0] - 4) : span[0]].decode(errors="surrogateescape")[-1:]
    return bool(char) and _Beside(line, span, pattern, group).is_left_spelled(char)


class _Beside:
    """Characters beside a group that a pattern spells out."""

    def __init__(
        self, line: bytes, span: tuple[int, int], pattern: Pattern | None, group: int
    ) -> None:
        self._line, self._pattern, self._group = line, pattern, group
        self._span = span
        self._found: tuple[tuple[int, int], tuple[int, int]] | None = None

    def is_left_spelled(self, char: str, behind: str = "") -> bool:
        """Return whether a character before the group is, and what stands between both."""
        size = len(char.encode(errors="surrogateescape"))
        gap = len(behind.encode(errors="surrogateescape"))
        return self._is_spelled(char, self._span[0] - gap - size, size)

    def is_right_spelled(self, text: str, before: str = "") -> bool:
        """Return whether each character of a text behind the group is, and what stands before
        that.
        """
        at = self._span[1] + len(before.encode(errors="surrogateescape"))
        for char in text[:_LONGEST_UNIT]:
            size = len(char.encode(errors="surrogateescape"))
            if not self._is_spelled(char, at, size):
                return False
            at += size
        return True

    def fits_without_hyphen(self) -> bool:
        """Return whether a pattern takes the same digits where no hyphen is before them."""
        start, end = self._span
        line = b"".join((self._line[:start], b"~", self._line[start + 1 :]))
        match = None if self._pattern is None else self._pattern.search(line)
        return match is not None and match.span(self._group) == (start + 1, end)

    def _is_spelled(self, char: str, at: int, size: int) -> bool:
        if self._pattern is None or len(self._line) > _LONGEST_LINE:
            return False
        if self._found is None:
            match = self._pattern.search(self._line)
            assert match is not None
            self._found = match.span(self._group), match.span()
        group, whole = self._found
        for other in _others(char):
            data = other.encode()
            line = b"".join((self._line[:at], data, self._line[at + size :]))
            match = self._pattern.search(line)
            if match is None:
                continue
            more = len(data) - size
            expected = [
                (_shift(one[0], at, more), _shift(one[1], at, more)) for one in (group, whole)
            ]
            if [match.span(self._group), match.span()] == expected:
                return False
        return True


def _shift(place: int, at: int, more: int) -> int:
    return place + more if place > at else place


def _others(char: str) -> Iterator[str]:
    """Return substitutes of a character, to test whether the pattern means it alone."""
    if char.isalpha():
        others = "QZK" if char.isupper() else "qzk"
        yield from (other for other in others if other != char)
    else:
        yield from (other for other in "\x01~;" if other != char)


def _judge_left(left: str, word: str, beside: _Beside) -> Kind | None:
    """Judge the characters on the left of a number."""
    char, before = left[-1:], left[-2:-1]
    if not char or (char.isspace() and char not in _GROUPING):
        return None
    if char.isnumeric():
        return "digit"
    if char in _SIGNS:
        return _judge_sign(left)
    if word[0] in _SIGNS and left.endswith(("+/", "+")):
        return "sign"
    if char == ".":
        return None if before == "." else "point"
    if char in "^*" and re.search(r"\d\s*(?:\^|\*\*)$", left):
        return "exponent"
    if char.isalpha():
        if re.search(r"\d\.?[eEdD]$", left):
            return "exponent"
        if not beside.is_left_spelled(char):
            return "word"
        is_hyphen = _HYPHENED.search(f"{char}{word}") and beside.fits_without_hyphen()
        return "sign" if is_hyphen else None
    return _judge_between(left, word, beside) if before.isdigit() else None


def _judge_between(left: str, word: str, beside: _Beside) -> Kind | None:
    """Judge the characters between earlier digits and the number."""
    char = left[-1:]
    kind: Kind | None = None
    if char in _COMMAS and word.isdigit():
        kind = "comma"
    elif char in _COMMAS and _GROUP.fullmatch(word) and _GROUPS.search(left):
        kind = "group"
    elif char == "_":
        kind = "underscore"
    elif char == ":" and _CLOCK_FIELD.fullmatch(word):
        kind = "clock"
    elif char in _GROUPING and re.match(r"\d{3}(?!\d)", word):
        return "group" if re.search(r"(?<!\d)\d{1,3}(?:\D\d{3})*.$", left) else None
    return None if kind is None or beside.is_left_spelled(char) else kind


def _judge_sign(left: str) -> Kind | None:
    """Return a sign on the left: a hyphen after a letter is none, nor is the one of plus-minus."""
    if left.endswith(("+-", "+/-", "\u00b1")):
        return None
    is_hyphen = left[-1] in _HYPHENS and left[-2:-1].isalpha()
    return None if is_hyphen and not re.search(r"[\d.][eEdD]$", left[:-1]) else "sign"


def _judge_right(left: str, word: str, right: str, beside: _Beside, unit: str) -> Kind | Whole:
    """Judge the characters on the right of a number, or its unit."""
    if _CUT_EXPONENT.match(right):
        return "exponent"
    parts = _PARTS.match(right)
    if parts and not beside.is_right_spelled(parts["unit"], right[: parts.start("unit")]):
        return "clock"
    spaced = _UNITS.match(right)
    if spaced:
        found = spaced["unit"]
        gap = right[: spaced.start("unit")]
        is_declared = _means(found, unit) or beside.is_right_spelled(found[:1], gap)
        return Whole(found, is_declared)
    char = right[:1]
    if not char or (char.isspace() and char not in _GROUPING):
        return Whole()
    if char.isnumeric():
        return "digit"
    if char.isalpha():
        return _judge_letters(right, beside, unit)
    if char in _PERCENTS:
        is_declared = _means(char, unit) or beside.is_right_spelled(char)
        return Whole(char) if is_declared else "percent"
    return _judge_punctuation(left, word.lstrip(_SIGNS), right, beside)


def _judge_punctuation(left: str, digits: str, right: str, beside: _Beside) -> Kind | Whole:
    """Return a sign, point, comma or other character that touches a number."""
    char, after = right[:1], right[1:2]
    kind: Kind | None = None
    if _ODD.match(right):
        return "word"
    if char == "_":
        kind = "underscore"
    elif char == "." and after.isdigit():
        return "point"
    elif char in _SIGNS and not right.startswith(("+-", "+/-")):
        cut = after.isnumeric() or re.match(r".\.\d", right) or (not after or after.isspace())
        kind = "sign" if cut or char == "+" else None
    elif char in _COMMAS and after.isdigit():
        kind = _judge_comma(left, digits, right)
    elif char == ":" and digits.isdigit() and _CLOCK.match(right):
        kind = "clock"
    elif char in _GROUPING and _THOUSANDS.fullmatch(digits) and re.match(r".\d{3}(?!\d)", right):
        return "group"
    return Whole() if kind is None or beside.is_right_spelled(char) else kind


def _judge_letters(right: str, beside: _Beside, unit: str) -> Kind | Whole:
    """Return letters that touch a number: its unit, where somebody says so."""
    match = _LETTERS.match(right)
    assert match is not None
    letters = match[0]
    rate = _RATE.match(right, match.end())
    whole = letters + (rate[0] if rate else "")
    if beside.is_right_spelled(letters):
        return Whole(whole if rate and rate[0] == "/s" else letters)
    if right[match.end() : match.end() + 1].isdigit():
        return "clock"
    if _means(whole, unit) or (_means(letters, unit) and not (rate and rate[0] == "/s")):
        return Whole(whole)
    return "unit"


def _judge_comma(left: str, digits: str, right: str) -> Kind | None:
    """Return a comma behind a number, and digits behind that."""
    if _THOUSANDS.fullmatch(digits) and re.match(r".\d{3}(?!\d)", right):
        return "group"
    in_list = left.rstrip().endswith(("[", "(", "{", ",", "<"))
    may_have_decimals = digits.isdigit() or re.fullmatch(r"[1-9]\d{0,2}(?:\.\d{3})+", digits)
    if may_have_decimals and _DECIMALS.match(right) and not in_list:
        return "comma"
    return None


def _means(text: str, unit: str) -> bool:
    """Return whether a printed unit is the one that a metric declares."""
    if unit == "1":
        return False
    names = {unit, unit.replace("By", "B"), f"{unit}s" if len(unit) > 2 else unit}
    return _A_SECOND.sub("/s", text) in names or text in _NAMES.get(unit, ())


def find_unit(line: bytes, end: int) -> str:
    """Return the known unit that follows a number; empty if there is none."""
    right = line[end : end + _LONGEST_UNIT].decode(errors="replace")
    match = _UNITS.match(right) or _UNITS.match(f" {right}")
    if match is None:
        scale = _SCALE.match(right)
        return scale[0] if scale else ""
    return _in_one_spelling(match["unit"])


def _in_one_spelling(unit: str) -> str:
    return unit.replace("KB", "kB").translate(_ONE_SPELLING)


def split_unit(cell: str, unit: str) -> tuple[str, str] | Fault:
    """Return the number that the cell of a table begins with, and the unit behind it.

    Args:
        cell: Without white space at its ends.
        unit: Unit of the metric.

    Returns:
        All of the cell, and no unit, where anything else is in it.
    """
    number = _NUMBER.match(cell)
    if number is None or number.end() == len(cell):
        return cell, ""
    judged = judge(cell.encode(), (0, number.end()), unit=unit)
    if isinstance(judged, Fault):
        return judged
    rest = cell[number.end() :].strip()
    return (number[0], _in_one_spelling(rest)) if rest == judged.unit else (cell, "")


def require_one_unit(units: Mapping[str, int], name: str) -> None:
    """Stop where the unit behind the numbers of one text changes.

    Args:
        units: Those that stand there, each with its first line.
        name: Name of the text, for messages.

    Raises:
        UnreadError: There are several.
    """
    if len(units) > 1:
        places = ", ".join(f"{unit} in line {line}" for unit, line in list(units.items())[:5])
        raise UnreadError(
            "bad-result",
            f"the unit after the number changes in {name}: {places}; print one unit",
        )


def tell_units(units: Mapping[str, int], unit: str, name: str) -> Iterator[str]:
    """Yield notes of units that stand behind numbers, and are not the metric's.

    Args:
        units: Those that stand there, each with its first line.
        unit: Unit of the metric.
        name: Name of the text, for messages.
    """
    for found, line in units.items():
        if not _means(found, unit):
            yield (
                f"line {line} of {name} has unit {found}, the metric has unit"
                f" {unit}: declare the unit that the program prints"
            )


def suggest(source: str, line: bytes, fault: Fault, unit: str) -> str | None:
    """Return a pattern that takes the whole number out of the line, None where no pattern can.

    Args:
        source: The pattern that took a part of it.
        line: The line.
        fault: What it left out.
        unit: Unit of the metric.
    """
    pattern = compile_pattern(source)
    match = pattern.search(line) if len(line) <= _LONGEST_LINE else None
    if match is None or fault.kind in _UNREADABLE:
        return None
    same = replace_value(source, PLACEHOLDER)
    if same is not None and _takes_whole(same, line, unit):
        return same
    start, span = match.span()[0], match.span(pattern.names.get("value", 1))
    # from the beginning of a word
    begins = re.search(rb"\S+$", line[max(0, start - _NEAR_BYTES) : start])
    start -= len(begins[0]) if begins else 0
    behind = _spell_out(line, start, span, span[1], unit) if fault.kind == "word" else None
    return behind or _spell_out(line, start, span, None, unit)


def suggest_at(source: str, line: bytes, start: int, begin: int, unit: str) -> str | None:
    """Return a pattern for a line that another one does not fit.

    Args:
        source: The pattern that does not fit.
        line: The line.
        start: Where what the pattern fits begins, but for the number.
        begin: Where the number's place begins.
        unit: Unit of the metric.
    """
    if len(line) > _LONGEST_LINE:
        return None
    same = replace_value(source, PLACEHOLDER)
    if same is not None and _takes_whole(same, line, unit):
        return same
    wrapped = _WRAP.match(line[begin:].decode(errors="replace"))
    if wrapped is None:
        return None
    at = begin + len(wrapped[0].encode())
    return _spell_out(line, start, (at, at), None, unit)


def _spell_out(
    line: bytes, start: int, span: tuple[int, int], after: int | None, unit: str
) -> str | None:
    """Return a pattern of a line's own words for the number that covers a span, or stands after
    it.
    """
    text = line[start:].decode(errors="replace")
    begin, end = (len(line[start:place].decode(errors="replace")) for place in span)
    for number in _NUMBER.finditer(text):
        covers = number.start() <= begin and number.end() >= end
        if covers if after is None else number.start() >= end:
            behind = re.match(rf"[{_PERCENTS}]|[^\W\d_]+(?:/s)?", text[number.end() :])
            before = text[: number.start() + bool(_HYPHENED.search(text[: number.end()]))]
            prefix = re.sub("[0-9]+", "[0-9]+", _ESCAPE.sub(r"\\\1", before))
            prefix = re.sub(r"\s{2,}", r"\\s+", prefix)
            one = f"{prefix}{PLACEHOLDER}{behind[0] if behind else ''}"
            if len(one) <= _LONGEST_PATTERN and _takes_whole(one, line, unit):
                return one
    return None


def _takes_whole(source: str, line: bytes, unit: str) -> bool:
    try:
        pattern = compile_pattern(source)
    except PatternError:
        return False
    match, group = pattern.search(line), pattern.names.get("value", 1)
    if match is None or not (match.group(group) or b"").strip():
        return False
    return isinstance(judge(line, match.span(group), pattern, group, unit), Whole)
