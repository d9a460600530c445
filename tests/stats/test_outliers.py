"""Grubbs' test against its definition, and on what it is for."""

import math
import random

import pytest
import scipy.stats

from capsule.stats import Runs, has_outlier


def side(*values: float, resolution: float = 0.0) -> Runs:
    return Runs.of(dict(enumerate(values)), resolution=resolution)


def grubbs(values: list[float]) -> bool:
    """The textbook's form: the largest distance from the mean, against its critical value."""
    n = len(values)
    mean = math.fsum(values) / n
    sd = math.sqrt(math.fsum((value - mean) ** 2 for value in values) / (n - 1))
    t = scipy.stats.t.ppf(1 - 0.01 / (2 * n), n - 2)
    critical = (n - 1) / math.sqrt(n) * math.sqrt(t**2 / (n - 2 + t**2))
    return max(abs(value - mean) for value in values) / sd > critical


@pytest.mark.parametrize("n", [3, 4, 5, 10, 30])
def test_it_is_grubbs_test(n: int) -> None:
    chance = random.Random(n)
    found = []
    for _ in range(200):
        values = [chance.gauss(0, 1) for _ in range(n)]
        values[0] *= chance.choice([1, 5, 20, 1000])
        found.append(has_outlier(side(*values)))
        assert found[-1] == grubbs(values)
    assert 0 < sum(found) < len(found)


def test_a_unit_or_the_order_of_runs_changes_nothing() -> None:
    values = [1.0, 1.1, 0.9, 1.05, 3.0]
    for scale in (1e-200, 1e200):
        assert has_outlier(side(*(scale * value for value in reversed(values))))


def test_rounded_values_have_the_spread_of_rounding() -> None:
    values = (18.0, 18.0, 18.0, 18.0, 19.0)
    assert has_outlier(side(*values))
    assert not has_outlier(side(*values, resolution=1.0))


def test_a_side_that_does_not_vary_has_none() -> None:
    assert not has_outlier(side(1.0, 1.0, 1.0, 1.0))
    assert not has_outlier(side(1.0, 100.0))
    assert not has_outlier(side())
