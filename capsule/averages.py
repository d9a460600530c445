"""Middles and means that are the same double on every machine."""

from __future__ import annotations

import math
import sys
from array import array
from collections.abc import Sequence
from typing import TypeGuard

# numpy finds the median of more values sooner than it is sorted out, its import included
FEW = 50_000
# and of these, when it is needed anyhow
VERY_FEW = 500


def median(values: Sequence[float], few: int = FEW) -> float | None:
    """Return the median, or None if it is not a finite number.

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


def medians(series: Sequence[Sequence[float]]) -> list[float | None]:
    """Return the median of each series; packed series of equal length are handled together.

    >>> medians([[3.0, 1.0, 2.0], [1.0, math.inf], []])
    [2.0, None, None]
    """
    # its import would cost as much as it spares
    if "numpy" not in sys.modules or not _is_table(series):
        return [median(values) for values in series]
    import numpy as np

    rows = np.frombuffer(b"".join(series)).reshape(len(series), -1)
    middle, odd = divmod(rows.shape[1], 2)
    places = [middle] if odd else [middle - 1, middle]
    middles = np.partition(rows, places)[:, places]
    with np.errstate(all="ignore"):
        # one addition, as in `median`
        values = middles[:, 0] if odd else (middles[:, 0] + middles[:, 1]) / 2
    numbers: list[float | None] = values.tolist()
    # 0.0 and -0.0 are sorted as they came, and of what is not finite there is no median
    doubtful = ~np.isfinite(values) | ~np.isfinite(rows).all(axis=1) | (middles == 0).any(axis=1)
    for place in doubtful.nonzero()[0]:
        numbers[place] = median(series[place])
    return numbers


def _is_table(series: Sequence[Sequence[float]]) -> TypeGuard[Sequence[array[float]]]:
    """Return whether the series are arrays of equal length with enough values."""
    return (
        len(series) > 1
        and len(series) * len(series[0]) > VERY_FEW
        and len(set(map(len, series))) == 1
        and all(isinstance(values, array) for values in series)
    )


def _middle(values: Sequence[float]) -> list[float]:
    """Return the fewest values with the same median: the middle ones, or the non-finite ones."""
    import numpy as np

    array = np.array(values, dtype=float)
    if not np.isfinite(array).all():
        return [math.nan]
    middle = len(array) // 2
    places = [middle] if len(array) % 2 else [middle - 1, middle]
    array.partition(places)
    return [float(array[place]) + 0.0 for place in places]  # -0.0 and 0.0 sort as they like


def finite(values: Sequence[float]) -> bool:
    """Return whether all values are finite.

    >>> finite([1e308, 1e308]), finite([1.0, math.nan])
    (True, False)
    """
    # a sum is finite only of finite numbers, and made four times as fast as each is looked at
    return math.isfinite(sum(values)) or all(map(math.isfinite, values))


def mean(values: Sequence[float]) -> float | None:
    """Return the arithmetic mean, rounded once; None if it is not a number."""
    if not values:
        return None
    try:
        return math.fsum(values) / len(values)
    except OverflowError:
        return None
