"""Three or more machines at once: ISO 5725's standard deviations, and a random-effects mean.

A side is one machine's runs, ISO's laboratory. The model is y = m + B + e: B differs between
machines with standard deviation s_L, e between runs with s_r, and s_R^2 = s_L^2 + s_r^2.

s_r, s_L, s_R   ISO 5725-2, with unequal numbers of runs; a negative s_L^2 is 0.
limits of s_R   modified large sample (Graybill and Wang 1980, JASA 75:869) on the unweighted means
                of Thomas and Hultquist (1978, Ann. Statist. 6:582), where s_R^2 is a sum of two
                mean squares with positive factors. In simulations of normal runs at alpha 0.05
                they miss 10 % of the time at most (7.3 % below, 5.9 % above); Satterthwaite's upper
                limit alone misses up to 21 %. Like all intervals of variances they trust the shape:
                for runs with heavy tails (t with 3 degrees of freedom) they miss up to 42 %.
mean            Paule and Mandel (1982) with Hartung and Knapp's t, never narrower than without
                heterogeneity (Roever, Knapp and Friede 2015, BMC Med. Res. Methodol. 15:99). The
                sides' errors are pooled: an own variance out of three runs gives useless weights.

Machines that verify one capsule draw the same fresh seeds, so their runs are not independent.
Runs under one seed are reckoned as fully correlated, which never makes an interval narrower than
it should be; taken as independent, ten such machines miss the mean 55 % of the time.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from capsule.stats import special
from capsule.stats.machines import Machines
from capsule.stats.runs import Runs

# of two single results on two machines, exceeded by their difference 5 % of the time: 1.96 sqrt(2)
LIMIT_FACTOR = 2.8
LEAST_FOR_A_MEAN = 3


@dataclass(frozen=True, kw_only=True)
class Precision:
    """Spread of results within and between machines, on the scale of the runs.

    Attributes:
        repeatability_sd: s_r, between runs on one machine, at least that of the resolution.
        between_sd: s_L, between machines beyond what the runs explain.
        reproducibility_sd: s_R, of a single run on a machine drawn at random.
        lower: Lower limit of s_R; together the limits err at most 2 `alpha` of the time.
        upper: Upper limit of s_R.
        within_df: Degrees of freedom of s_r, runs under one seed counted together.
        equal_spread_p: Bartlett's p of all machines having the same s_r, as ISO 5725 presumes;
            None with fewer than two spreads to compare.
        sides: How many machines have a value.
        runs: How many runs they have in all.
    """

    repeatability_sd: float
    between_sd: float
    reproducibility_sd: float
    lower: float
    upper: float
    alpha: float
    within_df: float
    equal_spread_p: float | None
    sides: int
    runs: int

    @property
    def limit(self) -> float:
        """ISO's reproducibility limit: two single runs on two machines seldom differ by more."""
        return LIMIT_FACTOR * self.reproducibility_sd


@dataclass(frozen=True, kw_only=True)
class Mean:
    """The mean over machines of which those at hand are a sample.

    Attributes:
        between_sd: Paule and Mandel's tau, their estimate of what ISO calls s_L.
        sides: How many machines have a value.
        df: Degrees of freedom of Student's t: those of the machines, or of s_r if fewer.
        lower: Lower limit with one-sided error `alpha`.
        upper: Upper limit with one-sided error `alpha`.
    """

    estimate: float
    standard_error: float
    between_sd: float
    sides: int
    df: float
    lower: float
    upper: float
    alpha: float


def precision(sides: Sequence[Runs], *, alpha: float) -> Precision | None:
    """s_r, s_L and s_R of the runs of several machines, with limits for s_R.

    Args:
        sides: One for each machine; those without a run are left out. No value beyond 1e300.
        alpha: Half the error of both limits together.

    Returns:
        None with fewer than two machines, or when none has two runs.

    >>> def side(*values, seed): return Runs.of(dict(enumerate(values, seed)))
    >>> sides = [side(9, 11, seed=1), side(14, 16, seed=5), side(4, 6, seed=9)]
    >>> spread = precision(sides, alpha=0.05)
    >>> round(spread.repeatability_sd**2, 9), round(spread.between_sd**2, 9)
    (2.0, 24.0)
    """
    machines = Machines.of(sides)
    if machines is None:
        return None
    within = machines.within
    between = max(0.0, (_square_between(machines) - within) / _iso_runs(machines))
    total = math.sqrt(between + within)
    lower, upper = _limits(machines, alpha)
    return Precision(
        repeatability_sd=math.sqrt(within) * machines.scale,
        between_sd=math.sqrt(between) * machines.scale,
        reproducibility_sd=total * machines.scale,
        lower=min(lower, total) * machines.scale,
        upper=max(upper, total) * machines.scale,
        alpha=alpha,
        within_df=machines.within_df,
        equal_spread_p=_bartlett(machines.sides),
        sides=machines.k,
        runs=sum(machines.n),
    )


def random_effects_mean(sides: Sequence[Runs], *, alpha: float) -> Mean | None:
    """Return the mean over machines, with an interval that covers the spread between them.

    Args:
        sides: One for each machine; those without a run are left out. No value beyond 1e300.
        alpha: One-sided error of either limit.

    Returns:
        None with fewer than three machines, or when none has two runs.

    >>> def side(*values, seed): return Runs.of(dict(enumerate(values, seed)))
    >>> sides = [side(9, 11, seed=1), side(14, 16, seed=5), side(4, 6, seed=9)]
    >>> mean = random_effects_mean(sides, alpha=0.05)
    >>> round(mean.estimate, 9), round(mean.standard_error**2, 9)
    (10.0, 8.333333333)
    """
    machines = Machines.of(sides)
    if machines is None or machines.k < LEAST_FOR_A_MEAN:
        return None
    errors = [machines.within / n for n in machines.n]
    between = paule_mandel(machines.means, errors)
    # without any spread every weight is the same
    smallest = between + min(errors)
    weights = [smallest / (between + error) if smallest else 1.0 for error in errors]
    whole = math.fsum(weights)
    shares = [weight / whole for weight in weights]
    estimate = _dot(shares, machines.means)
    error = math.sqrt(
        math.fsum(share**2 * (between + own) for share, own in zip(shares, errors, strict=True))
        + 2
        * math.fsum(
            shares[i] * shares[j] * machines.within * seeds / (machines.n[i] * machines.n[j])
            for i, j, seeds in machines.common
        )
    )
    df = min(machines.k - 1.0, machines.within_df)
    reach = -float(special.stdtrit(df, alpha)) * error
    return Mean(
        estimate=machines.centre + estimate * machines.scale,
        standard_error=error * machines.scale,
        between_sd=math.sqrt(between) * machines.scale,
        sides=machines.k,
        df=df,
        lower=machines.centre + (estimate - reach) * machines.scale,
        upper=machines.centre + (estimate + reach) * machines.scale,
        alpha=alpha,
    )


def paule_mandel(means: Sequence[float], variances: Sequence[float]) -> float:
    """Return the variance between sides at which their weighted squares are worth their number
    less one.

    Args:
        means: Mean of each side; at least two sides.
        variances: Variance of each of these means: all positive, or all 0.

    Returns:
        0 when the means lie no further apart than their own variances explain.

    >>> round(paule_mandel([10.0, 15.0, 5.0], [1.0, 1.0, 1.0]), 9)
    24.0
    """
    most = _variance(means)
    smallest = min(variances)

    def explains(between: float) -> bool:
        weights = [smallest / (between + variance) for variance in variances]
        middle = _dot(weights, means) / math.fsum(weights)
        return _dot(weights, [(m - middle) ** 2 for m in means]) <= (len(means) - 1) * smallest

    if smallest == 0:
        return most
    return 0.0 if explains(0.0) else _root(explains, most)


def _root(explains: Callable[[float], bool], most: float) -> float:
    """Return where `explains` turns true in (0, most], to the last bit."""
    low, high = 0.0, most
    while low < (middle := (low + high) / 2) < high:
        low, high = (low, middle) if explains(middle) else (middle, high)
    return high


def _variance(values: Sequence[float]) -> float:
    middle = math.fsum(values) / len(values)
    return math.fsum((value - middle) ** 2 for value in values) / (len(values) - 1)


def _square_between(machines: Machines) -> float:
    """ISO's s_d^2: the mean square between machines, each weighted by its runs."""
    middle = _dot(machines.n, machines.means) / sum(machines.n)
    return _dot(machines.n, [(mean - middle) ** 2 for mean in machines.means]) / (machines.k - 1)


def _iso_runs(machines: Machines) -> float:
    """ISO's n-bar-bar: the number of runs of a machine that stands for unequal ones."""
    runs = sum(machines.n)
    return (runs - sum(n * n for n in machines.n) / runs) / (machines.k - 1)


def _limits(machines: Machines, alpha: float) -> tuple[float, float]:
    """Modified large sample limits of s_R, scaled."""
    rest = 1 - math.fsum(1 / n for n in machines.n) / machines.k
    squares = (
        (_variance(machines.means), machines.k - 1.0),
        (rest * machines.within, machines.within_df),
    )
    # an infinite quantile at an extreme alpha times nothing would be no number
    parts = [(square, df) for square, df in squares if square]
    estimate = math.fsum(part for part, _ in parts)
    down = math.hypot(*(part * (1 - _over_chi2(df, 1 - alpha)) for part, df in parts))
    up = math.hypot(*(part * (_over_chi2(df, alpha) - 1) for part, df in parts))
    return math.sqrt(max(0.0, estimate - down)), math.sqrt(estimate + up)


def _over_chi2(df: float, probability: float) -> float:
    """Return degrees of freedom over the quantile of chi-squared."""
    quantile = 2 * float(special.gammaincinv(df / 2, probability))
    return df / quantile if quantile else math.inf


def _dot(weights: Sequence[float], values: Sequence[float]) -> float:
    return math.fsum(weight * value for weight, value in zip(weights, values, strict=True))


def _bartlett(sides: Sequence[Runs]) -> float | None:
    spreads = [(side.n - 1, side.floored_sd) for side in sides if side.n >= 2]
    largest = max(sd for _, sd in spreads)
    if len(spreads) < 2:
        return None
    if min(sd for _, sd in spreads) == 0:
        return float(largest == 0)
    whole = sum(df for df, _ in spreads)
    pooled = math.fsum(df * (sd / largest) ** 2 for df, sd in spreads) / whole
    distance = whole * math.log(pooled) - math.fsum(
        df * 2 * (math.log(sd) - math.log(largest)) for df, sd in spreads
    )
    inverses = math.fsum(1 / df for df, _ in spreads) - 1 / whole
    correction = 1 + inverses / (3 * (len(spreads) - 1))
    return float(special.chdtrc(len(spreads) - 1, max(0.0, distance) / correction))
