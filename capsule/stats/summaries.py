"""Sides that published a mean and a standard deviation instead of their runs."""

from __future__ import annotations

import math
from dataclasses import dataclass

from capsule.stats.interval import Interval, prediction_shift, satterthwaite, student
from capsule.stats.runs import Runs


@dataclass(frozen=True, kw_only=True)
class Summary:
    """Published summary of a paper's runs.

    Attributes:
        mean: Mean of the runs, in the metric's unit.
        sd: Between the runs; without meaning for a single one.
        n: Number of runs, at least one.
        resolution: Smallest step that a value can make, for instance of the last printed digit.
    """

    mean: float
    sd: float
    n: int
    resolution: float = 0.0

    def __post_init__(self) -> None:
        if not (math.isfinite(self.mean) and math.isfinite(self.sd) and self.sd >= 0):
            raise ValueError(
                f"mean {self.mean} with standard deviation {self.sd}, expected finite numbers and"
                " a standard deviation of at least 0"
            )
        if self.n < 1:
            raise ValueError(f"invalid number of runs: {self.n}, expected at least 1")
        if not (math.isfinite(self.resolution) and self.resolution >= 0):
            raise ValueError(f"resolution is {self.resolution}, expected a finite number >= 0")

    @property
    def floored_sd(self) -> float:
        """Return the standard deviation, at least that of rounding to the resolution, `q /
        sqrt(12)`.
        """
        return max(self.sd, self.resolution / math.sqrt(12))


def summary_shift(a: Summary | Runs, b: Summary | Runs, *, alpha: float) -> Interval | None:
    """Return the interval of `mean(b) - mean(a)` where at least one side is known by its summary
    only.

    Welch's at half the level, because nothing guards against skew here, or the prediction interval
    where one side is a single value.

    Returns:
        None when the spread is unknown on both sides (one run or none each).

    >>> paper, here = Summary(mean=76.1, sd=0.2, n=5), Runs.of({1: 76.0, 2: 76.3, 3: 76.2})
    >>> interval = summary_shift(paper, here, alpha=0.05)
    >>> interval.method, round(interval.lower, 3), round(interval.upper, 3)
    ('summary', -0.249, 0.383)
    """
    if min(a.n, b.n) == 0 or max(a.n, b.n) < 2:
        return None
    if min(a.n, b.n) == 1:
        return prediction_shift(a, b, alpha=alpha)
    error_a, error_b = a.floored_sd / math.sqrt(a.n), b.floored_sd / math.sqrt(b.n)
    error = math.hypot(error_a, error_b)
    # without any spread the comparison is exact and needs no degrees of freedom
    df = satterthwaite(error_a / error, a.n, error_b / error, b.n) if error else math.inf
    return student(b.mean - a.mean, error, df, alpha / 2, "summary", full=alpha)
