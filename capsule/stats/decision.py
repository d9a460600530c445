"""The one rule: where an interval lies relative to a region decides between three verdicts."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from capsule.stats import special
from capsule.stats.interval import Interval

Word = Literal["REPRODUCED", "DIFFERENT", "INCONCLUSIVE"]

# parts of the margin and of the values that count as rounding; the second is less, because values
# may be billions of times as large as what they differ by
_OF_MARGIN = 1e-9
_OF_VALUES = 1e-12


@dataclass(frozen=True, kw_only=True)
class Region:
    """The shifts (or locations) that still count as the same; an open side is infinite."""

    lower: float = -math.inf
    upper: float = math.inf

    def __post_init__(self) -> None:
        if not self.lower <= self.upper:
            raise ValueError(f"invalid region: [{self.lower}, {self.upper}]")


@dataclass(frozen=True, kw_only=True)
class Decision:
    """A verdict with its two p values, both to be held against the interval's `alpha`.

    Attributes:
        word: The verdict.
        p_reproduced: Of the truth lying outside the region (two one-sided tests).
        p_different: Of the truth lying inside the region; doubled for a single run.
    """

    word: Word
    p_reproduced: float
    p_different: float


def decide(interval: Interval, region: Region) -> Decision:
    """REPRODUCED inside the region, DIFFERENT outside, INCONCLUSIVE across its border or on it.

    An interval that ends on the border is neither inside nor outside: limits of counted values lie
    on whole steps, and so do the margins of counts. What rounding makes of a change of unit is no
    distance to the border. A comparison without an error has nothing to lie across: its one value
    is inside if it is on the border.

    Each wrong verdict has a probability of at most the claim's alpha. Where one side is a single
    run, DIFFERENT must hold at half the level of the interval: its p value is doubled. With skewed
    or two-humped runs 6 to 8 % of such verdicts would be wrong otherwise.

    >>> from capsule.stats.interval import shift
    >>> from capsule.stats.runs import Runs
    >>> a, b = Runs.of({1: 1.0, 2: 1.1, 3: 1.2}), Runs.of({4: 1.0, 5: 1.1, 6: 1.3})
    >>> decide(shift(a, b, alpha=0.05), Region(lower=-1, upper=1)).word
    'REPRODUCED'
    """
    near_lower, near_upper = (_rounding(end, interval) for end in (region.lower, region.upper))
    if interval.standard_error == 0:
        above, below = interval.estimate - region.lower, region.upper - interval.estimate
        same = above >= -near_lower and below >= -near_upper
        word: Word = "REPRODUCED" if same else "DIFFERENT"
        return Decision(word=word, p_reproduced=float(not same), p_different=float(same))
    inside = (
        interval.lower - region.lower > near_lower and region.upper - interval.upper > near_upper
    )
    outside = (
        interval.lower - region.upper > near_upper or region.lower - interval.upper > near_lower
    )
    above_lower = (interval.estimate - region.lower) / interval.standard_error
    above_upper = (interval.estimate - region.upper) / interval.standard_error
    p_different = min(_t(interval.df, above_lower), _t(interval.df, -above_upper))
    if interval.method == "prediction":
        p_different = min(1.0, 2 * p_different)
        outside = outside and p_different <= interval.alpha
    return Decision(
        word="REPRODUCED" if inside else "DIFFERENT" if outside else "INCONCLUSIVE",
        p_reproduced=max(_t(interval.df, -above_lower), _t(interval.df, above_upper)),
        p_different=p_different,
    )


def _rounding(end: float, interval: Interval) -> float:
    """Return the distance from an end of the region that counts as zero."""
    if math.isinf(end):
        return 0.0
    return max(_OF_MARGIN * abs(end), _OF_VALUES * interval.magnitude)


def _t(df: float, x: float) -> float:
    """Student's cumulative distribution."""
    return float(special.stdtr(df, x))
