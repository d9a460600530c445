"""`ranks.jsonl`: one canonical JSON object a line, for the series of many ranks together."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from sys import intern
from typing import Any

from capsule import digest, schema
from capsule.archive import blocks, flat
from capsule.archive.lines import from_json, to_json
from capsule.archive.strict import parse_canonical_line, parse_line, require_canonical
from capsule.errors import DamagedError
from capsule.record import RankSamples
from capsule.series import pack

_TEXTS = ("metric", "trial", "unit", "direction", "kind", "per")
_NUMBERS = ("attempt", "seed", "count", "discarded")
# numbers that Python writes otherwise than orjson
_AS_PYTHON_WRITES = re.compile(rb"0\.0000|[0-9]e[-+0-9]")
_SERIES = ("values", "whole", "last", "least", "median", "largest")


def write(line: RankSamples) -> bytes:
    """Return one line of `results/ranks.jsonl`."""
    fields: dict[str, Any] = {name: getattr(line, name) for name in (*_TEXTS, *_NUMBERS)}
    for name in _SERIES:
        fields[name] = [to_json(float(value)) for value in getattr(line, name)]
    fields["digests"] = list(line.digests)
    fields["resolution"] = float(line.resolution)
    return digest.canonical_json(fields) + b"\n"


def read(pieces: Iterable[bytes], *, where: str) -> tuple[RankSamples, ...]:
    """Return the lines of `results/ranks.jsonl`, which are those that `write` writes.

    Args:
        pieces: The bytes, cut anywhere.
        where: Their name in messages.

    Raises:
        DamagedError: Names the line.
    """
    check = flat.checker(schema.load("ranks-1"))
    return blocks.read(pieces, lambda data, at: _read(data, check, at), where=where)


def _read(data: bytes, check: flat.Check, where: str) -> RankSamples:
    value = parse_canonical_line(data)
    is_canonical = value is not None and not _AS_PYTHON_WRITES.search(data)
    value = parse_line(data, where=where) if value is None else value
    if fault := check(value):
        raise DamagedError(fault, where=where)
    try:
        line = _line(value)
    except ValueError as error:
        raise DamagedError(str(error), where=where) from None
    if not is_canonical:
        require_canonical(data, write(line), where=where)
    return line


def _line(value: dict[str, Any]) -> RankSamples:
    fields: dict[str, Any] = {name: intern(value[name]) for name in _TEXTS}
    fields |= {name: value[name] for name in _NUMBERS}
    fields |= {name: _series(value[name]) for name in _SERIES}
    return RankSamples(
        **fields,
        resolution=float(value["resolution"]),
        digests=tuple(map(intern, value["digests"])),
        warmup=0,
    )


def _series(values: list[float | str]) -> Sequence[float]:
    return pack([from_json(value) for value in values])
