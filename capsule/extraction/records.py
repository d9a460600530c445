"""The bytes of TensorFlow's event files: records with checksums, and the wire format in them.

TensorBoard's own loader brings gRPC and starts for 0.4 s, and what else reads such files needs it
or TensorFlow; what has to be understood of them is written down here instead.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

MOST_RECORDS = 1_000_000
_LENGTH_BYTES, _CRC_BYTES = 8, 4
_HEAD_BYTES = _LENGTH_BYTES + _CRC_BYTES
_SHOWN_BYTES = 1 << 16
_POLYNOMIAL, _MASK = 0x82F63B78, 0xFFFFFFFF
_LONGEST_VARINT = 10
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
Field = tuple[int, int | bytes]
"""The number of a field, and an integer for a varint, else its bytes."""


class TooManyError(Exception):
    """There are more records than are read."""

    def __init__(self) -> None:
        super().__init__(f"more than {MOST_RECORDS} records, the most that capsule reads")


class BrokenError(Exception):
    """Bytes that are no records, or no message.

    Attributes:
        at: Where in the bytes the record begins that is broken.
        end: Where it ends, as far as it can be told.
    """

    def __init__(self, message: str, at: int = 0, end: int = 0) -> None:
        super().__init__(message)
        self.at = at
        self.end = end


def read(data: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield every record of a TFRecord file with the place behind it.

    Raises:
        BrokenError: A record is cut off, or its checksum is another.
        TooManyError: There are more than are read.
    """
    at = count = 0
    while at < len(data):
        count += 1
        if count > MOST_RECORDS:
            raise TooManyError
        start = at + _HEAD_BYTES
        if len(data) < start:
            raise BrokenError("truncated within a record", at, len(data))
        length_bytes, crc, *_ = struct.unpack_from("<QI", data, at)
        if mask(crc32c(data[at : at + _LENGTH_BYTES])) != crc:
            end = min(len(data), at + _SHOWN_BYTES)
            raise BrokenError("wrong checksum of a record's length", at, end)
        end = start + length_bytes + _CRC_BYTES
        if len(data) < end:
            raise BrokenError("truncated within a record", at, min(len(data), at + _SHOWN_BYTES))
        payload = data[start : end - _CRC_BYTES]
        (crc,) = struct.unpack_from("<I", data, end - _CRC_BYTES)
        if mask(crc32c(payload)) != crc:
            raise BrokenError("wrong checksum of a record", at, end)
        yield end, payload
        at = end


def fields(message: bytes) -> Iterator[Field]:
    """Yield the fields of a protobuf message, in their order; what is inside of one is not looked
    at.

    Raises:
        BrokenError: It is no message.
    """
    at = 0
    while at < len(message):
        key, at = _varint(message, at)
        kind = key & 7
        if kind == _VARINT:
            number, at = _varint(message, at)
            yield key >> 3, number
            continue
        if kind == _BYTES:
            length_bytes, at = _varint(message, at)
        elif kind in (_FIXED64, _FIXED32):
            length_bytes = 8 if kind == _FIXED64 else 4
        else:
            raise BrokenError(f"a message has a field of the unknown type {kind}")
        end = at + length_bytes
        if end > len(message):
            raise BrokenError("a message is truncated within a field")
        yield key >> 3, message[at:end]
        at = end


def _varint(message: bytes, at: int) -> tuple[int, int]:
    """Return an integer, and the place behind it."""
    value = 0
    for place, byte in enumerate(message[at : at + _LONGEST_VARINT]):
        value |= (byte & 127) << (7 * place)
        if byte < 128:
            return value & 0xFFFFFFFFFFFFFFFF, at + place + 1
    raise BrokenError("a message is truncated within an integer, or an integer exceeds 64 bits")


def mask(crc: int) -> int:
    """Return a checksum as records hold it."""
    return (((crc >> 15) | (crc << 17)) + 0xA282EAD8) & _MASK


def crc32c(data: bytes) -> int:
    """Castagnoli's cyclic redundancy check, which no module of Python's has.

    >>> hex(crc32c(b"123456789"))
    '0xe3069283'
    """
    crc, table = _MASK, _TABLE
    for byte in data:
        crc = table[(crc ^ byte) & 255] ^ (crc >> 8)
    return crc ^ _MASK


def _entry(value: int) -> int:
    for _ in range(8):
        value = (value >> 1) ^ (_POLYNOMIAL if value & 1 else 0)
    return value


_TABLE = tuple(map(_entry, range(256)))
