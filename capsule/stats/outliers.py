"""Runs that lie far from all others of their side."""

from __future__ import annotations

import math

from capsule.stats import special
from capsule.stats.runs import Runs

# among normal runs one lies so far off in this share of cases, whatever their number
_LEVEL = 0.01


def has_outlier(runs: Runs) -> bool:
    """Return whether a run lies so far from the others that only 1 % of normal samples have one.

    Grubbs' two-sided test, which compares the lowest and the highest run with all others. Rounded
    values have at least the spread of rounding.

    Args:
        runs: Of one side; fewer than three have no outlier.

    >>> has_outlier(Runs.of({1: 1.0, 2: 1.1, 3: 0.9, 4: 1.05, 5: 1.3}))
    False
    >>> has_outlier(Runs.of({1: 1.0, 2: 1.1, 3: 0.9, 4: 1.05, 5: 4.0}))
    True
    """
    if runs.n < 3 or runs.constant:
        return False
    lowest, highest = runs.by_seed[0], runs.by_seed[0]
    for run in runs.by_seed:
        lowest, highest = min(lowest, run, key=_value), max(highest, run, key=_value)
    return any(_is_far(runs, one) for one in (lowest, highest))


def _is_far(runs: Runs, one: tuple[int, float]) -> bool:
    """Return whether one run is an outlier beside the others."""
    others = Runs(
        by_seed=tuple(run for run in runs.by_seed if run is not one), resolution=runs.resolution
    )
    error = others.floored_sd * math.sqrt(1 + 1 / others.n)
    if error == 0:
        return True
    t = abs(one[1] - others.mean) / error
    return 2 * runs.n * float(special.stdtr(others.n - 1, -t)) <= _LEVEL


def _value(run: tuple[int, float]) -> float:
    return run[1]
