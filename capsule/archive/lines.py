"""`samples.jsonl` and `attempts.jsonl`: one canonical JSON object a line, read by the million."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from dataclasses import asdict
from typing import Any, NoReturn, get_args

from capsule import digest, schema
from capsule.errors import DamagedError
from capsule.manifest import Direction, Kind
from capsule.record import Attempt, Samples

_NON_FINITE = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}
_VALUES = b'"values":['
_NUMBER = (int, float)
_SAMPLE_FIELDS: dict[str, type | tuple[type, ...]] = {
    "attempt": int,
    "direction": str,
    "kind": str,
    "metric": str,
    "resolution": _NUMBER,
    "seed": int,
    "trial": str,
    "unit": str,
    "values": list,
    "warmup": int,
}


def write_samples(samples: Samples) -> bytes:
    """One line of `results/samples.jsonl`; values that JSON lacks become strings."""
    fields = {name: getattr(samples, name) for name in _SAMPLE_FIELDS}
    fields["values"] = [_written(float(value)) for value in samples.values]
    fields["resolution"] = float(samples.resolution)
    return digest.canonical_json(fields) + b"\n"


def write_attempt(attempt: Attempt) -> bytes:
    """One line of `results/attempts.jsonl`."""
    return digest.canonical_json(asdict(attempt)) + b"\n"


def read_samples(data: bytes, *, where: str) -> tuple[Samples, ...]:
    """The lines of `results/samples.jsonl`, checked as the schema `sample-1` asks, but faster.

    Raises:
        DamagedError: Names the line.
    """
    return tuple(_sample(line, f"{where}:{number}") for number, line in _lines(data, where))


def read_attempts(data: bytes, *, where: str) -> tuple[Attempt, ...]:
    """The lines of `results/attempts.jsonl`.

    Raises:
        DamagedError: Names the line.
    """
    found = []
    for number, line in _lines(data, where):
        value = schema.parse(line, where=f"{where}:{number}")
        for pointer, message in schema.validate(value, "attempt-1"):
            raise DamagedError(f"{pointer or '/'}: {message[:300]}", where=f"{where}:{number}")
        found.append(Attempt(**value))
    return tuple(found)


def _lines(data: bytes, where: str) -> Iterator[tuple[int, bytes]]:
    if data and not data.endswith(b"\n"):
        raise DamagedError("the last line does not end", where=where)
    return enumerate(data.split(b"\n")[:-1], 1)


def _sample(line: bytes, where: str) -> Samples:
    # the array is read apart: a hook for every number would cost more than all the rest, and a
    # quote inside a string is escaped, so that no string can hold _VALUES
    start = line.find(_VALUES) + len(_VALUES)
    end = line.find(b"]", start)
    if start < len(_VALUES) or end < 0:
        raise DamagedError("no array of values", where=where)
    fields = schema.parse(line[:start] + line[end:], where=where)
    fault = _field_fault(fields)
    if fault:
        raise DamagedError(fault, where=where)
    fields["values"] = _values(line[start - 1 : end + 1], where)
    if fields["warmup"] > len(fields["values"]):
        raise DamagedError("more warm-up values than values", where=where)
    return Samples(**fields)


def _field_fault(fields: Any) -> str | None:
    if not isinstance(fields, dict) or fields.keys() != _SAMPLE_FIELDS.keys():
        return f"a line has exactly the fields {', '.join(_SAMPLE_FIELDS)}"
    for name, kind in _SAMPLE_FIELDS.items():
        if not isinstance(fields[name], kind) or isinstance(fields[name], bool):
            return f"{name} has the wrong type"
    if fields["direction"] not in get_args(Direction) or fields["kind"] not in get_args(Kind):
        return "direction or kind is none of the known words"
    if not 0 <= fields["seed"] < 2**32 or fields["attempt"] < 1 or fields["warmup"] < 0:
        return "seed, attempt or warmup is out of range"
    if fields["resolution"] < 0 or fields["values"]:
        return "resolution or values are not what they should be"
    return None


def _values(text: bytes, where: str) -> tuple[float, ...]:
    if text.count(b"[") != 1 or b"{" in text:
        raise DamagedError("values are numbers alone", where=where)
    try:
        values = json.loads(text.decode("ascii"), parse_constant=_refuse)
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
