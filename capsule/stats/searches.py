"""Score of a search of hyper-parameters, and its quality after each number of trials.

A failed trial has no value, and counts as worse than any trial with a value.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Iterable, Sequence


def order(values: Iterable[float | None], *, lower: bool) -> list[float | None]:
    """Return values from the worst on; None first.

    Args:
        values: Values of trials or studies, None of what failed.
        lower: True if less is better.

    >>> order([0.9, None, 0.7], lower=False)
    [None, 0.7, 0.9]
    """
    known = list(values)
    numbers: list[float | None] = [*sorted((v for v in known if v is not None), reverse=lower)]
    return [None] * (len(known) - len(numbers)) + numbers


def score(studies: Sequence[Sequence[float | None]], *, lower: bool) -> float | None:
    """Return the median over studies of the best trial of each (Dahl et al. 2023,
    arXiv:2306.07179).

    Args:
        studies: The values of the trials of each, none of them empty.
        lower: True if less is better.

    Returns:
        None where half of the studies or more have no trial that succeeded; of an even number the
        mean of the two in the middle.

    >>> score([[0.7, 0.9], [0.8], [None, 0.6]], lower=False)
    0.8
    """
    best = order((order(one, lower=lower)[-1] for one in studies), lower=lower)
    low, high = best[(len(best) - 1) // 2], best[len(best) // 2]
    # the sum of both may overflow
    return None if low is None or high is None else low / 2 + high / 2


def best_of(values: Sequence[float | None], k: int, *, lower: bool) -> float | None:
    """Return the median of the best of `k` trials, drawn without replacement from all that were
    made.

    With the n results sorted from the worst, the best of k is the i-th or a worse one with the
    probability C(i, k) / C(n, k); the median is the first where that is 1/2 or more.

    Args:
        values: Values of all trials, n of them.
        k: From 1 to n.
        lower: True if less is better.

    >>> best_of([1, 2, 3, 4], 2, lower=False)
    3
    """
    ordered = order(values, lower=lower)
    half = math.comb(len(ordered), k)
    place = bisect_left(range(len(ordered)), half, key=lambda i: 2 * math.comb(i + 1, k))
    return ordered[place]
