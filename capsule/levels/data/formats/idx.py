"""IDX, the format of MNIST and of those after it (LeCun, Cortes and Burges, "The MNIST database").

Two zero bytes, one for the type of an element, one for the number of axes; the length of each axis
as four bytes; then the elements in C order. Everything is big-endian.
"""

from __future__ import annotations

from math import prod
from pathlib import Path
from typing import Any

from . import files
from .files import FormatError

TYPES = {0x08: "|u1", 0x09: "|i1", 0x0B: ">i2", 0x0C: ">i4", 0x0D: ">f4", 0x0E: ">f8"}
"""Numpy's type of an element, by the third byte."""
_MOST_AXES = 8
_MOST_HEAD = 4 + 4 * _MOST_AXES


def read(path: Path) -> Any:
    """Return the array of a file, mapped, or of PATH.gz where that is there alone.

    Returns:
        Of one to eight axes, none of them of length 0, in the file's own type and byte order.

    Raises:
        FormatError: It is not IDX, or shorter or longer than its head says.
        OSError: It cannot be read.
    """
    import numpy

    packed = path.with_name(f"{path.name}.gz")
    is_packed = not path.exists() and packed.exists()
    data = files.unpack_file(packed) if is_packed else files.read_head(path, _MOST_HEAD)
    length = len(data) if is_packed else path.stat().st_size
    if len(data) < 4 or data[:2] != b"\0\0" or data[2] not in TYPES:
        types = ", ".join(f"{one:02x}" for one in TYPES)
        raise FormatError(
            path,
            f"begins with {data[:4].hex() or 'no bytes'}, expected an IDX file: 0000 and a type"
            f" ({types})",
        )
    kind, axes = numpy.dtype(TYPES[data[2]]), data[3]
    start = 4 + 4 * axes
    if not 1 <= axes <= _MOST_AXES:
        raise FormatError(path, f"has {axes} axes, expected 1 to {_MOST_AXES}")
    if len(data) < start:
        raise FormatError(path, f"has {len(data)} bytes, expected a header of {start} bytes")
    shape = [int.from_bytes(data[at : at + 4], "big") for at in range(4, start, 4)]
    due = prod(shape) * kind.itemsize
    if length - start != due or not due:
        raise FormatError(
            path,
            f"has {length - start} bytes of elements, expected {due or 'more than 0'} for the shape"
            f" {shape} of the header",
        )
    if not is_packed:
        return numpy.memmap(path, kind, "r", start, tuple(shape))
    return numpy.frombuffer(data, kind, offset=start).reshape(shape)


def write(array: Any, path: Path) -> None:
    """Write what `read` reads.

    Args:
        array: Array of a type of `TYPES`, with one to eight axes of 1 to 2**32 - 1 elements.
        path: Path of the file.

    Raises:
        ValueError: It is another array.
        OSError: It cannot be written.
    """
    kinds = {kind[1:]: number for number, kind in TYPES.items()}
    kind = kinds.get(array.dtype.str[1:])
    if kind is None or not 1 <= array.ndim <= _MOST_AXES or not array.size:
        import numpy

        types = ", ".join(numpy.dtype(one).name for one in TYPES.values())
        raise ValueError(
            f"IDX cannot store an array of {array.dtype} {array.shape}, expected 1 to {_MOST_AXES}"
            f" axes, at least 1 element, and one of the types {types}"
        )
    lengths = b"".join(length.to_bytes(4, "big") for length in array.shape)
    elements = array.astype(array.dtype.newbyteorder(">"), order="C")
    path.write_bytes(bytes((0, 0, kind, array.ndim)) + lengths + elements.tobytes())
