"""Lines of a text that match a pattern, and the numbers in them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

from capsule.extraction import whole
from capsule.extraction.values import (
    Found,
    UnreadError,
    Value,
    cut,
    lines,
    require_room,
    to_number,
    without_colours,
)
from capsule.manifest.sources import Pattern as Source
from capsule.patterns import (
    PLACEHOLDER,
    Match,
    Pattern,
    PatternError,
    compile_pattern,
    replace_value,
)

State = Literal["number", "missing", "unread", "word"]
# numbers that are aligned have more white space before them than a pattern may ask for
_MISSING = r"\s*(?:[-+\x{2212}]?\b(?i:nan|inf(?:inity)?)|\b(?i:none|null|n/a|na)|--?)"
_ANYTHING = r"\s*\S+|\s*"
_MAY_MISS = re.compile(rb"(?i)nan|inf|none|null|n/?a|-")
_NO_NUMBER = re.compile(r"[-+\u2212]?(?:nan|inf(?:inity)?)|none|null|n/a|na|--?", re.IGNORECASE)
_NOT_FINITE = re.compile(r"[-+\u2212]?(?:nan|inf(?:inity)?)", re.IGNORECASE)
# what may follow a missing number: nothing that makes it another word
_ENDS = re.compile(r"$|\s|(?!-\w|[._]\w|[=>])[^\w]")
_DASH_ENDS = re.compile(r"$|[\s,;|)\]}%]")
# a dash behind it is none between words
_EQUALS = re.compile(rb"=\s*$")
_DASH_BEGINS = re.compile(r"(?:^|[^\w.-]-?)$")
# a number in a spelling that a pattern for others does not fit
_SPELLED = re.compile(
    r"[\"'(\[{<$\u20ac\u00a3~]*[-+\u2212\u2013]?(?:\d{1,3}(?:[.,'\u2019_]\d{3})+|\d+)?(?:[.,]\d*)?"
    r"(?:[eEdD][-+\u2212]?\d+)?(?:%|[^\W\d_]{1,8}(?:/[^\W\d_]+)?|(?:[*x\u00d7^\u00b1]|\+/?-).*)?"
    r"|0x[0-9a-fA-F]+"
)
_CLOCK = re.compile(r"\d+(?::\d\d)+(?:\.\d+)?")
_CALL = re.compile(r"[A-Za-z_][\w.]*\((?:[^a-zA-Z]*\d|[-+]?(?i:nan|inf)\b).*")
# .nan is the one of YAML
_WRAPPED_NAN = re.compile(r"[\"'(\[{<]*[-+\u2212]?\.?(?:nan|inf(?:inity)?)", re.IGNORECASE)
# what Fortran prints for a number that is wider than its field
_OVERFLOW = re.compile(r"\*{2,}")
_ODD_STEP = re.compile(
    r"\d{1,3}(?:[,'\u2019_]\d{3})+|\d+(?:\.\d*)?(?:[eE][-+]?\d+|[kKM])|[A-Za-z_][\w.]*\(\d+\)"
)
_PLAIN = re.compile(rb"[-+]?[0-9]+(?:\.[0-9]+)?")
_NEAR = 40


@dataclass(frozen=True, kw_only=True, slots=True)
class Hit:
    """A line that a pattern fits, or that has something else in the place of the number.

    Attributes:
        number: Number of the line, from 1.
        line: As it was searched.
        match: Match of the pattern.
        pattern: Which of them.
        state: What stands in the number's place.
        word: That, without white space at its ends.
    """

    number: int
    line: bytes
    match: Match
    pattern: Pattern
    state: State
    word: str

    @property
    def is_word(self) -> bool:
        """Return whether it is no line with a result."""
        return self.state == "word"


class LineReader:
    """Reader of the matching lines of one text for one pattern."""

    def __init__(self, source: Source, name: str) -> None:
        self._source, self._name = source, name
        self._pattern = compile_pattern(source.pattern)
        self._shown = cut(source.pattern)

    @cached_property
    def _missing(self) -> Pattern | None:
        return _compile_other(self._source.pattern, _MISSING)

    @cached_property
    def _any_step(self) -> Pattern | None:
        has_step = "step" in self._pattern.names
        return _compile_other(self._source.pattern, r"\S+", "step") if has_step else None

    @cached_property
    def _place(self) -> Pattern | None:
        return _compile_other(self._source.pattern, _ANYTHING)

    def find(self, text: bytes) -> Iterator[Hit]:
        """Yield every line that the pattern fits, or would fit if a number stood in its place."""
        count = 0
        for number, line in lines(text):
            hit = self._match(number, line) or self._look(number, line)
            if hit is not None:
                count += 1
                require_room(count)
                yield hit if hit.state != "number" else self._look_before(hit)

    def read_last(self, text: bytes) -> Found:
        """Return the number of the last line with one, or with what says that it is missing.

        Raises:
            UnreadError: There is none, or no whole number.
        """
        units: dict[str, int] = {}
        last, words, at, count = self._find_last(text, units)
        last = last and (self._look_before(last) if last.state == "number" else last)
        for place, (number, line) in enumerate(lines(text), 1):
            # lines before the last one that fits decide nothing
            if place <= at or (hit := self._look(number, line)) is None:
                continue
            if hit.is_word:
                words = words or hit
            else:
                last, count = hit, count + 1
        if last is None:
            raise self.nothing([words] if words else [])
        whole.require_one_unit(units, self._name)
        return self.evaluate([last], count)

    def _find_last(
        self, text: bytes, units: dict[str, int]
    ) -> tuple[Hit | None, Hit | None, int, int]:
        """Return the last line that the pattern fits, with a number or what says that it is
        missing.

        Args:
            text: What is searched.
            units: Collects what stands behind numbers, each unit with its first line.

        Returns:
            That line; the first with a word in the place of the number; the last one's place among
            the lines; and how many there are.
        """
        last: Hit | None = None
        words: Hit | None = None
        plain = None
        count = at = 0
        group, search = self._value_group, self._pattern.search
        for place, (number, line) in enumerate(lines(text), 1):
            if (match := search(line)) is None and b"\x1b" not in line:
                continue
            begin, end = (0, 0) if match is None else match.span(group)
            # by far the most lines of the largest logs
            if match is not None and _PLAIN.fullmatch(line, begin, end) and b"\x1b" not in line:
                plain, at, count = (number, line), place, count + 1
                if end < len(line) and (unit := whole.find_unit(line, end)):
                    units.setdefault(unit, number)
            elif (hit := self._match(number, line)) is None:
                pass
            elif hit.is_word:
                words = words or hit
            else:
                last, plain, at, count = hit, None, place, count + 1
                if hit.state == "number" and (unit := self._unit(hit)):
                    units.setdefault(unit, number)
        return self._match(*plain) if plain else last, words, at, count

    def evaluate(self, hits: Sequence[Hit], count: int) -> Found:
        """Return the numbers of lines, of so many that count.

        Raises:
            UnreadError: One has none, or not a whole one, or their units differ.
        """
        units: dict[str, int] = {}
        undeclared: dict[str, int] = {}
        values = []
        for hit in hits:
            value, found = self._value(hit)
            if found is not None and (unit := self._unit(hit)):
                units.setdefault(unit, hit.number)
                if not found.is_declared:
                    undeclared.setdefault(found.unit, hit.number)
            values.append(Value(value=value, step=self._step(hit), line=hit.number))
        whole.require_one_unit(units, self._name)
        notes = whole.tell_units(undeclared, self._source.unit, self._name)
        return Found(tuple(values), count, tuple(notes))

    def nothing(self, words: Sequence[Hit]) -> UnreadError:
        """Return the error for a text without a number."""
        fits = next((hit for hit in words if hit.pattern is self._pattern), None)
        if fits is not None:
            return self.no_number(fits)
        message = f"no line of {self._name} matches {self._shown}"
        if words:
            first = words[0]
            message += f"; line {first.number} has {cut(first.word)!a} instead of a number"
        return UnreadError("no-result", message)

    def no_number(self, hit: Hit) -> UnreadError:
        """Return the error for a word in place of a number."""
        line = self._quote(hit.line, hit.match.span(_group_of(hit.pattern)))
        fault = f": expected a number, found {cut(hit.word)!a}" if hit.word else " is empty"
        return UnreadError("bad-result", f"{self._what(hit)}{fault}; the line is {line}")

    def tell_skipped(self, words: Sequence[Hit]) -> Iterator[str]:
        """Yield a note on lines that were skipped before the first number."""
        if words:
            first, more = words[0], len(words) - 1
            yield (
                f"skipped line {first.number} of {self._name}, which has {cut(first.word)!a}"
                " instead of a number"
                + (f", and {more} more line{'s' * (more > 1)} before the first number" * (more > 0))
            )

    def _what(self, hit: Hit) -> str:
        return f"the match of {self._shown} in line {hit.number} of {self._name}"

    @property
    def _value_group(self) -> int:
        return self._pattern.names.get("value", 1)

    def _match(self, number: int, line: bytes) -> Hit | None:
        """Return a line that the pattern fits, colours left out if they are not what it asks
        for.
        """
        match = None
        if b"\x1b" in line:
            plain = without_colours(line)
            if (match := self._pattern.search(plain)) is not None:
                line = plain
        match = match or self._pattern.search(line)
        if match is None:
            return None
        taken = match.group(self._value_group)
        if taken is None:
            raise UnreadError(
                "bad-result",
                f"the match of {self._shown} in line {number} of {self._name} is empty: its group"
                " matched nothing",
            )
        word = taken.decode(errors="replace").strip()
        state: State = "number"
        if not any(char.isnumeric() for char in word):
            begin, end = _strip(line, match.span(self._value_group))
            other = self._find_missing(number, line)
            if other is not None:
                span = _strip(line, other.match.span(_group_of(other.pattern)))
                if span[0] == begin and span[1] > end:
                    # the group takes the sign of -inf alone
                    return other
            ends = _DASH_ENDS if _is_dash(word) else _ENDS
            behind = line[end : end + 4].decode(errors="replace")
            is_one = _NO_NUMBER.fullmatch(word) and (
                ends.match(behind) or match.span()[1] > match.span(self._value_group)[1]
            )
            state = "missing" if is_one or not word else "word"
        return Hit(
            number=number, line=line, match=match, pattern=self._pattern, state=state, word=word
        )

    def _look_before(self, hit: Hit) -> Hit:
        """Return the same line, or what is missing in it before the number that the pattern
        takes.
        """
        start, begin = hit.match.span()[0], hit.match.span(self._value_group)[0]
        if not _MAY_MISS.search(hit.line, start, begin):
            return hit
        missing = self._find_missing(hit.number, hit.line)
        if missing is None:
            return hit
        place = missing.match.span(_group_of(missing.pattern))[0]
        if _is_dash(missing.word) and not _follows_equals(missing.line, place):
            return hit
        return missing if place < begin else hit

    def _look(self, number: int, line: bytes) -> Hit | None:
        """Return a line that the pattern does not fit, but which is one of its lines."""
        if b"\x1b" in line:
            line = without_colours(line)
        ways = [line]
        if not line[-1:].isspace() and not line[-1:].isalnum():
            # a space that a pattern asks for is left out at the end of a line, most often
            ways.append(line + b" ")
        self._require_no_odd_step(number, line)
        looks = (self._find_missing, self._find_other)
        found = (hit for look in looks for way in ways if (hit := look(number, way)) is not None)
        return next(found, None)

    def _find_missing(self, number: int, line: bytes) -> Hit | None:
        pattern = self._missing
        if pattern is None or not _MAY_MISS.search(line):
            return None
        match = pattern.search(line)
        if match is None:
            return None
        group = _group_of(pattern)
        start, end = _strip(line, match.span(group))
        word = line[start:end].decode()
        left = line[max(0, start - 4) : start].decode(errors="replace")
        right = line[max(end, match.span()[1]) :][:4].decode(errors="replace")
        hit = Hit(
            number=number, line=line, match=match, pattern=pattern, state="missing", word=word
        )
        if _is_dash(word):
            is_one = bool(_DASH_ENDS.match(right)) and bool(_DASH_BEGINS.search(left))
            rest = line[end:].strip()
            is_one &= (
                not rest
                or not right[:1].isspace()
                or match.span()[1] > end
                or whole.is_spelled_before(line, match, pattern, group)
                or _follows_equals(line, start)
            )
        else:
            is_one = bool(_ENDS.match(right)) and not re.search(r"(?:\w|\d\.)-?$", left)
            if _NOT_FINITE.fullmatch(word):
                return hit if is_one else None
        is_there = is_one and (
            line.strip() == word.encode()
            or whole.is_placed(line, match, pattern, group)
            or whole.is_in_column(line, match, pattern, group)
        )
        return hit if is_there else None

    def _find_other(self, number: int, line: bytes) -> Hit | None:
        """Return a line with white space, an odd number or a word in the place of the number."""
        pattern = self._place
        match = None if pattern is None else pattern.search(line)
        if match is None or pattern is None:
            return None
        group = _group_of(pattern)
        start, end = match.span(group)
        word = line[start:end].decode(errors="replace").strip()
        state: State = "word"
        if not word:
            if not line[end : match.span()[1]].strip() and line[end:].strip():
                return None
            state = "missing"
        elif word[0].isalnum() and line[:start].decode(errors="replace")[-1:].isalnum():
            return None
        elif _is_number_spelled_otherwise(word):
            state = "unread"
        is_alone = state == "unread" and line.strip() == line[start:end].strip()
        if not is_alone and not whole.is_placed(line, match, pattern, group):
            return None
        return Hit(number=number, line=line, match=match, pattern=pattern, state=state, word=word)

    def _require_no_odd_step(self, number: int, line: bytes) -> None:
        """Stop at a line that would fit, were its step not spelled as `1,000` or `1k`.

        Raises:
            UnreadError: It is one.
        """
        pattern = self._any_step
        match = None if pattern is None else pattern.search(line)
        if match is None or pattern is None:
            return
        span = match.span(pattern.names["step"])
        word = line[span[0] : span[1]].decode(errors="replace")
        if not _ODD_STEP.fullmatch(word):
            return
        other = _compile_other(self._source.pattern, PLACEHOLDER, "step")
        fits = other is not None and other.search(line) is not None
        better = replace_value(self._source.pattern, PLACEHOLDER, "step") if fits else None
        raise UnreadError(
            "bad-result",
            f"the step in line {number} of {self._name} is {cut(word)!a}, which {self._shown} does"
            f" not match; the line is {self._quote(line, span)}; {_way_out(better)}",
        )

    def _value(self, hit: Hit) -> tuple[float, whole.Whole | None]:
        """Return the number of a line, and its unit.

        Raises:
            UnreadError: It has none, or not a whole one.
        """
        if hit.state == "unread":
            raise self._unread(hit)
        if hit.state == "missing":
            if not _NOT_FINITE.fullmatch(hit.word):
                raise self.no_number(hit)
            return to_number(hit.word, self._what(hit)), None
        try:
            number = to_number(hit.word, self._what(hit))
        except UnreadError as error:
            better = self._suggest_here(hit)
            more = "" if better is None else f"; {_way_out(better)}"
            raise UnreadError(error.reason, f"{error}{more}") from None
        return number, self._judge(hit, self._value_group, self._source.unit, self._what(hit))

    def _step(self, hit: Hit) -> float | None:
        group = hit.pattern.names.get("step")
        if group is None:
            return None
        what = f"the step in line {hit.number} of {self._name}"
        word = hit.match.group(group)
        if word is None:
            raise UnreadError("bad-result", f"{what} is empty: its group matched nothing")
        number = to_number(word.decode(errors="replace"), what)
        self._judge(hit, group, "1", what)
        return number

    def _judge(self, hit: Hit, group: int, unit: str, what: str) -> whole.Whole:
        """Return the unit after a number, and check that the number is whole.

        Raises:
            UnreadError: It is not.
        """
        span = _strip(hit.line, hit.match.span(group))
        judged = whole.judge(hit.line, span, hit.pattern, group, unit)
        if isinstance(judged, whole.Whole):
            return judged
        better = None
        if group == self._value_group:
            better = whole.suggest(self._source.pattern, hit.line, judged, unit)
        raise UnreadError(
            "bad-result",
            f"{what} is {judged.taken!a}, only a part of {cut(judged.word)!a}:"
            f" {whole.REASONS[judged.kind]}; the line is {self._quote(hit.line, span)};"
            f" {_way_out(better, judged)}",
        )

    def _suggest_here(self, hit: Hit) -> str | None:
        """Return a pattern for a line that has no number as this one takes it."""
        start, span = hit.match.span()[0], hit.match.span(_group_of(hit.pattern))
        source = self._source
        return whole.suggest_at(source.pattern, hit.line, start, span[0], source.unit)

    def _unread(self, hit: Hit) -> UnreadError:
        better = self._suggest_here(hit)
        span = hit.match.span(_group_of(hit.pattern))
        return UnreadError(
            "bad-result",
            f"line {hit.number} of {self._name} has {cut(hit.word)!a} as its number, which"
            f" {self._shown} does not match; the line is {self._quote(hit.line, span)};"
            f" {_way_out(better)}",
        )

    def _quote(self, line: bytes, span: tuple[int, int]) -> str:
        begin, end = max(0, span[0] - _NEAR), span[1] + _NEAR
        text = line[begin:end].decode(errors="replace").strip()
        return f"{'...' * (begin > 0)}{text!a}{'...' * (end < len(line))}"

    def _unit(self, hit: Hit) -> str:
        return whole.find_unit(hit.line, _strip(hit.line, hit.match.span(self._value_group))[1])


def _compile_other(source: str, content: str, group: str = "value") -> Pattern | None:
    """Return a pattern with something else in the place of the number; None where there is none."""
    other = replace_value(source, content, group)
    try:
        return None if other is None else compile_pattern(other)
    except PatternError:  # too large
        return None


def _group_of(pattern: Pattern) -> int:
    return pattern.names.get("value", 1)


def _strip(line: bytes, span: tuple[int, int]) -> tuple[int, int]:
    """Return a span without the white space at its ends."""
    begin, end = span
    taken = line[begin:end]
    return end - len(taken.lstrip()), begin + len(taken.rstrip())


def _follows_equals(line: bytes, place: int) -> bool:
    return _EQUALS.search(line[max(0, place - _NEAR) : place]) is not None


def _is_dash(word: str) -> bool:
    return word in ("-", "--")


def _is_number_spelled_otherwise(word: str) -> bool:
    core = word.rstrip(".,;:)]}>\"'")
    is_one = any(char.isnumeric() for char in core) and (
        _SPELLED.fullmatch(core) or _CLOCK.fullmatch(core)
    )
    is_no_finite = _WRAPPED_NAN.fullmatch(core) or core.lstrip("+-") == "\u221e"
    return bool(
        is_one
        or is_no_finite
        or _CALL.fullmatch(word)
        or _OVERFLOW.fullmatch(core)
        or (not core[:1].isascii() and core[:1].isnumeric())
    )


def _way_out(better: str | None, fault: whole.Fault | None = None) -> str:
    if better is not None:
        declared = fault is not None and fault.kind in ("unit", "percent")
        return f"use the pattern {better}{', or declare the unit' * declared}"
    if fault is None or fault.kind not in whole.SPELLABLE:
        return "no pattern can read this number: print one plain number, for example 1234.5"
    return f"match the whole number, for example by {PLACEHOLDER}, and spell out the adjacent text"
