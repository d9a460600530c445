"""Scalars in TensorFlow's event files, as TensorBoard shows them.

A file is a sequence of `Event` messages, each with a step, a wall time and values under tags. A
scalar is a `simple_value` (PyTorch, tensorboardX, TensorFlow 1) or a tensor of one floating-point
number (TensorFlow 2). Who begins anew at an earlier step writes steps again: the later ones count.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime

from capsule.extraction import records
from capsule.extraction.records import BrokenError, TooManyError
from capsule.extraction.values import UnreadError, Value, cut, require_room
from capsule.manifest.sources import EventTag

_WALL, _STEP, _VERSION, _SUMMARY, _SESSION = 1, 2, 3, 5, 7
_STATUS, _BEGINS = 1, 1
_VALUE, _TAG, _SIMPLE, _TENSOR = 1, 1, 2, 8
_TYPE, _SHAPE, _CONTENT, _FLOATS, _DOUBLES = 1, 2, 4, 5, 6
_DIMENSION, _SIZE = 2, 1
# by the type of a tensor: the field that may list its numbers, and how one is written
_NUMBERS = {1: (_FLOATS, "<f"), 2: (_DOUBLES, "<d")}
_TAGS = 10


@dataclass(frozen=True, slots=True)
class _Event:
    """An event: its values by tag, None for one that is no scalar."""

    step: int
    wall: float
    begins: bool
    is_version: bool
    values: tuple[tuple[bytes, float | None], ...]


@dataclass(frozen=True, slots=True)
class _Point:
    step: int
    wall: float
    number: float


@dataclass(frozen=True, kw_only=True)
class Log:
    """Scalars of event files under some tags.

    Attributes:
        points: Points of each tag, by increasing steps.
        others: Tags that hold something else than scalars.
        names: Some tags of scalars, for a message.
        fault: Where the bytes are no event file, None where they are one.
    """

    points: Mapping[bytes, list[_Point]]
    others: set[bytes] = field(default_factory=set)
    names: dict[bytes, None] = field(default_factory=dict)
    fault: str | None = None


def keep_scalars(data: bytes) -> bytes:
    """Keep the records with scalars of several event files, and where a run began.

    Their bytes stay as they are, so TensorBoard reads them too. So does the first record that is
    broken, after which nothing is kept: whoever reads it sees the same fault.

    Raises:
        TooManyError: There are more records than are read.
    """
    pieces, at = [], 0
    try:
        for end, payload in records.read(data):
            if _is_kept(payload):
                pieces.append(data[at:end])
            at = end
    except BrokenError as error:
        pieces.append(data[at : error.end])
    return b"".join(pieces)


def _is_kept(payload: bytes) -> bool:
    try:
        event = _parse(payload)
    except BrokenError:
        return True
    has_scalar = any(number is not None for _, number in event.values)
    return has_scalar or event.begins or event.is_version


def read_log(data: bytes, tags: Iterable[str]) -> Log:
    """Return the scalars of some tags; of a step that was taken again the later one, as
    TensorBoard.

    Args:
        data: Event files, one behind the other.
        tags: The tags.
    """
    log = Log(points={tag.encode(): [] for tag in tags})
    at = 0
    try:
        for end, payload in records.read(data):
            _add(log, _parse(payload))
            at = end
    except BrokenError as error:
        return Log(points={}, fault=f"{error}, after {at} bytes")
    except TooManyError as error:
        return Log(points={}, fault=str(error))
    return log


def _add(log: Log, event: _Event) -> None:
    if event.begins:
        for points in log.points.values():
            _forget(points, event.step)
    for tag, number in event.values:
        if number is not None and len(log.names) < _TAGS:
            log.names[tag] = None
        if tag not in log.points:
            continue
        if number is None:
            log.others.add(tag)
            continue
        own = log.points[tag]
        _forget(own, event.step)
        own.append(_Point(event.step, event.wall, number))


def _forget(points: list[_Point], step: int) -> None:
    """Leave out what was taken at this step or later: the run begins there anew."""
    while points and points[-1].step >= step:
        points.pop()


def of_tag(source: EventTag, log: Log, name: str) -> tuple[Value, ...]:
    """Return the last number under a tag, or each with its step.

    Args:
        source: The tag.
        log: What the event files have.
        name: Name of the event files, for messages.

    Raises:
        UnreadError: They have nothing under the tag, or no scalar, or are broken.
    """
    if log.fault is not None:
        raise UnreadError("bad-result", f"{name}: {log.fault}")
    tag, shown = source.tag.encode(), cut(source.tag)
    if tag in log.others:
        raise UnreadError(
            "bad-result",
            f"tag {shown} in {name} has a value that is no scalar; log only scalars under this tag",
        )
    points = log.points[tag]
    if not points:
        known = ", ".join(cut(one.decode(errors="replace")) for one in log.names) or "none"
        raise UnreadError("no-result", f"{name} has no scalar {shown}; its tags: {known}")
    require_room(len(points))
    return tuple(
        Value(
            value=point.number,
            step=float(point.step) if source.is_curve else None,
            words=f"step {point.step}, {_time(point.wall)}, {shown} = {point.number!r}",
        )
        for point in (points if source.is_curve else points[-1:])
    )


def _time(wall: float) -> str:
    try:
        return datetime.fromtimestamp(wall, UTC).isoformat(timespec="milliseconds")
    except (OverflowError, ValueError, OSError):
        return f"wall time {wall!r}"


def _parse(payload: bytes) -> _Event:
    """Return an event, as far as scalars are concerned.

    Raises:
        BrokenError: It is none.
    """
    step, wall, begins, is_version = 0, 0.0, False, False
    values: list[tuple[bytes, float | None]] = []
    for number, content in records.fields(payload):
        if number == _WALL:
            wall = _float(content, "<d", "wall_time")
        elif number == _STEP:
            step = _integer(content, "step")
        elif number == _VERSION:
            is_version = True
        elif number == _SUMMARY:
            values += (
                _value(_bytes(value, "summary.value"))
                for one, value in records.fields(_bytes(content, "summary"))
                if one == _VALUE
            )
        elif number == _SESSION:
            begins = (_STATUS, _BEGINS) in records.fields(_bytes(content, "session_log"))
    return _Event(step, wall, begins, is_version, tuple(values))


def _value(message: bytes) -> tuple[bytes, float | None]:
    tag, scalar = b"", None
    for number, content in records.fields(message):
        if number == _TAG:
            tag = _bytes(content, "tag")
        elif number == _SIMPLE:
            scalar = _float(content, "<f", "simple_value")
        elif number == _TENSOR:
            scalar = _of_tensor(_bytes(content, "tensor"))
    return tag, scalar


def _of_tensor(message: bytes) -> float | None:
    """Return the number of a tensor that has one of floating point."""
    kind, numbers = 0, {_CONTENT: b"", _FLOATS: b"", _DOUBLES: b""}
    for number, content in records.fields(message):
        if number == _TYPE:
            kind = _integer(content, "dtype")
        elif number == _SHAPE:
            sizes = (_integer(size, "size") for size in _sizes(_bytes(content, "tensor_shape")))
            if any(size != 1 for size in sizes):
                return None
        elif number in numbers:
            numbers[number] += _bytes(content, f"tensor.{number}")
    if kind not in _NUMBERS:
        return None
    listed, form = _NUMBERS[kind]
    written = numbers[_CONTENT] or numbers[listed]
    return _float(written, form, "tensor") if len(written) == struct.calcsize(form) else None


def _sizes(shape: bytes) -> Iterator[int | bytes]:
    for number, dimension in records.fields(shape):
        if number == _DIMENSION:
            own = [size for one, size in records.fields(_bytes(dimension, "dim")) if one == _SIZE]
            yield own[-1] if own else 0


def _float(content: int | bytes, form: str, name: str) -> float:
    size = struct.calcsize(form)
    if isinstance(content, int) or len(content) != size:
        raise BrokenError(
            f"field {name} of an event contains {_show(content)}, expected {size} bytes"
        )
    (number,) = struct.unpack(form, content)
    assert isinstance(number, float)
    return number


def _integer(content: int | bytes, name: str) -> int:
    if not isinstance(content, int):
        raise BrokenError(
            f"field {name} of an event contains {_show(content)}, expected an integer"
        )
    return content - (1 << 64) if content >> 63 else content


def _bytes(content: int | bytes, name: str) -> bytes:
    if isinstance(content, int):
        raise BrokenError(
            f"field {name} of an event contains {_show(content)}, expected a protobuf message or"
            " text"
        )
    return content


def _show(content: int | bytes) -> str:
    return f"the integer {content}" if isinstance(content, int) else f"{len(content)} bytes"
