"""Number of samples needed to show that two distributions are closer than a distance."""

from __future__ import annotations

import math

from capsule.stats import special

# nobody takes more, and distances near the smallest float overflow
MOST_SAMPLES = 10**12


def samples_for_distance(distance: float, *, alpha: float, power: float) -> int | None:
    """Return the independent samples on each side that confirm equal distributions as close.

    Inverts the band of `kolmogorov` under the limit distribution of the observed distance.

    Args:
        distance: Kolmogorov distance that is allowed, above 0.
        alpha: Error rate of the band.
        power: Wanted probability of REPRODUCED.

    Returns:
        None when `MOST_SAMPLES` do not.

    >>> samples_for_distance(0.2, alpha=0.05, power=0.83)
    305
    """
    share = _variance(distance, alpha, power)
    return math.ceil(2 / share) if share * MOST_SAMPLES >= 2 else None


def samples_beside(n_a: float, distance: float, *, alpha: float, power: float) -> int | None:
    """Return the samples on the other side that confirm equal distributions beside `n_a`.

    Args:
        n_a: Independent samples of the original, which stay as they are.
        distance: Kolmogorov distance that is allowed, above 0.
        alpha: Error rate of the band.
        power: Wanted probability of REPRODUCED.

    Returns:
        None when no number up to `MOST_SAMPLES` does.

    >>> samples_beside(305, 0.2, alpha=0.05, power=0.83)
    305
    >>> samples_beside(100, 0.2, alpha=0.05, power=0.8) is None
    True
    """
    left = _variance(distance, alpha, power) - 1 / n_a
    return math.ceil(1 / left) if left * MOST_SAMPLES >= 1 else None


def _variance(distance: float, alpha: float, power: float) -> float:
    """Return the largest `1 / n_a + 1 / n_b` that confirms it."""
    band = math.sqrt(math.log(2 / alpha) / 2)
    seen = float(special.kolmogi(1 - power))
    return (distance / (band + seen)) ** 2
