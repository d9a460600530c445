"""How good a network is on data that it was not trained on."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Callable

Predictions = Any
"""Output of the network for a batch, a numpy array."""


class Quality:
    """One number over batches of any sizes, from sums alone."""

    def __init__(self, name: str) -> None:
        """With nothing added yet; `name` is a value of `catalog.training.QUALITY`."""
        self._count = _QUALITIES[name]
        self._sums: Any = 0

    def add(self, predictions: Predictions, inputs: Mapping[str, Any]) -> None:
        """Count a batch, with the arrays that the graph was given."""
        self._sums = self._sums + self._count(predictions, inputs)

    def value(self) -> float:
        """Of all that was added."""
        return float(self._sums[0] / self._sums[1])


def _count_right(predictions: Predictions, inputs: Mapping[str, Any]) -> Any:
    """Labels whose score is the largest along axis 1, and all; of equal scores the first counts."""
    import numpy

    labels = inputs["label"].reshape(-1)
    chosen = predictions.argmax(axis=1).reshape(-1)
    return numpy.array([numpy.count_nonzero(chosen == labels), labels.size], "int64")


def _sum_distances(predictions: Predictions, inputs: Mapping[str, Any]) -> Any:
    """Sum of the distances from the targets, in float64, and how many there are."""
    import numpy

    target = inputs["target"].astype("float64")
    distances = numpy.abs(predictions.astype("float64") - target)
    return numpy.array([distances.sum(), target.size])


def _sum_overlaps(predictions: Predictions, inputs: Mapping[str, Any]) -> Any:
    """Sum of the samples' mean intersection over union of all classes, and how many there are.

    Pixels of a sample lie side by side, as rows of scores. A class that a sample neither has nor
    is said to have counts as 1 (MLPerf HPC, DeepCAM).
    """
    import numpy

    samples, classes = len(inputs["map"]), predictions.shape[1]
    labels = inputs["label"].reshape(samples, -1)
    chosen = predictions.argmax(axis=1).reshape(samples, -1)
    overlaps = numpy.zeros(samples)
    for number in range(classes):
        wanted, predicted = labels == number, chosen == number
        both = (wanted & predicted).sum(axis=1)
        either = (wanted | predicted).sum(axis=1)
        overlaps += numpy.where(either, both / numpy.maximum(either, 1), 1.0)
    return numpy.array([overlaps.sum() / classes, samples])


_QUALITIES: dict[str, Callable[[Predictions, Mapping[str, Any]], Any]] = {
    "accuracy": _count_right,
    "mean_absolute_error": _sum_distances,
    "mean_iou": _sum_overlaps,
}
