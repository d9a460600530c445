"""The Hodges-Lehmann interval: limits of a shift by inverting the exact Mann-Whitney test.

The guard of curves, and of levels too small for a fixed set of relabelings.
"""

from __future__ import annotations

import itertools
import math
from bisect import bisect_right
from collections.abc import Iterator
from fractions import Fraction
from functools import lru_cache

import numpy as np

from capsule.stats import special
from capsule.stats.runs import Runs

_EXACT_PAIRS = 2500
# with more pairs of runs than this the mean needs no guard
MOST_PAIRS = 250_000
_ROUNDING = 1e-12


def interval(a: Runs, b: Runs, alpha: float) -> tuple[float, float] | None:
    """Return limits for `location(b) - location(a)`, each with error probability of at most
    `alpha`.

    Args:
        a: The original's runs.
        b: The re-run's runs.
        alpha: One-sided level.

    Returns:
        (lower, upper) in the metric's unit; None when the runs are too few for this level, or so
        many (above 250 000 pairs) that the mean needs no guard.

    >>> low, high = interval(Runs.of({1: 0, 2: 1, 3: 2}), Runs.of({1: 5, 2: 7, 3: 9}), 0.05)
    >>> print(low, high)
    3.0 9.0
    """
    pairs = a.n * b.n
    if pairs == 0 or pairs > MOST_PAIRS:
        return None
    rank = critical_rank(*sorted((a.n, b.n)), alpha)
    if rank == 0:
        return None
    differences = np.subtract.outer(np.asarray(b.values), np.asarray(a.values)).ravel()
    differences.partition([rank - 1, pairs - rank])
    return float(differences[rank - 1]), float(differences[pairs - rank])


def has_guard(n_a: int, n_b: int, alpha: float) -> bool:
    """Return whether so many runs have a rank interval, or are so many that the mean needs none."""
    return n_a * n_b > MOST_PAIRS or critical_rank(*sorted((n_a, n_b)), alpha) > 0


def superiority(a: Runs, b: Runs) -> float:
    """Return the share of pairs in which B's run is higher than A's, ties counting half: P(B > A).

    Independent of any scale: 0.5 says that neither side tends to be higher, as it does when a side
    is empty.

    >>> superiority(Runs.of({1: 0, 2: 1, 3: 2}), Runs.of({1: 1, 2: 2, 3: 3}))
    0.7777777777777778
    """
    if not a.n or not b.n:
        return 0.5
    there, here = np.asarray(a.values), np.asarray(b.values)
    below = np.searchsorted(there, here, side="left").sum()
    not_above = np.searchsorted(there, here, side="right").sum()
    return int(below + not_above) / (2 * a.n * b.n)


def p_value(a: Runs, b: Runs, shift: float) -> tuple[float, float]:
    """Return one-sided p values of a shift from A to B: of its being so large or larger, so low or
    lower.

    Args:
        a: The original's runs.
        b: The re-run's runs.
        shift: In the metric's unit.

    Returns:
        Of the exact Mann-Whitney test, its normal approximation above 2500 pairs; a difference
        that equals the shift speaks for it. (0, 0) where the mean needs no guard.

    >>> p_value(Runs.of({1: 0, 2: 1, 3: 2}), Runs.of({1: 5, 2: 7, 3: 9}), 3)
    (1.0, 0.1)
    """
    pairs = a.n * b.n
    if pairs > MOST_PAIRS:
        return 0.0, 0.0
    apart = np.subtract.outer(np.asarray(b.values), np.asarray(a.values)) - shift
    ends = (a.values[0], a.values[-1], b.values[0], b.values[-1])
    rounding = _ROUNDING * max(abs(shift), *map(abs, ends))
    not_below = int(np.count_nonzero(apart >= -rounding))
    not_above = int(np.count_nonzero(apart <= rounding))
    return _cumulative(a.n, b.n, not_below), _cumulative(a.n, b.n, not_above)


def _cumulative(m: int, n: int, u: int) -> float:
    """Return the probability that U is at most so large when there is no shift."""
    if m * n > _EXACT_PAIRS:
        sd = math.sqrt(m * n * (m + n + 1) / 12)
        return float(special.ndtr((u + 0.5 - m * n / 2) / sd))
    return _cumulated_ways(*sorted((m, n)))[u] / math.comb(m + n, m)


@lru_cache(maxsize=1024)
def critical_rank(m: int, n: int, alpha: float) -> int:
    """Return how many values of U have a cumulative probability up to `alpha` under no shift.

    The c-th smallest and c-th largest difference are then the limits; 0 means that no interval
    exists. Exact up to 2500 pairs, the continuity-corrected normal approximation above.

    >>> critical_rank(3, 3, 0.05), critical_rank(2, 4, 0.05), critical_rank(5, 5, 0.05)
    (1, 0, 5)
    """
    if m * n > _EXACT_PAIRS:
        sd = math.sqrt(m * n * (m + n + 1) / 12)
        return max(0, math.floor(m * n / 2 + 0.5 + float(special.ndtri(alpha)) * sd))
    allowed = Fraction(alpha) * math.comb(m + n, m)
    return bisect_right(_cumulated_ways(m, n), allowed)


@lru_cache(maxsize=64)
def _cumulated_ways(m: int, n: int) -> tuple[int, ...]:
    """Return the number of orderings of m + n distinct values with U of at most 0, 1, ..."""
    return tuple(itertools.accumulate(_ways(m, n)))


def _ways(m: int, n: int) -> Iterator[int]:
    """Return the number of orderings of m + n distinct values for U = 0, 1, ...: a Gaussian
    binomial.
    """
    size = m * n + 1
    counts = [1] + [0] * (size - 1)
    for i in range(1, m + 1):
        for u in range(size - 1, n + i - 1, -1):  # times 1 - q^(n + i)
            counts[u] -= counts[u - n - i]
        for u in range(i, size):  # divided by 1 - q^i
            counts[u] += counts[u - i]
    return iter(counts)
