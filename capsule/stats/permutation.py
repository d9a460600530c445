"""How far a side may be shifted: the exact studentized permutation test, inverted.

Under a shift of d the runs of A and those of B less d are one sample, and every way of dealing it
out again to the two sides is as likely as the one seen. The statistic is Welch's t, so that the
test stays right for means where spreads or shapes differ (Janssen 1997; Chung and Romano 2013), and
all relabelings are counted, so that it is exact for one population, ties included.

Only additions, products, roots and comparisons in one fixed order: the same on every machine.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from capsule.stats.runs import Runs

_Floats = NDArray[np.float64]
# 10 + 10 runs, which takes a few milliseconds; ranks guard larger designs nearly as well
_MOST_RELABELINGS = math.comb(20, 10)
# statistics this near to each other are equal but for rounding
_TIE = 1e-12
_SLACK = 1e-9  # wider than a tie, for what is only sorted out beforehand
# standard errors; the p value of a shift this far off is that of one without end
_FARTHEST = 1e9


def can_count(n_a: int, n_b: int) -> bool:
    """Whether so many runs are few enough to count every relabeling of them."""
    return min(n_a, n_b) >= 2 and math.comb(n_a + n_b, n_a) <= _MOST_RELABELINGS


def p_value(a: Runs, b: Runs, shift: float) -> tuple[float, float]:
    """One-sided p values of a shift from A to B: of its being so large or larger, so low or lower.

    Args:
        a: The original's runs, at least two.
        b: The re-execution's runs, at least two; one side at least has a spread.
        shift: In the metric's unit.

    >>> a, b = Runs.of({1: 0, 2: 1, 3: 2}), Runs.of({1: 1, 2: 2, 3: 3})
    >>> p_value(a, b, 4), p_value(a, b, 1)
    ((0.05, 1.0), (0.7, 0.7))
    """
    a, b, sign = _in_order(a, b)
    apart = (sign * shift - (b.mean - a.mean)) / _standard_error(a, b)
    # of B's being lower than by that much where it lies above what is seen, higher where below
    side = 1 if apart >= 0 else -1
    far, number = min(abs(apart), _FARTHEST), math.comb(a.n + b.n, a.n)
    relabelings = _extreme(a, b, far, side)
    beyond = int(relabelings.as_extreme(far, side).sum())
    nearer = relabelings.size - int(relabelings.as_extreme(-far, -side).sum())
    low, high = (beyond / number, (number - nearer) / number)[:: side * sign]
    return low, high


def reaches(a: Runs, b: Runs, alpha: float, *, at_least: float) -> tuple[float, float] | None:
    """How far below and above the estimate the shift may lie: the test's limits at level `alpha`.

    Sought outward from the limits that the interval has anyway: between them nobody asks.

    Args:
        a: The original's runs, at least two.
        b: The re-execution's runs, at least two; one side at least has a spread.
        alpha: One-sided level.
        at_least: Another interval's reach, in standard errors.

    Returns:
        Both in standard errors, `at_least` or more; None when even the labels seen are no rarer
        than `alpha` among all.
    """
    allowed = math.floor(Fraction(alpha) * math.comb(a.n + b.n, a.n))
    if allowed == 0:
        return None
    a, b, sign = _in_order(a, b)
    limits = []
    for side in (-1, 1):
        relabelings = _extreme(a, b, at_least, side)
        seen = relabelings.only(relabelings.as_extreme(at_least, side))
        limits.append(_reach(seen, allowed, at_least, side))
    below, above = limits[::sign]
    return below, above


def _reach(relabelings: _Relabelings, allowed: int, at_least: float, side: int) -> float:
    """Where no more than so many relabelings, of those at the start, are as extreme as is seen."""
    if relabelings.size <= allowed:
        return at_least
    low, high = at_least, 2 * at_least
    while high < _FARTHEST and relabelings.as_extreme(high, side).sum() > allowed:
        low, high = high, 2 * high
    while high - low > _TIE * high:
        middle = (low + high) / 2
        extreme = relabelings.as_extreme(middle, side)
        number = int(extreme.sum())
        if number > allowed:
            low, relabelings = middle, relabelings.only(extreme)
        else:  # these are as extreme wherever the limit is, only the others need another look
            high, relabelings = middle, relabelings.only(~extreme)
            allowed -= number
    return high


@dataclass(frozen=True, kw_only=True)
class _Relabelings:
    """Ways of dealing out the runs of both sides, as sums that tell Welch's t at any shift.

    All in standard errors, and each side's values less their mean. Under a shift the squares within
    a side are `within - 2 * tilt * shift + bend * shift ** 2`: with the labels seen `tilt` and
    `bend` are 0 to the digit, however large the shift.

    Attributes:
        n_a: How many runs A has.
        n_b: How many runs B has.
        floor: The least variance of a run, that of rounding.
        sums: Six rows, a column for each relabeling: how many of B's runs are still called B's;
            the sum of the values called B's, of those called A's it is the negative; the squares
            within A and within B; the tilts of both.
    """

    n_a: int
    n_b: int
    floor: float
    sums: _Floats

    @property
    def size(self) -> int:
        """How many there are."""
        return len(self.sums[0])

    def as_extreme(self, apart: float, side: int) -> NDArray[np.bool_]:
        """Which have a statistic no nearer to 0 than that seen, where B lies `apart` off.

        Args:
            apart: In standard errors; positive where it is more so than seen.
            side: 1 where B is held to be higher by that much, -1 where lower.
        """
        stay, total, within_a, within_b, tilt_a, tilt_b = self.sums
        shift, gone = side * apart, self.n_b - stay
        bend_a, bend_b = gone - gone * gone / self.n_a, stay - stay * stay / self.n_b
        within_a = within_a + shift * (shift * bend_a - 2 * tilt_a)
        within_b = within_b + shift * (shift * bend_b - 2 * tilt_b)
        error = np.sqrt(
            np.maximum(within_a / (self.n_a - 1), self.floor) / self.n_a
            + np.maximum(within_b / (self.n_b - 1), self.floor) / self.n_b
        )
        # how far the side called B's lies to that side; that seen is -apart with an error of 1
        moved = shift * (stay / self.n_b - gone / self.n_a)
        beyond = side * (total * (1 / self.n_a + 1 / self.n_b) - moved)
        return np.asarray(beyond <= _TIE * (abs(apart) + 1) * (error + 1) - apart * error)

    def only(self, chosen: NDArray[np.bool_]) -> _Relabelings:
        """Some of them."""
        return replace(self, sums=self.sums[:, chosen])


def _in_order(a: Runs, b: Runs) -> tuple[Runs, Runs, int]:
    """The sides in an order of their own, with -1 if exchanged: rounding then mirrors as well."""
    return (a, b, 1) if (a.n, a.values) <= (b.n, b.values) else (b, a, -1)


def _standard_error(a: Runs, b: Runs) -> float:
    return math.hypot(a.floored_sd / math.sqrt(a.n), b.floored_sd / math.sqrt(b.n))


def _extreme(a: Runs, b: Runs, apart: float, side: int) -> _Relabelings:
    """All relabelings that may be as extreme as those seen where B lies `apart` off, and others.

    Most are not, and are told by one sum. Squares about the common mean are the same for all of
    them, so that those within the sides are fewest where the sides lie farthest apart: with `d`
    between the means of two sides, `c = n_a * n_b / (n_a + n_b)` and squares `q` in all, the
    squared standard error is `(q - c * d * d) / k` at least, `k` being the larger `n * (n - 1)`.

    Args:
        a: The original's runs.
        b: The re-execution's runs.
        apart: In standard errors, 0 or more.
        side: 1 where B is held to be higher by that much, -1 where lower.
    """
    unit = _standard_error(a, b)
    x, y = ([(value - side.mean) / unit for value in side.values] for side in (a, b))
    squares = math.fsum(value * value for value in (*x, *y))
    floor = (max(a.resolution, b.resolution) / unit) ** 2 / 12
    between = a.n * b.n / (a.n + b.n)
    in_all = squares + between * apart * apart
    largest = max(a.n * (a.n - 1), b.n * (b.n - 1))
    least = apart * math.sqrt(in_all / (largest + between * apart * apart))
    least -= _SLACK * (apart + 1) * (1 + math.sqrt(in_all) + math.sqrt(floor))
    all_of_b = _sums(y, b.n)[0]  # 0 but for rounding
    columns = []
    for moved in range(min(a.n, b.n) + 1):
        from_a, from_b, stay = _sums(x, moved), _sums(y, b.n - moved), b.n - moved
        totals = np.add.outer(from_a[0], from_b[0])
        farthest = between * (apart * (stay / b.n - moved / a.n) - least)
        rows, cols = np.nonzero(totals <= farthest if side > 0 else totals >= -farthest)
        total, of_b = totals[rows, cols], from_b[0][cols]
        square = from_a[1][rows] + from_b[1][cols]
        within_a = squares - square - total * total / a.n
        within_b = square - total * total / b.n
        tilt_a = all_of_b - of_b + moved / a.n * total
        tilt_b = of_b - stay / b.n * total
        stays = np.full(len(total), float(stay))
        columns.append(np.array((stays, total, within_a, within_b, tilt_a, tilt_b)))
    return _Relabelings(n_a=a.n, n_b=b.n, floor=floor, sums=np.concatenate(columns, axis=1))


def _sums(values: list[float], size: int) -> tuple[_Floats, _Floats]:
    """Sum and sum of squares of every choice of so many values, of a side less its mean."""
    if len(values) < 2 * size < 2 * len(values):  # the others are fewer, and their sum is known
        total, squares = _sums(values, len(values) - size)
        return -total, math.fsum(value * value for value in values) - squares
    chosen = np.asarray(values)[_choices(len(values), size)]
    total, squares = np.zeros(len(chosen)), np.zeros(len(chosen))
    for column in chosen.T:  # one by one: how numpy sums a row depends on the machine
        total = total + column
        squares = squares + column * column
    return total, squares


@lru_cache(maxsize=64)
def _choices(n: int, size: int) -> NDArray[np.intp]:
    """Every choice of `size` out of `n` indices, a row each."""
    rows = list(itertools.combinations(range(n), size))
    return np.asarray(rows, dtype=np.intp).reshape(len(rows), size)
