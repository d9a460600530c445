"""The mean of one set of values: how much of the error rate keeps skewed ones within it."""

import math

import numpy as np
import populations
import pytest
import scipy.stats

from capsule.stats import Summary, location, summary_part, summary_shift
from capsule.stats.interval import one_set, undo_one_set
from capsule.stats.summaries import summary_df
from tests.stats.sides import known, runs


@pytest.mark.parametrize(
    ("n", "part"), [(2, 1 / 6), (3, 1 / 6), (10, 1 / 6), (30, 0.2909), (100, 0.4945)]
)
def test_location_equals_scipy_at_a_part_of_the_level(n: int, part: float) -> None:
    values = np.random.default_rng(n).normal(10, 2, n)
    interval = known(location(runs(values), alpha=0.05))
    assert interval.alpha == pytest.approx(0.05 * part, rel=1e-3)
    limits = scipy.stats.ttest_1samp(values, 0).confidence_interval(1 - 2 * interval.alpha)
    assert (interval.lower, interval.upper) == pytest.approx((limits.low, limits.high), rel=1e-12)
    assert interval.method == "one-sample"


@pytest.mark.parametrize("alpha", [0.001, 0.01, 0.05, 0.1])
def test_the_part_of_the_level_grows_with_the_values_from_a_sixth_to_all_of_it(
    alpha: float,
) -> None:
    parts = [one_set(n, alpha) / alpha for n in (2, 5, 10, 20, 50, 100, 1000, 10**6)]
    assert parts[:2] == pytest.approx([1 / 6, 1 / 6])
    assert parts == sorted(parts)
    assert 0.9 < parts[-1] < 1
    # a stricter claim averages skew out later
    assert one_set(50, alpha / 10) / alpha * 10 < one_set(50, alpha) / alpha + 1e-9
    for n in (2, 10, 50):
        assert undo_one_set(n, one_set(n, alpha)) == pytest.approx(alpha, rel=1e-6)


@pytest.mark.parametrize("n", [5, 12, 20, 50, 100])
@pytest.mark.parametrize("shape", populations.SHAPES)
def test_one_set_of_values_is_wrong_on_either_side_as_rarely_as_promised(
    n: int, shape: str
) -> None:
    random, repetitions = np.random.default_rng(11), 20_000
    drawn = populations.runs(random, shape, (repetitions, n)) - populations.MEAN
    t = drawn.mean(axis=1) / drawn.std(axis=1, ddof=1) * math.sqrt(n)
    reach = -scipy.stats.t.ppf(one_set(n, 0.05), n - 1)
    # three standard errors of a rate of 5 % are half a point
    assert max((t < -reach).mean(), (t > reach).mean()) < 0.055


@pytest.mark.parametrize(
    ("n_a", "n_b"),
    [(2, 20), (5, 5), (5, 3), (10, 5), (15, 5), (20, 5), (3, 30), (30, 10), (100, 5), (1000, 10)],
)
@pytest.mark.parametrize("shape", populations.SHAPES)
def test_two_means_of_like_runs_without_a_guard_are_wrong_as_rarely_as_promised(
    n_a: int, n_b: int, shape: str
) -> None:
    random, repetitions = np.random.default_rng(12), 20_000
    a = populations.runs(random, shape, (repetitions, n_a))
    b = populations.runs(random, shape, (repetitions, n_b))
    error_a, error_b = a.std(axis=1, ddof=1) / n_a**0.5, b.std(axis=1, ddof=1) / n_b**0.5
    error = np.hypot(error_a, error_b)
    df = [
        summary_df(one, n_a, other, n_b)
        for one, other in zip(*((one / error).tolist() for one in (error_a, error_b)), strict=True)
    ]
    t = (b.mean(axis=1) - a.mean(axis=1)) / error
    reach = -scipy.stats.t.ppf(0.05 * summary_part(n_a, n_b), df)
    # three standard errors of a rate of 5 % are half a point
    assert max((t < -reach).mean(), (t > reach).mean()) < 0.055


def test_summaries_of_unlike_numbers_are_judged_as_one_set_of_the_smaller_side() -> None:
    few, many = runs([9.0, 10.0, 12.0]), Summary(mean=10.0, sd=1.0, n=10**6)
    interval = known(summary_shift(many, few, alpha=0.05))
    alone = known(location(few, alpha=0.05))
    assert interval.alpha == pytest.approx(alone.alpha, rel=1e-4)
    assert interval.df == pytest.approx(2, rel=1e-4)
    assert interval.lower + 10 == pytest.approx(alone.lower, rel=1e-4)
