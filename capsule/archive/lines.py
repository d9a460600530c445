"""`samples.jsonl` and `attempts.jsonl`: one canonical JSON object a line, read by the million."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict
from itertools import pairwise
from sys import intern
from typing import Any, NoReturn, cast

import orjson

from capsule import digest, schema
from capsule.archive import flat
from capsule.archive.limits import MOST_LINE_BYTES
from capsule.archive.strict import MEMORY_IS_LIMITED, parse_line
from capsule.errors import DamagedError
from capsule.manifest import Direction, Kind, Per
from capsule.record import Attempt, Evidence, Samples

_NON_FINITE = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}
# the canonical JSON of a line, and no other, up to its values and behind them: reading it field by
# field costs more than its numbers, and so does a pattern that goes through them
_BEFORE = re.compile(
    rb'\{"active":(?P<active>null|\[[^][{}"]*\])'
    rb',"attempt":(?P<attempt>[1-9][0-9]{0,8})'
    rb',"direction":"(?P<direction>lower|higher|none)"'
    rb',"kind":"(?P<kind>portable|machine)"'
    rb',"metric":"(?P<metric>[A-Za-z0-9._+/-]{1,300})"'
    rb',"per":"(?P<per>call|trial|node|block|step|rank)"'
    rb',"rank":(?P<rank>0|[1-9][0-9]{0,8})'
    rb',"resolution":(?P<resolution>[0-9][0-9.e+-]{0,30})'
    rb',"seed":(?P<seed>0|[1-9][0-9]{0,9})'
    rb',"steps":(?P<steps>null|\[[^][{}"]*\])'
    rb',"trial":"(?P<trial>[A-Za-z0-9._+/-]{1,300})"'
    rb',"unit":(?P<unit>"(?:[^"\\\x00-\x1f]|\\["\\]){1,128}")'
    rb',"values":(?=\[)'
)
_BEHIND = re.compile(
    rb',"wall":(?P<wall>null|\[[^][{}"]*\]),"warmup":(?P<warmup>0|[1-9][0-9]{0,8})\}'
)
_FLAT = re.compile(rb"\[[^][{}]*\]")
_FIELDS = (*_BEFORE.groupindex, "values", *_BEHIND.groupindex)
_MAX_SEED = 2**32
_FIRST_NODE = (0,)
# texts of attempts that many of them have
_REPEATED = ("trial", "group", "seed_source", "outcome", "started")


def write_samples(samples: Samples) -> bytes:
    """One line of `results/samples.jsonl`; values that JSON lacks become strings."""
    fields = {name: getattr(samples, name) for name in _FIELDS}
    fields["values"] = [_to_json(float(value)) for value in samples.values]
    for name in ("steps", "wall", "active"):
        places = getattr(samples, name)
        fields[name] = None if places is None else list(map(float, places))
    fields["resolution"] = float(samples.resolution)
    return digest.canonical_json(fields) + b"\n"


def write_attempt(attempt: Attempt) -> bytes:
    """One line of `results/attempts.jsonl`."""
    return digest.canonical_json(asdict(attempt)) + b"\n"


def read_samples(pieces: Iterable[bytes], *, where: str) -> tuple[Samples, ...]:
    """The lines of `results/samples.jsonl`, which are those that `write_samples` writes.

    Args:
        pieces: The bytes, cut anywhere.
        where: Their name in messages.

    Raises:
        DamagedError: Names the line.
    """
    known = _Known()
    return tuple(
        _sample(block, line, known, f"{where}:{number}")
        for block, number, line in _lines(pieces, where)
    )


def read_attempts(pieces: Iterable[bytes], *, where: str) -> tuple[Attempt, ...]:
    """The lines of `results/attempts.jsonl`.

    Raises:
        DamagedError: Names the line.
    """
    check = flat.checker(schema.load("attempt-1"))
    attempts = []
    for block, number, line in _lines(pieces, where):
        value = parse_line(block[line], where=f"{where}:{number}")
        if fault := check(value):
            raise DamagedError(fault, where=f"{where}:{number}")
        attempts.append(attempt_from_json(value))
    return tuple(attempts)


def attempt_from_json(value: Mapping[str, Any]) -> Attempt:
    """The attempt that a line, or an entry of a run folder's log, states."""
    evidence = tuple(Evidence(**file) for file in value["evidence"])
    texts = {name: intern(value[name]) for name in _REPEATED}
    nodes = _FIRST_NODE if value["nodes"] == [0] else tuple(value["nodes"])
    return Attempt(**{**value, **texts, "nodes": nodes, "evidence": evidence})


def _lines(pieces: Iterable[bytes], where: str) -> Iterator[tuple[bytes, int, slice]]:
    """Blocks of whole lines, with the number and the place of each line in it.

    Not to copy the lines spares a fifth of the time, and not to hold all blocks most of the memory.
    """
    number = 0
    for block in _blocks(pieces, where):
        start = 0
        while (end := block.find(b"\n", start)) >= 0:
            number += 1
            yield block, number, slice(start, end)
            start = end + 1


def _blocks(pieces: Iterable[bytes], where: str) -> Iterator[bytes]:
    """The same bytes, cut behind the ends of lines."""
    rest: list[bytes] = []
    for piece in pieces:
        end = piece.rfind(b"\n") + 1
        if end:
            yield b"".join([*rest, piece[:end]])
            rest = []
        rest.append(piece[end:])
        if sum(map(len, rest)) > MOST_LINE_BYTES:
            raise DamagedError(f"a line is longer than {MOST_LINE_BYTES} bytes", where=where)
    if any(rest):
        raise DamagedError("the last line does not end", where=where)


class _Known:
    """What lines say again and again, held once."""

    def __init__(self) -> None:
        self._texts: dict[bytes, str] = {}
        self._numbers: dict[bytes, float] = {}
        self._seeds: dict[bytes, int] = {}

    def text(self, raw: bytes) -> str:
        """The text, which is ASCII."""
        text = self._texts.get(raw)
        if text is None:
            text = self._texts[raw] = intern(raw.decode())
        return text

    def string(self, raw: bytes) -> str:
        """The text of a JSON string."""
        text = self._texts.get(raw)
        if text is None:
            text = self._texts[raw] = str(json.loads(raw.decode()))
        return text

    def seed(self, raw: bytes) -> int:
        """The whole number."""
        seed = self._seeds.get(raw)
        if seed is None:
            seed = self._seeds[raw] = int(raw)
        return seed

    def number(self, raw: bytes) -> float:
        """The number."""
        number = self._numbers.get(raw)
        if number is None:
            number = self._numbers[raw] = float(raw)
        return number


def _sample(data: bytes, line: slice, known: _Known, where: str) -> Samples:
    before = _BEFORE.match(data, line.start, line.stop)
    end = data.find(b"]", before.end(), line.stop) + 1 if before else 0
    behind = _BEHIND.fullmatch(data, end, line.stop) if end else None
    if before is None or behind is None:
        raise DamagedError("not a line of samples in canonical form", where=where)
    active, attempt, direction, kind, metric, per, rank, resolution, seed, steps, trial, unit = (
        before.groups()
    )
    wall, warmup = behind.groups()
    try:
        samples = Samples(
            metric=known.text(metric),
            trial=known.text(trial),
            attempt=int(attempt),
            seed=known.seed(seed),
            unit=known.string(unit),
            direction=cast(Direction, known.text(direction)),
            kind=cast(Kind, known.text(kind)),
            resolution=known.number(resolution),
            per=cast(Per, known.text(per)),
            rank=int(rank),
            warmup=int(warmup),
            values=_values(data, before.end(), end, where),
            steps=None if steps == b"null" else _values(data, *before.span("steps"), where),
            wall=None if wall == b"null" else _values(data, *behind.span("wall"), where),
            active=None if active == b"null" else _values(data, *before.span("active"), where),
        )
    except ValueError as error:
        raise DamagedError(str(error), where=where) from None
    if samples.seed >= _MAX_SEED or not math.isfinite(samples.resolution):
        raise DamagedError("seed or resolution is out of range", where=where)
    if samples.warmup > len(samples.values):
        raise DamagedError("more warm-up values than values", where=where)
    _check_places(samples, where)
    return samples


def _check_places(samples: Samples, where: str) -> None:
    """Hold steps and clocks against the values that they stand beside."""
    for name, places in (
        ("steps", samples.steps),
        ("wall", samples.wall),
        ("active", samples.active),
    ):
        if places is None:
            continue
        if len(places) != len(samples.values):
            raise DamagedError(f"not as many numbers in {name} as values", where=where)
        strictly = name == "steps"
        if any(
            after < before or (strictly and after == before) for before, after in pairwise(places)
        ):
            raise DamagedError(f"{name} that do not increase", where=where)


def _values(data: bytes, start: int, end: int, where: str) -> tuple[float, ...]:
    if MEMORY_IS_LIMITED:
        return _any_values(data[start:end], where)
    try:
        values = orjson.loads(memoryview(data)[start:end])
    except orjson.JSONDecodeError:
        return _any_values(data[start:end], where)
    # one point each and no string: they are floats all, whole numbers of any size are not among
    # them, and those that overflow were refused above
    if data.count(b".", start, end) == len(values) and data.find(b'"', start, end) < 0:
        return tuple(values)
    return _any_values(data[start:end], where)


def _any_values(text: bytes, where: str) -> tuple[float, ...]:
    """Values of which some may have a name, or no point, or be none."""
    if not _FLAT.fullmatch(text):
        raise DamagedError("values that hold others", where=where)
    try:
        values = json.loads(text.decode(), parse_constant=_refuse)
    except ValueError as error:
        raise DamagedError(f"values cannot be read: {error}", where=where) from None
    return tuple(_read(value, where) for value in values)


def _read(value: object, where: str) -> float:
    if isinstance(value, float) and math.isfinite(value):
        return value
    if isinstance(value, str) and value in _NON_FINITE:
        return _NON_FINITE[value]
    raise DamagedError(f"not a value: {str(value)[:40]!r}", where=where)


def _to_json(value: float) -> float | str:
    if math.isfinite(value):
        return value
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"


def _refuse(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")
