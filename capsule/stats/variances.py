"""Two numbers of the same runs: how much less one of them scatters than the other."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from capsule.stats import special


def variance_ratio(
    one: Sequence[float], other: Sequence[float], *, level: float
) -> tuple[float, float, float] | None:
    """The variance of one number over that of another, with an interval, both of the same runs.

    Pitman's and Morgan's interval (1939), for pairs of normal numbers however correlated.

    Args:
        one: A number of each run.
        other: Another one of each, in the same order.
        level: Confidence, above 0 and below 1.

    Returns:
        Ratio, lower and upper limit; None for fewer than three runs, or where a number does not
        vary.

    >>> ratio, low, high = variance_ratio([1.0, 2.0, 3.0, 4.0], [2.0, 5.0, 4.0, 9.0], level=0.95)
    >>> round(ratio, 3), round(low, 3), round(high, 3)
    (0.192, 0.018, 2.009)
    """
    n = len(one)
    x, y = np.asarray(one, dtype=float), np.asarray(other, dtype=float)
    if n < 3 or min(np.ptp(x), np.ptp(y)) == 0:
        return None
    # in units of their own spread, so that no square leaves the range
    sizes = float(np.ptp(x)), float(np.ptp(y))
    x, y = (x - x.mean()) / sizes[0], (y - y.mean()) / sizes[1]
    squares = float(x @ x), float(y @ y)
    size = sizes[0] / sizes[1]
    ratio = squares[0] / squares[1] * size * size  # a power would raise where this is infinite
    shared = min(1.0, float(x @ y) ** 2 / (squares[0] * squares[1]))
    t = float(special.stdtrit(n - 2, (1 + level) / 2))
    k = 1 + 2 * t * t * (1 - shared) / (n - 2)
    reach = k + math.sqrt(k * k - 1)
    return ratio, ratio / reach, ratio * reach
