"""Error rates of verdicts on runs of several shapes, by simulation of the product's decision."""

import math
from collections.abc import Callable

import numpy as np
import populations
import pytest
from numpy.typing import NDArray

from capsule.stats import Interval, Region, Runs, decide, location, p_beyond, paired_shift, shift
from tests.stats.sides import known, runs
from tests.support.properties import pin_first

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

SKEWED_FIRST = sorted(SHAPES, key="lognormal".__ne__)


def rates(shape: str, n_a: int, n_b: int, truth: int, repetitions: int) -> tuple[float, float]:
    """Shares of REPRODUCED and DIFFERENT at a true shift in units of the margin of 2 sd."""
    random = np.random.default_rng([n_a, n_b, 20260301])
    draw, region = SHAPES[shape], Region(lower=-2, upper=2)
    words = []
    for _ in range(repetitions):
        a, b = draw(random, n_a), draw(random, n_b) + 2 * truth
        words.append(decide(known(shift(runs(a), runs(b), alpha=0.05)), region).word)
    return words.count("REPRODUCED") / repetitions, words.count("DIFFERENT") / repetitions


@pytest.mark.parametrize("shape", pin_first(SKEWED_FIRST))
@pytest.mark.parametrize(("n_a", "n_b"), pin_first([(30, 5), (3, 3), (5, 5), (7, 7)]))
@pytest.mark.parametrize("truth", pin_first([1, -1]))
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


@pytest.mark.parametrize("shape", pin_first(SKEWED_FIRST))
@pytest.mark.parametrize("truth", pin_first([1, -1]))
def test_on_the_margin_one_run_against_ten_seldom_says_either(shape: str, truth: int) -> None:
    # limits 6 and 7.5 %, and two standard errors of 800 repetitions
    reproduced, different = rates(shape, 10, 1, truth, 800)
    assert reproduced <= 0.077
    assert different <= 0.075


def of_pairs(values: Runs) -> Interval:
    return known(paired_shift(values, alpha=0.05))


def of_one_side(values: Runs) -> Interval:
    return known(location(values, alpha=0.05))


@pytest.mark.parametrize("interval", pin_first([of_one_side, of_pairs]))
@pytest.mark.parametrize("shape", pin_first(sorted(populations.SHAPES, key="lognormal".__ne__)))
@pytest.mark.parametrize("n", pin_first([5, 3, 10]))
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


COUNTS: dict[str, Draw] = {
    "geometric": lambda random, n: np.asarray(random.geometric(0.5, n), dtype=np.float64),
    "half zeros": lambda random, n: np.asarray(
        random.integers(0, 2, n) * random.integers(1, 5, n), dtype=np.float64
    ),
}


@pytest.mark.parametrize("shape", pin_first(COUNTS))
@pytest.mark.parametrize(("n_a", "n_b"), pin_first([(10, 3), (30, 5), (5, 30)]))
def test_a_count_on_its_margin_is_seldom_confirmed(shape: str, n_a: int, n_b: int) -> None:
    # 11 to 16 % where an interval that ends on the margin counts as inside it
    random = np.random.default_rng([n_a, n_b, 20260302])
    draw, region, words = COUNTS[shape], Region(lower=-3, upper=3), []
    for index in range(600):
        a, b = draw(random, n_a), draw(random, n_b) + (3 if index % 2 else -3)
        words.append(decide(known(shift(runs(a), runs(b), alpha=0.05)), region).word)
    assert words.count("REPRODUCED") / 600 <= 0.077
    assert words.count("DIFFERENT") / 600 <= 0.077


def test_relabelings_leave_power_that_ranks_do_not() -> None:
    random = np.random.default_rng(20260303)
    region, confirmed = Region(lower=-2, upper=2), {True: 0, False: 0}
    for _ in range(400):
        a, b = runs(random.normal(size=4)), runs(random.normal(size=4))
        for relabel in confirmed:
            interval = known(shift(a, b, alpha=0.05, relabel=relabel))
            confirmed[relabel] += decide(interval, region).word == "REPRODUCED"
    assert confirmed[True] >= confirmed[False] + 30  # 51 % against 39 %


@pytest.mark.parametrize(
    ("shape", "n_a", "n_b"),
    pin_first([("normal", 3, 12), ("lognormal", 5, 30), ("two points", 5, 12)]),
)
def test_no_claim_of_a_family_on_its_margins_is_far_outside_by_chance(
    shape: str, n_a: int, n_b: int
) -> None:
    # 13 to 32 % of such families where Welch's p alone is held against the corrected level
    random = np.random.default_rng([n_a, n_b, 20260304])
    draw, region, claims, families = SHAPES[shape], Region(lower=-2, upper=2), 20, 300
    families_beyond = 0
    for _ in range(families):
        sides = [(draw(random, n_a), draw(random, n_b) + 2) for _ in range(claims)]
        # a mean inside the margin is never far outside it
        far = [(a, b) for a, b in sides if b.mean() - a.mean() > 2 or b.mean() - a.mean() < -2]
        p_values = [p_beyond(runs(a), runs(b), region) for a, b in far]
        families_beyond += any(p is not None and p <= 0.05 / claims for p in p_values)
    assert families_beyond / families <= 0.09
