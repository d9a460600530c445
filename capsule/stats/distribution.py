"""Whole distributions: the largest distance between two empirical ones, with its band.

For samples of one run, such as latencies, with their effective sizes; never for seeds.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from capsule.stats.decision import Decision
from capsule.stats.series import Series


@dataclass(frozen=True, kw_only=True)
class Band:
    """Kolmogorov's distance between two samples, and how far the true one may lie from it.

    Attributes:
        distance: Largest difference of the two empirical distribution functions, 0 to 1.
        half_width: Of the Dvoretzky-Kiefer-Wolfowitz band; 1 when a side is empty, as nothing is
            known then.
        variance: `1 / effective_a + 1 / effective_b`, infinite when a side is empty.
        alpha: Error rate of the band.
    """

    distance: float
    half_width: float
    variance: float
    alpha: float

    @property
    def lower(self) -> float:
        """Return the lower limit of the true distance."""
        return max(0.0, self.distance - self.half_width)

    @property
    def upper(self) -> float:
        """Return the upper limit of the true distance."""
        return min(1.0, self.distance + self.half_width)

    def decide(self, largest: float) -> Decision:
        """REPRODUCED when the whole band lies below `largest`, DIFFERENT when it lies above.

        >>> same = kolmogorov([1, 2] * 500, [1, 2] * 500, effective_a=1e3, effective_b=1e3)
        >>> same.decide(0.1).word
        'REPRODUCED'
        """
        room = largest - self.distance
        p = min(1.0, 2 * math.exp(-2 * room**2 / self.variance)) if self.variance else 0.0
        inside, outside = room > self.half_width, -room > self.half_width
        return Decision(
            word="REPRODUCED" if inside else "DIFFERENT" if outside else "INCONCLUSIVE",
            p_reproduced=p if room > 0 else 1.0,
            p_different=p if room < 0 else 1.0,
        )


def kolmogorov(
    a: Series,
    b: Series,
    *,
    effective_a: float,
    effective_b: float,
    alpha: float = 0.05,
) -> Band:
    """Return the band around Kolmogorov's distance of two samples.

    Wrong REPRODUCED at most 0.1 %, wrong DIFFERENT at most 1.7 % at `alpha` 0.05.

    Args:
        a: The original's samples, in any order, none NaN.
        b: The re-run's samples.
        effective_a: How many independent samples A's are worth.
        effective_b: How many independent samples B's are worth.
        alpha: Error rate of the band.

    Raises:
        ValueError: A sample is NaN, or an effective size is not positive for samples at hand.
    """
    if not len(a) or not len(b):
        return Band(distance=0.0, half_width=1.0, variance=math.inf, alpha=alpha)
    if not (effective_a > 0 and effective_b > 0):
        raise ValueError(
            f"invalid effective sizes: {effective_a} and {effective_b}, expected positive sizes"
        )
    variance = 1 / effective_a + 1 / effective_b
    return Band(
        distance=_distance(np.asarray(a, dtype=float), np.asarray(b, dtype=float)),
        half_width=min(1.0, math.sqrt(math.log(2 / alpha) / 2 * variance)),
        variance=variance,
        alpha=alpha,
    )


def _distance(a: NDArray[np.float64], b: NDArray[np.float64]) -> float:
    """Return the largest difference, counted in whole samples and therefore exact for any order."""
    values = np.concatenate([np.sort(a), np.sort(b)])
    if np.isnan(values).any():
        raise ValueError("a sample of a distribution is NaN, expected a number")
    order = np.argsort(values, kind="stable")  # two sorted stretches: merged, not sorted
    values = values[order]
    above = np.cumsum(np.where(order < len(a), len(b), -len(a)))
    last_of_equals = np.append(values[1:] != values[:-1], True)
    return int(np.abs(above[last_of_equals]).max()) / (len(a) * len(b))
