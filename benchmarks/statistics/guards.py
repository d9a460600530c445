"""Cells of the acceptance table where one thing is missing: a second side, a spread, values.

As those of `cells`: each can be sent to another process, and `measure(repetitions)` depends on
nothing but the cell and the repetitions.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

import numpy as np
import populations
import product
from cells import Figures, at, percent
from scipy import special

from capsule.manifest import Margin
from capsule.stats import (
    Interval,
    Region,
    Summary,
    curve_shift,
    decide,
    location,
    paired_shift,
    reduce_to_shares,
    summary_shift,
)

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
        counts: Counter[str] = Counter()
        for _ in range(repetitions):
            a = populations.runs(random, self.shape, (self.n_a,))
            b = populations.runs(random, self.shape, (self.n_b,), at=self.truth)
            counts[_judge_paper(a, b, abs(self.truth), is_ratio=False)] += 1
        return percent(counts, repetitions)


@dataclass(frozen=True)
class RatioFromPaper:
    """The same of positive runs whose sd is `cv` of their mean, with a margin of a factor.

    The truth lies `truth` such factors away. Lognormal runs have that cv, and so the skew that
    belongs to it; the other shapes are those of every promise, moved to that cv.
    """

    n_a: int
    n_b: int
    shape: str
    cv: float
    truth: float
    factor: float

    def __str__(self) -> str:
        runs = f"published {self.n_a}, {self.n_b} runs, {self.shape}, cv {self.cv:g}"
        return f"{runs}, factor {self.factor:g}, truth at {self.truth:+g} of it"

    def measure(self, repetitions: int) -> Figures:
        random = populations.random(self)
        moved = self.factor**self.truth
        counts: Counter[str] = Counter()
        for _ in range(repetitions):
            a, b = self._runs(random, self.n_a), self._runs(random, self.n_b) * moved
            counts[_judge_paper(a, b, self.factor, is_ratio=True)] += 1
        return percent(counts, repetitions)

    def _runs(self, random: np.random.Generator, n: int) -> np.ndarray:
        if self.shape == "lognormal":
            log_sd = np.sqrt(np.log1p(self.cv**2))
            return random.lognormal(-(log_sd**2) / 2, log_sd, n)
        return 1 + self.cv * (populations.runs(random, self.shape, (n,)) - populations.MEAN)


def _judge_paper(a: np.ndarray, b: np.ndarray, margin: float, *, is_ratio: bool) -> str:
    """The word on runs, of a paper that states the mean and the standard deviation of its own.

    As `verdict.judge` comes to it, without the sentence and the advice that take most of its time.
    """
    paper = Summary(mean=float(a.mean()), sd=float(a.std(ddof=1)), n=len(a))
    here = product.runs(b.tolist())
    if is_ratio:
        paper, here, margin = paper.log(), here.log(), math.log(margin)
    interval = summary_shift(paper, here, alpha=product.ALPHA)
    assert interval is not None
    return decide(interval, Region(lower=-margin, upper=margin)).word


@dataclass(frozen=True)
class Distribution:
    """Runs whose centres lie `spread` standard deviations of their samples apart.

    `shape` is that of the centres; `memory` is the correlation of a sample with the one before. The
    re-run's samples are moved so far that the true distance is `truth` times the allowed one.
    """

    n_a: int
    n_b: int
    spread: float
    truth: float = 0.0
    shape: str = "normal"
    samples: int = 50
    memory: float = 0.0
    distance: float = 0.1

    def __str__(self) -> str:
        runs = f"{self.n_a}+{self.n_b} runs of {self.samples}, {self.spread:g} sd apart"
        shape = f", {self.shape}" if self.shape != "normal" else ""
        memory = f", memory {self.memory:g}" if self.memory else ""
        return f"{runs}{shape}{memory}, true distance {self.truth * self.distance:g}"

    def measure(self, repetitions: int) -> Figures:
        random = populations.random(self)
        moved = _move_for(self.truth * self.distance, self.shape, self.spread)
        counts: Counter[str] = Counter()
        for _ in range(repetitions):
            a, b = self._runs(random, self.n_a), self._runs(random, self.n_b) + moved
            shares = reduce_to_shares(a, b)
            decision = curve_shift(
                shares.original,
                shares.rerun,
                margin=self.distance,
                alpha=product.ALPHA,
                resolution=shares.resolution,
            )
            counts[decision.word] += 1
        return percent(counts, repetitions)

    def _runs(self, random: np.random.Generator, n: int) -> np.ndarray:
        centres = self.spread * populations.runs(random, self.shape, (n, 1))
        noise = random.standard_normal((n, self.samples))
        if self.memory:
            noise[:, 1:] *= np.sqrt(1 - self.memory**2)
            for place in range(1, self.samples):
                noise[:, place] += self.memory * noise[:, place - 1]
        return centres + noise


@cache
def _move_for(distance: float, shape: str, spread: float) -> float:
    """How far samples must be moved for that distance between their distributions over all runs."""
    if not distance:
        return 0.0
    draws = populations.runs(np.random.default_rng(populations.SEED), shape, (400_000,))
    centres = spread * np.quantile(draws, (np.arange(2000) + 0.5) / 2000)
    places = np.linspace(centres[0] - 4, centres[-1] + 4, 2000)
    below = special.ndtr(places[:, None] - centres).mean(axis=1)
    low, high = 0.0, places[-1] - places[0]
    while high - low > 1e-6:
        middle = (low + high) / 2
        moved = np.interp(places - middle, places, below, left=0.0)
        low, high = (middle, high) if (below - moved).max() < distance else (low, middle)
    return low


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
