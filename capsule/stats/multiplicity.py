"""Several claims at once, and failure rates: Holm's procedure and Fisher's exact test."""

from __future__ import annotations

import math
from collections.abc import Sequence


def holm(p_values: Sequence[float]) -> tuple[float, ...]:
    """Holm's adjusted p values, in the order given: reject those at most alpha.

    The chance of any wrong rejection is then at most alpha, whatever the dependence.

    >>> holm([0.01, 0.04, 0.03])
    (0.03, 0.06, 0.06)
    """
    adjusted = [1.0] * len(p_values)
    largest = 0.0
    for step, index in enumerate(sorted(range(len(p_values)), key=lambda i: p_values[i])):
        largest = max(largest, min(1.0, (len(p_values) - step) * p_values[index]))
        adjusted[index] = largest
    return tuple(adjusted)


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
