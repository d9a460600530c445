"""Cells of the acceptance table where one thing is missing: a second side, a spread, values.

As those of `cells`: each can be sent to another process, and `measure(repetitions)` depends on
nothing but the cell and the repetitions.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import populations
import product
from cells import Figures, at, percent

from capsule.manifest import Margin, Published
from capsule.stats import Interval, Region, decide, location, paired_shift

_WIDE = 100.0  # a margin that values alone always keep


@dataclass(frozen=True)
class OneSet:
    """The mean of one set of values with the truth on a bound, as of a `threshold`.

    Either edge of the region is tried on the same values; a cell's figures are those of the worse.
    """

    n: int
    shape: str

    def __str__(self) -> str:
        return f"threshold, {self.n} {self.shape}"

    def measure(self, repetitions: int) -> Figures:
        random = populations.random(self)
        values = populations.runs(random, self.shape, (repetitions, self.n))
        return _on_either_edge(location, values, repetitions)


def _on_either_edge(
    judge: Callable[..., Interval | None], sets: np.ndarray, repetitions: int
) -> Figures:
    """The figures of the worse edge, of sets of values whose mean is truly on both."""
    edges = Region(upper=populations.MEAN), Region(lower=populations.MEAN)
    counts = [Counter[str](), Counter[str]()]
    for values in sets:
        interval = judge(product.runs(values), alpha=product.ALPHA)
        assert interval is not None
        for edge, count in zip(edges, counts, strict=True):
            count[decide(interval, edge).word] += 1
    return percent(counts[0] | counts[1], repetitions)


@dataclass(frozen=True)
class Pairs:
    """A `paired` claim with the truth on its margin, of any width; the sides alike, or not.

    With a `margin` there is no shift, and it allows so many sd of a side.
    """

    n: int
    shape_a: str
    shape_b: str
    spread_b: float = 1.0
    margin: float | None = None

    def __str__(self) -> str:
        shapes = " and ".join(dict.fromkeys((self.shape_a, self.shape_b)))
        spreads = f", sd 1:{self.spread_b:g}" if self.spread_b != 1 else ""
        margin = "" if self.margin is None else f", margin {self.margin:g} sd"
        return f"{self.n} pairs, {shapes}{spreads}{margin}"

    def measure(self, repetitions: int) -> Figures:
        random = populations.random(self)
        a = populations.runs(random, self.shape_a, (repetitions, self.n))
        b = populations.runs(random, self.shape_b, (repetitions, self.n)) - populations.MEAN
        differences = populations.MEAN + self.spread_b * b - (a - populations.MEAN)
        if self.margin is None:
            return _on_either_edge(paired_shift, differences, repetitions)
        allowed = Region(lower=populations.MEAN - self.margin, upper=populations.MEAN + self.margin)
        counts: Counter[str] = Counter()
        for values in differences:
            interval = paired_shift(product.runs(values), alpha=product.ALPHA)
            assert interval is not None
            counts[decide(interval, allowed).word] += 1
        return percent(counts, repetitions)


@dataclass(frozen=True)
class Prediction:
    """A claim of `prediction` with the truth on a margin of `margin` sd."""

    n_a: int
    n_b: int
    shape: str
    truth: float
    spread_b: float = 1.0

    def __str__(self) -> str:
        spreads = f", sd 1:{self.spread_b:g}" if self.spread_b != 1 else ""
        return f"{self.n_a}+{self.n_b} {self.shape}{spreads}, {at(self.truth)}"

    def measure(self, repetitions: int) -> Figures:
        random = populations.random(self)
        mean = populations.MEAN
        a = populations.runs(random, self.shape, (repetitions, self.n_a))
        b = populations.runs(random, self.shape, (repetitions, self.n_b))
        b = mean + self.truth + self.spread_b * (b - mean)
        margin = Margin(absolute=abs(self.truth))
        claim = product.freeze_one(product.metric(a[0]), margin, type="prediction")
        # from runs on both sides `prediction` is the shift's own interval
        decisions = [product.decision(x, y, claim) for x, y in zip(a, b, strict=True)]
        return percent(Counter(one.word for one in decisions if one), repetitions)


@dataclass(frozen=True)
class FromPaper:
    """A `prediction` from a published mean and standard deviation, the truth on its margin."""

    n_a: int
    n_b: int
    shape: str
    truth: float

    def __str__(self) -> str:
        return f"published {self.n_a}, {self.n_b} runs, {self.shape}, {at(self.truth)}"

    def measure(self, repetitions: int) -> Figures:
        random = populations.random(self)
        margin = Margin(absolute=abs(self.truth))
        counts: Counter[str] = Counter()
        for _ in range(repetitions):
            a = populations.runs(random, self.shape, (self.n_a,))
            b = populations.runs(random, self.shape, (self.n_b,), at=self.truth)
            paper = Published(mean=float(a.mean()), sd=float(a.std(ddof=1)), n=self.n_a)
            original = product.metric(a.tolist())
            claim = product.freeze_one(original, margin, type="prediction", published=paper)
            rerun = product.metric(b.tolist(), first_seed=product.FIRST_FRESH)
            counts[product.judge_pair(claim, original, rerun)] += 1
        return percent(counts, repetitions)


@dataclass(frozen=True)
class Distribution:
    """Equal populations whose runs lie `spread` standard deviations of their samples apart."""

    n_a: int
    n_b: int
    spread: float
    samples: int = 50
    distance: float = 0.1

    def __str__(self) -> str:
        return f"{self.n_a}+{self.n_b} runs, {self.spread:g} sd apart"

    def measure(self, repetitions: int) -> Figures:
        random = populations.random(self)
        counts: Counter[str] = Counter()
        for _ in range(repetitions):
            a, b = self._runs(random, self.n_a), self._runs(random, self.n_b)
            margin = Margin(distance=self.distance)
            original = product.sampled(a)
            claim = product.freeze_one(original, margin, type="distribution")
            rerun = product.sampled(b, first_seed=product.FIRST_FRESH)
            counts[product.judge_pair(claim, original, rerun)] += 1
        return percent(counts, repetitions)

    def _runs(self, random: np.random.Generator, n: int) -> np.ndarray:
        centres = populations.MEAN + self.spread * random.standard_normal((n, 1))
        return centres + random.standard_normal((n, self.samples))


@dataclass(frozen=True)
class Failures:
    """Runs that fail at the rates given, with a true shift of `truth` against `margin` sd."""

    n_a: int
    n_b: int
    rate_a: float
    rate_b: float
    truth: float = 0.0
    margin: float = _WIDE

    def __str__(self) -> str:
        shift = f", {at(self.truth)}" if self.truth else ""
        rates = f"{100 * self.rate_a:g} and {100 * self.rate_b:g} % failing"
        return f"{self.n_a}+{self.n_b}, {rates}{shift}"

    def measure(self, repetitions: int) -> Figures:
        random = populations.random(self)
        claim = product.freeze_one(product.metric([0.0]), Margin(absolute=self.margin))
        counts: Counter[str] = Counter()
        for _ in range(repetitions):
            a = self._side(random, self.n_a, self.rate_a, 0.0)
            b = self._side(random, self.n_b, self.rate_b, self.truth)
            counts[product.judge_one(claim, a, b)] += 1
        return percent(counts, repetitions)

    @staticmethod
    def _side(random: np.random.Generator, n: int, rate: float, truth: float) -> list[float | None]:
        values = populations.runs(random, "normal", (n,), at=truth)
        failed = random.random(n) < rate
        return [None if gone else value for value, gone in zip(values, failed, strict=True)]


@dataclass(frozen=True)
class FailureMargin:
    """Runs that fail at the rates given, held to how far apart the author says these may be."""

    n_a: int
    n_b: int
    rate_a: float
    rate_b: float
    margin: float

    def __str__(self) -> str:
        rates = f"{100 * self.rate_a:g} and {100 * self.rate_b:g} % failing"
        return f"{self.n_a}+{self.n_b}, {rates}, margin {self.margin:g}"

    def measure(self, repetitions: int) -> Figures:
        random = populations.random(self)
        claim = product.freeze_one(
            product.metric([0.0]), Margin(absolute=_WIDE), failure_margin=self.margin
        )
        sides = ((self.n_a, self.rate_a), (self.n_b, self.rate_b))
        drawn = Counter(
            zip(*(random.binomial(*side, repetitions).tolist() for side in sides), strict=True)
        )
        counts: Counter[str] = Counter()
        # within so wide a margin values say nothing: the word is that of how many runs failed
        for (failed_a, failed_b), times in drawn.items():
            a = self._side(random, self.n_a, failed_a)
            b = self._side(random, self.n_b, failed_b)
            counts[product.judge_one(claim, a, b)] += times
        return percent(counts, repetitions)

    @staticmethod
    def _side(random: np.random.Generator, n: int, failed: int) -> list[float | None]:
        return [None] * failed + populations.runs(random, "normal", (n - failed,)).tolist()
