"""`devices.jsonl`: one canonical JSON object a line, for a device during an attempt."""

from __future__ import annotations

import math
from collections.abc import Iterable
from sys import intern
from typing import Any

from capsule import digest, schema
from capsule.archive import blocks, flat
from capsule.archive.strict import parse_line, require_canonical
from capsule.errors import DamagedError
from capsule.record import DeviceSeries, Quantity
from capsule.series import pack

_PLAIN = (
    *("trial", "attempt", "rank", "node", "device", "source", "samples", "is_gapless", "use"),
    *("joules", "energy_gap"),
)
_STATISTICS = ("least", "largest", "integral", "seconds")


def write(line: DeviceSeries) -> bytes:
    """Return one line of `results/devices.jsonl`."""
    fields: dict[str, Any] = {name: getattr(line, name) for name in _PLAIN}
    fields["joules"] = None if line.joules is None else float(line.joules)
    fields["seconds"] = float(line.seconds)
    fields["times"] = list(map(float, line.times))
    fields["throttled"] = [
        {"reason": reason, "seconds": float(seconds)}
        for reason, seconds in sorted(line.throttled.items())
    ]
    fields["quantities"] = [
        {
            "name": one.name,
            "values": [None if math.isnan(value) else float(value) for value in one.values],
            **{name: float(getattr(one, name)) for name in _STATISTICS},
        }
        for one in line.quantities
    ]
    return digest.canonical_json(fields) + b"\n"


def read(pieces: Iterable[bytes], *, where: str) -> tuple[DeviceSeries, ...]:
    """Return the lines of `results/devices.jsonl`, which are those that `write` writes.

    Args:
        pieces: The bytes, cut anywhere.
        where: Their name in messages.

    Raises:
        DamagedError: Names the line.
    """
    check = flat.checker(schema.load("devices-1"))
    return blocks.read(pieces, lambda data, at: _read(data, check, at), where=where)


def _read(data: bytes, check: flat.Check, where: str) -> DeviceSeries:
    value = parse_line(data, where=where)
    if fault := check(value):
        raise DamagedError(fault, where=where)
    line = _line(value)
    require_canonical(data, write(line), where=where)
    return line


def _line(value: dict[str, Any]) -> DeviceSeries:
    fields = {name: value[name] for name in (*_PLAIN, "seconds")}
    for name in ("trial", "device", "source", "use"):
        fields[name] = intern(fields[name])
    return DeviceSeries(
        **fields,
        times=pack(value["times"]),
        quantities=tuple(map(_quantity, value["quantities"])),
        throttled={intern(one["reason"]): one["seconds"] for one in value["throttled"]},
    )


def _quantity(value: dict[str, Any]) -> Quantity:
    return Quantity(
        name=intern(value["name"]),
        values=pack([math.nan if one is None else one for one in value["values"]]),
        **{name: value[name] for name in _STATISTICS},
    )
