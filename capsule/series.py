"""Series of numbers, by the million in little memory."""

from __future__ import annotations

import struct
from array import array
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    _Array = array[float]
else:
    _Array = array  # has no parameters before Python 3.12

# so many numbers take less time as a tuple, and not much more memory
FEW_VALUES = 16
# an array takes so many floats sooner as bytes than one by one
_SEVERAL = 1000


class _Values(_Array):  # noqa: PLW1641 - as an array it has none
    """Many numbers in 8 bytes each, where a tuple takes 32; equal to what has the same bits.

    Nobody changes them once they were read.
    """

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Sequence | array):
            return NotImplemented
        return len(self) == len(other) and bits(self) == bits(other)


def bits(values: Sequence[float]) -> bytes:
    """Return equal bytes for equal numbers in any container; NaN equals NaN."""
    return array("d", values).tobytes()


def pack(values: Sequence[float]) -> Sequence[float]:
    """Return numbers that are kept: those of a long series in 8 bytes each.

    >>> len(pack([0.5] * 100)) == 100, pack([0.5] * 100) == (0.5,) * 100, pack([0.5])
    (True, True, (0.5,))
    """
    if len(values) <= FEW_VALUES:
        return tuple(values)
    if len(values) <= _SEVERAL:
        return _Values("d", struct.pack(f"{len(values)}d", *values))
    return _Values("d", values)
