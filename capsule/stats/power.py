"""Power of the rule, and its inversion: the number of runs needed."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Literal

import numpy as np

from capsule.stats import permutation, special
from capsule.stats.decision import Region
from capsule.stats.interval import Interval, level_in_use, one_set, satterthwaite, undo_one_set
from capsule.stats.runs import Runs
from capsule.stats.summaries import Summary, summary_df, summary_part

MOST_RUNS = 500
_GRID = (np.arange(200) + 0.5) / 200
# how much farther from its middle the envelope reaches than Welch's interval: with relabelings
# 1.02 to 1.06 from 4 to 8 runs a side, with ranks 1.12 at 10 and 1.08 at 30 (measured, normal)
_RELABELING_COST = 1.045
_RANKS_COST = 1.1
# and fewer runs than this need one more, because their guard leaves few levels to choose from
_COARSE = 5
# where power falls again with more re-runs, it has its peak before so many
_PEAK_BELOW = 40

Answer = int | Literal["original-too-few", "on-the-margin"]


def runs_to_decide(
    a: Runs | Summary | None,
    b: Runs,
    interval: Interval,
    region: Region,
    *,
    power: float = 0.8,
    most: int = MOST_RUNS,
) -> Answer:
    """Return the total runs of B that decide the claim, if the present estimate is true.

    Args:
        a: The original's runs, at least two, on the scale of `region`; None for a constant, and
            for differences of pairs.
        b: The re-run's runs so far.
        interval: Their interval; its level is the one reckoned with.
        region: The claim's region.
        power: Wanted probability of a verdict.
        most: More of them are not looked for.

    Returns:
        The number of runs; `original-too-few` when 500 are not enough but would be if the original
        had as many; `on-the-margin` when even that would not do.
    """
    alpha = _undo_level(a, b, interval)
    # a constant is a side without spread, of as many runs as one likes
    sd_a, n_a = (0.0, MOST_RUNS) if a is None else (a.floored_sd, a.n)
    # a side of a single run is taken to be as spread as the other
    sd_b = b.floored_sd if b.n >= 2 else sd_a
    sd_a = sd_a if n_a >= 2 else sd_b

    def reaches(n_b: int, n_a: int = n_a) -> bool:
        level, cost, df_of = interval.alpha, 1.0, satterthwaite
        if isinstance(a, Runs):
            level, cost = _level(interval, b.n, n_a, n_b), _cost(n_a, n_b)
        elif a is None:
            level = one_set(n_b, alpha)
        else:
            level, df_of = alpha * summary_part(n_a, n_b), summary_df
        sides = (sd_a, n_a), (sd_b, n_b)
        return verdict_probability(interval.estimate, region, *sides, level, cost, df_of) >= power

    return _fewest(reaches, at_least=max(b.n, 1) + 1, most=most, guarded=isinstance(a, Runs))


def verdict_probability(
    truth: float,
    region: Region,
    a: tuple[float, int],
    b: tuple[float, int],
    level: float,
    cost: float = 1.0,
    df_of: Callable[[float, int, float, int], float] = satterthwaite,
) -> float:
    """Return the probability of either verdict at a true shift, averaged over the chi distribution
    of se.

    Args:
        truth: The true shift.
        region: The claim's region.
        a: Standard deviation and number of the original's runs.
        b: The same of the re-run.
        level: One-sided level of the interval.
        cost: How much farther than Welch's the interval reaches.
        df_of: Degrees of freedom, of each side's part of the error and its number of runs.
    """
    (sd_a, n_a), (sd_b, n_b) = a, b
    error_a, error_b = sd_a / math.sqrt(n_a), sd_b / math.sqrt(n_b)
    error = math.hypot(error_a, error_b)
    if error == 0:
        return 1.0
    single = min(n_a, n_b) == 1
    df = max(n_a, n_b) - 1.0 if single else df_of(error_a / error, n_a, error_b / error, n_b)
    u = np.sqrt(special.gammaincinv(df / 2, _GRID) * 2 / df)
    reach = -special.stdtrit(df, level) * u * cost
    # a single run must show twice the evidence for DIFFERENT
    reach_out = -special.stdtrit(df, level / 2) * u * cost if single else reach
    to_lower, to_upper = (region.lower - truth) / error, (region.upper - truth) / error
    inside = special.ndtr(to_upper - reach) - special.ndtr(to_lower + reach)
    outside = special.ndtr(-(to_upper + reach_out)) + special.ndtr(to_lower - reach_out)
    return float(np.mean(np.maximum(inside, 0)) + np.mean(outside))


def _undo_level(a: Runs | Summary | None, b: Runs, interval: Interval) -> float:
    """Return the error rate of which the interval uses a part; of runs its own level."""
    if a is None:
        return undo_one_set(b.n, interval.alpha)
    if isinstance(a, Runs):
        return interval.alpha
    # a single run has a quarter
    return interval.alpha * 4 if b.n == 1 else interval.alpha / summary_part(a.n, b.n)


def _cost(n_a: int, n_b: int) -> float:
    """Return the envelope's width relative to Welch's, for some runs."""
    return _RELABELING_COST if permutation.can_count(n_a, n_b) else _RANKS_COST


def _level(interval: Interval, have: int, n_a: int, n_b: int) -> float:
    """Return the level that `n_b` runs will be judged at, given the interval of those at hand.

    One run is judged at a quarter of the claim's level, two against two at half of it, more of
    them at all of it.
    """
    part = level_in_use(n_a, have, interval.alpha) / interval.alpha
    return level_in_use(n_a, n_b, interval.alpha / part)


def _fewest(reaches: Callable[..., bool], *, at_least: int, most: int, guarded: bool) -> Answer:
    """Return the fewest runs from `at_least` on that reach the power asked, or why none do."""
    if not reaches(most):
        # beside two or three original runs power falls again: their spread alone is left to tell
        some = next((n for n in range(at_least, _PEAK_BELOW) if reaches(n)), None)
        if some is None:
            return "original-too-few" if reaches(most, most) else "on-the-margin"
        most = some
    low, high = at_least - 1, most
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if reaches(middle) else (middle, high)
    return high + 1 if guarded and high < _COARSE else high
