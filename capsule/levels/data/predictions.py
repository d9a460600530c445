"""Predictions of a network for its test data: their quality, and their file.

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

_LEAST_POWER = 1e-30

_HEADER_BYTES = 10
_HEADER = re.compile(
    rb"\{'descr': '(\|u1|<u2|<u4|<f4|<f8)', 'fortran_order': False,"
    rb" 'shape': \(([0-9]{1,9}), ([0-9]{1,9}), ([0-9]{1,9})\), \} *\n"
)


def path(benchmark: str, case: str) -> str:
    """Return the path of the file below the trial's output folder."""
    return f"predictions/{benchmark}/{case}.npy"


class Evaluation:
    """One evaluation: its quality, from sums alone, and what was chosen while that is little."""

    def __init__(self, quality: str) -> None:
        """Create an empty collection; `quality` is a value of `catalog.training.QUALITY`."""
        self._quality, self._ranks = quality, quality in _RANKED
        self._sums: Any = 0
        self._expected: list[Any] = []
        self._chosen: list[Any] = []
        self._values = 0

    def add(self, outputs: Any, inputs: Mapping[str, Any], samples: int) -> None:
        """Count a batch.

        Args:
            outputs: Outputs of the network, a numpy array.
            inputs: Arrays that the graph was given, with what it should have said.
            samples: Number of samples.
        """
        if self._quality == "spectrum_distance":
            outputs = _find_spectra(outputs)
        self.count(_choose(self._quality, outputs), inputs, samples)

    def count(self, chosen: Any, inputs: Mapping[str, Any], samples: int) -> None:
        """Count a batch by its predictions.

        Args:
            chosen: For a quality of `training.CLASSIFIES` the class with the largest score along
                axis 1, the first of equals, in the type of `find_class_type`.
            inputs: See `add`.
            samples: Likewise.
        """
        due = inputs[DUE[self._quality]]
        if self._quality == "spectrum_distance":
            due = _find_spectra(due)
        chosen = chosen.reshape(samples, -1)
        due = due.reshape(samples, -1).astype(chosen.dtype)
        if not self._ranks:
            self._sums = self._sums + _COUNTS[self._quality](chosen, due)
        self._values += chosen.size
        if self._ranks or self._values <= MOST_VALUES:
            self._chosen.append(chosen)
            self._expected.append(due)
        else:
            self._chosen, self._expected = [], []

    def value(self) -> float:
        """Return the quality over all that was added.

        Raises:
            ValueError: It is one of ranks, and nothing or everything was due.
        """
        if self._ranks:
            import numpy

            return _RANKED[self._quality](
                numpy.concatenate(self._chosen), numpy.concatenate(self._expected)
            )
        return float(self._sums[0] / self._sums[1])

    def rows(self) -> tuple[Any, Any] | None:
        """Return labels and predictions, (samples, N) each; None if they are too large."""
        import numpy

        if not self._chosen or self._values > MOST_VALUES:
            return None
        return numpy.concatenate(self._expected), numpy.concatenate(self._chosen)


def encode(rows: Sequence[tuple[Any, Any] | None]) -> bytes | None:
    """Return the file of a trial's last evaluations, or None where it is more than `MOST_VALUES`.

    An array in NumPy's format: what was due, then what each evaluation chose, (1 + evaluations,
    samples, N): classes as whole numbers, or outputs or scores where the quality is made of those.

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
    """Return the array of such a file, read-only.

    Raises:
        ValueError: It is no such file: another form, or more or fewer bytes than its shape says.
    """
    import numpy

    end = _HEADER_BYTES + int.from_bytes(data[8:_HEADER_BYTES], "little")
    match = _HEADER.fullmatch(data[_HEADER_BYTES:end])
    if match is None:
        raise ValueError(f"expected a header of predictions, found {data[:40]!r}")
    kind = match[1].decode("ascii")
    shape = tuple(map(int, match.groups()[1:]))
    elements = numpy.dtype(kind)
    if (
        data[:end] != npy_header(kind, shape)
        or min(shape) < 1
        or prod(shape) > MOST_VALUES
        or prod(shape) * elements.itemsize != len(data) - end
    ):
        raise ValueError(
            f"the file's {len(data) - end} bytes of values do not fit shape {shape} of {kind},"
            f" expected {prod(shape) * elements.itemsize} bytes with 1 to {MOST_VALUES} values"
        )
    return numpy.frombuffer(data, elements, offset=end).reshape(shape)


def qualities(quality: str, array: Any) -> list[float]:
    """Return the quality of each evaluation of a decoded file.

    Raises:
        ValueError: The file is not one of this quality.
    """
    if (array.dtype.kind == "f") != (quality in _OF_REALS):
        expected = "floats" if quality in _OF_REALS else "whole numbers"
        raise ValueError(
            f"{quality} cannot be computed from predictions of type {array.dtype}, expected"
            f" {expected}"
        )
    import numpy

    due, *chosen = array
    if quality == "spectrum_distance":
        is_power = numpy.isfinite(due) & (due >= 0)
        if not is_power.all():
            raise ValueError(
                f"{quality} needs spectra as labels, finite numbers >= 0; found"
                f" {due[~is_power][0]:g}"
            )
    if quality in _RANKED:
        if quality != "spectrum_distance" and not ((due == 0) | (due == 1)).all():
            other = due[(due != 0) & (due != 1)][0]
            raise ValueError(f"{quality} needs labels 0 and 1, found {other:g}")
        return [_RANKED[quality](one, due) for one in chosen]
    sums = [_COUNTS[quality](one, due) for one in chosen]
    return [float(one[0] / one[1]) for one in sums]


def _choose(quality: str, outputs: Any) -> Any:
    """Return outputs themselves, or the class with the largest score along axis 1, the first of
    equals.

    The score of two classes is how much more the second one has.
    """
    if quality == "auc":
        return outputs[:, 1] - outputs[:, 0]
    if quality in _OF_REALS:
        return outputs
    return outputs.argmax(axis=1).astype(find_class_type(outputs.shape[1]))


def find_class_type(classes: int) -> str:
    """Return the smallest type of numpy that holds each of so many classes."""
    return "|u1" if classes <= 1 << 8 else "<u2" if classes <= 1 << 16 else "<u4"


def _count_right(chosen: Any, due: Any) -> Any:
    """Return labels that were chosen rightly, and all."""
    import numpy

    return numpy.array([numpy.count_nonzero(chosen == due), due.size], "int64")


def _sum_distances(chosen: Any, due: Any) -> Any:
    """Sum of the distances from the targets, in float64, and how many there are."""
    import numpy

    # of infinities none is a number, and such a quality is refused where it is compared
    with numpy.errstate(invalid="ignore"):
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


def _area(scores: Any, due: Any) -> float:
    """Return the share of pairs in which the positive sample has the higher score, ties half.

    The area under the receiver operating characteristic (Hanley and McNeil, Radiology 143, 1982),
    from whole numbers alone. NaN where a score is.
    """
    import numpy

    if numpy.isnan(scores).any():
        return float("nan")
    is_due = due.reshape(-1) == 1
    high, low = scores.reshape(-1)[is_due], numpy.sort(scores.reshape(-1)[~is_due])
    if not high.size or not low.size:
        raise ValueError("auc needs labels of two classes, found one class")
    twice = int(low.searchsorted(high, "left").sum()) + int(low.searchsorted(high, "right").sum())
    return float(twice / (2 * high.size * low.size))


def _mean_average_precision(scores: Any, due: Any) -> float:
    """Return the mean over classes of average precision, without classes that are never due.

    Precision at each score that occurs, weighted by the recall that is gained there, samples of one
    score together and nothing interpolated (scikit-learn). NaN where a score is.

    Args:
        scores: (samples, classes).
        due: 0 or 1, likewise.
    """
    import numpy

    if numpy.isnan(scores).any():
        return float("nan")
    values = []
    for column, is_due in zip(scores.T, due.T == 1):
        if not is_due.any():
            continue
        order = numpy.argsort(-column, kind="stable")
        ordered = column[order]
        last = numpy.append(ordered[1:] != ordered[:-1], True)
        right = numpy.cumsum(is_due[order])[last]
        taken = numpy.flatnonzero(last) + 1
        gained = numpy.diff(right, prepend=0)
        values.append(float((right / taken * gained).sum()) / int(right[-1]))
    if not values:
        raise ValueError("mean_average_precision needs at least one label of 1, found none")
    return sum(values) / len(values)


def _find_spectra(maps: Any) -> Any:
    """Return the power of waves of each length in each map, float32 (samples, side // 2).

    It is the mean of |c|**2 over the coefficients c of the map's discrete Fourier transform,
    divided by the number of pixels, whose wave number, rounded, is 1, 2, ... side // 2 per side.

    Args:
        maps: (samples, 1, side, side).
    """
    import numpy

    side = maps.shape[-1]
    power = numpy.abs(numpy.fft.fft2(maps.astype("float64")) / side**2) ** 2
    along = numpy.minimum(numpy.arange(side), side - numpy.arange(side))
    wave = numpy.rint(numpy.sqrt(along[:, None] ** 2 + along**2))
    means = [power[:, 0, wave == number].mean(axis=1) for number in range(1, side // 2 + 1)]
    return numpy.stack(means, axis=1).astype("float32")


def _spectrum_distance(spectra: Any, due: Any) -> float:
    """Return the mean over wave lengths of |log a/b|, with a and b the mean spectra of generated
    and of real maps; NaN if a map is NaN.
    """
    import numpy

    if numpy.isnan(spectra).any():
        return float("nan")
    with numpy.errstate(over="ignore", invalid="ignore"):
        means = [one.mean(axis=0, dtype="float64") for one in (spectra, due)]
        # maps without any wave would be infinitely far off
        logs = [numpy.log(numpy.maximum(mean, _LEAST_POWER)) for mean in means]
        return float(numpy.abs(logs[0] - logs[1]).mean())


_OF_REALS = ("mean_absolute_error", "auc", "mean_average_precision", "spectrum_distance")
"""Qualities that are made of outputs, scores or spectra, and not of classes."""

DUE = {
    "accuracy": "label",
    "mean_absolute_error": "target",
    "mean_iou": "label",
    "auc": "label",
    "mean_average_precision": "target",
    "spectrum_distance": "map",
}
"""Input of the graph that says what is due."""

_COUNTS: dict[str, Callable[[Any, Any], Any]] = {
    "accuracy": _count_right,
    "mean_absolute_error": _sum_distances,
    "mean_iou": _sum_overlaps,
}
"""Numerator and denominator of a quality, for each batch."""

_RANKED: dict[str, Callable[[Any, Any], float]] = {
    "auc": _area,
    "mean_average_precision": _mean_average_precision,
    "spectrum_distance": _spectrum_distance,
}
"""Qualities of all samples together."""
