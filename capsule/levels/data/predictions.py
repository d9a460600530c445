"""What a network chose for its test data: how good that is, and the file in which it is kept.

Whoever has the file computes the quality again, with the same functions.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from math import prod
from typing import Any, Callable

from .generators import npy_header

MOST_VALUES = 1 << 18
"""Size of the largest file that is kept of a trial, what was due included."""

MOST_BYTES = 8 * MOST_VALUES + 128
"""The same in bytes, at 64 bits and a header."""

_MAP_CLASSES = 3
"""Background, cyclone, atmospheric river (MLPerf HPC, DeepCAM)."""

_HEADER_BYTES = 10
_HEADER = re.compile(
    rb"\{'descr': '(\|u1|<u2|<u4|<f4|<f8)', 'fortran_order': False,"
    rb" 'shape': \(([0-9]{1,9}), ([0-9]{1,9}), ([0-9]{1,9})\), \} *\n"
)


def path(benchmark: str, case: str) -> str:
    """Where the file lies below the folder that a trial may write."""
    return f"predictions/{benchmark}/{case}.npy"


class Evaluation:
    """One evaluation: its quality, from sums alone, and what was chosen while that is little."""

    def __init__(self, quality: str) -> None:
        """With nothing added yet; `quality` is a value of `catalog.training.QUALITY`."""
        self._quality = quality
        self._sums: Any = 0
        self._expected: list[Any] = []
        self._chosen: list[Any] = []
        self._values = 0

    def add(self, outputs: Any, inputs: Mapping[str, Any], samples: int) -> None:
        """Count a batch.

        Args:
            outputs: Of the network, a numpy array.
            inputs: Arrays that the graph was given, with what it should have said.
            samples: How many there are in it.
        """
        chosen = _choose(self._quality, outputs).reshape(samples, -1)
        due = inputs[_DUE[self._quality]].reshape(samples, -1).astype(chosen.dtype)
        self._sums = self._sums + _COUNTS[self._quality](chosen, due)
        self._values += chosen.size
        if self._values <= MOST_VALUES:
            self._chosen.append(chosen)
            self._expected.append(due)
        else:
            self._chosen, self._expected = [], []

    def value(self) -> float:
        """The quality over all that was added."""
        return float(self._sums[0] / self._sums[1])

    def rows(self) -> tuple[Any, Any] | None:
        """What was due and what was chosen, (samples, N) each; None where that is too much."""
        import numpy

        if not self._chosen:
            return None
        return numpy.concatenate(self._expected), numpy.concatenate(self._chosen)


def encode(rows: Sequence[tuple[Any, Any] | None]) -> bytes | None:
    """The file of a trial's last evaluations, or None where it is more than `MOST_VALUES`.

    An array in NumPy's format: what was due, then what each evaluation chose, (1 + evaluations,
    samples, N): classes as whole numbers, or the outputs themselves where they are numbers.

    Args:
        rows: What `Evaluation.rows` says of each.
    """
    import numpy

    kept = [row for row in rows if row is not None]
    if not kept or len(kept) != len(rows):
        return None
    array = numpy.stack([kept[-1][0], *(chosen for _, chosen in kept)])
    if array.size > MOST_VALUES:
        return None
    array = array.astype(array.dtype.newbyteorder("<"), order="C", copy=False)
    return npy_header(array.dtype.str, array.shape) + array.tobytes()


def decode(data: bytes) -> Any:
    """The array of such a file, read-only.

    Raises:
        ValueError: It is no such file: another form, or more or fewer bytes than its shape says.
    """
    import numpy

    end = _HEADER_BYTES + int.from_bytes(data[8:_HEADER_BYTES], "little")
    match = _HEADER.fullmatch(data[_HEADER_BYTES:end])
    if match is None:
        raise ValueError("it is not the file that a training keeps")
    kind = match[1].decode("ascii")
    shape = tuple(map(int, match.groups()[1:]))
    elements = numpy.dtype(kind)
    if (
        data[:end] != npy_header(kind, shape)
        or min(shape) < 1
        or prod(shape) > MOST_VALUES
        or prod(shape) * elements.itemsize != len(data) - end
    ):
        raise ValueError("its length is not what its shape says")
    return numpy.frombuffer(data, elements, offset=end).reshape(shape)


def qualities(quality: str, array: Any) -> list[float]:
    """The quality of each evaluation of a decoded file.

    Raises:
        ValueError: The file is not one of this quality.
    """
    if (array.dtype.kind == "f") != (quality == "mean_absolute_error"):
        raise ValueError(f"it holds {array.dtype}, and no {quality} is made of that")
    due, *chosen = array
    sums = [_COUNTS[quality](one, due) for one in chosen]
    return [float(one[0] / one[1]) for one in sums]


def _choose(quality: str, outputs: Any) -> Any:
    """Outputs themselves, or the class with the largest score along axis 1, the first of equals."""
    if quality == "mean_absolute_error":
        return outputs
    classes = outputs.shape[1]
    kind = "|u1" if classes <= 1 << 8 else "<u2" if classes <= 1 << 16 else "<u4"
    return outputs.argmax(axis=1).astype(kind)


def _count_right(chosen: Any, due: Any) -> Any:
    """Labels that were chosen rightly, and all."""
    import numpy

    return numpy.array([numpy.count_nonzero(chosen == due), due.size], "int64")


def _sum_distances(chosen: Any, due: Any) -> Any:
    """Sum of the distances from the targets, in float64, and how many there are."""
    import numpy

    distances = numpy.abs(chosen.astype("float64") - due.astype("float64"))
    return numpy.array([distances.sum(), due.size])


def _sum_overlaps(chosen: Any, due: Any) -> Any:
    """Sum of the samples' mean intersection over union of all classes, and how many there are.

    A class that a sample neither has nor is said to have counts as 1 (MLPerf HPC, DeepCAM).
    """
    import numpy

    overlaps = numpy.zeros(len(due))
    for number in range(_MAP_CLASSES):
        wanted, predicted = due == number, chosen == number
        both = (wanted & predicted).sum(axis=1)
        either = (wanted | predicted).sum(axis=1)
        overlaps += numpy.where(either, both / numpy.maximum(either, 1), 1.0)
    return numpy.array([overlaps.sum() / _MAP_CLASSES, len(due)])


_DUE = {"accuracy": "label", "mean_absolute_error": "target", "mean_iou": "label"}
"""Input of the graph that says what is due."""

_COUNTS: dict[str, Callable[[Any, Any], Any]] = {
    "accuracy": _count_right,
    "mean_absolute_error": _sum_distances,
    "mean_iou": _sum_overlaps,
}
