"""Runs that gave no value: how often they may fail, and whether two sides fail unequally."""

from __future__ import annotations

import math
from bisect import bisect_left

from capsule.stats import special
from capsule.stats.power import MOST_RUNS

# Fisher's one-sided p at which two rates are too unequal to be called reproduced. Equal rates of
# 10 % pass in 95 / 99 / 84 % at 5+5 / 5+6 / 30+30 runs, 0 against 20 % in 74 / 90 / 1 %. Failing
# less often than the original only is odd where it can hardly be chance.
_MORE = 0.25
_FEWER = 0.05


def fisher_more(failed_a: int, n_a: int, failed_b: int, n_b: int) -> float:
    """Return one-sided Fisher exact p of B failing more often than A, given the total of failures.

    >>> round(fisher_more(0, 5, 4, 5), 6)
    0.02381
    """
    failures = failed_a + failed_b
    ways = sum(
        math.comb(n_b, k) * math.comb(n_a, failures - k)
        for k in range(failed_b, min(n_b, failures) + 1)
    )
    return ways / math.comb(n_a + n_b, failures)


def veto(failed_a: int, n_a: int, failed_b: int, n_b: int) -> bool:
    """Return whether B fails so much more, or so much less often than A that nobody may call it
    the same.

    >>> veto(0, 5, 1, 5), veto(0, 5, 2, 5), veto(4, 5, 0, 5)
    (False, True, True)
    """
    return (
        fisher_more(failed_a, n_a, failed_b, n_b) <= _MORE
        or fisher_more(failed_b, n_b, failed_a, n_a) <= _FEWER
    )


def runs_to_lift(
    failed_a: int, n_a: int, failed_b: int, n_b: int, *, power: float = 0.8
) -> int | None:
    """Return the total runs of B that lift a veto, if further ones fail as often as A's.

    Args:
        failed_a: The original's failures.
        n_a: The original's runs, at least one.
        failed_b: The re-run's failures so far.
        n_b: The re-run's runs so far.
        power: Wanted probability that the veto is lifted.

    Returns:
        None when 500 are not enough.

    >>> runs_to_lift(0, 5, 2, 5)
    6
    """

    def reaches(n: int) -> bool:
        further = n - n_b
        # failures among the further runs: too few below `fewest`, too many from `most` on
        fewest = bisect_left(
            range(further + 1),
            True,
            key=lambda k: fisher_more(failed_b + k, n, failed_a, n_a) > _FEWER,
        )
        most = bisect_left(
            range(further + 1),
            True,
            key=lambda k: fisher_more(failed_a, n_a, failed_b + k, n) <= _MORE,
        )
        rate = failed_a / n_a
        return bool(
            _binomial(most - 1, further, rate) - _binomial(fewest - 1, further, rate) >= power
        )

    more = range(n_b + 1, MOST_RUNS + 1)
    place = bisect_left(more, True, key=reaches)
    return more[place] if place < len(more) else None


def _binomial(k: int, n: int, rate: float) -> float:
    """Return the probability of at most `k` failures in `n` runs."""
    return 0.0 if k < 0 else float(special.bdtr(k, n, rate))


def failure_bound(failed: int, n: int, *, level: float = 0.95) -> float:
    """Clopper-Pearson's upper bound on the failure rate, given `failed` of `n` runs.

    Without any run nothing is known: the bound is 1.

    >>> [round(failure_bound(0, n), 3) for n in (5, 10, 30)]
    [0.451, 0.259, 0.095]
    """
    if not 0 <= failed <= n:
        raise ValueError(f"invalid number of failed runs: {failed}, expected 0 to {n}")
    if failed == n:
        return 1.0
    return float(special.betaincinv(failed + 1, n - failed, level))
