"""Sides that are pairs, summaries or a single run, and failures: against scipy and statsmodels."""

import math
from collections.abc import Sequence
from random import Random

import numpy as np
import pytest
import scipy.stats
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from capsule.stats import (
    Region,
    Runs,
    Summary,
    decide,
    failure_bound,
    fisher_more,
    holm,
    paired_shift,
    shift,
    signs,
    summary_shift,
    superiority,
)
from capsule.stats.interval import one_set
from capsule.stats.series import Series
from tests.stats.sides import known, runs
from tests.support.properties import examples

FAST = examples(60)
VALUE = st.floats(-1e6, 1e6, allow_nan=False).map(lambda v: round(v, 3))
SIDE = st.lists(VALUE, min_size=2, max_size=12)


def draw(n_a: int, n_b: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    random = np.random.default_rng([n_a, n_b])
    return random.normal(10, 2, n_a), random.normal(10.5, 3, n_b)


def summary(values: Series) -> Summary:
    return Summary(
        mean=float(np.mean(values)),
        sd=float(np.std(values, ddof=1)),
        n=len(values),
    )


# pairs


@pytest.mark.parametrize("n", [2, 3, 5, 30])
def test_pairs_equal_scipy(n: int) -> None:
    a, b = draw(n, n)
    interval = known(paired_shift(runs(b - a), alpha=0.05))
    limits = scipy.stats.ttest_rel(b, a).confidence_interval(1 - 2 * interval.alpha)
    by_flips = signs.interval(runs(b - a), 0.05) or (math.inf, -math.inf)
    due = min(float(limits.low), by_flips[0]), max(float(limits.high), by_flips[1])
    assert (interval.lower, interval.upper) == pytest.approx(due, rel=1e-12)
    assert (interval.method, interval.df) == ("paired", n - 1)
    assert interval.alpha == pytest.approx(0.05 if n >= 5 else one_set(n, 0.05))


@pytest.mark.parametrize("n", [3, 5, 30])
def test_the_p_of_pairs_equals_statsmodels(n: int) -> None:
    from statsmodels.stats.weightstats import ttost_paired

    a, b = draw(n, n)
    p = decide(known(paired_shift(runs(b - a), alpha=0.05)), Region(lower=-2, upper=3)).p_reproduced
    assert p == pytest.approx(ttost_paired(b, a, -2, 3)[0], rel=1e-12)


@pytest.mark.parametrize(("n_a", "n_b"), [(3, 3), (5, 5), (10, 3), (30, 5)])
def test_the_p_of_two_sides_equals_statsmodels(n_a: int, n_b: int) -> None:
    from statsmodels.stats.weightstats import ttost_ind

    a, b = draw(n_a, n_b)
    p = decide(known(shift(runs(a), runs(b), alpha=0.05)), Region(lower=-2, upper=3)).p_reproduced
    assert p == pytest.approx(ttost_ind(b, a, -2, 3, usevar="unequal")[0], rel=1e-12)


@pytest.mark.parametrize("n", [0, 1])
def test_a_single_pair_tells_nothing(n: int) -> None:
    assert paired_shift(runs([1.0] * n), alpha=0.05) is None


def test_equal_pairs_without_a_resolution_are_compared_exactly() -> None:
    interval = known(paired_shift(runs([0.0] * 4), alpha=0.05))
    assert (interval.method, interval.lower, interval.upper) == ("exact", 0.0, 0.0)
    assert decide(interval, Region(lower=0, upper=0)).word == "REPRODUCED"


@FAST
@given(SIDE, st.randoms())
def test_pairs_mirror_and_ignore_their_order(differences: list[float], random: Random) -> None:
    there = known(paired_shift(runs(differences), alpha=0.05))
    back = known(paired_shift(runs([-value for value in differences]), alpha=0.05))
    assert (back.lower, back.upper) == (-there.upper, -there.lower)
    random.shuffle(differences)
    assert paired_shift(runs(differences), alpha=0.05) == there


# summaries


@pytest.mark.parametrize(("n_a", "n_b"), [(2, 2), (3, 5), (10, 5), (30, 30)])
def test_summaries_of_like_numbers_equal_scipy_at_half_the_level(n_a: int, n_b: int) -> None:
    a, b = draw(n_a, n_b)
    limits = scipy.stats.ttest_ind(b, a, equal_var=False).confidence_interval(0.95)
    sides: list[tuple[Summary | Runs, Summary | Runs]] = [
        (summary(a), summary(b)),
        (runs(a), summary(b)),
        (summary(a), runs(b)),
    ]
    for x, y in sides:
        interval = known(summary_shift(x, y, alpha=0.05))
        assert (interval.method, interval.alpha) == ("summary", 0.025)
        assert (interval.lower, interval.upper) == pytest.approx(
            (limits.low, limits.high), rel=1e-12
        )


def test_the_p_of_summaries_equals_scipy() -> None:
    a, b = Summary(mean=76.1, sd=0.3, n=5), Summary(mean=76.2, sd=0.4, n=3)

    def p(bound: float, alternative: str) -> float:
        there, here = (76.1 + bound, 0.3, 5), (76.2, 0.4, 3)
        test = scipy.stats.ttest_ind_from_stats(
            *here, *there, equal_var=False, alternative=alternative
        )
        return float(test.pvalue)

    decision = decide(known(summary_shift(a, b, alpha=0.05)), Region(lower=-1, upper=1.5))
    assert decision.p_reproduced == pytest.approx(max(p(-1, "greater"), p(1.5, "less")), rel=1e-12)


def test_one_run_against_a_summary_is_held_against_the_prediction_interval() -> None:
    a = draw(7, 1)[0]
    from_summary = known(summary_shift(summary(a), runs([11.0]), alpha=0.05))
    from_runs = known(shift(runs(a), runs([11.0]), alpha=0.05))
    assert from_summary.method == "prediction"
    assert from_summary.lower == pytest.approx(from_runs.lower, rel=1e-12)
    # a standard deviation of one run is none
    lone = Summary(mean=11.0, sd=5.0, n=1)
    assert summary_shift(summary(a), lone, alpha=0.05) == from_summary


def test_summaries_without_any_spread() -> None:
    lone = Summary(mean=1.0, sd=0.0, n=1)
    assert summary_shift(lone, runs([1.0]), alpha=0.05) is None
    assert summary_shift(lone, runs([]), alpha=0.05) is None
    constant = Summary(mean=1.0, sd=0.0, n=5)
    assert known(summary_shift(constant, runs([1.0, 1.0]), alpha=0.05)).method == "exact"
    rounded = Summary(mean=1.0, sd=0.0, n=5, resolution=0.1)
    interval = known(summary_shift(rounded, runs([1.0, 1.0], 0.1), alpha=0.05))
    assert interval.standard_error == pytest.approx(0.1 * math.sqrt(0.7 / 12))


@pytest.mark.parametrize(
    ("mean", "sd", "n", "resolution", "words"),
    [
        (math.nan, 0.1, 3, 0.0, "mean nan with standard deviation 0.1, expected finite numbers"),
        (1.0, -1.0, 3, 0.0, "deviation -1.0, expected finite numbers and a .* of at least 0"),
        (1.0, math.inf, 3, 0.0, "deviation inf, expected finite numbers"),
        (1.0, 0.1, 0, 0.0, "invalid number of runs: 0, expected at least 1"),
        (1.0, 0.1, 3, -1.0, "resolution is -1.0, expected a finite number >= 0"),
        (1.0, 0.1, 3, math.nan, "resolution is nan, expected a finite number >= 0"),
    ],
)
def test_what_is_no_summary_is_refused(
    mean: float, sd: float, n: int, resolution: float, words: str
) -> None:
    with pytest.raises(ValueError, match=words):
        Summary(mean=mean, sd=sd, n=n, resolution=resolution)


@FAST
@given(SIDE, SIDE)
def test_swapping_summaries_mirrors_the_interval(a: Sequence[float], b: Sequence[float]) -> None:
    there = known(summary_shift(summary(a), summary(b), alpha=0.05))
    back = known(summary_shift(summary(b), summary(a), alpha=0.05))
    assert (back.lower, back.upper) == (-there.upper, -there.lower)


# which side tends to be higher


@pytest.mark.parametrize("digits", [0, 3])
def test_superiority_is_mann_whitneys_share(digits: int) -> None:
    a, b = (np.round(side, digits) for side in draw(12, 7))
    expected = scipy.stats.mannwhitneyu(b, a).statistic / (12 * 7)
    assert superiority(runs(a), runs(b)) == pytest.approx(expected, rel=1e-15)
    assert superiority(runs(b), runs(a)) == pytest.approx(1 - expected, rel=1e-12)


def test_without_a_side_neither_is_higher() -> None:
    assert superiority(runs([]), runs([1.0])) == superiority(runs([1.0]), runs([])) == 0.5


# failures and many claims


@pytest.mark.parametrize(("failed", "n"), [(0, 5), (0, 10), (0, 30), (2, 7), (6, 7), (1, 1000)])
def test_the_bound_on_failures_equals_scipy_and_statsmodels(failed: int, n: int) -> None:
    from statsmodels.stats.proportion import proportion_confint

    oracle = scipy.stats.binomtest(failed, n, alternative="less").proportion_ci(0.95)
    assert failure_bound(failed, n) == pytest.approx(oracle.high, rel=1e-12)
    both_sided = proportion_confint(failed, n, alpha=0.1, method="beta")[1]
    assert failure_bound(failed, n) == pytest.approx(both_sided, rel=1e-12)


def test_the_bound_on_failures_where_it_has_no_formula() -> None:
    assert failure_bound(0, 0) == failure_bound(3, 3) == 1.0
    with pytest.raises(ValueError, match="3, expected 0 to 2"):
        failure_bound(3, 2)


def test_no_runs_on_a_side_fail_no_more_often() -> None:
    assert fisher_more(0, 0, 0, 5) == fisher_more(2, 5, 0, 0) == 1.0


@FAST
@given(st.lists(st.floats(0, 1), min_size=1, max_size=12))
def test_holm_equals_statsmodels(p_values: Sequence[float]) -> None:
    from statsmodels.stats.multitest import multipletests

    expected = multipletests(p_values, method="holm")[1]
    assert holm(p_values) == pytest.approx(tuple(expected), rel=1e-12)
