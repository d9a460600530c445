"""Random bits that are the same on every CPU and with every numpy: one stream per label.

A label is hashed with SHA-256; the first 16 bytes, little-endian, are the key of a Philox4x64-10
generator with counter 0, whose raw 64-bit words (numpy's `random_raw`) are the stream. What is made
of them uses integers and exact scalings only, never numpy's distributions: their last bits have
changed with its versions and with the instructions of the CPU.
"""

from __future__ import annotations

import hashlib
from typing import Any

SIGNIFICANT_BITS = {"float32": 24, "float64": 53}


_AT_ONCE = 4
"""Words of one step of the generator's counter."""


def words(label: str, count: int, start: int = 0) -> Any:
    """`count` words of the stream that `label` names, uint64 of shape (count,).

    Args:
        label: Label of the stream.
        count: Number of words.
        start: Which of its words, from 0, is the first of them.

    >>> [hex(int(word)) for word in words("example", 2)]
    ['0x969133eed6f2a15f', '0xd062ac0d3a0f1434']
    >>> [hex(int(word)) for word in words("example", 1, start=1)]
    ['0xd062ac0d3a0f1434']
    """
    import numpy

    key = int.from_bytes(hashlib.sha256(label.encode()).digest()[:16], "little")
    generator = numpy.random.Philox(key=key, counter=start // _AT_ONCE)
    skipped = start % _AT_ONCE
    return generator.random_raw(skipped + count)[skipped:]


def fractions(label: str, count: int, dtype: str) -> Any:
    """Return numbers between 0 and 1, neither of them included, spread evenly: float64 of shape
    (count,).

    Each is an odd multiple of 2**-24 (`float32`) or 2**-53 (`float64`), so the dtype holds it, and
    its shift or doubling within (-1, 1), exactly.

    >>> float(fractions("example", 1, "float32")[0] * 2**24)
    9867571.0
    """
    return spread(label, count, SIGNIFICANT_BITS[dtype])


def spread(label: str, count: int, bits: int) -> Any:
    """Odd multiples of `2**-bits` between 0 and 1, spread evenly: float64 of shape (count,)."""
    import numpy

    odd = (words(label, count) >> numpy.uint64(64 - bits)) | numpy.uint64(1)
    return odd.astype(numpy.float64) * 2.0**-bits


def normals(label: str, count: int, start: int = 0) -> Any:
    """Nearly normal numbers, mean 0 and deviation 1, float64 of shape (count,), from the
    `start`-th of the label's on.

    The sum of twelve 16-bit integers (three words) less its mean, in units of 2**-16: the
    Irwin-Hall distribution, which ends at 6 deviations and has an excess kurtosis of -0.1. Every
    value is a multiple of 2**-16, exact in float32.
    """
    import numpy

    lanes = words(label, 3 * count, 3 * start).reshape(count, 3)
    total = numpy.full(count, -12 * 65535 // 2, dtype=numpy.int64)
    for column in range(3):
        for shift in (0, 16, 32, 48):
            lane = (lanes[:, column] >> numpy.uint64(shift)) & numpy.uint64(0xFFFF)
            total += lane.astype(numpy.int64)
    return total.astype(numpy.float64) * 2.0**-16


def signs(label: str, shape: tuple[int, ...]) -> Any:
    """+1 and -1, as often the one as the other, int8: one bit of the label's words each."""
    import numpy

    count = int(numpy.prod(shape, dtype=numpy.int64))
    drawn = words(label, -(-count // 64)).astype("<u8").view(numpy.uint8)
    bits = numpy.unpackbits(drawn, count=count, bitorder="little")
    return (bits.astype(numpy.int8) * 2 - 1).reshape(shape)
