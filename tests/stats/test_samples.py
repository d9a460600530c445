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
    effective_sample_size,
    kolmogorov,
    median_interval,
    mser5,
    samples_beside,
    samples_for_distance,
    variation,
)
from capsule.stats.distribution import Band
from capsule.stats.series import Series
from tests.stats.sides import known
from tests.support.properties import examples

FAST = examples(60)
VALUE = st.floats(-1e9, 1e9).map(lambda v: round(v, 1))
SAMPLES = st.lists(VALUE, min_size=1, max_size=40)
AT_LEAST_TWO = st.lists(VALUE, min_size=2, max_size=40)


def band(a: Series, b: Series, alpha: float = 0.05) -> Band:
    return kolmogorov(a, b, effective_a=len(a), effective_b=len(b), alpha=alpha)


def autoregressive(n: int, memory: float, seed: int = 1) -> NDArray[np.float64]:
    noise = np.random.default_rng(seed).normal(size=n) * math.sqrt(1 - memory**2)
    values = [noise[0]]
    for step in noise[1:]:
        values.append(memory * values[-1] + step)
    return np.array(values)


# distributions


@FAST
@given(AT_LEAST_TWO, AT_LEAST_TWO)
def test_the_distance_equals_scipy(a: Sequence[float], b: Sequence[float]) -> None:
    expected = scipy.stats.ks_2samp(a, b, method="asymp").statistic
    assert band(a, b).distance == pytest.approx(expected, abs=1e-12)


@FAST
@given(SAMPLES, SAMPLES, st.randoms(), st.floats(0.01, 1))
def test_order_and_sides_change_no_bit_of_a_band(
    a: list[float], b: list[float], random: Random, largest: float
) -> None:
    before = band(a, b)
    assert band(b, a) == before
    random.shuffle(a)
    random.shuffle(b)
    assert band(a, b) == before
    assert band(a, b).decide(largest) == before.decide(largest)


@FAST
@given(SAMPLES, SAMPLES, st.floats(0, 1), st.floats(0, 1))
def test_a_wider_distance_never_undoes_reproduced(
    a: Sequence[float], b: Sequence[float], largest: float, more: float
) -> None:
    many = kolmogorov(a, b, effective_a=5000, effective_b=5000)
    if many.decide(largest).word == "REPRODUCED":
        assert many.decide(largest + more).word == "REPRODUCED"


@pytest.mark.parametrize("distance", [0.1, 0.2, 0.3])
@pytest.mark.parametrize("power", [0.8, 0.9])
def test_so_many_samples_confirm_equal_distributions_as_often_as_promised(
    distance: float, power: float
) -> None:
    n = samples_for_distance(distance, alpha=0.05, power=power)
    assert n is not None
    random = np.random.default_rng(8)
    words = [
        band(random.random(n).tolist(), random.random(n).tolist()).decide(distance).word
        for _ in range(1000)
    ]
    # distances of few samples are coarse, which is on the safe side
    assert power - 0.025 <= words.count("REPRODUCED") / 1000 <= power + 0.08


def test_more_samples_than_anybody_takes_are_none() -> None:
    for distance in (1e-7, 1e-160, 5e-324):
        assert samples_for_distance(distance, alpha=0.05, power=0.8) is None
        assert samples_beside(1e300, distance, alpha=0.05, power=0.8) is None
    enough = samples_for_distance(0.2, alpha=0.05, power=0.8)
    assert enough is not None
    for n_a in np.linspace(enough / 2 - 1, enough / 2 + 1, 101):
        more = samples_beside(float(n_a), 0.2, alpha=0.05, power=0.8)
        assert more is None or 0 < more <= 10**12


def test_the_band_is_that_of_the_limit_distribution_with_effective_sizes() -> None:
    limits = kolmogorov([1.0] * 90, [1.0] * 900, effective_a=300, effective_b=600, alpha=0.05)
    expected = scipy.stats.kstwobign.isf(0.05) * math.sqrt(1 / 300 + 1 / 600)
    assert limits.half_width == pytest.approx(expected, rel=1e-4)
    assert (limits.lower, limits.upper) == (0.0, limits.half_width)


def test_verdict_and_p_values_agree() -> None:
    random = np.random.default_rng(4)
    a = random.exponential(size=2000)
    same, moved = random.exponential(size=2000), 1.5 * random.exponential(size=2000)
    for b, word in ((same, "REPRODUCED"), (moved, "DIFFERENT")):
        limits = band(a, b)
        assert limits.decide(0.08).word == word
    near, far = band(a, same).decide(0.08), band(a, moved).decide(0.08)
    assert near.p_reproduced < 0.05 < near.p_different == 1.0
    assert far.p_different < 0.05 < far.p_reproduced == 1.0
    edge = band(a, same)
    at_edge = edge.decide(edge.distance + edge.half_width)
    assert at_edge.p_reproduced == pytest.approx(0.05, rel=1e-9)


@pytest.mark.parametrize("n", [300, 1000])
def test_equal_distributions_are_confirmed_as_often_as_promised(n: int) -> None:
    random = np.random.default_rng(n)
    largest, promised = {300: (0.2, 0.83), 1000: (0.1, 0.62)}[n]
    words = [band(*random.normal(size=(2, n))).decide(largest).word for _ in range(600)]
    assert words.count("REPRODUCED") / 600 == pytest.approx(promised, abs=0.06)
    assert "DIFFERENT" not in words


def test_distributions_on_the_margin_are_seldom_told_apart_or_the_same() -> None:
    # a tenth of the mass moved away: the true distance is 0.1
    random = np.random.default_rng(8)
    words = []
    for _ in range(600):
        a, b = random.normal(size=(2, 1000))
        words.append(band(a, np.where(random.random(1000) < 0.1, 99.0, b)).decide(0.1).word)
    assert words.count("REPRODUCED") <= 0.01 * 600
    assert words.count("DIFFERENT") <= 0.03 * 600


@pytest.mark.parametrize(("a", "b"), [([], []), ([], [1.0]), ([1.0], [])])
def test_an_empty_side_tells_nothing(a: Sequence[float], b: Sequence[float]) -> None:
    limits = kolmogorov(a, b, effective_a=0, effective_b=0)
    assert (limits.lower, limits.upper) == (0.0, 1.0)
    assert limits.decide(0.5).word == "INCONCLUSIVE"
    assert limits.decide(0.5).p_reproduced == 1.0
    assert limits.decide(0.5).p_different == 1.0


def test_infinite_samples_have_a_place_and_nan_has_none() -> None:
    assert band([0.0, math.inf], [0.0, 1.0]).distance == 0.5
    with pytest.raises(ValueError, match="a sample of a distribution is NaN"):
        band([0.0, math.nan], [0.0])
    with pytest.raises(ValueError, match="effective"):
        kolmogorov([0.0], [0.0], effective_a=0, effective_b=1)


def test_a_million_samples() -> None:
    values = np.random.default_rng(2).normal(size=1_000_000)
    limits = band(values, values[::-1] + 0.001)
    assert limits.decide(0.01).word == "REPRODUCED"
    assert mser5(values) <= 500_000
    assert effective_sample_size(values) == pytest.approx(1e6, rel=0.05)


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
