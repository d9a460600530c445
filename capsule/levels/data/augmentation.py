"""Pictures as a training takes them: shifted, mirrored and partly covered at random.

What happens to a picture follows from seed, epoch and its place in the epoch's order alone, so it
is the same in every framework, for any number of threads or ranks, and after a kill. Pictures that
a network is judged by are taken as they are.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..catalog.training import Augmentation
from ..streams import words


def augment(images: Any, how: Augmentation, seed: int, epoch: int, first: int) -> Any:
    """Return some pictures of an epoch, augmented.

    Args:
        images: Of shape (count, channels, height, width).
        how: What is done to each.
        seed: The trial's seed.
        epoch: From 0.
        first: Place of the first one in the epoch's order, from 0.

    Returns:
        A new array of the same shape and dtype.
    """
    import numpy

    count, _, height, width = images.shape
    label = f"capsule-augmentation-1\n{epoch}\n{seed}\n"
    bounds = (2 * how.crop + 1, 2 * how.crop + 1, 2, height, width)
    drawn = _below(words(label, len(bounds) * count, len(bounds) * first), bounds)
    augmented = numpy.zeros_like(images)
    for image, result, (top, left, mirror, row, column) in zip(images, augmented, drawn):
        from_rows, to_rows = _overlap(top - how.crop, height)
        from_columns, to_columns = _overlap(left - how.crop, width)
        result[:, to_rows, to_columns] = image[:, from_rows, from_columns]
        if how.flip and mirror:
            result[:] = result[:, :, ::-1].copy()
        if how.cutout:
            result[:, _square(row, how.cutout), _square(column, how.cutout)] = 0
    return augmented


def _below(drawn: Any, bounds: Sequence[int]) -> list[list[int]]:
    """Return rows of whole numbers from 0 and below a bound each, of words of random bits."""
    import numpy

    half = numpy.uint64(32)
    rows = (drawn >> half).reshape(-1, len(bounds)) * numpy.array(bounds, numpy.uint64) >> half
    whole: list[list[int]] = rows.tolist()
    return whole


def _overlap(shift: int, length: int) -> tuple[slice, slice]:
    """Return the part of a row inside a shifted window, and its position in the window."""
    size = max(0, length - abs(shift))
    start = max(0, shift)
    return slice(start, start + size), slice(start - shift, start - shift + size)


def _square(centre: int, side: int) -> slice:
    start = centre - side // 2
    return slice(max(0, start), start + side)
