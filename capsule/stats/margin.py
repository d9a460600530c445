"""The default margin: how far apart two sides may lie when the author named no margin."""

from __future__ import annotations

import math

from capsule.stats.runs import Runs

DEFAULT_SPREADS = 2.0


def c4(n: int) -> float:
    """Expected sample standard deviation of n normal values with standard deviation 1.

    >>> round(c4(5), 4)
    0.94
    """
    return math.sqrt(2 / (n - 1)) * math.exp(math.lgamma(n / 2) - math.lgamma((n - 1) / 2))


def spread(original: Runs, spreads: float = DEFAULT_SPREADS) -> float | None:
    """`max(k * s / c4(n), 1.5 * resolution)` of the original's runs, to be frozen at sealing.

    Two standard deviations are the narrowest margin that five to six runs a side can confirm.

    Returns:
        The margin in the metric's unit, None when fewer than two runs tell no spread.
    """
    if original.n < 2:
        return None
    return max(spreads * original.sd / c4(original.n), 1.5 * original.resolution)
