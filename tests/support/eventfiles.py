"""Event files as TensorFlow, PyTorch and tensorboardX write them, byte by byte."""

from __future__ import annotations

import struct

from capsule.extraction.records import crc32c, mask

VERSION = b"\x1a\x0dbrain.Event:2"
NAME = "events.out.tfevents.1795371655.host.1.0"


def record(payload: bytes) -> bytes:
    """A record with its checksums."""
    length = struct.pack("<Q", len(payload))
    ends = [struct.pack("<I", mask(crc32c(part))) for part in (length, payload)]
    return length + ends[0] + payload + ends[1]


def varint(number: int) -> bytes:
    """An integer of 64 bits, negative ones as protobuf has them."""
    number &= (1 << 64) - 1
    parts = bytearray()
    while number > 127:
        parts.append(number & 127 | 128)
        number >>= 7
    return bytes([*parts, number])


def inside(number: int, content: bytes) -> bytes:
    """A field that holds bytes."""
    return varint(number << 3 | 2) + varint(len(content)) + content


def event(step: int, *values: bytes, wall: float = 1795371655.0) -> bytes:
    """An event with the values of some tags."""
    head = struct.pack("<Bd", 9, wall) + b"\x10" + varint(step)
    return head + inside(5, b"".join(inside(1, value) for value in values))


def simple(tag: str | bytes, number: float) -> bytes:
    """A value as `add_scalar` writes it."""
    name = tag.encode() if isinstance(tag, str) else tag
    return inside(1, name) + struct.pack("<Bf", 2 << 3 | 5, number)


def tensor(tag: str, content: bytes) -> bytes:
    """A value that is a tensor."""
    return inside(1, tag.encode()) + inside(8, content)


def begins(step: int) -> bytes:
    """The event with which a writer begins anew at a step."""
    return b"\x10" + varint(step) + inside(7, b"\x08\x01")


def scalars(*points: tuple[int, float], tag: str = "loss") -> bytes:
    """An event file with the points of one tag."""
    events = [VERSION, *(event(step, simple(tag, number)) for step, number in points)]
    return b"".join(map(record, events))
