"""Whole designs of the acceptance table, judged by `verdict.judge`: is a rate printed, and true?

A design is a type of claim, the runs of each side, the number of claims, the looks, and where the
runs of each side come from. In the designs of `covering` each two values of two factors meet.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import combinations
from itertools import product as combine
from typing import Any
from unittest.mock import patch

import numpy as np
import populations
import product
from cells import Figures
from scipy import special

from capsule.diff import Pair, SeedRule
from capsule.manifest import Margin, Published
from capsule.record import FrozenClaim, Samples
from capsule.stats import nominal_alpha
from capsule.summary import MetricRuns, Run
from capsule.verdict import Advice, Judged, Verdict, advising, rates

TYPES = (
    "equivalence",
    "noninferiority",
    "prediction",
    "threshold",
    "published",
    "paired",
    "curve",
    "distribution",
)
RUNS = (3, 5, 10, 20, 30)
CLAIMS = (1, 5, 20, 100)
LOOKS = ("one look", "default looks")
SIGNS = (1, -1)
ALIKE = tuple((shape, shape) for shape in populations.SHAPES)
UNLIKE = tuple((a, b) for a in populations.REAL for b in populations.REAL if a != b)

_ADVICE = ("runs", "pairs", "rounds")
# these judge one value of each run of two sides
_SHIFTS = ("equivalence", "noninferiority", "prediction")
_MARGIN = 2.0  # standard deviations of A
_CURVE_MARGIN = 3.0
_STEPS = 10
_SAMPLES = 50
_DISTANCE = 0.2
_BETWEEN_RUNS = 0.5  # of the standard deviation of a run's samples
# of a design that prints no rate, or seldom, no more is drawn
_FEWEST_DRAWS = 20
_MOST_DRAWS = 4
# samples of each side that give the distance of two populations
_MANY = 40_000


@dataclass(frozen=True)
class Design:
    """Claims of one type with every truth on the margin.

    The figures `REPRODUCED` and `DIFFERENT` are shares of the verdicts with a printed rate:
    `REPRODUCED` of the first claim, `DIFFERENT` of any claim after Holm's correction. `printed` is
    the share of verdicts with a rate.
    """

    claim: str
    n_a: int
    n_b: int
    claims: int
    looks: str
    sides: tuple[str, str]
    sign: int = 1

    def __str__(self) -> str:
        origin = " to ".join(dict.fromkeys(self.sides))
        claims = f"{self.claims} x " if self.claims > 1 else ""
        return f"{claims}{self.claim} {self.n_a}+{self.n_b}, {self.looks}, {origin}, {self.sign:+d}"

    def measure(self, repetitions: int) -> Figures:
        # advice takes ten times as long as the word, and is not looked at here
        with patch.multiple(advising, **dict.fromkeys(_ADVICE, _advise_nothing)):
            return self._count(repetitions)

    def _count(self, repetitions: int) -> Figures:
        random = populations.random(self)
        counts: Counter[str] = Counter()
        while counts["printed"] < repetitions and counts["drawn"] < _MOST_DRAWS * repetitions:
            if counts["drawn"] >= _FEWEST_DRAWS and not counts["printed"]:
                break
            counts["drawn"] += 1
            for name in self._draw(random):
                counts[name] += 1
        # of a rate that is seldom printed the share of wrong words would be that of a few verdicts
        printed = max(repetitions / _MOST_DRAWS, counts["printed"])
        return {
            **{word: 100 * counts[word] / printed for word in ("REPRODUCED", "DIFFERENT")},
            "printed": 100 * counts["printed"] / counts["drawn"],
        }

    def _draw(self, random: np.random.Generator) -> Iterator[str]:
        """Yield the wrong words of one verdict with a rate, and whether there is one."""
        claims = [_Runs(self, random) for _ in range(self.claims)]
        # a pair is judged once
        is_one = self.looks == LOOKS[0] or self.claim == "paired"
        looks = (self.n_b,) if is_one else (self.n_b, 2 * self.n_b)
        for runs in looks:
            judged = self._judge(claims, runs, looks)
            is_reproduced = judged[0].word == "REPRODUCED"
            different = [one for one in judged if _differs(one, self.claims)]
            if is_reproduced or different:
                break
        if judged[0].no_rate is None:
            yield "printed"
            if is_reproduced:
                yield "REPRODUCED"
        if any(one.no_rate is None for one in different):
            yield "DIFFERENT"

    def _judge(
        self, claims: Sequence[_Runs], runs: int, looks: tuple[int, ...]
    ) -> Sequence[Judged]:
        """Return the first claim, judged, and all others that can be DIFFERENT after Holm."""
        level = nominal_alpha(product.ALPHA, len(looks)) / self.claims
        chosen = [
            one
            for place, one in enumerate(claims)
            if place == 0 or self.claim not in _SHIFTS or one.welch(runs) <= level
        ]
        return product.judge_pairs(*(one.pair(runs, looks) for one in chosen)).claims


def _advise_nothing(*_args: object, **_named: object) -> Advice:
    """Stand for a function that advises a number of runs."""
    return advising.OTHER_DEVICE


def _differs(one: Judged, claims: int) -> bool:
    part = one.p_among_others if claims > 1 else one.p_against_alpha
    return one.word == "DIFFERENT" and part * claims <= 1


class _Runs:
    """Runs of one claim on both sides, as many as its last look needs."""

    def __init__(self, design: Design, random: np.random.Generator) -> None:
        self._design = design
        a, b = design.sides
        runs = 2 * design.n_b
        size = {"curve": (_STEPS,), "distribution": (1,)}.get(design.claim, ())
        # a round has one run of each side
        n_a = runs if design.claim == "paired" else design.n_a
        self._a = populations.draw(random, a, (n_a, *size))
        self._b = populations.draw(random, b, (runs, *size))
        self._sd = populations.sd(a)
        if design.claim == "curve":
            # an offset of the whole run and one value for each step, half and half
            offsets = (
                populations.draw(random, side, (len(values), 1))
                for side, values in ((a, self._a), (b, self._b))
            )
            self._a, self._b = (
                (values + offset) / math.sqrt(2)
                for values, offset in zip((self._a, self._b), offsets, strict=True)
            )
        if design.claim == "distribution":
            noise = self._sd / _BETWEEN_RUNS
            self._a = self._a + noise * random.standard_normal((n_a, _SAMPLES))
            self._b = self._b + noise * random.standard_normal((runs, _SAMPLES))

    def welch(self, runs: int) -> float:
        """Return Welch's p of a shift beyond the margin: the whole rule is never below it."""
        a, b = self._a, self._b[:runs] + self._shift()
        error_a, error_b = a.var(ddof=1) / len(a), b.var(ddof=1) / len(b)
        error = math.sqrt(error_a + error_b)
        if error == 0:
            return 0.0
        df = error**4 / (error_a**2 / (len(a) - 1) + error_b**2 / (len(b) - 1))
        beyond = (abs(b.mean() - a.mean()) - _MARGIN * self._sd) / error
        return float(special.stdtr(df, -beyond))

    def pair(self, runs: int, looks: tuple[int, ...]) -> Pair:
        """Return what `verdict.judge` takes at a look."""
        first = product.FIRST_FRESH
        claim, b = self._design.claim, self._b[:runs]
        if claim == "curve":
            moved = self._curve_shift()
            original, rerun = _curves(self._a), _curves(b + moved, first_seed=first)
        elif claim == "distribution":
            shift = _distribution_shift(self._design.sides, self._design.sign)
            original = _sampled(self._a)
            rerun = _sampled(b + shift, first_seed=first)
        elif claim == "paired":
            original = product.metric(self._a[:runs].tolist())
            rerun = product.metric((b + self._shift()).tolist())
        else:
            original = product.metric(self._a.tolist(), direction=self._direction())
            rerun = product.metric(
                (b + self._shift()).tolist(), first_seed=first, direction=self._direction()
            )
        frozen = replace(self._freeze(original), looks=looks if len(looks) > 1 else ())
        rule: SeedRule = "pair" if claim == "paired" else "fresh"
        return Pair(metric=frozen.metric, claim=frozen, seeds=rule, original=original, rerun=rerun)

    def _freeze(self, original: MetricRuns) -> FrozenClaim:
        claim, margin = self._design.claim, Margin(absolute=_MARGIN * self._sd)
        if claim == "threshold":
            edge = populations.MEAN
            side = "at_most" if self._design.sign > 0 else "at_least"
            return product.freeze_one(original, None, type="threshold", **{side: edge})
        if claim == "curve":
            wide = Margin(absolute=_CURVE_MARGIN * self._sd)
            return product.freeze_one(original, wide, type="curve")
        if claim == "distribution":
            return product.freeze_one(original, Margin(distance=_DISTANCE), type="distribution")
        if claim == "published":
            paper = Published(
                mean=float(self._a.mean()), sd=float(self._a.std(ddof=1)), n=len(self._a)
            )
            return product.freeze_one(original, margin, type="prediction", published=paper)
        if claim == "paired":
            return product.freeze_one(original, margin, paired=True)
        return product.freeze_one(original, margin, type=claim)

    def _direction(self) -> str:
        return "lower" if self._design.sign > 0 else "higher"

    def _shift(self) -> float:
        # the truth of a threshold is on its constant
        margin = 0.0 if self._design.claim == "threshold" else _MARGIN
        return self._design.sign * margin * self._sd

    def _curve_shift(self) -> np.ndarray:
        """Return a bump on the margin in the one direction, an offset of all steps in the other."""
        is_bump = self._design.sign > 0
        shape = np.arange(_STEPS) == _STEPS // 2 if is_bump else np.ones(_STEPS)
        return self._design.sign * _CURVE_MARGIN * self._sd * shape


def _sampled(values: np.ndarray, *, first_seed: int = 0) -> MetricRuns:
    """Return runs with several samples each, a row each, the last value standing for the run."""
    plain = product.metric(values[:, -1].tolist(), first_seed=first_seed)
    runs = tuple(
        replace(run, samples=(_line(plain, run, row),))
        for run, row in zip(plain.runs, values.tolist(), strict=True)
    )
    return replace(plain, runs=runs)


def _curves(values: np.ndarray, *, first_seed: int = 0) -> MetricRuns:
    """Return the same runs with their values at steps."""
    series = _sampled(values, first_seed=first_seed)
    steps = tuple(map(float, range(values.shape[1])))
    runs = tuple(
        replace(run, samples=tuple(replace(line, steps=steps) for line in run.samples))
        for run in series.runs
    )
    return replace(series, runs=runs)


def _line(metric: MetricRuns, run: Run, values: Sequence[float]) -> Samples:
    return Samples(
        metric=metric.metric,
        trial=run.trial,
        attempt=1,
        seed=run.seed,
        warmup=0,
        values=tuple(values),
        unit=metric.unit,
        direction=metric.direction,
        kind=metric.kind,
        resolution=metric.resolution,
    )


@cache
def _distribution_shift(sides: tuple[str, str], sign: int) -> float:
    """Return the shift at which the samples of both sides lie the allowed distance apart."""
    random = np.random.default_rng(1)
    noise = populations.sd(sides[0]) / _BETWEEN_RUNS
    a, b = (
        np.sort(populations.draw(random, side, (_MANY,)) + noise * random.standard_normal(_MANY))
        for side in sides
    )

    def distance(shift: float) -> float:
        moved = b + shift
        places = np.concatenate([a, moved])
        one, other = (np.searchsorted(side, places, side="right") for side in (a, moved))
        return float(np.abs(one - other).max()) / _MANY

    low, high = 0.0, 4 * noise
    if distance(0.0) >= _DISTANCE:
        return 0.0
    while high - low > 1e-4 * noise:
        middle = (low + high) / 2
        low, high = (middle, high) if distance(sign * middle) < _DISTANCE else (low, middle)
    return sign * high


# what no row covers


@dataclass(frozen=True)
class Uncovered:
    """Verdicts on equal normal sides of a design that no row covers; `printed` counts rates."""

    reason: str

    def __str__(self) -> str:
        return self.reason

    def measure(self, repetitions: int) -> Figures:
        random = populations.random(self)
        printed = sum(
            any(one.no_rate is None for one in UNCOVERED[self.reason](random).claims)
            for _ in range(repetitions)
        )
        return {"printed": 100 * printed / repetitions}


def _equal_sides(random: np.random.Generator, n: int = 5, **changes: Any) -> Pair:
    a, b = (populations.runs(random, "normal", (n,)) for _ in range(2))
    original = replace(product.metric(a.tolist()), **changes)
    rerun = replace(product.metric(b.tolist(), first_seed=product.FIRST_FRESH), **changes)
    claim = product.freeze_one(original, Margin(absolute=_MARGIN))
    return Pair(metric=claim.metric, claim=claim, seeds="fresh", original=original, rerun=rerun)


def _interrupted(random: np.random.Generator) -> Verdict:
    pair = _equal_sides(random, kind="machine")
    assert pair.rerun is not None
    first, *rest = pair.rerun.runs
    rerun = replace(pair.rerun, runs=(replace(first, interrupted=1), *rest))
    return product.judge_pairs(replace(pair, rerun=rerun))


def _one_allocation(random: np.random.Generator) -> Verdict:
    pair = _equal_sides(random, kind="machine")
    assert pair.original is not None
    runs = tuple(
        replace(run, started=f"2026-03-01T{hour:02d}:00:00+00:00")
        for hour, run in enumerate(pair.original.runs)
    )
    return product.judge_pairs(replace(pair, original=replace(pair.original, runs=runs)))


def _curves_of_two(random: np.random.Generator) -> Verdict:
    a, b = (populations.runs(random, "normal", (n, _STEPS)) for n in (2, 5))
    original = _curves(a)
    claim = product.freeze_one(original, Margin(absolute=_CURVE_MARGIN), type="curve")
    rerun = _curves(b, first_seed=product.FIRST_FRESH)
    pair = Pair(metric=claim.metric, claim=claim, seeds="fresh", original=original, rerun=rerun)
    return product.judge_pairs(pair)


def _many_of_one_set(claim: str) -> Callable[[np.random.Generator], Verdict]:
    def judge(random: np.random.Generator) -> Verdict:
        design = Design(claim, 5, 5, rates.MAX_ONE_SETS + 1, LOOKS[0], ALIKE[0])
        runs = [_Runs(design, random) for _ in range(design.claims)]
        return product.judge_pairs(*(one.pair(design.n_b, (design.n_b,)) for one in runs))

    return judge


def _chain(random: np.random.Generator) -> Verdict:
    return product.judge_pairs(_equal_sides(random), verifications=rates.MAX_CHAIN + 1)


def _outlier(random: np.random.Generator) -> Verdict:
    pair = _equal_sides(random)
    assert pair.rerun is not None
    first, *rest = pair.rerun.runs
    assert first.value is not None
    far = replace(first, value=first.value + _FAR)
    return product.judge_pairs(replace(pair, rerun=replace(pair.rerun, runs=(far, *rest))))


def _unlike_spreads(random: np.random.Generator) -> Verdict:
    pair = _equal_sides(random, n=30)
    assert pair.rerun is not None
    wide = tuple(
        replace(run, value=populations.MEAN + _WIDE * ((run.value or 0.0) - populations.MEAN))
        for run in pair.rerun.runs
    )
    return product.judge_pairs(replace(pair, rerun=replace(pair.rerun, runs=wide)))


UNCOVERED: Mapping[str, Callable[[np.random.Generator], Verdict]] = {
    "an interrupted attempt of a machine metric": _interrupted,
    "machine metric, runs of one allocation": _one_allocation,
    "curves, two runs on one side": _curves_of_two,
    "six thresholds": _many_of_one_set("threshold"),
    "six published means": _many_of_one_set("published"),
    "six claims on rounds": _many_of_one_set("paired"),
    "six verifications": _chain,
    "a run 100 sd off": _outlier,
    "30+30 runs, sd 1:4": _unlike_spreads,
}
_FAR = 100.0
_WIDE = 4.0


# pairs of values


def covering() -> list[Design]:
    """Return designs in which each two values of two factors meet, the same every time.

    Greedily: each design is the one of some candidates that holds the most pairs still missing.
    """
    factors: list[Sequence[object]] = [
        TYPES, RUNS, RUNS, CLAIMS, LOOKS, (*ALIKE, *UNLIKE), SIGNS,
    ]  # fmt: skip
    places = range(len(factors))
    missing = {
        (i, x, j, y)
        for i, j in combinations(places, 2)
        for x, y in combine(range(len(factors[i])), range(len(factors[j])))
    }
    designs = []
    while missing:
        i, x, j, y = min(missing)
        chosen = {i: x, j: y}
        for place in sorted(places, key=lambda one: -len(factors[one])):
            if place not in chosen:
                values = range(len(factors[place]))
                met = [
                    sum(_pair_of(place, value, *one) in missing for one in chosen.items())
                    for value in values
                ]
                chosen[place] = met.index(max(met))
        missing -= {_pair_of(*one, *other) for one, other in combinations(chosen.items(), 2)}
        designs.append(Design(*(factors[place][chosen[place]] for place in places)))  # type: ignore[arg-type]
    return designs


def _pair_of(i: int, x: int, j: int, y: int) -> tuple[int, int, int, int]:
    return (i, x, j, y) if i < j else (j, y, i, x)
