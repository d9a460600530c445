"""In which order samples are trained on: a function of seed and epoch alone."""

from __future__ import annotations

from typing import Any

from ..streams import words


def shuffle(count: int, seed: int, epoch: int) -> Any:
    """A permutation of the numbers below `count`, int64; the same however many ranks share it.

    Samples are sorted by a random word each, whole words that tie by their number.

    >>> shuffle(5, seed=1, epoch=0).tolist()
    [4, 2, 3, 1, 0]
    """
    import numpy

    keys = words(f"capsule-order-1\n{seed}\n{epoch}\n", count)
    return numpy.argsort(keys, kind="stable").astype(numpy.int64)
