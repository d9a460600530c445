"""Fixed sets of relabelings and of sign flips, which stand for all where all are too many to count.

The same for everybody: drawn from a stated seed with the raw output of PCG64, a stream that numpy
keeps from version to version, by additions, products, quotients and comparisons in one fixed order.

Each set is drawn by parts: all relabelings, in an order in which those that differ in the most
extreme values lie far apart, are cut into as many equal parts as the set has members, and one is
drawn from each. A set is then nearer to all of them than one drawn from the whole.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

_Bools = NDArray[np.bool_]
_Floats = NDArray[np.float64]

RELABELINGS = 1999
FLIPS = 4999
# with more differences than this all flips are more than 1,024
MOST_FLIPPED = 10
_SEED = 20260301
# so many labels use up half of a double's digits at most; those of further, middling values are
# drawn afresh
_BY_PARTS = 24
_BELOW_ONE = 1 - 2.0**-53


@lru_cache(maxsize=16)
def relabelings(n_a: int, n_b: int) -> _Bools:
    """Return relabelings of two sides, without the labels seen.

    Args:
        n_a: Number of A's runs, at least two.
        n_b: Number of B's runs, at least two.

    Returns:
        Whether a run is dealt to B; shape `(n_a + n_b, RELABELINGS)`, A's runs before B's, each
        side's in ascending order of their values.
    """
    everything = n_a + n_b
    to_b = np.empty((everything, RELABELINGS), dtype=np.bool_)
    missing = np.full(RELABELINGS, n_b)
    places = _Places(RELABELINGS, everything, n_a, n_b)
    order = sorted(range(everything), key=lambda run: -_extremeness(run, n_a, n_b))
    for left, run in zip(range(everything, 0, -1), order, strict=True):
        place = places.scaled(left)
        chosen = to_b[run] = place < missing
        inside = np.where(chosen, place, place - missing)
        places.go_on(inside / np.where(chosen, missing, np.maximum(left - missing, 1)))
        missing = missing - chosen
    return to_b


@lru_cache(maxsize=16)
def flips(n: int) -> _Bools:
    """Return sign flips of differences: all up to ten of them, without the signs seen; else a set.

    Args:
        n: Number of differences, at least one.

    Returns:
        Whether a difference changes its sign; shape `(n, flips)`, the differences in ascending
        order.
    """
    if n <= MOST_FLIPPED:
        numbers = np.arange(1, 1 << n)
        return np.asarray((numbers >> np.arange(n)[:, None]) & 1, dtype=np.bool_)
    turned = np.empty((n, FLIPS), dtype=np.bool_)
    places = _Places(FLIPS, n, n)
    for one in sorted(range(n), key=lambda one: -abs(2 * one + 1 - n)):
        place = places.scaled(2)
        turned[one] = place >= 1
        places.go_on(place - turned[one])
    return turned


def _extremeness(run: int, n_a: int, n_b: int) -> int:
    """Return how far a run lies from the middle of its side, for runs of either to compare by."""
    if run < n_a:
        return abs(2 * run + 1 - n_a) * n_b
    return abs(2 * (run - n_a) + 1 - n_b) * n_a


class _Places:
    """Where each member of a set lies among all, from 0 up to 1, in the part not yet told.

    Args:
        members: Of the set; each begins in a part of its own.
        labels: How many labels each is made of.
        key: Of the set, for a stream of its own.
    """

    def __init__(self, members: int, labels: int, *key: int) -> None:
        self._stream = _draw(members, 1 + max(0, labels - _BY_PARTS), key)
        self._told = 0
        self._places: _Floats = (np.arange(members) + next(self._stream)) / members

    def scaled(self, parts: int) -> _Floats:
        """Return the places, in units of equal parts of which there are so many: below `parts`."""
        if self._told >= _BY_PARTS:
            self._places = next(self._stream)
        self._told += 1
        return parts * np.minimum(self._places, _BELOW_ONE)

    def go_on(self, places: _Floats) -> None:
        """Go on inside the parts chosen, with the places there."""
        self._places = places


def _draw(members: int, rows: int, key: Iterable[int]) -> Iterator[_Floats]:
    """Yield rows of numbers from 0 up to 1, of 53 random bits each."""
    stream = np.random.PCG64([_SEED, *key])
    for _ in range(rows):
        yield np.asarray((stream.random_raw(members) >> np.uint64(11)) * 2.0**-53, dtype=np.float64)
