"""`samples.jsonl` and `attempts.jsonl`: one canonical JSON object a line, read by the million."""

from __future__ import annotations

import json
import math
import re
from array import array
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from itertools import pairwise
from sys import intern
from typing import Any, NoReturn

import orjson

from capsule import digest, schema
from capsule.archive import blocks, columns, flat
from capsule.archive.limits import MOST_TEXT_BYTES
from capsule.archive.strict import MEMORY_IS_LIMITED, parse_line
from capsule.errors import DamagedError
from capsule.record import Attempt, Evidence, Samples
from capsule.series import pack

_NON_FINITE = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}
# The canonical JSON of a line, and no other, but for its values, in three parts: reading it field
# by field costs more than its numbers, and most lines share each part with others. None of the
# three can hold what the next one, or the values, begin with.
_HEAD = re.compile(
    rb'\{"active":(?P<active>null|\[[^][{}"]*\])'
    rb',"attempt":(?P<attempt>[1-9][0-9]{0,8})'
    rb',"direction":"(?P<direction>lower|higher|none)"'
    rb',"kind":"(?P<kind>portable|machine)"'
    rb',"metric":"(?P<metric>[A-Za-z0-9._+/-]{1,300})"'
    rb',"per":"(?P<per>call|trial|node|block|step|rank)"'
    rb',"rank":(?P<rank>0|[1-9][0-9]{0,8})'
    rb',"resolution":(?P<resolution>[0-9][0-9.e+-]{0,30})'
)
_SEED = b',"seed":'
_TRIAL = re.compile(
    rb"(?P<seed>0|[1-9][0-9]{0,9})"
    rb',"steps":(?P<steps>null|\[[^][{}"]*\])'
    rb',"trial":"(?P<trial>[A-Za-z0-9._+/-]{1,300})"'
    rb',"unit":(?P<unit>"(?:[^"\\\x00-\x1f]|\\["\\]){1,128}")'
)
_VALUES = b',"values":['
_BEHIND = re.compile(
    rb',"wall":(?P<wall>null|\[[^][{}"]*\]),"warmup":(?P<warmup>0|[1-9][0-9]{0,8})\}'
)
_FLAT = re.compile(rb"\[[^][{}]*\]")
_FIELDS = (*_HEAD.groupindex, *_TRIAL.groupindex, "values", *_BEHIND.groupindex)
_MAX_SEED = 2**32
# bytes of a line that an error shows
_SHOWN = 60
_FOREIGN = "expected a line of samples in canonical form"
_FIRST_NODE = (0,)
# so many parts of lines are remembered, and none that holds a list
_MOST_PARTS, _LONGEST_PART = 4096, 1000
# bytes of so many values are read at once
_LONGEST_PIECE = 1 << 20
# texts of attempts that many of them have
_REPEATED = ("trial", "group", "seed_source", "outcome", "started")

_Fields = tuple[Any, ...]


class _Fault(ValueError):
    """A fault of one line; the caller adds the place."""


def write_samples(samples: Samples) -> bytes:
    """Return one line of `results/samples.jsonl`; values that JSON lacks become strings."""
    fields = {name: getattr(samples, name) for name in _FIELDS}
    fields["values"] = [to_json(float(value)) for value in samples.values]
    for name in ("steps", "wall", "active"):
        places = getattr(samples, name)
        fields[name] = None if places is None else list(map(float, places))
    fields["resolution"] = float(samples.resolution)
    return digest.canonical_json(fields) + b"\n"


def write_attempt(attempt: Attempt) -> bytes:
    """Return one line of `results/attempts.jsonl`."""
    fields = asdict(attempt)
    if attempt.resumed_after is None:
        del fields["resumed_after"]
    if not attempt.world:
        del fields["world"]
    return digest.canonical_json(fields) + b"\n"


def read_samples(pieces: Iterable[bytes], *, where: str) -> tuple[Samples, ...]:
    """Return the lines of `results/samples.jsonl`, which are those that `write_samples` writes.

    Args:
        pieces: The bytes, cut anywhere.
        where: Their name in messages.

    Raises:
        DamagedError: Names the line.
    """
    reader = _Reader(where)
    samples: list[Samples] = []
    for block in blocks.of(pieces, where):
        for start, end in blocks.pieces(block):
            samples += reader.read(block, start, end, len(samples))
    return tuple(samples)


def read_attempts(pieces: Iterable[bytes], *, where: str) -> tuple[Attempt, ...]:
    """Return the lines of `results/attempts.jsonl`.

    Raises:
        DamagedError: Names the line.
    """
    check = flat.checker(schema.load("attempt-1"))

    def read_line(data: bytes, at: str) -> Attempt:
        value = parse_line(data, where=at)
        if fault := check(value):
            raise DamagedError(fault, where=at)
        return attempt_from_json(value)

    return blocks.read(pieces, read_line, where=where, most=MOST_TEXT_BYTES)


def attempt_from_json(value: Mapping[str, Any]) -> Attempt:
    """Return the attempt that a line, or an entry of a run folder's log, states."""
    evidence = tuple(Evidence(**file) for file in value["evidence"])
    texts = {name: intern(value[name]) for name in _REPEATED}
    nodes = _FIRST_NODE if value["nodes"] == [0] else tuple(value["nodes"])
    return Attempt(**{**value, **texts, "nodes": nodes, "evidence": evidence})


class _Draft:
    """A `Samples` while it is made: to set the fields of a frozen one takes four times as long."""

    __slots__ = Samples.__slots__


class _Reader:
    """Reader of lines of samples, which reads repeated parts once.

    Args:
        where: The name of their file in messages.
    """

    def __init__(self, where: str) -> None:
        self._where = where
        self._heads: dict[bytes, _Fields] = {}
        self._trials: dict[bytes, _Fields] = {}
        self._ends: dict[bytes, _Fields] = {}
        # what stands between two lines' values and seeds, of which many lines have the same
        self._joints: dict[bytes, _Fields] = {}
        self._texts: dict[bytes, str] = {}
        self._seeds: dict[bytes, int] = {}

    def read(self, block: bytes, start: int, stop: int, before: int) -> list[Samples]:
        """Return the samples that the lines in a piece of a block state.

        Args:
            block: Whole lines.
            start: Where the first one starts.
            stop: Where the last one ends.
            before: Number of lines before.

        Raises:
            DamagedError: Names the line.
        """
        if (alike := self._read_together(block, start, stop)) is not None:
            return alike
        samples: list[Samples] = []
        for first, end in blocks.lines(block, start, stop):
            try:
                samples.append(self._read(block, first, end))
            except _Fault as fault:
                number = before + len(samples) + 1
                raise DamagedError(str(fault), where=f"{self._where}:{number}") from None
        return samples

    def _read_together(self, block: bytes, start: int, stop: int) -> list[Samples] | None:
        """Return the same where all lines are as most are; None where they are to be read one by
        one.
        """
        if MEMORY_IS_LIMITED or (parts := columns.split(block, start, stop)) is None:
            return None
        (before, *betweens), values = parts
        samples = []
        try:
            joint, _, trial = before.partition(_SEED)
            _, head = self._joint(joint)
            for between, numbers in zip(betweens, values, strict=True):
                joint, _, next_trial = between.partition(_SEED)
                behind, next_head = self._joints.get(joint) or self._joint(joint)
                if head is None or behind is None:
                    return None
                fields = self._trials.get(trial) or self._trial(trial)
                samples.append(_samples(head, fields, behind, pack(numbers)))
                head, trial = next_head, next_trial
        except _Fault:
            # which line it is, and what of it is named first
            return None
        # behind the last line there is nothing
        return None if trial else samples

    def _joint(self, part: bytes) -> _Fields:
        """Return the fields of a line's end and of the next one's head, None of what is not
        there.
        """
        behind, _, head = part.partition(b"\n")
        fields = (
            (self._ends.get(behind) or self._end(behind)) if behind else None,
            (self._heads.get(head) or self._head(head)) if head else None,
        )
        return _remember(self._joints, part, fields)

    def _read(self, data: bytes, start: int, stop: int) -> Samples:
        seed = data.find(_SEED, start, stop)
        first = data.find(_VALUES, seed, stop)
        end = data.find(b"]", first, stop) + 1
        if seed < 0 or first < 0 or end == 0:
            raise _Fault(f"{_FOREIGN}, found {data[start:stop][:_SHOWN]!r}")
        head, trial, behind = data[start:seed], data[seed + len(_SEED) : first], data[end:stop]
        return _samples(
            self._heads.get(head) or self._head(head),
            self._trials.get(trial) or self._trial(trial),
            self._ends.get(behind) or self._end(behind),
            _values(data, first + len(_VALUES) - 1, end),
        )

    def _head(self, part: bytes) -> _Fields:
        active, attempt, direction, kind, metric, per, rank, resolution = _groups(_HEAD, part)
        try:
            step = float(resolution)
        except ValueError as error:
            raise _Fault(str(error)) from None
        if not math.isfinite(step):
            raise _Fault(f"resolution is {step:g}, expected a finite number")
        fields = (
            _places(active),
            int(attempt),
            self._text(direction),
            self._text(kind),
            self._text(metric),
            self._text(per),
            int(rank),
            step,
        )
        return _remember(self._heads, part, fields)

    def _trial(self, part: bytes) -> _Fields:
        seed, steps, trial, unit = _groups(_TRIAL, part)
        number = self._seeds.setdefault(seed, int(seed))
        if number >= _MAX_SEED:
            raise _Fault(f"seed is {number}, expected 0 to {_MAX_SEED - 1}")
        fields = (number, _places(steps), self._text(trial), self._string(unit))
        return _remember(self._trials, part, fields)

    def _end(self, part: bytes) -> _Fields:
        wall, warmup = _groups(_BEHIND, part)
        return _remember(self._ends, part, (_places(wall), int(warmup)))

    def _text(self, raw: bytes) -> str:
        """Return the text, which is ASCII."""
        text = self._texts.get(raw)
        if text is None:
            text = self._texts[raw] = intern(raw.decode())
        return text

    def _string(self, raw: bytes) -> str:
        """Return the text of a JSON string."""
        text = self._texts.get(raw)
        if text is None:
            try:
                text = self._texts[raw] = str(json.loads(raw.decode()))
            except ValueError as error:
                raise _Fault(str(error)) from None
        return text


def _samples(head: _Fields, trial: _Fields, behind: _Fields, values: Sequence[float]) -> Samples:
    draft: Any = _Draft()
    (
        draft.active,
        draft.attempt,
        draft.direction,
        draft.kind,
        draft.metric,
        draft.per,
        draft.rank,
        draft.resolution,
    ) = head
    draft.seed, draft.steps, draft.trial, draft.unit = trial
    draft.wall, draft.warmup = behind
    draft.values = values
    draft.__class__ = Samples
    samples: Samples = draft
    if samples.warmup > len(values):
        raise _Fault(
            f"warmup is {samples.warmup}, expected at most {len(values)}, the number of values"
        )
    if not samples.steps is samples.wall is samples.active is None:
        _check_places(samples)
    return samples


def _groups(pattern: re.Pattern[bytes], part: bytes) -> tuple[bytes, ...]:
    match = pattern.fullmatch(part)
    if match is None:
        raise _Fault(f"{_FOREIGN}, found {part[:_SHOWN]!r}")
    return match.groups()


def _remember(parts: dict[bytes, _Fields], part: bytes, fields: _Fields) -> _Fields:
    if len(part) <= _LONGEST_PART:
        if len(parts) >= _MOST_PARTS:
            parts.clear()
        parts[part] = fields
    return fields


def _check_places(samples: Samples) -> None:
    """Hold steps and clocks against the values that they stand beside."""
    for name, places in (
        ("steps", samples.steps),
        ("wall", samples.wall),
        ("active", samples.active),
    ):
        if places is None:
            continue
        if len(places) != len(samples.values):
            raise _Fault(
                f"{name} has {len(places)} entries, expected {len(samples.values)}, one for each"
                " value"
            )
        strictly = name == "steps"
        if any(
            after < before or (strictly and after == before) for before, after in pairwise(places)
        ):
            raise _Fault(f"{name} do not increase")


def _places(text: bytes) -> Sequence[float] | None:
    return None if text == b"null" else _values(text, 0, len(text))


def _values(data: bytes, start: int, end: int) -> Sequence[float]:
    if end - start > _LONGEST_PIECE:
        return _many_values(data, start, end)
    return pack(_few_values(data, start, end))


def _few_values(data: bytes, start: int, end: int) -> list[float]:
    if MEMORY_IS_LIMITED:
        return _any_values(data[start:end])
    try:
        values: list[float] = orjson.loads(memoryview(data)[start:end])
    except orjson.JSONDecodeError:
        return _any_values(data[start:end])
    # one point each and no string: they are floats all, whole numbers of any size are not among
    # them, and those that overflow were refused above
    if data.count(b".", start, end) == len(values) and data.find(b'"', start, end) < 0:
        return values
    return _any_values(data[start:end])


def _many_values(data: bytes, start: int, end: int) -> Sequence[float]:
    """Read piece by piece: all at once they take four times the memory that is kept of them."""
    values = array("d")
    place, last = start + 1, end - 1
    while place <= last:
        cut = data.find(b",", place + _LONGEST_PIECE // 2, last)
        cut = last if cut < 0 else cut
        piece = b"[%b]" % data[place:cut]
        numbers = _few_values(piece, 0, len(piece))
        if not numbers:
            raise _Fault(_FOREIGN)
        values.extend(numbers)
        place = cut + 1
    return pack(values)


def _any_values(text: bytes) -> list[float]:
    """Return values of which some may have a name, or no point, or be none."""
    if not _FLAT.fullmatch(text):
        raise _Fault("values contain nested values")
    try:
        values = json.loads(text.decode(), parse_constant=_refuse)
    except ValueError as error:
        raise _Fault(f"unreadable values: {error}") from None
    return [from_json(value) for value in values]


def from_json(value: object) -> float:
    """Return a value of a series, of which some have a name.

    Raises:
        ValueError: It is none.
    """
    if isinstance(value, float) and math.isfinite(value):
        return value
    if isinstance(value, str) and value in _NON_FINITE:
        return _NON_FINITE[value]
    raise _Fault(f"not a value: {str(value)[:40]!r}")


def to_json(value: float) -> float | str:
    """Return the JSON form that `from_json` reads."""
    if math.isfinite(value):
        return value
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"


def _refuse(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")
