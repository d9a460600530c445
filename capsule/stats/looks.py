"""Planned looks: deciding early without paying for it with a higher error rate."""

from __future__ import annotations

import math
from functools import lru_cache
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from capsule.stats import special

MOST_LOOKS = 5
# beyond it a standard normal variable has a probability of 1e-19
_FAR = 9.0
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(128)


@lru_cache(maxsize=64)
def nominal_alpha(alpha: float, looks: int) -> float:
    """Return the constant one-sided level of each of `looks` planned looks that costs `alpha`
    overall.

    Pocock's boundary for equal steps of information, by recursive numeric integration. Looks at
    3, 6 and 12 runs against one frozen original are more correlated than that: conservative.
    `default_alpha` is exact for the looks of a plan that the author left open.

    Args:
        alpha: Overall one-sided error rate, between 0 and 0.5.
        looks: Number of looks, 1 to 5.

    Returns:
        The level, rounded down at the eighth digit: the same on every machine.

    >>> [round(nominal_alpha(0.05, looks), 4) for looks in range(1, 6)]
    [0.05, 0.0304, 0.0232, 0.0193, 0.0169]
    """
    if not 1 <= looks <= MOST_LOOKS:
        raise ValueError(f"invalid number of looks: {looks}, expected 1 to {MOST_LOOKS}")
    return _level(alpha, tuple(map(float, range(1, looks + 1))))


@lru_cache(maxsize=64)
def default_alpha(alpha: float) -> float:
    """Return the constant one-sided level of two looks, after as many re-runs as the original has
    runs and after twice as many.

    The original's runs are in both looks, so that the two are more alike than Pocock's: with `n` of
    them the variance of a difference is `2 / n` at the first look and `1.5 / n` at the second, and
    the information is three quarters of the second's.

    Args:
        alpha: Overall one-sided error rate, between 0 and 0.5.

    >>> round(default_alpha(0.05), 4)
    0.0346
    """
    return _level(alpha, (1.0, 4 / 3))


def _level(alpha: float, information: tuple[float, ...]) -> float:
    """Return the level of each look, rounded down at the eighth digit.

    Args:
        alpha: Overall.
        information: Of each look, in units of the first's.
    """
    if not 0 < alpha < 0.5:
        raise ValueError(f"invalid error rate: {alpha}, expected more than 0 and less than 0.5")
    looks = len(information)
    if looks == 1:
        return alpha
    # the level lies between Bonferroni's and the overall one
    low, high = -float(special.ndtri(alpha)), -float(special.ndtri(alpha / looks))
    while high - low > 1e-13:
        middle = (low + high) / 2
        low, high = (middle, high) if _crossing(middle, information) > alpha else (low, middle)
    level = float(special.ndtr(-high))
    digits = 10.0 ** (8 - math.ceil(math.log10(level)))
    return math.floor(level * digits) / digits


def _crossing(bound: float, information: tuple[float, ...]) -> float:
    """Return the probability that a standardised sum of normal increments ever exceeds `bound`.

    Args:
        bound: In standard deviations of the sum at each look.
        information: The sum's variance at each look, 1 at the first.
    """
    at, weight = _grid(bound)
    density = _normal_density(at)
    crossed = float(special.ndtr(-bound))
    for before, now in pairwise(information):
        edge, step = bound * math.sqrt(now), math.sqrt(now - before)
        mass = weight * density
        crossed += float(mass @ special.ndtr((at - edge) / step))
        after, weight = _grid(edge)
        density = _normal_density(np.subtract.outer(after, at) / step) @ mass / step
        at = after
    return crossed


def _grid(edge: float) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Gauss-Legendre nodes and weights from where no mass is to the edge."""
    # sums below -9 standard deviations of the fifth look carry no mass that any level could see
    lowest = -_FAR * math.sqrt(MOST_LOOKS)
    half = (edge - lowest) / 2
    return lowest + half * (_NODES + 1), half * _WEIGHTS


def _normal_density(x: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.exp(-0.5 * x * x) / math.sqrt(2 * math.pi)
