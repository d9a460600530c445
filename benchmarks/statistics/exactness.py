"""What must hold always, not at some rate: equality with other libraries, brackets, symmetries.

Each check is a value that can be sent to another process, like a cell; its cases are drawn from the
fixed seed, and their number doesn't follow the repetitions.
"""

from __future__ import annotations

import itertools
import json
import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import populations
import product
import scipy.stats
from cells import Figures

from capsule import report
from capsule.manifest import Margin
from capsule.stats import (
    Decision,
    Region,
    Runs,
    decide,
    fisher_more,
    holm,
    nominal_alpha,
    paired_shift,
    reduce_to_shares,
    shift,
)
from capsule.stats.ranks import interval as rank_interval
from capsule.stats.signs import interval as flips_interval

ALPHA = product.ALPHA
_LOOKS = (3, 10, 30)
_SIZES = ((3, 3), (2, 5), (5, 5), (10, 3), (5, 30), (30, 30))


@dataclass(frozen=True)
class Check:
    """One check by name; `figure` is the worst difference, a count of violations, or a time."""

    name: str
    cases: int

    def __str__(self) -> str:
        return f"{self.cases} cases"

    def measure(self, _repetitions: int) -> Figures:
        return {"figure": CHECKS[self.name](populations.random(self), self.cases)}


def against_scipy(random: np.random.Generator, cases: int) -> float:
    """The largest deviation of any interval or p value from scipy, relative to at least 1."""
    return max(
        abs(ours - theirs) / max(1.0, abs(theirs))
        for _ in range(cases)
        for ours, theirs in _with_scipy(random)
    )


def _with_scipy(random: np.random.Generator) -> Iterator[tuple[float, float]]:
    n_a, n_b = _SIZES[random.integers(len(_SIZES))]
    a, b = random.normal(10, 2, n_a), random.normal(11, 5, n_b)
    yield from _welch(a, b)
    yield from _pairs(a[: min(n_a, n_b)], b[: min(n_a, n_b)])
    yield from _fisher(*map(int, random.integers(0, 12, 4)))
    rounded = np.round(a, 1), np.round(b, 1)  # with ties
    for x, y in ((a, b), rounded):
        # of fewer than a hundred samples each is a threshold
        shares = reduce_to_shares([x], [y])
        there, here = shares.original[0].values, shares.rerun[0].values
        distance = max(abs(one - other) for one, other in zip(there, here, strict=True))
        yield distance, float(scipy.stats.ks_2samp(x, y, method="asymp").statistic)
    p_values = [float(p) for p in random.random(6) ** 2]
    yield from zip(holm(p_values), _closed_testing(p_values), strict=True)


def _welch(a: np.ndarray, b: np.ndarray) -> Iterator[tuple[float, float]]:
    """The envelope is Welch's interval widened by ranks; its p values are those of two t-tests."""
    x, y = product.runs(a), product.runs(b)
    interval = shift(x, y, alpha=ALPHA, relabel=False)
    assert interval is not None
    oracle = scipy.stats.ttest_ind(b, a, equal_var=False)
    yield interval.df, float(oracle.df)
    limits = oracle.confidence_interval(1 - 2 * interval.alpha)
    by_rank = rank_interval(x, y, ALPHA) or (math.inf, -math.inf)
    yield interval.lower, min(float(limits.low), by_rank[0])
    yield interval.upper, max(float(limits.high), by_rank[1])
    decision = decide(interval, Region(lower=-2, upper=2))
    above_lower, below_upper = _tests(scipy.stats.ttest_ind, a, b, equal_var=False)
    yield decision.p_reproduced, max(above_lower, below_upper)
    yield decision.p_different, min(1 - above_lower, 1 - below_upper)


def _pairs(a: np.ndarray, b: np.ndarray) -> Iterator[tuple[float, float]]:
    """Pairs have Student's interval widened by sign flips."""
    interval = paired_shift(product.runs(b - a), alpha=ALPHA)
    assert interval is not None
    by_flips = flips_interval(product.runs(b - a), ALPHA) or (math.inf, -math.inf)
    limits = scipy.stats.ttest_rel(b, a).confidence_interval(1 - 2 * interval.alpha)
    yield interval.lower, min(float(limits.low), by_flips[0])
    yield interval.upper, max(float(limits.high), by_flips[1])
    p = decide(interval, Region(lower=-2, upper=2)).p_reproduced
    yield p, max(_tests(scipy.stats.ttest_rel, a, b))


def _tests(test: Callable, a: np.ndarray, b: np.ndarray, **options: object) -> tuple[float, float]:
    """p values of the two one-sided tests against a margin of 2."""
    lower = test(b, a - 2, alternative="greater", **options).pvalue
    return float(lower), float(test(b, a + 2, alternative="less", **options).pvalue)


def _fisher(
    failed_a: int, good_a: int, failed_b: int, good_b: int
) -> Iterator[tuple[float, float]]:
    table = [[failed_b, good_b], [failed_a, good_a]]
    ours = fisher_more(failed_a, failed_a + good_a, failed_b, failed_b + good_b)
    yield ours, float(scipy.stats.fisher_exact(table, alternative="greater").pvalue)


def _closed_testing(p_values: Sequence[float]) -> list[float]:
    """Holm by its definition: the largest Bonferroni p of any intersection that holds the claim."""
    everything = range(len(p_values))
    subsets = [s for size in everything for s in itertools.combinations(everything, size + 1)]
    return [
        max(min(1.0, len(s) * min(p_values[j] for j in s)) for s in subsets if i in s)
        for i in everything
    ]


def rank_brackets(random: np.random.Generator, cases: int) -> float:
    """Hodges-Lehmann limits that exact Mann-Whitney tests do not bracket."""
    return float(sum(not _brackets(random) for _ in range(cases)))


def _brackets(random: np.random.Generator) -> bool:
    sizes = [size for size in _SIZES if size != (2, 5)] + [(4, 7), (12, 9)]
    n_a, n_b = sizes[random.integers(len(sizes))]
    a, b = random.standard_normal(n_a), random.standard_normal(n_b)
    limits = rank_interval(product.runs(a), product.runs(b), ALPHA)
    assert limits is not None
    step = np.diff(np.sort(np.subtract.outer(b, a).ravel())).min() / 2

    def p(at: float, alternative: str) -> float:
        test = scipy.stats.mannwhitneyu(b - at, a, alternative=alternative, method="exact")
        return float(test.pvalue)

    lower = p(limits[0] - step, "greater") <= ALPHA < p(limits[0] + step, "greater")
    return lower and p(limits[1] + step, "less") <= ALPHA < p(limits[1] - step, "less")


def symmetries(random: np.random.Generator, cases: int) -> float:
    """Cases in which a decision depends on what it must not depend on."""
    return float(sum(not all(_symmetric(random)) for _ in range(cases)))


def _symmetric(random: np.random.Generator) -> Iterator[bool]:
    shape = list(populations.SHAPES)[random.integers(len(populations.SHAPES))]
    n_a, n_b = (int(n) for n in random.integers(2, 12, 2))
    a = populations.runs(random, shape, (n_a,))
    b = populations.runs(random, shape, (n_b,), at=float(random.normal(0, 2)))
    margin = float(random.uniform(0.5, 4))
    word = _decide(a, b, margin).word
    swapped = shift(product.runs(b), product.runs(a), alpha=ALPHA)
    straight = shift(product.runs(a), product.runs(b), alpha=ALPHA)
    assert swapped is not None
    assert straight is not None
    yield (swapped.lower, swapped.upper) == (-straight.upper, -straight.lower)
    yield _decide(b, a, margin).word == word
    factor, constant = float(random.uniform(0.1, 10)), float(random.normal(0, 100))
    yield _decide(factor * a + constant, factor * b + constant, factor * margin).word == word
    ratio = float(random.uniform(1.02, 1.2))
    in_ratio = _decide_ratio(a, b, ratio)
    yield _decide_ratio(factor * a, factor * b, ratio) == in_ratio
    yield word != "REPRODUCED" or _decide(a, b, margin * 1.5).word == "REPRODUCED"
    yield _decide(random.permutation(a), random.permutation(b), margin) == _decide(a, b, margin)


def _decide(a: Sequence[float], b: Sequence[float], margin: float) -> Decision:
    region = Region(lower=-margin, upper=margin)
    judged = product.decide_shift(product.runs(a), product.runs(b), region, ALPHA)
    assert judged is not None
    return judged[1]


def _decide_ratio(a: Sequence[float], b: Sequence[float], ratio: float) -> str:
    logs: list[Runs] = [product.runs(np.abs(side)).log() for side in (a, b)]
    region = Region(lower=-math.log(ratio), upper=math.log(ratio))
    judged = product.decide_shift(*logs, region, ALPHA)
    assert judged is not None
    return judged[1].word


def report_bytes(random: np.random.Generator, cases: int) -> float:
    """Reports that change when the same values stand in another order."""
    changed = 0
    for _ in range(cases):
        a = populations.runs(random, "lognormal", (int(random.integers(2, 40)),))
        b = populations.runs(random, "lognormal", (int(random.integers(2, 40)),))
        claim = product.freeze_one(product.metric(a), Margin(absolute=2.0))
        one, other = (
            json.dumps(report.verdict_to_json(product.judge_all({product.PATH: (claim, x, y)})))
            for x, y in ((a, b), (random.permutation(a), random.permutation(b)))
        )
        changed += one != other
    return float(changed)


def judgements(random: np.random.Generator, cases: int) -> float:
    """Capsules whose verdict, or any claim of it, this benchmark's short way decides otherwise."""
    return float(sum(not _agrees(random) for _ in range(cases)))


def _agrees(random: np.random.Generator) -> bool:
    claims, short = {}, []
    looks = _LOOKS if random.random() < 0.3 else ()
    level = nominal_alpha(ALPHA, len(looks) or 1)
    for index in range(int(random.integers(1, 8))):
        path = f"claim/c{index}/command/accuracy"
        n_a = int(random.choice([2, 3, 5, 10, 30]))
        n_b = int(random.choice(looks or [1, 2, 3, 5, 10, 30]))
        a = populations.runs(random, "lognormal", (n_a,))
        b = populations.runs(random, "lognormal", (n_b,), at=float(random.choice([0, 2, 5, -9])))
        margin = None if random.random() < 0.5 else Margin(absolute=3.0)
        claim = product.freeze_one(product.metric(a, path=path), margin, looks=looks)
        claims[path] = (claim, a, b)
        short.append((product.runs(a), product.runs(b), product.region(claim)))
    whole = product.judge_all(claims)
    judged = product.alone(short, level)
    # Holm's procedure is about p over alpha: at the level of a look as at the claim's own
    return whole.word == product.together(judged, level) and [word for word, _ in judged] == [
        one.word for one in whole.claims
    ]


def milliseconds(random: np.random.Generator, cases: int) -> float:
    """Time of one decision on 10 + 10 runs, without its sentence and advice."""
    a, b = populations.runs(random, "normal", (2, cases, 10))
    claim = product.freeze_one(product.metric(a[0]), Margin(absolute=2.0))
    began = time.perf_counter()
    for x, y in zip(a, b, strict=True):
        product.decision(x, y, claim)
    return 1e3 * (time.perf_counter() - began) / cases


CHECKS: Mapping[str, Callable[[np.random.Generator, int], float]] = {
    check.__name__: check
    for check in (against_scipy, rank_brackets, symmetries, report_bytes, judgements, milliseconds)
}
