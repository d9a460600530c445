"""The rows of the acceptance table: which rates are held against which limits."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import designs
import populations
from cells import (
    CLAIMS,
    Advice,
    Capsules,
    Counted,
    Curves,
    Equivalence,
    Family,
    Figures,
    Looks,
    OneSided,
)
from exactness import Check
from guards import (
    Distribution,
    FailureMargin,
    Failures,
    FromPaper,
    OneSet,
    Pairs,
    Prediction,
    RatioFromPaper,
)
from scipy import special

from capsule.stats.signs import UNLIKE_RATE

BOUND = 5.5  # the rate that is promised, in percent, and half a point
UNLIKE_BOUND = 100 * UNLIKE_RATE + 0.5
SHAPES = tuple(populations.SHAPES)
SIZES = ((3, 3), (5, 5), (10, 10), (11, 11), (30, 30), (30, 5), (5, 30))
_UNEQUAL = (*SIZES, (10, 3), (3, 10))
# n of the paper, n of the re-run
_PUBLISHED = ((3, 3), (5, 5), (10, 4), (20, 5), (30, 3), (5, 20), (3, 30), (20, 10), (30, 30))


@dataclass(frozen=True)
class Row:
    """One line of the acceptance table: the worst of some figures against a limit.

    Attributes:
        cells: What is measured; the worst one is named beside the figure.
        words: Which of a cell's figures count.
        limit: None for a figure that is only shown.
        at_least: Whether the figure must reach the limit instead of keeping below.
        pick: Which of the figures is the row's: for a limit from below the lowest by default.
        unit: What follows the figure.
        of_all: Whether the figure is made of all cells, so that no single cell repeats it.
    """

    name: str
    cells: Sequence[Any]
    words: tuple[str, ...]
    limit: float | None
    at_least: bool = False
    pick: Callable[..., tuple[float, int]] | None = None
    unit: str = " %"
    of_all: bool = False

    def worst(self, figures: Mapping[Any, Figures]) -> tuple[float, Any]:
        """The figure farthest towards the limit, and its cell."""
        values = [
            (figures[cell][word], index)
            for index, cell in enumerate(self.cells)
            for word in self.words
        ]
        figure, index = (self.pick or (min if self.at_least else max))(values)
        return figure, self.cells[index]

    def of(self, cell: Any, figures: Mapping[Any, Figures]) -> float:
        """The figure of one cell farthest towards the limit."""
        return replace(self, cells=[cell]).worst(figures)[0]

    def passes(self, figure: float, allowance: float = 0.0) -> bool:
        """Whether a figure keeps the limit, give or take an allowance."""
        if self.limit is None:
            return True
        if self.at_least:
            return figure >= self.limit - allowance
        return figure <= self.limit + allowance

    def keeps(self, figure: float, repetitions: int) -> bool:
        """Whether the figure's interval does not lie wholly beyond the limit.

        A figure is the worst of many cells, and beyond its true rate by chance.
        """
        if self.unit != " %":
            return self.passes(figure)
        low, high = interval(figure, repetitions)
        return self.passes(high if self.at_least else low)

    @property
    def bound(self) -> str:
        """The limit as people write it."""
        if self.limit is None:
            return ""
        return f"{'≥' if self.at_least else '≤'} {self.limit:g}{self.unit}"


def rows() -> list[Row]:
    """The acceptance table."""
    return [
        *_equivalence(),
        *_power(),
        *_counted(),
        *_other_designs(),
        *_one_set(),
        *_distributions(),
        *_predictions(),
        *_failures(),
        *_many(),
        *_curves(),
        *_exact(),
    ]


def design_rows() -> list[Row]:
    """The rows on whole designs, which take hours: where a rate is printed, it is true.

    Where the runs of two sides look different, the limits are those of the sentence below a verdict
    (`capsule/verdict/words/rates.py`), and half a point.
    """
    both = ("REPRODUCED", "DIFFERENT")
    covering = designs.covering()
    alike = [one for one in covering if one.sides in designs.ALIKE]
    real = [one for one in covering if one.sides not in designs.ALIKE]
    uncovered = [designs.Uncovered(reason) for reason in designs.UNCOVERED]
    name = "designs with a rate, truth on the margin"
    return [
        Row(f"{name}, two sides alike: either wrong verdict", alike, both, BOUND),
        Row(f"{name}, two real populations: either wrong verdict", real, both, 25.5),
        Row(f"{name}, two real populations, on average: the worse wrong verdict", real, both, 10.5,
            pick=_mean, of_all=True),
        Row("designs without a row: verdicts with a rate", uncovered, ("printed",), 0),
    ]  # fmt: skip


def _mean(values: Sequence[tuple[float, int]]) -> tuple[float, int]:
    """The mean over cells of the larger of their figures, and the cell with the largest."""
    worst: dict[int, float] = {}
    for figure, index in values:
        worst[index] = max(figure, worst.get(index, 0.0))
    return sum(worst.values()) / len(worst), max(worst, key=lambda index: worst[index])


def worst_cells(table: Iterable[Row], figures: Mapping[Any, Figures]) -> list[Any]:
    """The cells to be measured again from another seed.

    Chosen by the first, each says without favour what the worst of many says by chance.
    """
    cells = (row.worst(figures)[1] for row in table if not row.of_all)
    return [cell for cell in dict.fromkeys(cells) if not isinstance(cell, Check)]


def _equivalence() -> Iterable[Row]:
    cells = [Equivalence(*n, s, truth) for n in SIZES for s in SHAPES for truth in (-2.0, 2.0)]
    equal = [Equivalence(*n, s, 0.0) for n in SIZES for s in SHAPES]
    alone = [Equivalence(10, 1, s, truth) for s in SHAPES for truth in (-2.0, 2.0)]
    alone_equal = [Equivalence(10, 1, s, 0.0) for s in SHAPES]
    name = "margin 2 sd, 3+3 to 30+30 runs, truth on the margin"
    yield Row(f"{name}: REPRODUCED", cells, ("REPRODUCED",), BOUND)
    yield Row(f"{name}: DIFFERENT", cells, ("DIFFERENT",), BOUND)
    yield Row("the same without a shift: DIFFERENT", equal, ("DIFFERENT",), 1)
    yield Row("10+1 runs, truth on the margin: REPRODUCED", alone, ("REPRODUCED",), BOUND)
    yield Row("10+1 runs, truth on the margin: DIFFERENT", alone, ("DIFFERENT",), BOUND)
    yield Row("10+1 runs without a shift: DIFFERENT", alone_equal, ("DIFFERENT",), 1)
    frozen = [
        Equivalence(*n, s, truth, None) for n in SIZES for s in SHAPES for truth in (-1.0, 1.0)
    ]
    name = "default margin frozen from the runs, truth on it"
    yield Row(f"{name}: REPRODUCED", frozen, ("REPRODUCED",), BOUND)
    yield Row(f"{name}: DIFFERENT", frozen, ("DIFFERENT",), BOUND)


def _power() -> Iterable[Row]:
    for n, limit in ((5, 65), (6, 80), (10, 97)):
        cells = [Equivalence(n, n, "normal", 0.0)]
        name = f"power, normal, no shift, margin 2 sd, {n}+{n}: REPRODUCED"
        yield Row(name, cells, ("REPRODUCED",), limit, at_least=True)
    for n, limit in ((5, 80), (10, 98)):
        cells = [Equivalence(n, n, "normal", truth) for truth in (-4.0, 4.0)]
        name = f"power, normal, truth at 2 margins, {n}+{n}: DIFFERENT"
        yield Row(name, cells, ("DIFFERENT",), limit, at_least=True)
    cells = [Equivalence(11, 11, "normal", 0.0, 1.0)]
    name = "power, normal, no shift, margin 1 sd, 11+11: REPRODUCED"
    yield Row(name, cells, ("REPRODUCED",), 44, at_least=True)
    pairs = [Pairs(8, "normal", "normal", margin=1.65)]
    name = "power, normal, no shift, margin 1.65 sd, 8 pairs: REPRODUCED"
    yield Row(name, pairs, ("REPRODUCED",), 75, at_least=True)
    advised = [
        Advice(n_a, margin, power)
        for n_a, margin in ((5, 2.0), (5, 2.5), (10, 1.5), (20, 1.0))
        for power in (0.8, 0.9)
    ]
    name = "advice followed by sides that are equal: power reached above the power asked"
    yield Row(name, advised, ("reached",), -5, at_least=True, unit=" points")


def _counted() -> Iterable[Row]:
    both = ("REPRODUCED", "DIFFERENT")
    sizes = ((3, 3), (5, 5), (6, 6), (10, 3), (3, 10), (30, 5), (5, 30))
    whole, less, more = (
        [Counted(*n, s, 3, beside) for n in sizes for s in populations.COUNTS]
        for beside in (0.0, -0.5, 0.5)
    )
    whole.append(Counted(5, 20, "skewed steps", 2))
    name = "counts, truth on a whole step"
    yield Row(f"{name}, margin there: either wrong verdict", whole, both, BOUND)
    yield Row(f"{name}, margin half a step less: REPRODUCED", less, ("REPRODUCED",), BOUND)
    yield Row(f"{name}, margin half a step more: DIFFERENT", more, ("DIFFERENT",), BOUND)


def _other_designs() -> Iterable[Row]:
    both = ("REPRODUCED", "DIFFERENT")
    skewed = [shape for shape in SHAPES if shape not in populations.SYMMETRIC]
    name = "any margin, truth on it: either wrong verdict"
    even, odd = _uneven_cells(populations.SYMMETRIC), _uneven_cells(skewed)
    yield Row(f"spread 1:3, symmetric, {name}", even, both, 7.5)
    yield Row(f"normal against another shape, {name}", _mixed_cells(skewed), both, 7.5)
    yield Row(f"outside the promise: spread 1:3, skewed, {name}", odd, both, None)
    far = _mixed_cells([populations.FAR])
    yield Row(f"outside the promise: normal against far modes, {name}", far, both, None)
    looks = [Looks(n, s, truth) for n in (5, 10) for s in SHAPES for truth in (-2.0, 2.0)]
    yield Row("three looks, truth on the margin: either wrong verdict", looks, both, BOUND)
    plans = ((3, (6,)), (5, (5, 10)), (10, (10, 20)))
    default = [Looks(n, s, t, at) for n, at in plans for s in SHAPES for t in (-2.0, 2.0)]
    yield Row("default looks, truth on the margin: either wrong verdict", default, both, BOUND)
    further = [
        Looks(n, s, t, at, (3 * n, 4 * n, 6 * n))
        for n, at in plans[:2]
        for s in SHAPES
        for t in (-2.0, 2.0)
    ]
    name = "runs added after them while it is open, truth on the margin: either wrong verdict"
    yield Row(name, further, both, BOUND)
    equal = [Looks(10, "normal", 0.0)]
    yield Row("three looks, normal, no shift: REPRODUCED", equal, ("REPRODUCED",), None)
    yield Row("three looks, normal, no shift: runs used", equal, ("runs",), None, unit=" runs")


def _uneven_cells(shapes: Sequence[str]) -> list[OneSided]:
    return [
        OneSided(*n, shape, shape, *spreads, direction)
        for n in _UNEQUAL
        for shape in shapes
        for spreads in ((1.0, 3.0), (3.0, 1.0))
        for direction in ("lower", "higher")
    ]


def _mixed_cells(others: Sequence[str]) -> list[OneSided]:
    return [
        OneSided(*n, *shapes, direction=direction)
        for n in _UNEQUAL
        for other in others
        for shapes in (("normal", other), (other, "normal"))
        for direction in ("lower", "higher")
    ]


def _one_set() -> Iterable[Row]:
    words = ("REPRODUCED", "DIFFERENT")
    sizes = (3, 5, 8, 10, 20, 50, 100)
    cells = [OneSet(n, s) for n in sizes for s in SHAPES]
    yield Row("threshold, truth on the bound: either wrong verdict", cells, words, BOUND)
    alike = [Pairs(n, s, s) for n in (*sizes, 11, 30) for s in SHAPES]
    name = "any margin, truth on it: either wrong verdict"
    yield Row(f"paired, sides alike, {name}", alike, words, BOUND)
    unlike = [
        Pairs(n, *shapes, spread)
        for n in (5, 8, 11, 20)
        for shapes in itertools.product(SHAPES, repeat=2)
        for spread in (1.0, 3.0)
        if shapes[0] != shapes[1] or spread != 1
    ]
    yield Row(f"paired, sides of unlike shape or spread, {name}", unlike, words, UNLIKE_BOUND)


def _distributions() -> Iterable[Row]:
    words = ("REPRODUCED", "DIFFERENT")
    equal = [Distribution(*n, sd) for n in ((2, 2), (2, 5), (3, 3), (5, 5)) for sd in (0.5, 2.0)]
    yield Row("distribution of equal populations: DIFFERENT", equal, ("DIFFERENT",), BOUND)
    sizes = ((2, 2), (2, 5), (3, 3), (5, 5), (10, 10), (20, 5), (30, 3), (10, 30))
    edge = [
        *(Distribution(*n, sd, 1.0) for n in sizes for sd in (0.0, 2.0)),
        *(Distribution(3, 3, 1.0, 1.0, shape) for shape in SHAPES[1:]),
        *(Distribution(3, 3, 0.2, 1.0, samples=samples) for samples in (2, 10)),
        Distribution(10, 5, 0.2, 1.0, samples=1000),
        Distribution(5, 5, 0.5, 1.0, samples=200, memory=0.9),
        Distribution(5, 5, 0.2, 1.0, distance=0.3),
    ]
    name = "distribution, at its margin: either wrong verdict"
    yield Row(name, edge, words, BOUND)
    alike = [Distribution(5, 5, 0.0, samples=200)]
    name = "power, distribution, 5+5 runs of 200 samples, distance 0.1: REPRODUCED"
    yield Row(name, alike, ("REPRODUCED",), 80, at_least=True)


def _predictions() -> Iterable[Row]:
    words = ("REPRODUCED", "DIFFERENT")
    name = "truth on the margin: either wrong verdict"
    several = [Prediction(*n, s, t) for n in ((5, 3), (10, 5)) for s in SHAPES for t in (-2.0, 2.0)]
    yield Row(f"prediction of several runs, {name}", several, words, BOUND)
    uneven = [
        Prediction(*n, s, t, 3.0)
        for n in ((5, 3), (10, 5))
        for s in populations.SYMMETRIC
        for t in (-12.0, 12.0)
    ]
    yield Row(f"prediction of several runs, sd 1:3, symmetric, {name}", uneven, words, 7.5)
    paper = [FromPaper(*n, s, t) for n in _PUBLISHED for s in SHAPES for t in (-2.0, 2.0)]
    yield Row(f"prediction from published figures, {name}", paper, words, BOUND)
    factor = [
        RatioFromPaper(*n, s, cv, t, 1 + 2 * cv)
        for n in _PUBLISHED
        for s, cv in (("lognormal", 0.1), ("lognormal", 0.66), ("normal", 0.2), ("bimodal", 0.2))
        for t in (-1.0, 1.0)
    ]
    factor += [RatioFromPaper(100, 100, "lognormal", 0.66, t, 1.1) for t in (-1.0, 1.0)]
    yield Row(f"prediction from published figures, a ratio, {name}", factor, words, BOUND)
    alone = [Prediction(n, 1, s, t) for n in (5, 10, 30) for s in SHAPES for t in (-6.0, 6.0)]
    yield Row(f"prediction of a single run, {name}", alone, words, BOUND)
    apart = [Prediction(n, 1, "normal", t, 3.0) for n in (5, 10, 30) for t in (-12.0, 12.0)]
    yield Row(f"outside the promise: single run, sd 1:3, {name}", apart, words, None)


def _failures() -> Iterable[Row]:
    sizes = ((5, 5), (5, 6), (10, 10), (30, 30))
    equal = [Failures(*n, 0.1, 0.1) for n in sizes]
    yield Row("10 % of runs fail on both sides, no shift: REPRODUCED", equal, ("REPRODUCED",), 80,
              at_least=True)  # fmt: skip
    for n in sizes:
        cells = [Failures(*n, 0.0, 0.2)]
        name = f"0 and 20 % of runs fail, no shift, {n[0]}+{n[1]}: REPRODUCED"
        yield Row(name, cells, ("REPRODUCED",), None)
    margin = [Failures(n, n, rate, rate, 2.0, 2.0) for n in (5, 20) for rate in (0.1, 0.3)]
    name = "runs fail on both sides, truth on the margin: either wrong verdict"
    yield Row(name, margin, ("REPRODUCED", "DIFFERENT"), BOUND)
    apart = [
        FailureMargin(*n, *rates, 0.2)
        for n in ((5, 5), (10, 10), (10, 30), (30, 10), (30, 30))
        for rates in ((0.0, 0.2), (0.2, 0.0), (0.1, 0.3), (0.4, 0.6))
    ]
    name = "failure_margin, rates apart by it: either wrong verdict"
    yield Row(name, apart, ("REPRODUCED", "DIFFERENT"), BOUND)
    equal = [FailureMargin(30, 30, rate, rate, 0.3) for rate in (0.0, 0.1)]
    yield Row("failure_margin 0.3, equal rates, 30+30: REPRODUCED", equal, ("REPRODUCED",), None,
              pick=min)  # fmt: skip


def _many() -> Iterable[Row]:
    one, every = ([Capsules(moved, 3.0, c) for c in (0.0, 0.8)] for moved in (1, CLAIMS))
    name = f"capsule of {CLAIMS} claims"
    yield Row(f"{name}, one on the margin: REPRODUCED", one, ("REPRODUCED",), BOUND)
    yield Row(f"{name}, all on the margin: DIFFERENT after Holm", every, ("DIFFERENT",), BOUND)
    yield Row(f"{name}, all on the margin: any DIFFERENT before Holm", every, ("raw",), None)
    far = [Capsules(1, 6.0, 0.0)]
    yield Row(f"{name}, one at 2 margins: DIFFERENT after Holm", far, ("DIFFERENT",), None)
    for claims in (20, 1000):
        family = [
            Family(claims, *n, s)
            for n in ((3, 3), (5, 5), (3, 12), (12, 3), (5, 20), (5, 30), (30, 5))
            for s in ("normal", "lognormal", "bimodal")
        ]
        name = f"{claims} claims, all on the margin: any DIFFERENT after Holm"
        yield Row(f"{name}, unequal numbers of runs", family, ("DIFFERENT",), BOUND)


def _curves() -> Iterable[Row]:
    runs = (5, 10, 30)
    bump, offset = ([Curves(n, kind, 1.0) for n in runs] for kind in ("bump", "offset"))
    yield Row("curves, a bump on the margin: REPRODUCED", bump, ("REPRODUCED",), BOUND)
    yield Row("curves, all or some points on the margin: DIFFERENT", [*bump, *offset],
              ("DIFFERENT",), BOUND)  # fmt: skip


def _exact() -> Iterable[Row]:
    checks: Sequence[tuple[str, str, int, float | None, str]] = (
        ("intervals and p values, deviation from scipy", "against_scipy", 200, 1e-12, ""),
        ("Hodges-Lehmann limits not bracketed by exact tests", "rank_brackets", 200, 0, ""),
        ("decisions that depend on sides, scale or order", "symmetries", 2000, 0, ""),
        ("reports that depend on the order of run values", "report_bytes", 200, 0, ""),
        ("verdicts that verdict.judge decides otherwise", "judgements", 200, 0, ""),
        ("time of one decision on 10+10 runs", "milliseconds", 2000, None, " ms"),
    )
    for name, check, cases, limit, unit in checks:
        yield Row(name, [Check(check, cases)], ("figure",), limit, unit=unit)


def interval(figure: float, repetitions: int) -> tuple[float, float]:
    """The exact interval (Clopper and Pearson, 95 %) of a share in percent."""
    hits = round(figure * repetitions / 100)
    misses = repetitions - hits
    low = float(special.betaincinv(hits, misses + 1, 0.025)) if hits else 0.0
    high = float(special.betaincinv(hits + 1, misses, 0.975)) if misses else 1.0
    return 100 * low, 100 * high
