"""Sides that published a mean and a standard deviation instead of their runs."""

from __future__ import annotations

import math
from dataclasses import dataclass

from capsule.stats.interval import (
    SMALLEST_PART,
    Interval,
    prediction_shift,
    satterthwaite,
    student,
)
from capsule.stats.runs import WIDEST_STEP, Runs

_MOST_SPREAD = 1e150  # of a mean; beyond it a square may leave the range of doubles


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

    def log(self) -> Summary:
        """Return the summary of the natural logarithms of these runs.

        The mean of logarithms lies below the logarithm of the mean. For lognormal runs with the
        relative spread cv it lies below by log(1 + cv^2) / 2, and their standard deviation is
        sqrt(log(1 + cv^2)); for other positive runs both are right up to terms in cv^3.

        Raises:
            ValueError: The mean is not positive.

        >>> Summary(mean=2.0, sd=0.0, n=5).log().mean == math.log(2.0)
        True
        """
        if self.mean <= 0:
            raise ValueError(f"cannot take logarithms: the mean is {self.mean}, expected above 0")
        variance = math.log1p(min(self.sd / self.mean, _MOST_SPREAD) ** 2)
        return Summary(
            mean=math.log(self.mean) - variance / 2,
            sd=math.sqrt(variance),
            n=self.n,
            resolution=min(self.resolution / self.mean, WIDEST_STEP),
        )


def summary_shift(a: Summary | Runs, b: Summary | Runs, *, alpha: float) -> Interval | None:
    """Return the interval of `mean(b) - mean(a)` where at least one side is known by its summary
    only.

    Welch's at `summary_part` of the level and with `summary_df`, because nothing guards against
    skew here, or the prediction interval where one side is a single value.

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
    df = summary_df(error_a / error, a.n, error_b / error, b.n) if error else math.inf
    level = alpha * summary_part(a.n, b.n)
    return student(b.mean - a.mean, error, df, level, "summary", full=alpha)


def summary_part(n_a: int, n_b: int) -> float:
    """Return the part of a claim's level that an interval from summaries uses.

    Half of it for equal numbers, where the skew of two like sides cancels; up to twice the number
    Welch's t at that level is wrong in at most 4.5 % at an alpha of 0.05. With 30 and 3 lognormal
    runs (log-sd 0.6) it is wrong in 11 %, so beyond twice the number the part falls towards that of
    one set of values, a sixth.

    >>> [round(summary_part(n, 4), 3) for n in (4, 8, 16, 10**9)]
    [0.5, 0.5, 0.333, 0.167]
    """
    return SMALLEST_PART + (0.5 - SMALLEST_PART) * _likeness(n_a, n_b)


def summary_df(part_a: float, n_a: int, part_b: float, n_b: int) -> float:
    """Return degrees of freedom, given each error as a part of their root sum square.

    Welch's where no side has more than twice the runs of the other. Beyond that they fall towards
    those of the smaller side, which has nearly all of the error: where its runs lie close together
    by chance, Welch's would be far too many.

    >>> half = math.sqrt(0.5)
    >>> [round(summary_df(half, 5, half, n), 2) for n in (5, 10, 20, 10**9)]
    [8.0, 11.08, 8.61, 4.0]
    """
    fewer = min(n_a, n_b) - 1
    return fewer + (satterthwaite(part_a, n_a, part_b, n_b) - fewer) * _likeness(n_a, n_b)


def _likeness(n_a: int, n_b: int) -> float:
    """Return 1 for numbers up to twice each other, towards 0 the farther they are apart."""
    return min(1.0, 2 * min(n_a, n_b) / max(n_a, n_b))
