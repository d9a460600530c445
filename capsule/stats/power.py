"""How many runs would decide: the power of the rule, and its inversion for the re-execution."""

from __future__ import annotations

import math
from typing import Literal

import numpy as np
from scipy import special

from capsule.stats.decision import Region
from capsule.stats.interval import Interval, satterthwaite
from capsule.stats.runs import Runs

MOST_RUNS = 500
_GRID = (np.arange(200) + 0.5) / 200

Answer = int | Literal["original-too-few", "on-the-margin"]


def runs_needed(
    a: Runs | None, b: Runs, found: Interval, region: Region, *, power: float = 0.8
) -> Answer:
    """How many runs of B in all decide the claim, if the estimate seen now is the truth.

    Args:
        a: The original's runs, at least two, on the scale of `region`; None for a constant.
        b: The re-execution's runs so far.
        found: Their interval; its level is the one reckoned with.
        region: The claim's region.
        power: Wanted probability of a verdict.

    Returns:
        The number of runs; `original-too-few` when 500 are not enough but would be if the original
        had as many; `on-the-margin` when even that would not do.
    """
    # a constant is a side without spread, of as many runs as one likes
    sd_a, n_a = (0.0, MOST_RUNS) if a is None else (a.floored_sd, a.n)
    sd_b = b.floored_sd if b.n >= 2 else sd_a

    def reaches(n_b: int, n_a: int = n_a) -> bool:
        return _power(found.estimate, region, sd_a, n_a, sd_b, n_b, found.alpha) >= power

    if not reaches(MOST_RUNS):
        return "original-too-few" if reaches(MOST_RUNS, MOST_RUNS) else "on-the-margin"
    low, high = max(b.n, 1), MOST_RUNS
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if reaches(middle) else (middle, high)
    # the power is Welch's; the rank interval beside it costs about one run when runs are few
    return high + 1 if high < 10 else high


def _power(
    truth: float, region: Region, sd_a: float, n_a: int, sd_b: float, n_b: int, alpha: float
) -> float:
    """Probability of either verdict at a true shift, averaged over the chi distribution of se."""
    error_a, error_b = sd_a / math.sqrt(n_a), sd_b / math.sqrt(n_b)
    error = math.hypot(error_a, error_b)
    if error == 0:
        return 1.0
    df = satterthwaite(error_a / error, n_a, error_b / error, max(2, n_b))
    u = np.sqrt(special.gammaincinv(df / 2, _GRID) * 2 / df)
    reach = -special.stdtrit(df, alpha) * u
    to_lower, to_upper = (region.lower - truth) / error, (region.upper - truth) / error
    inside = special.ndtr(to_upper - reach) - special.ndtr(to_lower + reach)
    outside = special.ndtr(-(to_upper + reach)) + special.ndtr(to_lower - reach)
    return float(np.mean(np.maximum(inside, 0)) + np.mean(outside))
