"""Exact test of whether two failure rates differ by less than a margin, or by more.

Both hypotheses are composite: the difference of the rates is known on the margin, the rates are
not. So a p value is the largest probability, over all pairs of rates on the margin, of an outcome
at least as extreme as the one seen (Chan 1998); how extreme an outcome is the score statistic says,
with the rates estimated on the margin (Farrington and Manning 1990).
"""

from __future__ import annotations

import math
from bisect import bisect_left
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from capsule.stats import special
from capsule.stats.power import MOST_RUNS, Answer

# pairs of rates at which a probability is taken, close together where failures are rare: up to 500
# runs they lie no farther apart than half a standard deviation
_ANGLES = 128
# statistics of one outcome in two ways differ by rounding alone
_TIE = 1e-9
_Array = NDArray[np.float64]


def p_within(failed_a: int, n_a: int, failed_b: int, n_b: int, margin: float) -> float:
    """P value against two rates that differ by `margin` or more, in either direction.

    Args:
        failed_a: The original's failures.
        n_a: The original's runs.
        failed_b: The re-run's failures.
        n_b: The re-run's runs.
        margin: Above 0, below 1.

    >>> round(p_within(0, 30, 0, 30, 0.1), 4), p_within(0, 5, 0, 5, 0.1) > 0.5
    (0.0424, True)
    """
    return max(
        _p_less(failed_a, n_a, failed_b, n_b, margin),
        _p_less(failed_b, n_b, failed_a, n_a, margin),
    )


def p_past(failed_a: int, n_a: int, failed_b: int, n_b: int, margin: float) -> float:
    """P value against two rates that differ by no more than `margin`, in both directions together.

    >>> round(p_past(0, 10, 6, 10, 0.1), 4)
    0.007
    """
    if n_a == 0 or n_b == 0:
        return 1.0
    z = np.maximum(_statistics(n_a, n_b, margin), _statistics(n_b, n_a, margin).T)
    extreme = z >= z[failed_a, failed_b] - _TIE
    return max(_probability(extreme, margin), _probability(extreme.T, margin))


def runs_to_confirm_rate(
    failed_a: int,
    n_a: int,
    failed_b: int,
    n_b: int,
    *,
    margin: float,
    alpha: float,
    power: float = 0.8,
) -> Answer:
    """Return the total runs of B that confirm the margin, if further ones fail as often as A's.

    Args:
        failed_a: The original's failures.
        n_a: The original's runs.
        failed_b: The re-run's failures so far.
        n_b: The re-run's runs so far.
        margin: As above.
        alpha: Level of the test.
        power: Wanted probability.

    Returns:
        The number of runs; `original-too-few` when 500 are not enough but would be if the original
        had as many; `on-the-margin` when even that would not do.

    >>> runs_to_confirm_rate(0, 30, 0, 10, margin=0.1, alpha=0.05)
    29
    """
    if n_a == 0:
        return "original-too-few"
    rate = failed_a / n_a

    def reaches(n: int) -> bool:
        return _power(failed_a, n_a, failed_b, n_b, n, rate, margin, alpha) >= power

    more = range(n_b + 1, MOST_RUNS + 1)
    place = bisect_left(more, True, key=reaches)
    if place < len(more):
        return more[place]
    # so many runs a side are as good as normal; half a failure more is no rate of 0 or 1
    even = (failed_a + 0.5) / (n_a + 1)
    error = math.sqrt(2 * even * (1 - even) / MOST_RUNS)
    reach = float(special.ndtri(1 - alpha) + special.ndtri((1 + power) / 2)) * error
    return "original-too-few" if reach < margin else "on-the-margin"


def runs_without_failure(margin: float, *, alpha: float) -> int | None:
    """Return the fewest runs on each side that confirm a margin if none of them fails; None beyond
    500.

    >>> runs_without_failure(0.1, alpha=0.05), runs_without_failure(0.2, alpha=0.05)
    (29, 14)
    """
    sides = range(1, MOST_RUNS + 1)
    place = bisect_left(sides, True, key=lambda n: p_within(0, n, 0, n, margin) <= alpha)
    return sides[place] if place < len(sides) else None


def _power(
    failed_a: int,
    n_a: int,
    failed_b: int,
    n_b: int,
    n: int,
    rate: float,
    margin: float,
    alpha: float,
) -> float:
    """Return the probability that `n` runs of B confirm the margin, where further ones fail at
    `rate`.
    """
    further = n - n_b
    counts = range(further + 1)

    def few_enough(k: int) -> bool:
        return _p_less(failed_a, n_a, failed_b + k, n, margin) <= alpha

    def many_enough(k: int) -> bool:
        return _p_less(failed_b + k, n, failed_a, n_a, margin) <= alpha

    fewest = bisect_left(counts, True, key=many_enough)
    beyond = bisect_left(counts, True, key=lambda k: not few_enough(k))
    if beyond <= fewest:
        return 0.0
    below = special.bdtr(fewest - 1, further, rate) if fewest else 0.0
    return float(special.bdtr(beyond - 1, further, rate) - below)


def _p_less(failed_a: int, n_a: int, failed_b: int, n_b: int, margin: float) -> float:
    """P value against a rate of B's that exceeds A's by `margin` or more."""
    if n_a == 0 or n_b == 0:
        return 1.0
    z = _statistics(n_a, n_b, margin)
    return _probability(z <= z[failed_a, failed_b] + _TIE, margin)


def _probability(outcomes: NDArray[np.bool_], margin: float) -> float:
    """Return the largest one of such outcomes where B's rate exceeds A's by `margin`.

    Args:
        outcomes: Rows are A's failures, columns B's.
        margin: As above.
    """
    n_a, n_b = (length - 1 for length in outcomes.shape)
    of_a, of_b = _probabilities(n_a, margin, 0.0), _probabilities(n_b, margin, margin)
    return float(min(1.0, np.max(np.sum((of_a @ outcomes.astype(float)) * of_b, axis=1))))


@lru_cache(maxsize=16)
def _probabilities(n: int, margin: float, more: float) -> _Array:
    """Binomial probabilities of 0 to n failures, a row for each rate from `more` up.

    The rates are those that leave room for a margin, each raised by `more`.
    """
    # equal steps of this angle are equal parts of a binomial's standard deviation
    rates = (1 - margin) * np.sin(np.linspace(0, np.pi / 2, _ANGLES)) ** 2 + more
    k = np.arange(n + 1.0)
    ways = special.gammaln(n + 1) - special.gammaln(k + 1) - special.gammaln(n - k + 1)
    rate = np.minimum(rates, 1.0)[:, None]
    return np.asarray(np.exp(ways + special.xlogy(k, rate) + special.xlog1py(n - k, -rate)))


@lru_cache(maxsize=8)
def _statistics(n_a: int, n_b: int, margin: float) -> _Array:
    """Score statistic of every outcome: rows are A's failures, columns B's.

    The rates are estimated under the restriction that B's exceeds A's by `margin`, which is the
    root of a cubic in closed form (Farrington and Manning 1990).
    """
    rate_a = (np.arange(n_a + 1) / n_a)[:, None]
    rate_b = (np.arange(n_b + 1) / n_b)[None, :]
    ratio = n_a / n_b
    a = 1 + ratio
    b = -(1 + ratio + rate_b + ratio * rate_a + margin * (ratio + 2))
    c = margin**2 + margin * (2 * rate_b + ratio + 1) + rate_b + ratio * rate_a
    d = -rate_b * margin * (1 + margin)
    v = b**3 / (3 * a) ** 3 - b * c / (6 * a**2) + d / (2 * a)
    u = np.where(v < 0, -1.0, 1.0) * np.sqrt(np.maximum(b**2 / (3 * a) ** 2 - c / (3 * a), 0))
    cube = np.where(u == 0, 1.0, u**3)
    angle = (np.pi + np.arccos(np.clip(np.where(u == 0, 0.0, v / cube), -1, 1))) / 3
    p_b = np.clip(2 * u * np.cos(angle) - b / (3 * a), margin, 1.0)
    p_a = np.clip(p_b - margin, 0, 1)
    spread = np.sqrt(p_a * (1 - p_a) / n_a + p_b * (1 - p_b) / n_b)
    return np.asarray((rate_b - rate_a - margin) / np.maximum(spread, _TIE))
