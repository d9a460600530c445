"""TFRecord, TensorFlow's files of records, and the message `tf.train.Example` in them.

A record is its length as eight bytes, their checksum, the bytes, and theirs, all little-endian; the
checksums are masked CRC32C (tensorflow.org, "TFRecord and tf.train.Example"). The message has the
wire format of Protocol Buffers (protobuf.dev, "Encoding") and the fields of `feature.proto`.
"""

from __future__ import annotations

import io
import struct
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, Union

from . import files
from .checksums import crc32c, mask
from .files import FormatError

_HEAD, _LENGTH_BYTES, _CRC_BYTES = struct.Struct("<QI"), 8, 4
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_LONGEST_VARINT, _WORD = 10, (1 << 64) - 1
_SHOWN = 40
_KINDS = {1: "bytes", 2: "float", 3: "int64"}

Example = Mapping[str, Union[list[bytes], Any]]
"""Features by name: bytes, or an array float32 (n,) or int64 (n,)."""


Place = tuple[int, int]
"""Offset of a record in the unpacked file, in bytes, and its length."""


def locate(path: Path) -> list[Place]:
    """Locate the records of a file, gzipped or not, without reading their bytes.

    Raises:
        FormatError: The checksum of a length fails, the last record is cut off, or there is none.
        OSError: It cannot be read.
    """
    places = []
    with _open(path) as (file, size):
        at = 0
        while at < size:
            file.seek(at)
            head = file.read(_HEAD.size)
            if not _has_length(head):
                raise FormatError(path, f"has a wrong checksum of the record length at byte {at}")
            start, length = at + _HEAD.size, _HEAD.unpack(head)[0]
            at = start + length + _CRC_BYTES
            if at > size:
                raise FormatError(
                    path, f"ends within a record: found {size} bytes, expected at least {at}"
                )
            places.append((start, length))
    if not places:
        raise FormatError(path, "has no record")
    return places


def read(path: Path, place: Place) -> memoryview:
    """Return a record, its checksum held against it.

    Args:
        path: Path of the file.
        place: One of `locate`.

    Raises:
        FormatError: It has another checksum.
        OSError: It cannot be read.
    """
    start, length = place
    with _open(path) as (file, _):
        file.seek(start)
        view = memoryview(file.read(length + _CRC_BYTES))
    record, due = view[:length], view[length:]
    if len(due) != _CRC_BYTES or mask(crc32c(record)) != int.from_bytes(due, "little"):
        raise FormatError(
            path,
            f"has a wrong checksum of the record that ends at byte {start + length + _CRC_BYTES}",
        )
    return record


@contextmanager
def _open(path: Path) -> Iterator[tuple[BinaryIO, int]]:
    """Return the contents of a file, unpacked if gzipped, and their size in bytes."""
    if not path.is_file():
        raise FormatError(path, "is missing, or not a file")
    with path.open("rb") as file:
        head = file.read(_HEAD.size)
        # a first record of 559903 bytes begins as gzip does, and only a checksum tells
        if head[:3] != files.GZIP or _has_length(head):
            yield file, path.stat().st_size
            return
    unpacked = files.unpack(files.read(path), path)
    yield io.BytesIO(unpacked), len(unpacked)


def _has_length(head: Any) -> bool:
    """Return whether a length is there, with its checksum."""
    if len(head) < _HEAD.size:
        return False
    return bool(mask(crc32c(head[:_LENGTH_BYTES])) == _HEAD.unpack_from(head)[1])


def parse(record: memoryview, path: Path) -> Example:
    """Return the features of a `tf.train.Example`; of two with one name the last, as TensorFlow
    takes it.

    Args:
        record: One of `read`.
        path: Its file, for messages.

    Raises:
        FormatError: It is no such message.
    """
    try:
        features = [value for number, value in _fields(record) if number == 1]
        example = {}
        for part in features:
            for number, entry in _fields(_require_message(part)):
                if number == 1:
                    name, feature = _entry(_require_message(entry))
                    example[name] = feature
    except _BrokenError as error:
        raise FormatError(path, f"has a record that is not a tf.train.Example: {error}") from None
    return example


def write(records: list[bytes], path: Path) -> None:
    """Write what `read` reads, uncompressed.

    Raises:
        OSError: It cannot be written.
    """
    with path.open("wb") as file:
        for record in records:
            length = len(record).to_bytes(_LENGTH_BYTES, "little")
            file.write(length + _guard(length) + record + _guard(record))


def _guard(data: bytes) -> bytes:
    return mask(crc32c(data)).to_bytes(_CRC_BYTES, "little")


def serialize(example: Example) -> bytes:
    """Serialize features so that `parse` reads them, sorted by name, numbers packed."""
    features = b""
    for name in sorted(example):
        feature = example[name]
        if isinstance(feature, list):
            number, content = 1, b"".join(_message(1, value) for value in feature)
        elif feature.dtype.kind == "f":
            number, content = 2, _message(1, feature.astype("<f4").tobytes())
        else:
            packed = b"".join(_pack_varint(value & _WORD) for value in feature.tolist())
            number, content = 3, _message(1, packed)
        entry = _message(1, name.encode()) + _message(2, _message(number, content))
        features += _message(1, entry)
    return _message(1, features)


def _message(number: int, content: bytes) -> bytes:
    return _pack_varint(number << 3 | _BYTES) + _pack_varint(len(content)) + content


def _pack_varint(value: int) -> bytes:
    packed = bytearray()
    while value > 127:
        packed.append(value & 127 | 128)
        value >>= 7
    packed.append(value)
    return bytes(packed)


class _BrokenError(Exception):
    """Bytes that are no message."""


def _entry(entry: memoryview) -> tuple[str, Any]:
    """Name and values of one entry of the map of features."""
    name, feature = "", memoryview(b"")
    for number, value in _fields(entry):
        if number == 1:
            text = _require_message(value)
            try:
                name = str(text, "utf-8")
            except UnicodeDecodeError:
                found = bytes(text[:_SHOWN])
                raise _BrokenError(
                    f"expected the name of a feature in UTF-8, found {found!r}"
                ) from None
        elif number == 2:
            feature = _require_message(value)
    kind = "bytes"
    parts: list[memoryview] = []
    for number, value in _fields(feature):
        if number in _KINDS:
            # one of the three: what came before of another kind is void
            parts = parts if kind == _KINDS[number] else []
            kind = _KINDS[number]
            parts.append(_require_message(value))
    values = [value for part in parts for number, value in _fields(part) if number == 1]
    return name, _values(kind, values)


def _values(kind: str, values: list[memoryview | int]) -> Any:
    import numpy

    if kind == "bytes":
        return [bytes(_require_message(value)) for value in values]
    if kind == "float":
        joined = b"".join(map(_require_message, values))
        if len(joined) % 4:
            raise _BrokenError(
                f"a list of floats has {len(joined)} bytes, expected a multiple of 4"
            )
        return numpy.frombuffer(joined, "<f4")
    numbers: list[int] = []
    for value in values:
        if isinstance(value, int):
            numbers.append(value)
            continue
        at = 0
        while at < len(value):
            number, at = _varint(value, at)
            numbers.append(number)
    return numpy.array(numbers, numpy.uint64).astype(numpy.int64)


def _fields(message: memoryview) -> Iterator[tuple[int, memoryview | int]]:
    """Yield the fields of a message in their order: an integer for a varint, else the bytes."""
    at = 0
    while at < len(message):
        key, at = _varint(message, at)
        number, kind = key >> 3, key & 7
        if kind == _VARINT:
            value, at = _varint(message, at)
            yield number, value
            continue
        if kind == _BYTES:
            length, at = _varint(message, at)
        elif kind in (_FIXED64, _FIXED32):
            length = 8 if kind == _FIXED64 else 4
        else:
            raise _BrokenError(f"field {number} has the unknown wire type {kind}")
        if length > len(message) - at:
            raise _BrokenError(f"the record is truncated within field {number}")
        yield number, message[at : at + length]
        at += length


def _varint(message: memoryview, at: int) -> tuple[int, int]:
    """Return an integer of at most 64 bits, and the place behind it."""
    value = 0
    for place, byte in enumerate(message[at : at + _LONGEST_VARINT]):
        value |= (byte & 127) << (7 * place)
        if byte < 128:
            return value & _WORD, at + place + 1
    raise _BrokenError(
        "the record is truncated within an integer, or has an integer of more than 64 bits"
    )


def _require_message(value: memoryview | int) -> memoryview:
    if isinstance(value, int):
        raise _BrokenError(f"found the integer {value}, expected a message")
    return value
