"""Power of the rule, and its inversion: the number of runs needed."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Literal

import numpy as np

from capsule.stats import permutation, signs, special
from capsule.stats.decision import Region
from capsule.stats.interval import (
    Interval,
    level_in_use,
    one_set,
    paired_level,
    satterthwaite,
    undo_one_set,
)
from capsule.stats.runs import Runs
from capsule.stats.summaries import Summary, summary_df, summary_part

MOST_RUNS = 500
_GRID = (np.arange(200) + 0.5) / 200
# the same quantiles in another order, for a second quantity that is independent of the first
_OTHERWISE = np.arange(200) * 89 % 200
# how much farther from its middle the envelope reaches than Welch's interval: with relabelings
# 1.02 to 1.06 from 4 to 8 runs a side, with ranks 1.12 at 10 and 1.08 at 30 (measured, normal)
_RELABELING_COST = 1.045
_RANKS_COST = 1.1
# the same of pairs, with sign flips, where up to so many of them may be as extreme (measured from 5
# to 50 pairs, normal, at 0.05 and 0.01)
_PAIRED_COSTS = ((1, 1.25), (2, 1.12), (5, 1.06), (15, 1.035), (math.inf, 1.01))
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
    truth: float | None = None,
    power: float = 0.8,
    most: int = MOST_RUNS,
) -> Answer:
    """Return the total runs of B that decide the claim.

    The runs so far stay, so their luck does: the power is that of further runs beside them. Pairs
    are all run anew.

    Args:
        a: The original's runs, at least two, on the scale of `region`; None for a constant, and
            for differences of pairs.
        b: The re-run's runs so far.
        interval: Their interval; its level is the one reckoned with.
        region: The claim's region.
        truth: True shift, or true location beside a constant; None for the present estimate.
        power: Wanted probability of a verdict.
        most: More of them are not looked for.

    Returns:
        The number of runs; `original-too-few` when 500 are not enough but would be if the original
        had as many; `on-the-margin` when even that would not do.
    """
    seen = interval.estimate
    truth = seen if truth is None else truth
    is_paired = interval.method == "paired"
    alpha = _undo_level(a, b, interval)
    # a constant is a side without spread, of as many runs as one likes
    sd_a, n_a = (0.0, MOST_RUNS) if a is None else (a.floored_sd, a.n)
    # a side of a single run is taken to be as spread as the other
    sd_b = b.floored_sd if b.n >= 2 else sd_a
    sd_a = sd_a if n_a >= 2 else sd_b

    def reaches(n_b: int, anew: int | None = None) -> bool:
        level, cost, df_of = interval.alpha, 1.0, satterthwaite
        if isinstance(a, Runs):
            level = _level(interval, b.n, anew or n_a, n_b)
            cost = _cost(anew or n_a, n_b, level)
        elif is_paired:
            level, cost = paired_level(n_b, alpha), paired_cost(n_b, alpha)
        elif a is None:
            level = one_set(n_b, alpha)
        else:
            level, df_of = alpha * summary_part(anew or n_a, n_b), summary_df
        if anew is not None or is_paired:
            sides = (sd_a, anew or n_a), (sd_b, n_b)
            return verdict_probability(truth, region, *sides, level, cost, df_of) >= power
        there = None if a is None else (sd_a, n_a)
        beside = seen, there, (sd_b, b.n), n_b
        return _power_beside(truth, region, *beside, level, cost, df_of) >= power

    return _fewest(reaches, at_least=max(b.n, 1) + 1, most=most, guarded=isinstance(a, Runs))


def _power_beside(
    truth: float,
    region: Region,
    seen: float,
    a: tuple[float, int] | None,
    b: tuple[float, int],
    total: int,
    level: float,
    cost: float,
    df_of: Callable[[float, int, float, int], float],
) -> float:
    """Return the probability of either verdict after further runs of B beside those seen.

    The original's mean stays where it is, and lies off its true one by a part of what the shift
    seen is off the true shift. The spread is that of both sides together; it is known as well as
    so many runs tell it, and further runs change it by chance.

    Args:
        truth: The true shift.
        region: The claim's region.
        seen: The shift so far.
        a: Standard deviation and number of the original's runs; None for a constant.
        b: The same of the re-run so far.
        total: The re-run's runs, with further ones.
        level: One-sided level of the interval.
        cost: How much farther than Welch's the interval reaches.
        df_of: Degrees of freedom, of each side's part of the error and its number of runs.
    """
    sides = [one for one in (a, b) if one is not None and one[1] >= 2]
    # in units of the larger spread: squares of others may leave the range of doubles
    unit = max((sd for sd, _ in sides), default=0.0)
    if unit == 0:
        return 1.0
    truth, seen = truth / unit, seen / unit
    lower, upper = region.lower / unit, region.upper / unit
    sd_b, n_b = b[0] / unit, b[1]
    more, df = total - n_b, sum(n - 1 for _, n in sides)
    squares = sum((n - 1) * (sd / unit) ** 2 for sd, n in sides)
    sigma = np.sqrt(squares / (2 * special.gammaincinv(df / 2, _GRID)))
    drawn = 2 * special.gammaincinv(more / 2, _GRID[_OTHERWISE]) * sigma * sigma
    variance = ((n_b - 1) * sd_b * sd_b + drawn) / (total - 1)
    part_b = variance / total
    single = a is not None and a[1] == 1
    if a is None or single:
        error, df_then = np.sqrt(part_b + variance * single), total - 1.0
    else:
        part_a = (a[0] / unit) ** 2 / a[1]
        error = np.sqrt(part_a + part_b)
        df_then = df_of(math.sqrt(part_a) / error, a[1], np.sqrt(part_b) / error, total)
    reach = -special.stdtrit(df_then, level) * error * cost
    reach_out = -special.stdtrit(df_then, level / 2) * error * cost if single else reach
    # of the mean of further runs beside the original's: what is expected, and its variance
    share, known = (0.0, 0.0) if a is None else (n_b / (a[1] + n_b), 1 / (a[1] + n_b))
    centre = (n_b * seen + more * (truth + (seen - truth) * share)) / total
    scatter = more / total * sigma * math.sqrt(known + 1 / more)
    inside = special.ndtr((upper - reach - centre) / scatter) - special.ndtr(
        (lower + reach - centre) / scatter
    )
    outside = special.ndtr(-(upper + reach_out - centre) / scatter) + special.ndtr(
        (lower - reach_out - centre) / scatter
    )
    return float(np.mean(np.maximum(inside, 0)) + np.mean(outside))


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
    if isinstance(a, Runs):
        return interval.alpha
    if isinstance(a, Summary):
        # a single run has a quarter
        return interval.alpha * 4 if b.n == 1 else interval.alpha / summary_part(a.n, b.n)
    if interval.method == "paired" and signs.can_judge(b.n, interval.alpha):
        return interval.alpha
    return undo_one_set(b.n, interval.alpha)


def _cost(n_a: int, n_b: int, level: float) -> float:
    """Return the envelope's width relative to Welch's, for some runs."""
    return _RELABELING_COST if permutation.can_guard(n_a, n_b, level) else _RANKS_COST


def paired_cost(n: int, alpha: float) -> float:
    """Return the width of the interval of pairs relative to Student's at its level."""
    if not signs.can_judge(n, alpha):
        return 1.0
    allowed = signs.allowed(n, alpha)
    return next(cost for most, cost in _PAIRED_COSTS if allowed <= most)


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
