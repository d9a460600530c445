"""Spread between runs, without the bias of small samples, from which margins are made."""

from __future__ import annotations

import math


def c4(n: int) -> float:
    """Return the expected sample standard deviation of n normal values with standard deviation 1.

    >>> round(c4(5), 4)
    0.94
    """
    return math.sqrt(2 / (n - 1)) * math.exp(math.lgamma(n / 2) - math.lgamma((n - 1) / 2))
