"""The level of planned looks, against the published table and the multivariate normal."""

import math

import numpy as np
import pytest
import scipy.stats

from capsule.stats import default_alpha, nominal_alpha

TABLE = {
    0.05: (0.0500, 0.0303, 0.0232, 0.0193, 0.0169),
    0.025: (0.0250, 0.0147, 0.0111, 0.0091, 0.0079),
    0.01: (0.0100, 0.0057, 0.0042, 0.0034, 0.0029),
}


@pytest.mark.parametrize("alpha", TABLE)
def test_levels_equal_the_table_to_its_last_digit(alpha: float) -> None:
    levels = [nominal_alpha(alpha, looks) for looks in range(1, 6)]
    assert levels == pytest.approx(TABLE[alpha], abs=1e-4)


@pytest.mark.parametrize("alpha", [0.2, 0.05, 0.001])
@pytest.mark.parametrize("looks", [2, 3])
def test_levels_add_up_to_alpha_under_the_multivariate_normal(alpha: float, looks: int) -> None:
    level = nominal_alpha(alpha, looks)
    at = np.arange(1, looks + 1)
    correlation = np.sqrt(np.minimum.outer(at, at) / np.maximum.outer(at, at))
    bound = scipy.stats.norm.isf(level)
    joint = scipy.stats.multivariate_normal(cov=correlation, abseps=1e-9, releps=1e-9)
    assert 1 - joint.cdf([bound] * looks) == pytest.approx(alpha, rel=2e-5)


@pytest.mark.parametrize("looks", [2, 3, 4, 5])
def test_five_percent_at_every_look_is_never_exceeded(looks: int) -> None:
    random = np.random.default_rng(looks)
    sums = np.cumsum(random.standard_normal((200_000, looks)), axis=1)
    bound = scipy.stats.norm.isf(nominal_alpha(0.05, looks))
    crossed = (sums / np.sqrt(np.arange(1, looks + 1)) > bound).any(axis=1).mean()
    assert crossed == pytest.approx(0.05, abs=0.0015)


@pytest.mark.parametrize("alpha", [0.2, 0.05, 0.001])
def test_default_looks_have_their_exact_level_beside_one_frozen_original(alpha: float) -> None:
    level = default_alpha(alpha)
    assert nominal_alpha(alpha, 2) < level < 0.8 * alpha
    # variances 2 and 1.5, covariance 1.5: the original and the first runs are in both
    correlation = 1.5 / math.sqrt(2 * 1.5)
    joint = scipy.stats.multivariate_normal(cov=[[1, correlation], [correlation, 1]])
    assert 1 - joint.cdf([scipy.stats.norm.isf(level)] * 2) == pytest.approx(alpha, rel=2e-5)


@pytest.mark.parametrize("n", [3, 5, 20])
def test_default_looks_cost_the_whole_level_and_no_more(n: int) -> None:
    random = np.random.default_rng(n)
    a = random.standard_normal((200_000, n)).mean(axis=1)
    b = random.standard_normal((200_000, 2 * n))
    bound = scipy.stats.norm.isf(default_alpha(0.05))
    first = (b[:, :n].mean(axis=1) - a) / math.sqrt(2 / n) > bound
    second = (b.mean(axis=1) - a) / math.sqrt(1.5 / n) > bound
    assert (first | second).mean() == pytest.approx(0.05, abs=0.0015)


def test_a_level_lies_between_bonferronis_and_the_whole() -> None:
    levels = [nominal_alpha(0.037, looks) for looks in range(1, 6)]
    assert levels == sorted(levels, reverse=True)
    assert all(0.037 / looks <= level for looks, level in enumerate(levels, 1))


@pytest.mark.parametrize(
    ("alpha", "looks"), [(0.0, 2), (0.5, 2), (math.nan, 2), (0.05, 0), (0.05, 6)]
)
def test_what_is_no_plan_is_refused(alpha: float, looks: int) -> None:
    with pytest.raises(ValueError, match="invalid"):
        nominal_alpha(alpha, looks)
