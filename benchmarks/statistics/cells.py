"""Cells of the acceptance table: how often the product's decision says which word, by simulation.

Each cell is a value that can be sent to another process; `measure(repetitions)` returns percentages
and depends on nothing but the cell and the repetitions.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import populations
import product
from scipy import special

from capsule.manifest import Margin
from capsule.manifest.looks import level
from capsule.stats import (
    Curve,
    Region,
    curve_shift,
    decide,
    nominal_alpha,
    p_beyond,
    runs_to_decide,
    shift,
)
from capsule.verdict.model import FURTHER_LOOKS

Figures = Mapping[str, float]
CLAIMS = 20
POINTS = 100
MEMORY = 0.9  # of each point for the one before


def percent(counts: Counter[str], repetitions: int) -> dict[str, float]:
    """Both words' shares, in percent of all repetitions."""
    return {word: 100 * counts[word] / repetitions for word in ("REPRODUCED", "DIFFERENT")}


def at(truth: float) -> str:
    """Where the truth lies, in words."""
    return f"truth at {truth:+g}" if truth else "no shift"


@dataclass(frozen=True)
class Equivalence:
    """A claim of equivalence, within `margin` sd or the default margin, at a true shift.

    With the default margin the truth lies at `truth` times that margin, frozen anew from each
    original's runs.
    """

    n_a: int
    n_b: int
    shape: str
    truth: float
    margin: float | None = 2.0

    def __str__(self) -> str:
        return f"{self.n_a}+{self.n_b} {self.shape}, {at(self.truth)}"

    def measure(self, repetitions: int) -> Figures:
        random = populations.random(self)
        a = populations.runs(random, self.shape, (repetitions, self.n_a))
        b = populations.runs(random, self.shape, (repetitions, self.n_b))
        if self.margin is not None:
            margin = Margin(absolute=self.margin)
            claim = product.freeze_one(product.metric(a[0]), margin)
            decisions = [
                product.decision(x, y + self.truth, claim) for x, y in zip(a, b, strict=True)
            ]
        else:
            decisions = []
            for x, y in zip(a, b, strict=True):
                claim = product.freeze_one(product.metric(x), None)
                decisions.append(product.decision(x, y + self.truth * claim.upper, claim))
        return percent(Counter(one.word for one in decisions if one), repetitions)


@dataclass(frozen=True)
class OneSided:
    """A claim of noninferiority with the truth on its margin: no margin is worse than one-sided."""

    n_a: int
    n_b: int
    shape_a: str
    shape_b: str
    spread_a: float = 1.0
    spread_b: float = 1.0
    direction: str = "lower"

    def __str__(self) -> str:
        shapes = " to ".join(dict.fromkeys((self.shape_a, self.shape_b)))
        spreads = f", sd {self.spread_a:g}:{self.spread_b:g}"
        spreads = spreads if self.spread_a != self.spread_b else ""
        side = {"lower": "upper", "higher": "lower"}[self.direction]
        return f"{self.n_a}+{self.n_b} {shapes}{spreads}, {side} edge"

    def measure(self, repetitions: int) -> Figures:
        random = populations.random(self)
        margin = 2.0
        truth = margin if self.direction == "lower" else -margin
        a = self._sample(random, self.shape_a, (repetitions, self.n_a), self.spread_a)
        b = self._sample(random, self.shape_b, (repetitions, self.n_b), self.spread_b) + truth
        original = product.metric(a[0], direction=self.direction)
        claim = product.freeze_one(original, Margin(absolute=margin), type="noninferiority")
        decisions = [product.decision(x, y, claim) for x, y in zip(a, b, strict=True)]
        return percent(Counter(one.word for one in decisions if one), repetitions)

    @staticmethod
    def _sample(
        random: np.random.Generator, shape: str, size: tuple[int, int], spread: float
    ) -> np.ndarray:
        mean = populations.MEAN
        return mean + spread * (populations.runs(random, shape, size) - mean)


@dataclass(frozen=True)
class Looks:
    """Looks at so many fresh runs, ending at the first that decides.

    Planned are those in `at`; whoever adds runs after them looks again `beyond`, at the level of a
    plan of five.
    """

    n_a: int
    shape: str
    truth: float
    at: tuple[int, ...] = (3, 6, 12)
    beyond: tuple[int, ...] = ()
    margin: float = 2.0

    def __str__(self) -> str:
        looks = "/".join(map(str, self.at))
        further = f", then {'/'.join(map(str, self.beyond))}" if self.beyond else ""
        return f"{self.n_a} original runs, looks {looks}{further}, {self.shape}, {at(self.truth)}"

    def measure(self, repetitions: int) -> Figures:
        random = populations.random(self)
        looks = (*self.at, *self.beyond)
        a = populations.runs(random, self.shape, (repetitions, self.n_a))
        b = populations.runs(random, self.shape, (repetitions, looks[-1]), at=self.truth)
        original = product.metric(a[0])
        claim = product.freeze_one(original, Margin(absolute=self.margin))
        planned = level(claim.pattern, self.at, self.n_a)
        further = nominal_alpha(claim.alpha, FURTHER_LOOKS)
        counts: Counter[str] = Counter()
        used = 0
        for x, y in zip(a, b, strict=True):
            for n in looks:
                alpha = planned if n in self.at else further
                decision = product.decision(x, y[:n], claim, alpha=alpha)
                if decision is not None and decision.word != "INCONCLUSIVE":
                    break
            used += n
            counts[decision.word if decision else "INCONCLUSIVE"] += 1
        return {**percent(counts, repetitions), "runs": used / repetitions}


@dataclass(frozen=True)
class Capsules:
    """A capsule of 20 claims of 5 + 5 runs and margins of 3 sd.

    `correlation` is that of two claims' values in the same run; `moved` claims are truly shifted
    by `truth` sd.
    """

    moved: int
    truth: float
    correlation: float

    def __str__(self) -> str:
        return f"{self.moved} of {CLAIMS} at {self.truth:g} sd, correlation {self.correlation:g}"

    def measure(self, repetitions: int) -> Figures:
        random = populations.random(self)
        truths = np.zeros(CLAIMS)
        truths[: self.moved] = self.truth
        claim = product.freeze_one(product.metric([0.0]), Margin(absolute=3.0))
        allowed = product.region(claim)
        counts: Counter[str] = Counter()
        for _ in range(repetitions):
            a, b = self._runs(random), self._runs(random) + truths[:, None]
            sides = [(product.runs(x), product.runs(y)) for x, y in zip(a, b, strict=True)]
            alone = product.alone([(*pair, allowed) for pair in sides], claim.alpha)
            counts[product.together(alone, claim.alpha)] += 1
            counts["raw"] += any(word == "DIFFERENT" for word, _ in alone)
        return {**percent(counts, repetitions), "raw": 100 * counts["raw"] / repetitions}

    def _runs(self, random: np.random.Generator) -> np.ndarray:
        common = math.sqrt(self.correlation) * random.standard_normal((1, 5))
        own = math.sqrt(1 - self.correlation) * random.standard_normal((CLAIMS, 5))
        return populations.MEAN + common + own


@dataclass(frozen=True)
class Family:
    """So many claims of one design with every truth on its margin of 2 sd: any DIFFERENT by Holm.

    The first step of Holm's procedure decides whether there is any: its p values are looked at
    where Welch's test alone is beyond that level, as the whole rule is never below it.
    """

    claims: int
    n_a: int
    n_b: int
    shape: str

    def __str__(self) -> str:
        return f"{self.claims} claims, {self.n_a}+{self.n_b} {self.shape}"

    def measure(self, repetitions: int) -> Figures:
        random = populations.random(self)
        allowed, level = Region(lower=-2.0, upper=2.0), product.ALPHA / self.claims
        different = 0
        for _ in range(repetitions):
            a = populations.runs(random, self.shape, (self.claims, self.n_a))
            b = populations.runs(random, self.shape, (self.claims, self.n_b), at=2.0)
            error_a, error_b = a.var(axis=1, ddof=1) / self.n_a, b.var(axis=1, ddof=1) / self.n_b
            df = (error_a + error_b) ** 2 / (
                error_a**2 / (self.n_a - 1) + error_b**2 / (self.n_b - 1)
            )
            beyond = (np.abs(b.mean(axis=1) - a.mean(axis=1)) - 2) / np.sqrt(error_a + error_b)
            far = np.flatnonzero(special.stdtr(df, -beyond) <= level)
            different += any(
                (p_beyond(product.runs(a[one]), product.runs(b[one]), allowed) or 0.0) <= level
                for one in far
            )
        return {"DIFFERENT": 100 * different / repetitions}


@dataclass(frozen=True)
class Counted:
    """A claim on a count with the truth `margin` whole steps away.

    The margin lies there too, or half a step below or above: then that step is truly outside, or
    truly inside.
    """

    n_a: int
    n_b: int
    shape: str
    margin: int
    beside: float = 0.0

    def __str__(self) -> str:
        moved = {-0.5: ", margin half a step less", 0.0: "", 0.5: ", margin half a step more"}
        return f"{self.n_a}+{self.n_b} {self.shape}, {self.margin} steps{moved[self.beside]}"

    def measure(self, repetitions: int) -> Figures:
        random = populations.random(self)
        a = populations.counts(random, self.shape, (repetitions, self.n_a))
        b = populations.counts(random, self.shape, (repetitions, self.n_b))
        margin = Margin(absolute=self.margin + self.beside)
        claim = product.freeze_one(product.metric(a[0]), margin)
        counts: Counter[str] = Counter()
        for sign in (-1, 1):
            for x, y in zip(a, b, strict=True):
                decision = product.decision(x, y + sign * self.margin, claim)
                counts[f"{decision.word} {sign:+d}" if decision else ""] += 1
        return {
            word: 100 * max(counts[f"{word} -1"], counts[f"{word} +1"]) / repetitions
            for word in ("REPRODUCED", "DIFFERENT")
        }


@dataclass(frozen=True)
class Advice:
    """How often the runs that the advice asks for really decide a claim that was open.

    As many re-runs as the original has leave the claim open; the advice for equal sides is taken,
    and the runs that it asks for come beside those. The sides are equal, in truth. Claims for which
    no number of runs is advised are left out.
    """

    n_a: int
    margin: float
    power: float
    shape: str = "normal"

    def __str__(self) -> str:
        margin = f"margin {self.margin:g} sd"
        return f"{self.n_a} original runs, {self.shape}, {margin}, asked {self.power:g}"

    def measure(self, repetitions: int) -> Figures:
        random = populations.random(self)
        margin = Margin(absolute=self.margin)
        claim = product.freeze_one(product.metric([0.0]), margin)
        allowed = product.region(claim)
        decided = advised = 0
        while advised < repetitions:
            x, y = populations.runs(random, self.shape, (2, self.n_a))
            a, b = product.runs(x), product.runs(y)
            interval = shift(a, b, alpha=claim.alpha)
            assert interval is not None
            if decide(interval, allowed).word != "INCONCLUSIVE":
                continue
            total = runs_to_decide(a, b, interval, allowed, truth=0.0, power=self.power)
            if isinstance(total, str):
                continue
            further = populations.runs(random, self.shape, (total - self.n_a,))
            decision = product.decision(x, [*y, *further], claim)
            assert decision is not None
            advised += 1
            decided += decision.word != "INCONCLUSIVE"
        reached = 100 * decided / repetitions
        return {"reached": reached - 100 * self.power, "power": reached}


@dataclass(frozen=True)
class Curves:
    """Curves of 100 points: an offset of the whole run and wandering inside it, half and half.

    `bump` moves a few neighbouring points of the re-execution's curves by `truth` margins at its
    top, `offset` all points.
    """

    n: int
    shift: str
    truth: float
    margin: float = 3.0

    def __str__(self) -> str:
        return f"{self.n}+{self.n}, {self.shift} of {self.truth:g} margins"

    def measure(self, repetitions: int) -> Figures:
        random = populations.random(self)
        steps = np.arange(POINTS)
        shape = np.exp(-(((steps - POINTS // 2) / 3) ** 2)) if self.shift == "bump" else 1.0
        moved = self.truth * self.margin * shape
        counts: Counter[str] = Counter()
        for _ in range(repetitions):
            a, b = self._curves(random, 0.0), self._curves(random, moved)
            counts[curve_shift(a, b, margin=self.margin, alpha=product.ALPHA).word] += 1
        return percent(counts, repetitions)

    def _curves(self, random: np.random.Generator, moved: np.ndarray | float) -> dict[int, Curve]:
        noise = random.standard_normal((self.n, POINTS))
        noise[:, 1:] *= math.sqrt(1 - MEMORY**2)
        for point in range(1, POINTS):
            noise[:, point] += MEMORY * noise[:, point - 1]
        offset = random.standard_normal((self.n, 1))
        steps = tuple(map(float, range(POINTS)))
        learning = populations.MEAN * np.exp(-np.arange(POINTS) / 20)
        values = learning + (offset + noise) / math.sqrt(2) + moved
        return {seed: Curve(steps=steps, values=tuple(line)) for seed, line in enumerate(values)}


@dataclass(frozen=True)
class Power:
    """How often n + n normal runs decide a margin of k sd, for several k on the same runs.

    The figure `REPRODUCED k` is without a shift, `DIFFERENT k` with the truth at two margins.
    """

    n: int
    margins: tuple[float, ...]

    def measure(self, repetitions: int) -> Figures:
        random = populations.random(self)
        a = populations.runs(random, "normal", (repetitions, self.n))
        b = populations.runs(random, "normal", (repetitions, self.n))
        counts: Counter[str] = Counter()
        for x, y in zip(a, b, strict=True):
            interval = shift(product.runs(x), product.runs(y), alpha=product.ALPHA)
            assert interval is not None
            for k in self.margins:
                equal = decide(interval, Region(lower=-k, upper=k))
                counts[f"REPRODUCED {k:g}"] += equal.word == "REPRODUCED"
                # B moved by two margins is the same as a region moved the other way
                moved = decide(interval, Region(lower=-3 * k, upper=-k))
                counts[f"DIFFERENT {k:g}"] += moved.word == "DIFFERENT"
        return {name: 100 * count / repetitions for name, count in counts.items()}
