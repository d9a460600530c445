"""Samples inside runs: distributions, warm-up and effective sizes."""

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
    curve_shift,
    effective_sample_size,
    median_interval,
    mser5,
    reduce_to_shares,
    samples_for_sd,
    variation,
)
from capsule.stats.series import Series
from tests.stats.sides import known
from tests.support.properties import examples

FAST = examples(60)
VALUE = st.floats(-1e9, 1e9).map(lambda v: round(v, 1))
SAMPLES = st.lists(VALUE, min_size=1, max_size=40)
AT_LEAST_TWO = st.lists(VALUE, min_size=2, max_size=40)


def autoregressive(n: int, memory: float, seed: int = 1) -> NDArray[np.float64]:
    noise = np.random.default_rng(seed).normal(size=n) * math.sqrt(1 - memory**2)
    values = [noise[0]]
    for step in noise[1:]:
        values.append(memory * values[-1] + step)
    return np.array(values)


# distributions


def differences(a: Series, b: Series) -> list[float]:
    """Of the shares of one run a side, at each threshold."""
    shares = reduce_to_shares([a], [b])
    there, here = shares.original[0].values, shares.rerun[0].values
    return [other - one for one, other in zip(there, here, strict=True)]


@FAST
@given(AT_LEAST_TWO, AT_LEAST_TWO)
def test_of_few_samples_the_largest_difference_is_kolmogorovs_distance(
    a: Sequence[float], b: Sequence[float]
) -> None:
    expected = scipy.stats.ks_2samp(a, b, method="asymp").statistic
    assert max(map(abs, differences(a, b))) == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize(("n_a", "n_b"), [(5000, 5000), (200, 20_000), (30_000, 150)])
@pytest.mark.parametrize("moved", [0.0, 0.3, 5.0])
def test_of_many_samples_it_is_less_by_what_lies_between_two_thresholds(
    n_a: int, n_b: int, moved: float
) -> None:
    random = np.random.default_rng(n_a)
    a, b = random.exponential(size=n_a), random.normal(size=n_b) + moved
    seen = max(map(abs, differences(a, b)))
    whole = scipy.stats.ks_2samp(a, b, method="asymp").statistic
    assert whole - 0.02 <= seen <= whole + 1e-12


@FAST
@given(SAMPLES, SAMPLES, st.randoms())
def test_order_and_sides_change_no_bit_of_a_share(
    a: list[float], b: list[float], random: Random
) -> None:
    before = reduce_to_shares([a, b], [b])
    swapped = reduce_to_shares([b], [a, b])
    assert (swapped.thresholds, swapped.original) == (before.thresholds, before.rerun)
    random.shuffle(a)
    random.shuffle(b)
    assert reduce_to_shares([a, b], [b]) == before


@pytest.mark.parametrize("unit", [1 / 3, 1e-9, 1e3, 1e300])
def test_a_unit_changes_no_share(unit: float) -> None:
    random = np.random.default_rng(3)
    runs = [random.exponential(size=n).round(2) for n in (7, 50, 333, 1000)]
    there = reduce_to_shares(runs[:2], runs[2:])
    here = reduce_to_shares([run * unit for run in runs[:2]], [run * unit for run in runs[2:]])
    assert here.thresholds == tuple(np.array(there.thresholds) * unit)
    assert (here.original, here.rerun) == (there.original, there.rerun)


def test_a_threshold_is_a_sample_and_each_frequent_value_is_one() -> None:
    random = np.random.default_rng(4)
    many = random.normal(size=10_000)
    shares = reduce_to_shares([many[:9000]], [many[9000:]])
    assert len(shares.thresholds) == 100
    assert set(shares.thresholds) <= set(many)
    grades = [1.0] * 500 + [2.0] * 10 + [3.0] * 490
    assert reduce_to_shares([grades], [grades]).thresholds == (1.0, 2.0, 3.0)
    assert reduce_to_shares([[7.0] * 5], [[7.0]]).thresholds == (7.0,)


def test_a_step_is_that_of_the_shortest_run() -> None:
    assert reduce_to_shares([[1.0] * 40, [2.0] * 8], [[1.0] * 10]).resolution == 1 / 8


def test_infinite_samples_have_a_place_and_nan_has_none() -> None:
    assert max(map(abs, differences([0.0, math.inf], [0.0, 1.0]))) == 0.5
    good, bad = [0.0, 1.0], [math.nan, 1.0]
    for there, here in (([bad], [good]), ([good], [bad]), ([good, bad], [good, good])):
        with pytest.raises(ValueError, match="a sample of a distribution is NaN"):
            reduce_to_shares(there, here)


def test_a_million_samples() -> None:
    values = np.random.default_rng(2).normal(size=1_000_000)
    assert max(map(abs, differences(values, values[::-1] + 0.001))) < 0.001
    assert mser5(values) <= 500_000
    assert effective_sample_size(values) == pytest.approx(1e6, rel=0.05)


def words_on(
    n: int, samples: int, moved: float, *, spread: float = 0.0, distance: float = 0.1
) -> list[str]:
    """The words on a hundred pairs of sides, with runs `spread` sd of a sample apart."""
    random = np.random.default_rng([n, samples, int(100 * spread)])

    def side() -> NDArray[np.float64]:
        return random.normal(size=(n, samples)) + spread * random.normal(size=(n, 1))

    words: list[str] = []
    for _ in range(100):
        shares = reduce_to_shares(list(side()), list(side() + moved))
        decision = curve_shift(
            shares.original,
            shares.rerun,
            margin=distance,
            alpha=0.05,
            resolution=shares.resolution,
        )
        words.append(decision.word)
    return words


def test_five_runs_of_two_hundred_samples_confirm_a_tenth() -> None:
    assert words_on(5, 200, 0.0).count("REPRODUCED") >= 70


@pytest.mark.parametrize(("n", "samples"), [(2, 2), (3, 50), (5, 200)])
@pytest.mark.parametrize("spread", [0.0, 1.0])
def test_distributions_at_the_margin_are_seldom_told_apart_or_the_same(
    n: int, samples: int, spread: float
) -> None:
    # two normal distributions so far apart have a distance of a tenth
    moved = 2 * math.hypot(1, spread) * scipy.stats.norm.ppf(0.55)
    words = words_on(n, samples, moved, spread=spread)
    # 5 %, and three standard errors
    assert words.count("REPRODUCED") <= 12
    assert words.count("DIFFERENT") <= 12


def test_runs_that_agree_by_chance_are_no_proof() -> None:
    # with two samples a run, half of all pairs of runs have the same share at a threshold
    assert words_on(2, 2, 0.0).count("DIFFERENT") <= 12


def test_so_many_samples_keep_a_share_that_close() -> None:
    random = np.random.default_rng(5)
    samples = samples_for_sd(0.05)
    assert samples == 100
    shares = (random.random((20_000, samples)) <= 0.5).mean(axis=1)
    assert shares.std() == pytest.approx(0.05, rel=0.03)
    assert samples_for_sd(0.5) == samples_for_sd(3.0) == 1
    assert samples_for_sd(5e-324) is None


# warm-up


@pytest.mark.parametrize("length", [10, 15, 40])
def test_a_slow_beginning_is_cut(length: int) -> None:
    random = np.random.default_rng(length)
    values = np.concatenate([random.normal(5, 0.1, length), random.normal(1, 0.1, 200)])
    assert length <= mser5(values) <= length + 15


def test_the_cut_minimises_the_standard_error_of_the_rest() -> None:
    values = autoregressive(300, 0.7) + 6 * np.exp(-np.arange(300) / 15)
    means = values.reshape(60, 5).mean(axis=1)
    errors = [means[cut:].var() / (60 - cut) for cut in range(31)]
    assert mser5(values) == 5 * int(np.argmin(errors))


@pytest.mark.parametrize("values", [[], [1.0], [1.0] * 19, [7.5] * 100, [0.0] * 40])
def test_nothing_is_cut_from_too_few_or_equal_values(values: Sequence[float]) -> None:
    assert mser5(values) == 0


def test_at_most_half_is_cut() -> None:
    assert mser5(np.arange(1000.0)) <= 500


@FAST
@given(st.integers(0, 60), st.integers(-40, 40), st.sampled_from([1e-250, 1.0, 1e250]))
def test_units_do_not_move_the_cut_or_the_effective_size(
    length: int, offset: int, scale: float
) -> None:
    random = np.random.default_rng(length)
    values = np.concatenate([random.normal(9, 1, length), random.normal(0, 1, 100)])
    moved = (values + offset) * scale
    assert mser5(moved) == mser5(values)
    assert effective_sample_size(moved) == pytest.approx(effective_sample_size(values), rel=1e-6)


# effective size


@pytest.mark.parametrize("memory", [0.0, 0.5, 0.9])
def test_the_effective_size_of_an_autoregressive_series(memory: float) -> None:
    n = 100_000
    expected = n * (1 - memory) / (1 + memory)
    assert effective_sample_size(autoregressive(n, memory)) == pytest.approx(expected, rel=0.1)


@pytest.mark.parametrize(("n", "expected"), [(0, 0.0), (1, 1.0), (3, 3.0), (50, 50.0)])
def test_equal_values_are_worth_their_number(n: int, expected: float) -> None:
    assert effective_sample_size([0.1] * n) == expected


def test_an_effective_size_lies_between_one_and_the_length() -> None:
    assert effective_sample_size([1.0, -1.0] * 50) == 100.0
    assert 1.0 <= effective_sample_size(np.arange(100.0)) <= 10.0


# spread


@FAST
@given(st.lists(VALUE, min_size=1, max_size=200), st.sampled_from([0.9, 0.95, 0.99]))
def test_the_interval_of_a_median_equals_scipy(values: Sequence[float], level: float) -> None:
    due = scipy.stats.quantile_test(values, p=0.5).confidence_interval(level)
    limits = median_interval(values, level=level)
    if np.isnan(due.low) or np.isnan(due.high):
        assert limits is None
    else:
        assert limits == (due.low, due.high)


def test_the_interval_of_a_median_holds_it_as_often_as_stated() -> None:
    rows = np.random.default_rng(3).exponential(size=(4000, 30))
    limits = [known(median_interval(list(row), level=0.95)) for row in rows]
    held = np.mean([low <= math.log(2) <= high for low, high in limits])
    assert 0.95 - 3 * math.sqrt(0.05 * 0.95 / 4000) <= held <= 0.98


@FAST
@given(AT_LEAST_TWO, st.sampled_from([1e-250, 1.0, 1e250]))
def test_the_variation_equals_numpy_in_any_unit(values: Sequence[float], scale: float) -> None:
    coefficient = variation([value * scale for value in values])
    # a mean that is nothing but rounding is none, in any unit
    if abs(np.mean(values)) <= 2**-26 * max(map(abs, values)):
        assert coefficient is None
    else:
        due = np.std(values, ddof=1) / abs(np.mean(values))
        assert coefficient == pytest.approx(due, rel=1e-6)


def test_a_single_value_has_no_variation() -> None:
    assert (variation([3.0]), variation([]), variation([0.0, 0.0])) == (None, None, None)
    assert variation([2.0, 2.0]) == 0
