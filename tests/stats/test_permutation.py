"""The guard that counts relabelings, by its definition, and p values that corrections may use."""

import itertools
import math

import numpy as np
import pytest
import scipy.stats
from numpy.typing import NDArray

from capsule.stats import Region, decide, fixed, p_beyond, permutation, shift
from capsule.stats.interval import welch
from tests.stats.sides import known, runs


def draw(n_a: int, n_b: int, seed: int = 0) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    random = np.random.default_rng([n_a, n_b, seed])
    return random.normal(10, 2, n_a), random.normal(11, 5, n_b)


# relabelings


def by_definition(
    a: NDArray[np.float64], b: NDArray[np.float64], shifted: float
) -> tuple[float, float]:
    """p values of the studentized permutation test, every relabeling by scipy's Welch test."""
    pooled = np.concatenate([a, b - shifted])
    everything = set(range(len(pooled)))
    statistics = []
    for chosen in itertools.combinations(everything, len(a)):
        others = sorted(everything - set(chosen))
        test = scipy.stats.ttest_ind(pooled[others], pooled[list(chosen)], equal_var=False)
        statistics.append(test.statistic)
    seen = statistics[0]
    low = np.mean([one <= seen + 1e-9 for one in statistics])
    high = np.mean([one >= seen - 1e-9 for one in statistics])
    return float(low), float(high)


@pytest.mark.parametrize(("n_a", "n_b"), [(3, 3), (2, 5), (4, 3)])
@pytest.mark.parametrize("digits", [0, 9])
@pytest.mark.filterwarnings("ignore:Precision loss")
def test_permutation_p_follows_its_definition_with_ties_and_without(
    n_a: int, n_b: int, digits: int
) -> None:
    a, b = (np.round(side, digits) for side in draw(n_a, n_b, 3))
    for shifted in (-2.0, 0.0, 3.0):
        expected = by_definition(a, b, shifted)
        assert permutation.p_value(runs(a), runs(b), shifted) == pytest.approx(expected)


@pytest.mark.parametrize(("n_a", "n_b"), [(3, 3), (2, 6), (4, 4), (5, 5), (10, 3), (4, 9)])
@pytest.mark.parametrize("seed", range(5))
def test_limits_are_where_the_permutation_test_turns(n_a: int, n_b: int, seed: int) -> None:
    a, b = (runs(side) for side in draw(n_a, n_b, seed))
    start = 0.5  # standard errors: so near that the test itself sets both limits
    below, above = known(permutation.reaches(a, b, 0.05, at_least=start))
    error = welch(a, b)[0]
    for reach, side, sign in ((above, 0, 1), (below, 1, -1)):
        limit = b.mean - a.mean + sign * reach * error
        assert reach > start
        assert permutation.p_value(a, b, limit + sign * 1e-6 * error)[side] <= 0.05
        assert permutation.p_value(a, b, limit - sign * 1e-6 * error)[side] > 0.05


def test_relabelings_are_counted_up_to_ten_runs_a_side() -> None:
    assert permutation.can_count(10, 10)
    assert permutation.can_count(20, 5)
    assert not permutation.can_count(10, 11)
    assert not permutation.can_count(30, 5)
    assert not permutation.can_count(1, 10)


# a fixed set


@pytest.mark.parametrize(("n_a", "n_b"), [(10, 11), (11, 11), (5, 30), (2, 700)])
@pytest.mark.filterwarnings("ignore:Precision loss")
def test_of_more_relabelings_a_fixed_set_is_counted(n_a: int, n_b: int) -> None:
    a, b = draw(n_a, n_b)
    a, b = np.sort(a), np.sort(b)
    if n_a == n_b:  # the side with the lowest value is the first
        a, b = sorted((a, b), key=lambda side: float(side[0]))
    for shifted in (-1.0, 2.0):
        pooled = np.concatenate([a, b - shifted])
        to_b = fixed.relabelings(n_a, n_b)
        others = np.array([pooled[one] for one in to_b.T]).T
        kept = np.array([pooled[~one] for one in to_b.T]).T
        drawn = scipy.stats.ttest_ind(others, kept, equal_var=False).statistic
        seen = scipy.stats.ttest_ind(b - shifted, a, equal_var=False).statistic
        due = [(1 + np.sum(drawn <= seen)) / 2000, (1 + np.sum(drawn >= seen)) / 2000]
        p = permutation.p_value(runs(a), runs(b), shifted)
        assert p == pytest.approx(due)


@pytest.mark.parametrize(("n_a", "n_b"), [(11, 11), (12, 10), (30, 5), (5, 30), (30, 30)])
def test_limits_by_a_set_are_where_its_test_turns(n_a: int, n_b: int) -> None:
    a, b = (runs(side) for side in draw(n_a, n_b))
    below, above = known(permutation.reaches(a, b, 0.05, at_least=0.5))
    error = welch(a, b)[0]
    for reach, side, sign in ((above, 0, 1), (below, 1, -1)):
        limit = b.mean - a.mean + sign * reach * error
        assert permutation.p_value(a, b, limit + sign * 1e-6 * error)[side] <= 0.05
        assert permutation.p_value(a, b, limit - sign * 1e-6 * error)[side] > 0.05


@pytest.mark.parametrize(("n_a", "n_b"), [(11, 11), (30, 5)])
def test_exchanged_sides_mirror_the_interval_by_a_set_to_the_digit(n_a: int, n_b: int) -> None:
    a, b = (runs(side) for side in draw(n_a, n_b))
    there, back = known(shift(a, b, alpha=0.05)), known(shift(b, a, alpha=0.05))
    assert (there.lower, there.upper) == (-back.upper, -back.lower)
    assert there.method == "envelope"


def test_levels_too_small_for_a_set_are_guarded_by_ranks() -> None:
    a, b = (runs(side) for side in draw(11, 11))
    for alpha, by_set in ((0.05, True), (0.01, True), (0.0099, False)):
        interval = shift(a, b, alpha=alpha)
        assert (interval != shift(a, b, alpha=alpha, relabel=False)) == by_set


def test_the_mean_of_very_many_runs_needs_no_guard() -> None:
    random = np.random.default_rng(3)
    a, b = runs(random.normal(size=501)), runs(random.normal(size=500))
    assert known(shift(a, b, alpha=0.05)).method == "welch"


@pytest.mark.parametrize("shifted", [1e3, 1e6, 1e12, 1e200])
def test_however_far_off_the_labels_seen_are_as_extreme_as_themselves(shifted: float) -> None:
    a, b = (runs(side) for side in draw(4, 5))
    rarest = 1 / math.comb(9, 4)
    assert permutation.p_value(a, b, shifted) == (1.0, rarest)[::-1]
    assert permutation.p_value(a, b, -shifted) == (1.0, rarest)


def test_a_few_runs_beside_very_many_are_relabeled_too() -> None:
    a, b = draw(2, 400)
    low, high = permutation.p_value(runs(a), runs(b), 0.0)
    assert 0 < low < 1
    assert 0 < high < 1
    assert low + high >= 1


def test_rounded_values_are_as_uncertain_in_every_relabeling() -> None:
    a, b = [3.0, 3.0, 3.0, 4.0], [3.0, 3.0, 4.0, 4.0]
    fine, coarse = (known(shift(runs(a, step), runs(b, step), alpha=0.05)) for step in (1e-6, 3.0))
    assert coarse.lower < fine.lower
    assert fine.upper < coarse.upper


# far below the level


@pytest.mark.parametrize(("n_a", "n_b"), [(3, 3), (4, 8), (5, 5), (12, 12), (30, 5)])
@pytest.mark.parametrize("moved", [3.0, 8.0])
def test_a_p_for_corrected_levels_says_where_the_envelope_lies_outside(
    n_a: int, n_b: int, moved: float
) -> None:
    a, b = draw(n_a, n_b)
    b = (b - np.mean(b)) / 5 + np.mean(a) + moved
    sides, region = (runs(a), runs(b)), Region(lower=-1, upper=1)
    p = known(p_beyond(*sides, region))
    for level in (0.8 * p, 1.25 * p):
        interval = known(shift(*sides, alpha=level))
        outside = decide(interval, region).word == "DIFFERENT"
        if min(n_a, n_b) >= 5:
            assert outside == (level > p)
        elif level > p:
            assert outside  # the fewer degrees of freedom only ever ask for more


def test_a_corrected_p_needs_a_spread() -> None:
    region = Region(lower=-1, upper=1)
    assert p_beyond(runs([1.0]), runs([5.0, 6.0]), region) is None
    assert p_beyond(runs([1.0, 1.0]), runs([5.0, 5.0]), region) is None
    assert p_beyond(runs([1.0, 2.0]), runs([5.0, 5.0]), Region()) == 1.0
