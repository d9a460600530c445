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
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from capsule.stats.runs import Runs

_Floats = NDArray[np.float64]
# 10 + 10 runs, which takes some milliseconds; ranks guard larger designs nearly as well
_MOST_RELABELINGS = math.comb(20, 10)
# statistics this near to each other are equal but for rounding
_TIE = 1e-12
_BLOCK = 8192
_FARTHEST = 1e9  # standard errors


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
    extreme = [0, 0]
    for block in _blocks(a, b):
        extreme[0] += int(block.as_extreme(apart, 1).sum())
        extreme[1] += int(block.as_extreme(-apart, -1).sum())
    low, high = (number / math.comb(a.n + b.n, a.n) for number in extreme[::sign])
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
    above, below = [], []
    for block in _blocks(a, b):
        above.append(block.only(block.as_extreme(at_least, 1)))
        below.append(block.only(block.as_extreme(at_least, -1)))
    limits = [
        _reach(_Relabelings.join(below), allowed, at_least, -1),
        _reach(_Relabelings.join(above), allowed, at_least, 1),
    ]
    return limits[::sign][0], limits[::sign][1]


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

    Attributes:
        n_a: How many runs A has.
        n_b: How many runs B has.
        all_squares: Sum of squares of all values, in standard errors, each side less its mean.
        floor: The least variance of a run, that of rounding.
        stay: For each relabeling how many of B's runs are still called B's.
        total: Sum of the values that are called B's.
        squares: Sum of their squares.
        of_b: Sum of those that are B's.
    """

    n_a: int
    n_b: int
    all_squares: float
    floor: float
    stay: _Floats
    total: _Floats
    squares: _Floats
    of_b: _Floats

    @classmethod
    def join(cls, blocks: Sequence[_Relabelings]) -> _Relabelings:
        """The relabelings of all blocks."""
        return replace(
            blocks[0],
            stay=np.concatenate([block.stay for block in blocks]),
            total=np.concatenate([block.total for block in blocks]),
            squares=np.concatenate([block.squares for block in blocks]),
            of_b=np.concatenate([block.of_b for block in blocks]),
        )

    @property
    def size(self) -> int:
        """How many there are."""
        return len(self.total)

    def as_extreme(self, apart: float, side: int) -> NDArray[np.bool_]:
        """Which have a statistic no nearer to 0 than that seen, where B lies `apart` off.

        Args:
            apart: In standard errors; positive where it is more so than seen.
            side: 1 where B is held to be higher by that much, -1 where lower.
        """
        moved = side * apart
        total = self.total - moved * self.stay
        rest = -self.n_b * moved - total
        squares = self.squares + moved * (moved * self.stay - 2 * self.of_b)
        others = (self.all_squares + self.n_b * moved * moved) - squares
        variance_b = (squares - total * total / self.n_b) / (self.n_b - 1)
        variance_a = (others - rest * rest / self.n_a) / (self.n_a - 1)
        error = np.sqrt(
            np.maximum(variance_b, self.floor) / self.n_b
            + np.maximum(variance_a, self.floor) / self.n_a
        )
        # how far the side called B's lies to that side; that seen is -apart with an error of 1
        beyond = side * (total / self.n_b - rest / self.n_a)
        return np.asarray(beyond <= _TIE * (abs(apart) + 1) * (error + 1) - apart * error)

    def only(self, chosen: NDArray[np.bool_]) -> _Relabelings:
        """Some of them."""
        return replace(
            self,
            stay=self.stay[chosen],
            total=self.total[chosen],
            squares=self.squares[chosen],
            of_b=self.of_b[chosen],
        )


def _in_order(a: Runs, b: Runs) -> tuple[Runs, Runs, int]:
    """The sides in an order of their own, with -1 if exchanged: rounding then mirrors as well."""
    return (a, b, 1) if (a.n, a.values) <= (b.n, b.values) else (b, a, -1)


def _standard_error(a: Runs, b: Runs) -> float:
    return math.hypot(a.floored_sd / math.sqrt(a.n), b.floored_sd / math.sqrt(b.n))


def _blocks(a: Runs, b: Runs) -> Iterator[_Relabelings]:
    """All relabelings, in blocks that fit a processor's cache."""
    error = _standard_error(a, b)
    x, y = ([(value - side.mean) / error for value in side.values] for side in (a, b))
    for moved in range(min(a.n, b.n) + 1):
        from_a, from_b = _sums(x, moved), _sums(y, b.n - moved)
        rows = max(1, _BLOCK // len(from_b[0]))
        for first in range(0, len(from_a[0]), rows):
            some = slice(first, first + rows)
            total = np.add.outer(from_a[0][some], from_b[0]).ravel()
            yield _Relabelings(
                n_a=a.n,
                n_b=b.n,
                all_squares=math.fsum(value * value for value in (*x, *y)),
                floor=(max(a.resolution, b.resolution) / error) ** 2 / 12,
                stay=np.full(len(total), float(b.n - moved)),
                total=total,
                squares=np.add.outer(from_a[1][some], from_b[1]).ravel(),
                of_b=np.tile(from_b[0], len(from_a[0][some])),
            )


def _sums(values: list[float], size: int) -> tuple[_Floats, _Floats]:
    """Sum and sum of squares of every choice of so many values."""
    chosen = np.asarray(values)[_choices(len(values), size)]
    total, squares = np.zeros(len(chosen)), np.zeros(len(chosen))
    for column in chosen.T:  # one by one: how numpy sums a row depends on the machine
        total = total + column
        squares = squares + column * column
    return total, squares


@lru_cache(maxsize=256)
def _choices(n: int, size: int) -> NDArray[np.intp]:
    """Every choice of `size` out of `n` indices, a row each."""
    rows = list(itertools.combinations(range(n), size))
    return np.asarray(rows, dtype=np.intp).reshape(len(rows), size)
