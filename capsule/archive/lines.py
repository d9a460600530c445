"""`samples.jsonl` and `attempts.jsonl`: one canonical JSON object a line, read by the million."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator
from dataclasses import asdict
from itertools import pairwise
from typing import NoReturn, cast

from capsule import digest, schema
from capsule.archive import flat
from capsule.archive.strict import parse
from capsule.errors import DamagedError
from capsule.manifest import Direction, Kind
from capsule.record import Attempt, Samples

_NON_FINITE = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}
# the canonical JSON of a line, and no other: reading it field by field costs more than its numbers
_SAMPLE = re.compile(
    rb'\{"attempt":(?P<attempt>[1-9][0-9]{0,8})'
    rb',"direction":"(?P<direction>lower|higher|none)"'
    rb',"kind":"(?P<kind>portable|machine)"'
    rb',"metric":"(?P<metric>[A-Za-z0-9._+/-]{1,300})"'
    rb',"resolution":(?P<resolution>[0-9][0-9.e+-]{0,30})'
    rb',"seed":(?P<seed>0|[1-9][0-9]{0,9})'
    rb',"steps":(?P<steps>null|\[[^][{}"]*\])'
    rb',"trial":"(?P<trial>[A-Za-z0-9._+/-]{1,300})"'
    rb',"unit":(?P<unit>"(?:[^"\\\x00-\x1f]|\\["\\]){1,128}")'
    rb',"values":(?P<values>\[[^][{}]*\])'
    rb',"warmup":(?P<warmup>0|[1-9][0-9]{0,8})\}'
)
_FIELDS = tuple(_SAMPLE.groupindex)
_MAX_SEED = 2**32


def write_samples(samples: Samples) -> bytes:
    """One line of `results/samples.jsonl`; values that JSON lacks become strings."""
    fields = {name: getattr(samples, name) for name in _FIELDS}
    fields["values"] = [_written(float(value)) for value in samples.values]
    fields["steps"] = None if samples.steps is None else list(map(float, samples.steps))
    fields["resolution"] = float(samples.resolution)
    return digest.canonical_json(fields) + b"\n"


def write_attempt(attempt: Attempt) -> bytes:
    """One line of `results/attempts.jsonl`."""
    return digest.canonical_json(asdict(attempt)) + b"\n"


def read_samples(data: bytes, *, where: str) -> tuple[Samples, ...]:
    """The lines of `results/samples.jsonl`, which are those that `write_samples` writes.

    Raises:
        DamagedError: Names the line.
    """
    return tuple(_sample(line, f"{where}:{number}") for number, line in _lines(data, where))


def read_attempts(data: bytes, *, where: str) -> tuple[Attempt, ...]:
    """The lines of `results/attempts.jsonl`.

    Raises:
        DamagedError: Names the line.
    """
    check = flat.checker(schema.load("attempt-1"))
    found = []
    for number, line in _lines(data, where):
        value = parse(line, where=f"{where}:{number}")
        if fault := check(value):
            raise DamagedError(fault, where=f"{where}:{number}")
        found.append(Attempt(**value))
    return tuple(found)


def _lines(data: bytes, where: str) -> Iterator[tuple[int, bytes]]:
    if data and not data.endswith(b"\n"):
        raise DamagedError("the last line does not end", where=where)
    return enumerate(data.split(b"\n")[:-1], 1)


def _sample(line: bytes, where: str) -> Samples:
    match = _SAMPLE.fullmatch(line)
    if match is None:
        raise DamagedError("not a line of samples in canonical form", where=where)
    try:
        found = {name: text.decode() for name, text in match.groupdict().items()}
        unit, resolution = json.loads(found["unit"]), float(found["resolution"])
    except ValueError as error:
        raise DamagedError(str(error), where=where) from None
    samples = Samples(
        metric=found["metric"],
        trial=found["trial"],
        attempt=int(found["attempt"]),
        seed=int(found["seed"]),
        unit=unit,
        direction=cast(Direction, found["direction"]),
        kind=cast(Kind, found["kind"]),
        resolution=resolution,
        warmup=int(found["warmup"]),
        values=_values(found["values"], where),
        steps=None if found["steps"] == "null" else _values(found["steps"], where),
    )
    if samples.seed >= _MAX_SEED or not math.isfinite(resolution):
        raise DamagedError("seed or resolution is out of range", where=where)
    if samples.warmup > len(samples.values):
        raise DamagedError("more warm-up values than values", where=where)
    if samples.steps is not None:
        if len(samples.steps) != len(samples.values):
            raise DamagedError("not as many steps as values", where=where)
        if any(after <= before for before, after in pairwise(samples.steps)):
            raise DamagedError("steps that do not increase", where=where)
    return samples


def _values(text: str, where: str) -> tuple[float, ...]:
    try:
        values = json.loads(text, parse_constant=_refuse)
    except ValueError as error:
        raise DamagedError(f"values cannot be read: {error}", where=where) from None
    if set(map(type, values)) - {float}:
        values = [_read(value, where) for value in values]
    elif not all(map(math.isfinite, values)):
        raise DamagedError("a value overflows", where=where)
    return tuple(values)


def _read(value: object, where: str) -> float:
    if isinstance(value, float) and math.isfinite(value):
        return value
    if isinstance(value, str) and value in _NON_FINITE:
        return _NON_FINITE[value]
    raise DamagedError(f"not a value: {str(value)[:40]!r}", where=where)


def _written(value: float) -> float | str:
    if math.isfinite(value):
        return value
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"


def _refuse(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")
