"""Whole curves, such as a loss over epochs: a margin that every point keeps, or one that leaves it.

At 3 to 5 runs single numbers (last value, area, epochs to target) decide, curves hardly do.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from capsule.stats.decision import Region, Word, decide
from capsule.stats.interval import Interval, level_in_use, shift
from capsule.stats.runs import Runs

# the error rates were simulated with 100 points; finer curves are read at 100 of their steps
MOST_POINTS = 100
_CHECKPOINTS = 10
_ENOUGH_RUNS = 5


@dataclass(frozen=True, kw_only=True)
class Curve:
    """Values of one run at its steps, after warm-up.

    Attributes:
        steps: Positions (epochs, samples seen), strictly increasing and finite.
        values: The metric there, finite.
    """

    steps: tuple[float, ...]
    values: tuple[float, ...]

    def __post_init__(self) -> None:
        if len(self.steps) != len(self.values):
            raise ValueError(
                f"a curve has {len(self.values)} values for {len(self.steps)} steps, expected one"
                " value for each step"
            )
        numbers = (*self.steps, *self.values)
        if not all(map(math.isfinite, numbers)):
            found = next(number for number in numbers if not math.isfinite(number))
            raise ValueError(f"a curve has the number {found}, expected finite steps and values")
        for before, after in zip(self.steps, self.steps[1:], strict=False):
            if after <= before:
                raise ValueError(f"step {after} follows step {before}, expected increasing steps")


@dataclass(frozen=True, kw_only=True)
class CurveDecision:
    """The judgement of two bundles of curves.

    Attributes:
        word: REPRODUCED when every point keeps the margin, DIFFERENT when a point is beyond it
            after Bonferroni's correction.
        points: How many points of the common grid were judged.
        checkpoints: How many of them could make it DIFFERENT: all from 5 runs a side on, else 10.
        first_step: Where the common grid begins: at the latest start of any run.
        last_step: Where it ends: at the earliest end of any run.
        worst_step: The point nearest to or farthest beyond the margin; None without any point.
        interval: Interval of the shift there, at level `alpha`; None when the spread is unknown.
        p_reproduced: Largest of all points, against `alpha`.
        p_different: Smallest of the checkpoints times their number, against `alpha`.
        alpha: One-sided error rate of either verdict.
    """

    word: Word
    points: int
    checkpoints: int
    first_step: float | None
    last_step: float | None
    worst_step: float | None
    interval: Interval | None
    p_reproduced: float
    p_different: float
    alpha: float


def curve_shift(
    a: Mapping[int, Curve],
    b: Mapping[int, Curve],
    *,
    margin: float,
    alpha: float,
    resolution: float = 0.0,
) -> CurveDecision:
    """Judge whether B's curves keep within `margin` of A's at every common step.

    Args:
        a: The original's curves by seed.
        b: The re-run's curves by seed.
        margin: Largest shift that still counts as the same, in the metric's unit.
        alpha: One-sided error rate of either verdict.
        resolution: Smallest step that a value can make, in the metric's unit.

    Returns:
        INCONCLUSIVE without points when a side is empty or the runs have no step in common.
    """
    grid = common_grid([*a.values(), *b.values()]) if a and b else ()
    there, here = runs_at(a, grid, resolution), runs_at(b, grid, resolution)
    if not grid or max(len(a), len(b)) < 2:
        return _no_decision(grid, alpha)
    region = Region(lower=-margin, upper=margin)
    points = [_Point(x, y, region, alpha) for x, y in zip(there, here, strict=True)]
    chosen = _checkpoints(len(grid), min(len(a), len(b)))
    level = alpha / len(chosen)
    p_different = {i: points[i].p_different_at(level) for i in chosen}
    farthest = min(chosen, key=lambda i: (p_different[i], -points[i].reach, i))
    worst = max(range(len(grid)), key=lambda i: (points[i].reach, -i))
    word: Word = "INCONCLUSIVE"
    if all(point.decision.word == "REPRODUCED" for point in points):
        word = "REPRODUCED"
    elif any(p_different[i] <= level and points[i].differs_at(level) for i in chosen):
        word, worst = "DIFFERENT", farthest
    return CurveDecision(
        word=word,
        points=len(grid),
        checkpoints=len(chosen),
        first_step=grid[0],
        last_step=grid[-1],
        worst_step=grid[worst],
        interval=points[worst].interval,
        p_reproduced=max(point.p_reproduced for point in points),
        p_different=min(1.0, len(chosen) * p_different[farthest]),
        alpha=alpha,
    )


def common_grid(curves: Sequence[Curve]) -> tuple[float, ...]:
    """Return the steps of any curve that lie within all of them, at most 100, evenly spread by
    rank.

    Curves that stop at their target are not comparable later, so the shortest run ends it.

    >>> common_grid([Curve(steps=(0, 1, 2), values=(3, 2, 1)), Curve(steps=(1, 3), values=(2, 0))])
    (1, 2)
    """
    if not curves or not all(curve.steps for curve in curves):
        return ()
    first = max(curve.steps[0] for curve in curves)
    last = min(curve.steps[-1] for curve in curves)
    steps = sorted({step for curve in curves for step in curve.steps if first <= step <= last})
    return tuple(steps[index] for index in _spread_out(len(steps), MOST_POINTS))


def _spread_out(count: int, wanted: int) -> list[int]:
    """At most `wanted` of `count` indices, evenly, with the first and the last."""
    if count <= wanted:
        return list(range(count))
    return [index * (count - 1) // (wanted - 1) for index in range(wanted)]


def _checkpoints(points: int, runs: int) -> list[int]:
    return _spread_out(points, points if runs >= _ENOUGH_RUNS else _CHECKPOINTS)


def runs_at(
    curves: Mapping[int, Curve], grid: Sequence[float], resolution: float = 0.0
) -> list[Runs]:
    """Return the runs of all curves at each step of the grid, by linear interpolation.

    >>> line = Curve(steps=(0, 2), values=(1, 2))
    >>> runs_at({7: line}, [1])[0].values
    (1.5,)
    """
    if not grid:
        return []
    values = {seed: _interpolate(curve, np.asarray(grid)) for seed, curve in curves.items()}
    return [
        Runs.of({seed: line[index] for seed, line in values.items()}, resolution=resolution)
        for index in range(len(grid))
    ]


def _interpolate(curve: Curve, grid: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the curve at steps within it; unlike `numpy.interp` no slope can leave the range."""
    # halved, because the width between two finite steps may be more than the largest double
    steps, values = np.asarray(curve.steps) / 2, np.asarray(curve.values)
    before = np.searchsorted(steps, grid / 2, side="right") - 1
    after = np.minimum(before + 1, len(steps) - 1)
    width = steps[after] - steps[before]
    part = np.divide(grid / 2 - steps[before], width, out=np.zeros_like(width), where=width > 0)
    return np.asarray(values[before] * (1 - part) + values[after] * part)


class _Point:
    """One step's judgement, and what would become of it at a stricter level."""

    def __init__(self, a: Runs, b: Runs, region: Region, alpha: float) -> None:
        self._a, self._b, self._region = a, b, region
        self.interval = _interval(a, b, alpha)
        self.decision = decide(self.interval, region)
        self.reach = max(-self.interval.lower, self.interval.upper)
        # runs too few for ranks have half the level: p counts twice
        times = alpha / self.interval.alpha
        self.p_reproduced = min(1.0, times * self.decision.p_reproduced)

    def p_different_at(self, level: float) -> float:
        """Return the p value of DIFFERENT, to be held against `level`."""
        times = level / level_in_use(self._a.n, self._b.n, level)
        return min(1.0, times * self.decision.p_different)

    def differs_at(self, level: float) -> bool:
        """Return whether the interval at `level` lies beyond the margin, ranks included."""
        return decide(_interval(self._a, self._b, level), self._region).word == "DIFFERENT"


def _interval(a: Runs, b: Runs, alpha: float) -> Interval:
    # ranks, because relabelings of a hundred points would take seconds
    interval = shift(a, b, alpha=alpha, relabel=False)
    assert interval is not None, f"{a.n} and {b.n} runs, expected at least 2 on each side"
    return interval


def _no_decision(grid: Sequence[float], alpha: float) -> CurveDecision:
    return CurveDecision(
        word="INCONCLUSIVE",
        points=len(grid),
        checkpoints=0,
        first_step=grid[0] if grid else None,
        last_step=grid[-1] if grid else None,
        worst_step=None,
        interval=None,
        p_reproduced=1.0,
        p_different=1.0,
        alpha=alpha,
    )
