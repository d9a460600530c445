"""Error rates of verdicts on runs of several shapes, by simulation of the product's decision."""

import math
from collections.abc import Callable

import numpy as np
import populations
import pytest
from numpy.typing import NDArray

from capsule.stats import Interval, Region, Runs, decide, location, paired_shift, shift
from tests.stats.sides import known, runs

Draw = Callable[[np.random.Generator, int], NDArray[np.float64]]

SHAPES: dict[str, Draw] = {
    "normal": lambda random, n: random.normal(0, 1, n),
    "lognormal": lambda random, n: (np.exp(random.normal(0, 0.6, n)) - math.exp(0.18)) / 0.787,
    "t3": lambda random, n: random.standard_t(3, n) / math.sqrt(3),
    "bimodal": lambda random, n: (
        (random.choice([-1.0, 4.0], n, p=[0.8, 0.2]) + random.normal(0, 1, n)) / math.sqrt(5)
    ),
    "two points": lambda random, n: (
        random.choice([-0.5, 2.0], n, p=[0.8, 0.2]) + random.normal(0, 0.1, n)
    ),
}


def rates(shape: str, n_a: int, n_b: int, truth: int, repetitions: int) -> tuple[float, float]:
    """Shares of REPRODUCED and DIFFERENT at a true shift in units of the margin of 2 sd."""
    random = np.random.default_rng([n_a, n_b, 20260301])
    draw, region = SHAPES[shape], Region(lower=-2, upper=2)
    words = []
    for _ in range(repetitions):
        a, b = draw(random, n_a), draw(random, n_b) + 2 * truth
        words.append(decide(known(shift(runs(a), runs(b), alpha=0.05)), region).word)
    return words.count("REPRODUCED") / repetitions, words.count("DIFFERENT") / repetitions


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize(("n_a", "n_b"), [(3, 3), (5, 5), (10, 10), (30, 5)])
@pytest.mark.parametrize("truth", [-1, 1])
def test_on_the_margin_either_verdict_is_rare(shape: str, n_a: int, n_b: int, truth: int) -> None:
    # limit 6 %, and two standard errors of 800 repetitions
    reproduced, different = rates(shape, n_a, n_b, truth, 800)
    assert reproduced <= 0.077
    assert different <= 0.077


def test_equal_sides_are_confirmed_and_shifted_ones_found() -> None:
    reproduced, different = rates("normal", 6, 6, 0, 800)
    assert reproduced >= 0.77
    assert different <= 0.01
    reproduced, different = rates("normal", 5, 5, 2, 800)
    assert reproduced == 0
    assert different >= 0.77


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("truth", [-1, 1])
def test_on_the_margin_one_run_against_ten_seldom_says_either(shape: str, truth: int) -> None:
    # limits 6 and 7.5 %, and two standard errors of 800 repetitions
    reproduced, different = rates(shape, 10, 1, truth, 800)
    assert reproduced <= 0.077
    assert different <= 0.075


def of_pairs(values: Runs) -> Interval:
    return known(paired_shift(values, alpha=0.05))


def of_one_side(values: Runs) -> Interval:
    return known(location(values, alpha=0.05))


@pytest.mark.parametrize("interval", [of_pairs, of_one_side])
@pytest.mark.parametrize("shape", populations.SHAPES)
@pytest.mark.parametrize("n", [3, 5, 10])
def test_one_skewed_set_of_values_on_a_bound_is_seldom_decided(
    interval: Callable[[Runs], Interval], shape: str, n: int
) -> None:
    # 5 %, and three standard errors of 2000 repetitions; at all of alpha it is 13 to 14 %
    random = np.random.default_rng([n, 20260301])
    samples = populations.runs(random, shape, (2000, n))
    intervals = [interval(runs(values)) for values in samples]
    for region in (Region(upper=populations.MEAN), Region(lower=populations.MEAN)):
        words = [decide(one, region).word for one in intervals]
        assert words.count("REPRODUCED") <= 0.065 * len(words)
        assert words.count("DIFFERENT") <= 0.065 * len(words)
