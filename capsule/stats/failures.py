"""Runs that gave no value: how often they may fail, and whether two sides fail unequally."""

from __future__ import annotations

import math

from scipy import special


def fisher_more(failed_a: int, n_a: int, failed_b: int, n_b: int) -> float:
    """One-sided Fisher exact p of B failing more often than A, given the total of failures.

    >>> round(fisher_more(0, 5, 4, 5), 6)
    0.02381
    """
    failures = failed_a + failed_b
    ways = sum(
        math.comb(n_b, k) * math.comb(n_a, failures - k)
        for k in range(failed_b, min(n_b, failures) + 1)
    )
    return ways / math.comb(n_a + n_b, failures)


def failure_bound(failed: int, n: int, *, level: float = 0.95) -> float:
    """Clopper-Pearson's upper bound on the failure rate, given `failed` of `n` runs.

    Without any run nothing is known: the bound is 1.

    >>> [round(failure_bound(0, n), 3) for n in (5, 10, 30)]
    [0.451, 0.259, 0.095]
    """
    if not 0 <= failed <= n:
        raise ValueError(f"not a number of failures: {failed} of {n}")
    if failed == n:
        return 1.0
    return float(special.betaincinv(failed + 1, n - failed, level))
