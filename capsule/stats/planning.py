"""Smallest margins that a number of runs can confirm."""

from __future__ import annotations

import math
from bisect import bisect_left
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from capsule.stats import permutation, ranks, special
from capsule.stats.decision import Region
from capsule.stats.interval import level_in_use, paired_level
from capsule.stats.power import MOST_RUNS, paired_cost, verdict_probability

_REPETITIONS = 8000
_SEED = 20260301
# above so many pairs the envelope needs 4.5 % more than Welch's interval (measured at 20 and 30)
_MOST_PAIRS = 900
_GUARD_COST = 1.045
# and where relabelings are counted (measured from 4 + 4 to 8 + 8), but for the coarsest levels
_COARSE_COST = 1.07
_COARSE = 6
_UNLIMITED = 10**9


def narrowest_margin(n_a: int, n_b: int | None, *, alpha: float, power: float) -> float:
    """Return the narrowest margin that so many runs confirm with probability `power`, in
    between-run sd.

    For normal runs of equal spread without any shift. Welch's, widened by what the guard was
    measured to cost; where that is coarse (three runs on a side), and for up to 900 pairs beyond
    what relabelings can be counted of, simulated by ranks with a fixed seed and rounded up by two
    standard errors.

    Args:
        n_a: The original's runs.
        n_b: The re-run's; None for as many as one likes.
        alpha: The claim's one-sided error rate.
        power: Wanted probability of REPRODUCED.

    Returns:
        Infinity when no margin does: with one run on each side, or none on one.

    >>> round(narrowest_margin(5, 5, alpha=0.05, power=0.8), 1)
    2.1
    """
    fewer, more = sorted((n_a, _UNLIMITED if n_b is None else n_b))
    if fewer < 1 or more < 2:
        return math.inf
    if fewer * more > _MOST_PAIRS:
        level = level_in_use(fewer, more, alpha)
        cost = 1.0 if n_b is None else _GUARD_COST
        return cost * welch_margin(n_a, n_b, alpha=level, power=power)
    if (cost_of_few := _cost(fewer, more, alpha)) is not None:
        return float(f"{cost_of_few * welch_margin(fewer, more, alpha=alpha, power=power):.4g}")
    reaches = _reaches(fewer, more, alpha)
    sure = power + 2 * math.sqrt(power * (1 - power) / _REPETITIONS)
    return float(f"{np.quantile(reaches, sure):.4g}")


def _cost(fewer: int, more: int, alpha: float) -> float | None:
    """Return the envelope's width relative to Welch's; None if it needs simulation."""
    if fewer * more > _MOST_PAIRS:
        return None
    relabelings = math.floor(alpha * math.comb(fewer + more, fewer))
    if fewer > 3 and relabelings > 2 and permutation.can_guard(fewer, more, alpha):
        return _COARSE_COST if relabelings < _COARSE else _GUARD_COST
    return None


def runs_for_margin(k: float, *, alpha: float, power: float) -> int | None:
    """Return the runs a side that confirm a margin of `k` between-run sd with a power.

    Returns:
        None when 500 are not enough.

    >>> [runs_for_margin(k, alpha=0.05, power=0.8) for k in (1, 1.5, 2, 2.8)]
    [20, 10, 6, 4]
    """
    # the rule itself is never narrower than Welch's interval alone
    counts = range(2, MOST_RUNS + 1)
    n = 2 + bisect_left(counts, -k, key=lambda n: -welch_margin(n, n, alpha=alpha, power=power))
    while n <= MOST_RUNS and narrowest_margin(n, n, alpha=alpha, power=power) > k:
        n += 1
    return n if n <= MOST_RUNS else None


def narrowest_paired_margin(pairs: int, *, alpha: float, power: float) -> float:
    """Return the narrowest margin that so many pairs confirm, in sd of their differences.

    For normal differences of mean zero, by the rule that judges them.

    Args:
        pairs: Seeds with a run on either side.
        alpha: The claim's one-sided error rate.
        power: Wanted probability of REPRODUCED.

    Returns:
        Infinity for fewer than two pairs.

    >>> round(narrowest_paired_margin(5, alpha=0.05, power=0.8), 1)
    2.0
    """
    if pairs < 2:
        return math.inf
    # a constant: a side without spread
    level = paired_level(pairs, alpha)
    margin = _narrowest((0.0, MOST_RUNS), (1.0, pairs), level, power)
    return float(f"{paired_cost(pairs, alpha) * margin:.4g}")


@lru_cache(maxsize=4096)
def welch_margin(n_a: int, n_b: int | None, *, alpha: float, power: float) -> float:
    """Return the narrowest margin by Welch's interval alone, without its guard."""
    return _narrowest((1.0, n_a), (1.0, n_b or _UNLIMITED), alpha, power)


def _narrowest(a: tuple[float, int], b: tuple[float, int], level: float, power: float) -> float:
    """Return the margin that two sides just confirm, each told by its sd and its number of runs."""

    def confirms(margin: float) -> bool:
        region = Region(lower=-margin, upper=margin)
        return verdict_probability(0.0, region, a, b, level) >= power

    low, high = 0.0, 1.0
    while not confirms(high):
        low, high = high, 2 * high
    while high - low > 1e-6 * high:
        middle = (low + high) / 2
        low, high = (low, middle) if confirms(middle) else (middle, high)
    return high


@lru_cache(maxsize=64)
def _reaches(n_a: int, n_b: int, alpha: float) -> NDArray[np.float64]:
    """Return half widths of intervals around no shift: margins just confirmed by some runs."""
    random = np.random.default_rng([_SEED, n_a, n_b])
    a = random.standard_normal((_REPETITIONS, n_a))
    b = random.standard_normal((_REPETITIONS, n_b))
    shift = np.abs(b.mean(axis=1) - a.mean(axis=1))
    part_b = b.var(axis=1, ddof=1) / n_b
    if n_a == 1:
        error, df = np.sqrt(part_b * n_b * (1 + 1 / n_b)), n_b - 1
    else:
        part_a = a.var(axis=1, ddof=1) / n_a
        error = np.sqrt(part_a + part_b)
        df = (part_a + part_b) ** 2 / (part_a**2 / (n_a - 1) + part_b**2 / (n_b - 1))
    level = level_in_use(n_a, n_b, alpha)
    reach = shift - special.stdtrit(df, level) * error
    rank = ranks.critical_rank(n_a, n_b, alpha) if n_a > 1 else 0
    if rank == 0:
        return np.asarray(reach)
    differences = (b[:, :, None] - a[:, None, :]).reshape(_REPETITIONS, -1)
    differences.partition([rank - 1, n_a * n_b - rank], axis=1)
    limits = np.maximum(-differences[:, rank - 1], differences[:, -rank])
    return np.asarray(np.maximum(reach, limits))
