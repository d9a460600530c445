"""Interval of a mean difference by sign flips, inverted: the guard of pairs.

Where both sides vary alike, differences of pairs are symmetric about the true shift, and each has
either sign with equal probability once that shift is taken off. Student's t after a flip depends on
the sum alone. A flip makes the sum of `x - m` no smaller just where the mean of the differences
that it turns is at most `m`. So each limit is one of these means, by rank: nothing is searched.

Valid for symmetric differences. Where the sides' shapes or spreads differ, they are skewed, and
more verdicts are wrong: see `UNLIKE_RATE`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from capsule.stats import fixed
from capsule.stats.runs import Runs

_Floats = NDArray[np.float64]

# wrong verdicts where the sides of pairs differ in shape or spread and 5 % is promised (measured)
UNLIKE_RATE = 0.13
# means this near to a shift, relative to the largest difference, equal it but for rounding
_TIE = 1e-12
_FEWEST_OF_A_SET = 20
# with fewer a block costs more degrees of freedom than the effect of going first costs power
FEWEST_BLOCKS = 10


def can_judge(n: int, alpha: float) -> bool:
    """Return whether so many differences have flips enough for a limit at level `alpha`.

    One of all of them, 20 of a set: where a set has fewer, its limits are those of a few draws.

    >>> [can_judge(n, 0.05) for n in (4, 5, 400)], can_judge(6, 0.01)
    ([False, True, True], False)
    """
    return n >= 2 and allowed(n, alpha) >= (1 if n <= fixed.MOST_FLIPPED else _FEWEST_OF_A_SET)


def interval(differences: Runs, alpha: float) -> tuple[float, float] | None:
    """Return limits of the mean difference, each with error probability of at most `alpha`.

    Args:
        differences: One of each pair.
        alpha: One-sided level.

    Returns:
        (lower, upper) in the metric's unit; None for too few differences.

    >>> interval(Runs.of({1: 1, 2: 2, 3: 3, 4: 5, 5: 9}), 0.05)
    (1.0, 9.0)
    """
    if not can_judge(differences.n, alpha):
        return None
    # a set of flips is as it is seen from one end: from that of the mean, and from both for none
    found = [_limits(differences, alpha, sign) for sign in (1, -1) if sign * differences.mean >= 0]
    lowers, uppers = zip(*found, strict=True)
    return min(lowers), max(uppers)


def p_value(differences: Runs, shift: float) -> tuple[float, float]:
    """Return one-sided p values of a mean difference: of its being so large or larger, so low or
    lower.

    Args:
        differences: One of each pair, at least two.
        shift: In the metric's unit.

    >>> p_value(Runs.of({1: 1, 2: 2, 3: 3, 4: 5, 5: 9}), 0.0)
    (1.0, 0.03125)
    """
    sign = -1 if differences.mean < 0 else 1
    means, size, unturned = _means(differences, sign)
    at = sign * shift / size if size else 0.0
    tie = _TIE * max(1.0, abs(at))
    number = len(means) + unturned + 1
    low = (1 + unturned + int(np.count_nonzero(means <= at + tie))) / number
    high = (1 + unturned + int(np.count_nonzero(means >= at - tie))) / number
    return (high, low) if sign > 0 else (low, high)


def _limits(differences: Runs, alpha: float, sign: int) -> tuple[float, float]:
    """Return the limits by flips as seen from one end of the differences."""
    means, size, unturned = _means(differences, sign)
    rank = allowed(differences.n, alpha) - 1 - unturned
    means.partition([rank, len(means) - 1 - rank])
    lower, upper = float(means[rank]) * size, float(means[-1 - rank]) * size
    return (lower, upper) if sign > 0 else (-upper, -lower)


def blocks(differences: Runs, order: Sequence[int]) -> Runs | None:
    """Return means of two rounds, one of each order, in which the effect of going first cancels.

    The mean of all rounds is free of it, too, where as many began with either side. It then only
    spreads the rounds, so that fewer than ten blocks are better judged round by round.

    Args:
        differences: One of each round that both sides finished.
        order: Seeds of all rounds, as they took turns: A first, then B first, and so on.

    Returns:
        None for fewer than ten blocks. A last round without its like is left out.

    >>> rounds = Runs.of({seed: (-1) ** seed for seed in range(21)})
    >>> known = blocks(rounds, range(21))
    >>> known.n, known.values[0], known.values[-1]
    (10, 0.0, 0.0)
    >>> blocks(rounds, range(1, 20)) is None
    True
    """
    values = dict(differences.by_seed)
    begun_by_a, begun_by_b = (
        [seed for seed in order[start::2] if seed in values] for start in (0, 1)
    )
    if min(len(begun_by_a), len(begun_by_b)) < FEWEST_BLOCKS:
        return None
    pairs = zip(begun_by_a, begun_by_b, strict=False)
    return Runs.of(
        {one: values[one] / 2 + values[other] / 2 for one, other in pairs},
        resolution=differences.resolution / math.sqrt(2),
    )


def least_p(n: int) -> float:
    """Return the smallest p value that flips of so many differences can have."""
    return 1 / _number(n)


def _number(n: int) -> int:
    """Return how many flips there are, with the signs seen."""
    return 1 << n if n <= fixed.MOST_FLIPPED else fixed.FLIPS + 1


def allowed(n: int, alpha: float) -> int:
    """Return how many flips may be as extreme as the signs seen, these included."""
    return math.floor(Fraction(alpha) * _number(n))


def _means(differences: Runs, sign: int) -> tuple[_Floats, float, int]:
    """Return the mean of the differences that each flip turns.

    Args:
        differences: One of each pair.
        sign: -1 to turn them all beforehand.

    Returns:
        The means in units of the largest difference, that unit, and the number of flips that turn
        nothing.
    """
    size = max(-differences.values[0], differences.values[-1], 0.0)
    values = [sign * value / size if size else 0.0 for value in differences.values][::sign]
    turned = fixed.flips(differences.n)
    total = np.zeros(turned.shape[1])
    for value, among in zip(values, turned, strict=True):  # one by one: as on every machine
        total = total + value * among
    count = turned.sum(axis=0)
    some = count > 0
    return total[some] / count[some], size, int(len(count) - some.sum())
