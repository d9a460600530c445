"""The trace of a sampler, read as hostile input: without a container a workload can change it."""

from __future__ import annotations

import math
import re
from array import array
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import orjson

from capsule import leavings
from capsule.telemetry.sampler import FORMAT
from capsule.telemetry.sources import Facts, Sample

if TYPE_CHECKING:
    _Array = array[float]

_MOST_BYTES = 1 << 31
_MOST_LINE_BYTES = 1 << 16
_MOST_DEVICES = 256
_SOURCES = ("nvml", "amdgpu", "rapl")
_NAME = re.compile(r"[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]|package-[0-9]{1,4}")
_MOST = 1 << 63
# time and number of the device come before the readings
_WIDTH = 2 + len(Sample._fields)


@dataclass(frozen=True, kw_only=True)
class Track:
    """Samples of one device.

    Attributes:
        times: Monotonic time of each sample in seconds, increasing.
        columns: Readings by the name of a field of `Sample`, one for each sample; NaN for None.
    """

    facts: Facts
    times: _Array
    columns: Mapping[str, _Array]


@dataclass(frozen=True, kw_only=True)
class Trace:
    """All samples beside one process start of one rank.

    Attributes:
        began: Monotonic time in seconds at which the workload was started, None if unknown.
        ended: The same of its end.
    """

    tracks: tuple[Track, ...] = ()
    began: float | None = None
    ended: float | None = None


class _Foreign(Exception):
    """A line that no sampler writes."""


def read(path: Path) -> Trace:
    """Read a trace up to the first line that no sampler writes; empty without a file."""
    marks: dict[str, float] = {}
    tracks: list[Track] = []
    lines = _lines(path)
    try:
        tracks = [_track(facts) for facts in _header(next(lines, None))]
        for line in lines:
            if isinstance(line, list) and len(line) == 2 and line[0] in ("begin", "end"):
                marks.setdefault(line[0], _time(line[1]))
            else:
                _take(line, tracks)
    except _Foreign:
        pass
    return Trace(tracks=tuple(tracks), began=marks.get("begin"), ended=marks.get("end"))


def _lines(path: Path) -> Iterator[object]:
    stream = leavings.open_file(path)
    if stream is None:
        return
    with stream:
        size_bytes = 0
        while line := stream.readline(_MOST_LINE_BYTES):
            size_bytes += len(line)
            # a kill cuts the last line off
            if not line.endswith(b"\n") or size_bytes > _MOST_BYTES:
                return
            try:
                value: object = orjson.loads(line)
            except orjson.JSONDecodeError:
                return
            yield value


def _header(line: object) -> Iterator[Facts]:
    if not isinstance(line, dict) or line.get("format") != FORMAT:
        return
    devices = line.get("devices")
    if not isinstance(devices, list) or len(devices) > _MOST_DEVICES:
        raise _Foreign
    names = set[str]()
    for one in devices:
        if not isinstance(one, dict) or one.keys() != set(Facts._fields):
            raise _Foreign
        is_named = isinstance(one["device"], str) and _NAME.fullmatch(one["device"])
        numbers = [one["wrap_joules"], one["limit_watts"]]
        if not is_named or one["source"] not in _SOURCES or not isinstance(one["is_mig"], bool):
            raise _Foreign
        if not all(number is None or _is_number(number) for number in numbers):
            raise _Foreign
        if one["device"] in names:
            raise _Foreign
        names.add(one["device"])
        yield Facts(**one)


def _track(facts: Facts) -> Track:
    return Track(
        facts=facts, times=array("d"), columns={name: array("d") for name in Sample._fields}
    )


def _take(line: object, tracks: list[Track]) -> None:
    if not isinstance(line, list) or len(line) != _WIDTH:
        raise _Foreign
    time, place, *readings = line
    if type(place) is not int or not 0 <= place < len(tracks):
        raise _Foreign
    if not _is_number(time) or not all(one is None or _is_number(one) for one in readings):
        raise _Foreign
    track = tracks[place]
    if track.times and time <= track.times[-1]:
        raise _Foreign
    track.times.append(time)
    for column, one in zip(track.columns.values(), readings, strict=True):
        column.append(math.nan if one is None else one)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and type(value) is not bool and -_MOST < value < _MOST


def _time(value: object) -> float:
    try:
        seconds = float(str(value))
    except ValueError:
        raise _Foreign from None
    if not -_MOST < seconds < _MOST:
        raise _Foreign
    return seconds
