"""Samples that are taken by their numbers, so that a dataset may be larger than memory.

What lies in few large files is mapped; what lies in many, or in records, is read when it is taken,
and only where each sample lies is kept.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Callable, Protocol

from .files import FormatError

Decode = Callable[[Any], Any]
"""Makes of rows, with the first axis as it was, what a network takes."""


@dataclass(frozen=True)
class Column:
    """Values of all samples under one name.

    Attributes:
        length: Rows of all samples together.
        shape: Shape of a row.
        dtype: Element type of the rows that are taken.
        rows: Rows of each sample; None if the network decides their number.
        is_stream: True if it may end within a sample, which is then left out.
    """

    length: int
    shape: tuple[int, ...]
    dtype: Any
    rows: int | None = None
    is_stream: bool = False


class Source(Protocol):
    """Samples, by the names of a network's inputs."""

    @property
    def columns(self) -> Mapping[str, Column]:
        """Return the columns by name."""

    def take(self, indices: Collection[int], rows: Mapping[str, int]) -> dict[str, Any]:
        """Return some samples, in this order, as C-ordered copies.

        Args:
            indices: Their numbers.
            rows: By the name of each array that is wanted, how many rows of it are one sample.

        Raises:
            FormatError: What lies there is not of the format.
            OSError: It cannot be read.
        """


@dataclass(frozen=True)
class Stored:
    """An array in memory or in a mapped file, all rows of all samples one after the other."""

    array: Any
    decode: Decode
    is_stream: bool = False


class Arrays:
    """Samples in a few arrays."""

    def __init__(self, arrays: Mapping[str, Stored]) -> None:
        self._arrays = arrays
        self.columns: Mapping[str, Column] = {
            name: Column(
                length=len(one.array),
                shape=tuple(one.array.shape[1:]),
                dtype=_dtype(one.decode, one.array),
                is_stream=one.is_stream,
            )
            for name, one in arrays.items()
        }

    def array(self, name: str) -> Any:
        """Return all rows as they are stored."""
        return self._arrays[name].array

    def take(self, indices: Collection[int], rows: Mapping[str, int]) -> dict[str, Any]:
        """See `Source`."""
        import numpy

        chosen = numpy.asarray(indices, numpy.int64)
        taken = {}
        for name, count in rows.items():
            stored = self._arrays[name]
            gathered = _gather(stored.array, chosen, count)
            taken[name] = numpy.ascontiguousarray(stored.decode(gathered))
        return taken


class Joined:
    """Arrays one after the other, as if they were one."""

    def __init__(self, parts: Sequence[Any]) -> None:
        import numpy

        self._parts = parts
        self._ends = numpy.cumsum([len(part) for part in parts])
        self.dtype = parts[0].dtype
        self.shape = (int(self._ends[-1]), *parts[0].shape[1:])

    def __len__(self) -> int:
        return int(self._ends[-1])

    def __getitem__(self, indices: Any) -> Any:
        import numpy

        taken = numpy.empty((len(indices), *self.shape[1:]), self.dtype)
        where = numpy.searchsorted(self._ends, indices, side="right")
        for number, part in enumerate(self._parts):
            here = where == number
            taken[here] = part[indices[here] - (self._ends[number] - len(part))]
        return taken


class Items:
    """Samples each of which is read by itself.

    Args:
        folder: Where the files lie.
        places: Places of each sample: the name of its file below the folder, and what `read` takes
            besides.
        read: Gives the arrays of the sample in a file; the first axis of each is its rows.
        decode: By the names of the arrays.

    Raises:
        FormatError: The first sample is not of the format.
        OSError: It cannot be read.
    """

    def __init__(
        self,
        folder: Path,
        places: Sequence[tuple[Any, ...]],
        read: Callable[..., Mapping[str, Any]],
        decode: Mapping[str, Decode],
    ) -> None:
        self._folder, self._places, self._read, self._decode = folder, places, read, decode
        first = self._read_one(0)
        self._shapes = {name: first[name].shape for name in decode}
        self.columns: Mapping[str, Column] = {
            name: Column(
                length=len(places) * len(first[name]),
                shape=first[name].shape[1:],
                dtype=_dtype(decode[name], first[name]),
                rows=len(first[name]),
            )
            for name in decode
        }

    def take(self, indices: Collection[int], rows: Mapping[str, int]) -> dict[str, Any]:
        """See `Source`."""
        import numpy

        taken = {}
        for name, count in rows.items():
            column = self.columns[name]
            taken[name] = numpy.empty((len(indices) * count, *column.shape), column.dtype)
        for place, index in enumerate(indices):
            arrays = self._read_one(index)
            for name, count in rows.items():
                array = arrays[name]
                if array.shape != self._shapes[name]:
                    raise FormatError(
                        self._folder / self._places[index][0],
                        f"has {name} of shape {array.shape}, expected {self._shapes[name]} as in"
                        f" {self._places[0][0]}",
                    )
                taken[name][place * count : (place + 1) * count] = self._decode[name](array)
        return taken

    def _read_one(self, index: int) -> Mapping[str, Any]:
        name, *more = self._places[index]
        return self._read(self._folder / name, *more)


def _gather(array: Any, chosen: Any, rows: int) -> Any:
    """Return the rows of some samples that have so many each."""
    import numpy

    is_array = isinstance(array, numpy.ndarray) and array.flags.c_contiguous
    if rows == 1:
        # faster than an index is
        return numpy.asarray(array).take(chosen, axis=0) if is_array else array[chosen]
    if is_array:
        rest = array.shape[1:]
        whole = array[: len(array) // rows * rows].reshape(-1, rows, *rest)
        return whole[chosen].reshape(-1, *rest)
    # reshaping would copy all of it
    return array[(chosen[:, None] * rows + numpy.arange(rows)).reshape(-1)]


def _dtype(decode: Decode, array: Any) -> Any:
    import numpy

    return decode(numpy.empty((0, *array.shape[1:]), array.dtype)).dtype
