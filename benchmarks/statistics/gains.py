"""What today's rule of judgement gained and what it cost, beside the rule before it.

Both judge the same simulated runs. Rule 1 guarded Welch's interval by ranks for every number of
runs, took an interval that ends on the margin for inside, corrected Welch's p alone where a capsule
has several claims, and gave one set of values the whole level.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import populations
import product
from cells import Figures
from scipy import special

from capsule.manifest import Margin
from capsule.stats import Interval, Region, Runs, decide, location, p_beyond, paired_shift, shift
from capsule.stats.interval import undo_one_set, welch

RULES = ("rule 1", "rule 2")
SAME = tuple(range(3, 13))
BETTER = (4, 5, 6, 7, 8)
_CLAIMS = 20


@dataclass(frozen=True)
class Shift:
    """A claim of equivalence within the default margin, frozen anew from each original's runs."""

    n_a: int
    n_b: int
    shape: str

    def __str__(self) -> str:
        return f"{self.n_a}+{self.n_b} {self.shape}"

    def measure(self, repetitions: int) -> Figures:
        random = populations.random(self)
        a = populations.runs(random, self.shape, (repetitions, self.n_a))
        b = populations.runs(random, self.shape, (repetitions, self.n_b))
        counts: Counter[str] = Counter()
        for x, y in zip(a, b, strict=True):
            claim = product.freeze_one(product.metric(x), None)
            assert claim.lower is not None
            assert claim.upper is not None
            original, region = product.runs(x), product.region(claim)
            for name, moved in (("power", 0.0), ("-", claim.lower), ("+", claim.upper)):
                rerun = product.runs(y + moved, first_seed=product.FIRST_FRESH)
                for rule, relabel in zip(RULES, (False, True), strict=True):
                    interval = shift(original, rerun, alpha=product.ALPHA, relabel=relabel)
                    if interval is not None:
                        counts[f"{name} {rule}"] += decide(interval, region).word == "REPRODUCED"
        return _figures(counts, repetitions)


@dataclass(frozen=True)
class Steps:
    """A claim of equivalence on a count, within three whole steps."""

    n_a: int
    n_b: int
    shape: str
    margin: int = 3

    def __str__(self) -> str:
        return f"{self.n_a}+{self.n_b} {self.shape}, {self.margin} steps"

    def measure(self, repetitions: int) -> Figures:
        random = populations.random(self)
        a = populations.counts(random, self.shape, (repetitions, self.n_a))
        b = populations.counts(random, self.shape, (repetitions, self.n_b))
        claim = product.freeze_one(product.metric(a[0]), Margin(absolute=self.margin))
        region = product.region(claim)
        counts: Counter[str] = Counter()
        for x, y in zip(a, b, strict=True):
            original = product.runs(x)
            for name, moved in (("power", 0), ("-", -self.margin), ("+", self.margin)):
                rerun = product.runs(y + moved, first_seed=product.FIRST_FRESH)
                before = shift(original, rerun, alpha=product.ALPHA, relabel=False)
                today = product.decide_shift(original, rerun, region, product.ALPHA)
                counts[f"{name} {RULES[0]}"] += before is not None and _inside(before, self.margin)
                counts[f"{name} {RULES[1]}"] += today is not None and today[1].word == "REPRODUCED"
        return _figures(counts, repetitions)


def _inside(interval: Interval, margin: float) -> bool:
    return -margin <= interval.lower and interval.upper <= margin


@dataclass(frozen=True)
class OneSet:
    """The mean of one set of values against a bound; power is that for a mean 2 sd inside it."""

    claim: str
    n: int
    shape: str

    def __str__(self) -> str:
        return f"{self.claim}, {self.n} {self.shape}"

    def measure(self, repetitions: int) -> Figures:
        random = populations.random(self)
        judge = {"threshold": location, "paired": paired_shift}[self.claim]
        counts: Counter[str] = Counter()
        # of which rule 2 takes the whole level
        levels = undo_one_set(self.n, product.ALPHA), product.ALPHA
        mean = populations.MEAN
        regions = {
            "power": Region(lower=mean - 2, upper=mean + 2),
            "-": Region(lower=mean),
            "+": Region(upper=mean),
        }
        for values in populations.runs(random, self.shape, (repetitions, self.n)):
            for rule, level in zip(RULES, levels, strict=True):
                interval = judge(product.runs(values), alpha=level)
                assert interval is not None
                for name, region in regions.items():
                    counts[f"{name} {rule}"] += decide(interval, region).word == "REPRODUCED"
        return _figures(counts, repetitions)


@dataclass(frozen=True)
class Corrected:
    """Any DIFFERENT of 20 claims by Holm's first step, margin 2 sd.

    The error is that with all truths on the margin, the power that of one claim 6 sd off.
    """

    n_a: int
    n_b: int
    shape: str

    def __str__(self) -> str:
        return f"{_CLAIMS} claims, {self.n_a}+{self.n_b} {self.shape}"

    def measure(self, repetitions: int) -> Figures:
        random = populations.random(self)
        region, level = Region(lower=-2.0, upper=2.0), product.ALPHA / _CLAIMS
        counts: Counter[str] = Counter()
        for _ in range(repetitions):
            a = populations.runs(random, self.shape, (_CLAIMS, self.n_a))
            b = populations.runs(random, self.shape, (_CLAIMS, self.n_b))
            sides = [(product.runs(x), product.runs(y + 2.0)) for x, y in zip(a, b, strict=True)]
            far = [(product.runs(a[0]), product.runs(b[0] + 6.0))]
            for name, claims in (("-", sides), ("power", far)):
                before = [pair for pair in claims if _welch_beyond(*pair, 2.0) <= level]
                counts[f"{name} {RULES[0]}"] += bool(before)
                # never a smaller p than Welch's, so that only those need a look
                counts[f"{name} {RULES[1]}"] += any(
                    (p_beyond(*pair, region) or 0.0) <= level for pair in before
                )
        return _figures(counts, repetitions)


def _welch_beyond(a: Runs, b: Runs, margin: float) -> float:
    """One-sided p of a shift beyond the margin, by Welch's test."""
    error, df = welch(a, b)
    return float(special.stdtr(df, (margin - abs(b.mean - a.mean)) / error))


def _figures(counts: Counter[str], repetitions: int) -> Figures:
    """For each rule its error, the worse of both margins, and its power; and what was gained."""
    figures = {}
    for rule in RULES:
        worse = max(counts[f"- {rule}"], counts[f"+ {rule}"])
        figures[f"error {rule}"] = 100 * worse / repetitions
        figures[f"power {rule}"] = 100 * counts[f"power {rule}"] / repetitions
    figures["gained"] = figures[f"power {RULES[1]}"] - figures[f"power {RULES[0]}"]
    return figures


Cell = Shift | Steps | OneSet | Corrected


def one_look() -> list[Shift]:
    """One continuous claim and one look, as many runs on both sides."""
    return [Shift(n, n, "normal") for n in SAME]


def cells() -> list[Cell]:
    """Every line of the table."""
    skewed: Iterable[Cell] = (
        Shift(*n, "lognormal") for n in ((4, 4), (6, 6), (8, 8), (30, 5), (5, 30))
    )
    counted: Iterable[Cell] = (
        Steps(*n, shape)
        for n in ((4, 4), (6, 6), (5, 20), (30, 5))
        for shape in ("rounded normal", "skewed steps")
    )
    alone: Iterable[Cell] = (
        OneSet(claim, n, shape)
        for claim in ("threshold", "paired")
        for n in (5, 10)
        for shape in ("normal", "lognormal")
    )
    corrected: Iterable[Cell] = (
        Corrected(*n, shape)
        for n in ((3, 3), (3, 12), (5, 5), (5, 30), (10, 10))
        for shape in ("normal", "lognormal")
    )
    return [*one_look(), *skewed, *counted, *alone, *corrected]


def table(figures: Mapping[object, Figures], lines: Iterable[Cell]) -> list[tuple[str, ...]]:
    """Lines of design, and the error and the power in percent under each rule."""
    columns = [f"{figure} {rule}" for figure in ("error", "power") for rule in RULES]
    return [(str(cell), *(f"{figures[cell][column]:.1f}" for column in columns)) for cell in lines]


HEAD = ("design", *(f"{figure}, {rule}" for figure in ("error", "power") for rule in RULES))
