"""Middles and means that are the same double on every machine."""

from __future__ import annotations

import math
from collections.abc import Sequence

# numpy finds the median of more values sooner than it is sorted out, its import included
FEW = 50_000
# and of these, when it is needed anyhow
VERY_FEW = 500


def median(values: Sequence[float], few: int = FEW) -> float | None:
    """The middle value, the mean of the two middle ones, or None when that is no finite number.

    >>> median([3.0, 1.0, 2.0, 4.0])
    2.5
    """
    if len(values) > few:
        fewer = _middle(values)
        # -0.0 and 0.0 stand as they came where they are sorted out
        values = fewer if len(values) > FEW or 0.0 not in fewer else values
    if not values or not finite(values):
        return None
    ordered = sorted(values)
    middle, odd = divmod(len(ordered), 2)
    if odd:
        return ordered[middle]
    # one addition, correctly rounded by IEEE 754: the same double on every machine
    value = (ordered[middle - 1] + ordered[middle]) / 2
    return value if math.isfinite(value) else None


def _middle(values: Sequence[float]) -> list[float]:
    """As few of many values as have the same median: the middle ones, or what is not finite."""
    import numpy as np

    array = np.array(values, dtype=float)
    if not np.isfinite(array).all():
        return [math.nan]
    middle = len(array) // 2
    places = [middle] if len(array) % 2 else [middle - 1, middle]
    array.partition(places)
    return [float(array[place]) + 0.0 for place in places]  # -0.0 and 0.0 sort as they like


def finite(values: Sequence[float]) -> bool:
    """Whether no value is NaN or infinite.

    >>> finite([1e308, 1e308]), finite([1.0, math.nan])
    (True, False)
    """
    # a sum is finite only of finite numbers, and made four times as fast as each is looked at
    return math.isfinite(sum(values)) or all(map(math.isfinite, values))


def mean(values: Sequence[float]) -> float | None:
    """The arithmetic mean of their sum, rounded once, or None without one that is a number."""
    if not values:
        return None
    try:
        return math.fsum(values) / len(values)
    except OverflowError:
        return None
