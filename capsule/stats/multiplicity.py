"""Several claims at once: Holm's procedure, and p values that may be held against its levels."""

from __future__ import annotations

import math
from collections.abc import Sequence

from capsule.stats import permutation, ranks, signs, special
from capsule.stats.decision import Region
from capsule.stats.interval import welch
from capsule.stats.runs import Runs

# with fewer runs than this on a side the variance of that side alone is all that may be relied on
_FEW = 5


def holm(p_values: Sequence[float]) -> tuple[float, ...]:
    """Holm's adjusted p values, in the order given: reject those at most alpha.

    The chance of any wrong rejection is then at most alpha, whatever the dependence.

    >>> holm([0.01, 0.04, 0.03])
    (0.03, 0.06, 0.06)
    """
    adjusted = [1.0] * len(p_values)
    largest = 0.0
    for step, index in enumerate(sorted(range(len(p_values)), key=lambda i: p_values[i])):
        largest = max(largest, min(1.0, (len(p_values) - step) * p_values[index]))
        adjusted[index] = largest
    return tuple(adjusted)


def p_beyond(a: Runs, b: Runs, region: Region) -> float | None:
    """Return the p of DIFFERENT that may be held against a level far below the claim's own.

    The least level at which the envelope lies outside the region: the larger p of Welch's test and
    of the guard's, as Welch's far tail is wrong by tens of percent where numbers of runs differ.
    Below the least p that the guard can have at all Welch's p counts twice, and fewer than five
    runs on a side have no more degrees of freedom than that side.

    Args:
        a: The original's runs.
        b: The re-run's runs.
        region: The claim's region.

    Returns:
        None where a side has fewer than two runs or neither side a spread: there is no guard.

    >>> a, b = Runs.of({1: 0, 2: 1, 3: 2}), Runs.of({1: 5, 2: 7, 3: 9})
    >>> p_beyond(a, b, Region(lower=-1, upper=1))
    0.05
    """
    fewest = min(a.n, b.n)
    if fewest < 2:
        return None
    error, df = welch(a, b)
    if error == 0:
        return None
    df = fewest - 1 if fewest < _FEW else df
    least = 1 / math.comb(a.n + b.n, a.n)
    p_values = []
    for side, end in ((1, region.lower), (-1, region.upper)):
        if math.isinf(end):
            continue
        by_means = float(special.stdtr(df, side * (b.mean - a.mean - end) / error))
        by_guard = _p_of_guard(a, b, end, 0 if side > 0 else 1)
        p = max(by_means, by_guard)
        p_values.append(min(p, 2 * by_means) if by_guard <= least else p)
    return min(p_values, default=1.0)


def _p_of_guard(a: Runs, b: Runs, shift: float, side: int) -> float:
    """Return the p of a shift by the guard: ranks', where a set of relabelings is too coarse."""
    if permutation.can_guard(a.n, b.n, 0.5):
        p = permutation.p_value(a, b, shift)[side]
        if permutation.can_count(a.n, b.n) or p >= permutation.FINEST:
            return p
        return min(permutation.FINEST, ranks.p_value(a, b, shift)[side])
    return ranks.p_value(a, b, shift)[side]


def p_beyond_of_pairs(differences: Runs, region: Region) -> float | None:
    """Return the same of pairs: the larger p of Student's test and of all sign flips, or a set.

    Below the least p that flips can have Student's p counts twice.

    Args:
        differences: One of each pair.
        region: The claim's region.

    Returns:
        None for fewer than two pairs, or without a spread.

    >>> pairs = Runs.of({1: 4, 2: 5, 3: 6, 4: 5, 5: 5.5})
    >>> round(p_beyond_of_pairs(pairs, Region(lower=-1, upper=1)), 6)
    0.000246
    """
    n = differences.n
    error = differences.floored_sd / math.sqrt(n) if n >= 2 else 0.0
    if error == 0:
        return None
    p_values = []
    for side, end in ((1, region.lower), (-1, region.upper)):
        if math.isinf(end):
            continue
        by_means = float(special.stdtr(n - 1, side * (differences.mean - end) / error))
        by_flips = signs.p_value(differences, end)[0 if side > 0 else 1]
        p = max(by_means, by_flips)
        p_values.append(min(p, 2 * by_means) if by_flips <= signs.least_p(n) else p)
    return min(p_values, default=1.0)
