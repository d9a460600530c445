"""ISO 5725's standard deviations and a mean over machines: oracles, properties, coverage."""

import math
from collections.abc import Iterable, Sequence
from random import Random

import numpy as np
import pytest
import scipy.stats
from hypothesis import given
from hypothesis import strategies as st

from capsule.stats import Runs
from capsule.stats.reproducibility import paule_mandel, precision, random_effects_mean
from tests.stats.sides import known
from tests.support.properties import examples

# sulfur in coal, ISO 5725-2:1994 B.1, level 1, in percent; printed there: s_r 0.015, s_R 0.026
COAL = (
    (0.71, 0.71, 0.70, 0.71),
    (0.69, 0.67, 0.68),
    (0.66, 0.65, 0.69),
    (0.67, 0.65, 0.66),
    (0.70, 0.69, 0.66, 0.71, 0.69),
    (0.73, 0.74, 0.73),
    (0.71, 0.71, 0.69),
    (0.70, 0.65, 0.68),
)
# yield of dyestuff, Davies 1947, six batches; known components 2451.25 and 1764.05
DYESTUFF = (
    (1545, 1440, 1440, 1520, 1580),
    (1540, 1555, 1490, 1560, 1495),
    (1595, 1550, 1605, 1510, 1560),
    (1445, 1440, 1595, 1465, 1545),
    (1595, 1630, 1515, 1635, 1625),
    (1520, 1455, 1450, 1480, 1445),
)
# log risk ratios of thirteen trials of a vaccine and their variances; tau^2 is 0.3181
TRIALS = (
    (-0.8893, 0.3256), (-1.5854, 0.1946), (-1.3481, 0.4154), (-1.4416, 0.0200), (-0.2175, 0.0512),
    (-0.7861, 0.0069), (-1.6209, 0.2230), (0.0120, 0.0040), (-0.4694, 0.0564), (-1.3713, 0.0730),
    (-0.3394, 0.0124), (0.4459, 0.5325), (-0.0173, 0.0714),
)  # fmt: skip


def machines(
    values: Iterable[Iterable[float]], *, shared: bool = False, resolution: float = 0.0
) -> list[Runs]:
    """One `Runs` for each machine; with `shared` all but the first use the same seeds."""
    return [
        Runs.of(
            {1000 * (min(i, 1) if shared else i) + j: value for j, value in enumerate(side)},
            resolution=resolution,
        )
        for i, side in enumerate(values)
    ]


# worked examples


def test_standard_deviations_by_hand_with_unequal_numbers_of_runs() -> None:
    spread = known(precision(machines([(1, 3), (5, 6, 7), (10,)]), alpha=0.05))
    # s_r^2 = (2 + 2 + 0) / 3, s_d^2 = 68/3 around 16/3, n'' = (6 - 14/6) / 2 = 11/6
    assert spread.repeatability_sd**2 == pytest.approx(4 / 3, rel=1e-14)
    assert spread.between_sd**2 == pytest.approx(128 / 11, rel=1e-14)
    assert spread.reproducibility_sd**2 == pytest.approx(4 / 3 + 128 / 11, rel=1e-14)
    assert (spread.sides, spread.runs, spread.within_df) == (3, 6, 3)
    assert spread.limit == pytest.approx(2.8 * spread.reproducibility_sd)


def test_the_example_of_the_standard() -> None:
    spread = known(precision(machines(COAL), alpha=0.05))
    assert (round(spread.repeatability_sd, 3), round(spread.reproducibility_sd, 3)) == (
        0.015,
        0.026,
    )
    assert spread.equal_spread_p == pytest.approx(scipy.stats.bartlett(*COAL).pvalue, rel=1e-10)


def test_limits_are_those_of_graybill_and_wang() -> None:
    spread = known(precision(machines(DYESTUFF), alpha=0.05))
    assert spread.repeatability_sd**2 == pytest.approx(2451.25, rel=1e-13)
    assert spread.between_sd**2 == pytest.approx(1764.05, rel=1e-13)
    between, within = 5 * np.var([np.mean(side) for side in DYESTUFF], ddof=1), 2451.25
    parts = np.array([between / 5, 0.8 * within])
    df = np.array([5, 24])
    down = 1 - df / scipy.stats.chi2.ppf(0.95, df)
    up = df / scipy.stats.chi2.ppf(0.05, df) - 1
    assert spread.lower**2 == pytest.approx(sum(parts) - math.hypot(*(down * parts)), rel=1e-9)
    assert spread.upper**2 == pytest.approx(sum(parts) + math.hypot(*(up * parts)), rel=1e-9)


def test_no_spread_between_machines_is_none_below_zero() -> None:
    spread = known(precision(machines([(1, 3), (1, 3), (1, 3)]), alpha=0.05))
    assert spread.between_sd == 0
    assert spread.reproducibility_sd == spread.repeatability_sd == pytest.approx(math.sqrt(2))


def test_tau_is_that_of_paule_and_mandel() -> None:
    from statsmodels.stats.meta_analysis import combine_effects

    means, variances = (np.array(column) for column in zip(*TRIALS, strict=True))
    tau2 = paule_mandel(list(means), list(variances))
    assert tau2 == pytest.approx(combine_effects(means, variances, method_re="iterated").tau2)
    assert round(tau2, 4) == 0.3181


def test_the_mean_is_that_of_hartung_and_knapp() -> None:
    from statsmodels.stats.meta_analysis import combine_effects

    sides = machines(COAL)
    mean = known(random_effects_mean(sides, alpha=0.05))
    within = known(precision(sides, alpha=0.05)).repeatability_sd ** 2
    other = combine_effects(
        np.array([side.mean for side in sides]),
        np.array([within / side.n for side in sides]),
        method_re="iterated",
        use_t=True,
        atol=1e-12,
        maxiter=500,
    )
    low, high = other.conf_int(alpha=0.1, use_t=True)[3]  # random effects, their variance scaled
    assert mean.estimate == pytest.approx(other.mean_effect_re, rel=1e-8)
    assert (mean.lower, mean.upper) == pytest.approx((low, high), rel=1e-6)


def test_machines_alike_still_have_the_spread_of_their_runs() -> None:
    mean = known(random_effects_mean(machines([(1, 3), (1, 3), (1, 3)]), alpha=0.05))
    assert (mean.estimate, mean.between_sd) == (2, 0)
    assert mean.standard_error == pytest.approx(math.sqrt(2 / 6))
    assert mean.upper - 2 == pytest.approx(scipy.stats.t.ppf(0.95, 2) * math.sqrt(2 / 6))


# edges


@pytest.mark.parametrize("values", [[], [(1, 2)], [(1,), (2,), (3,)], [(1, 2), (), ()]])
def test_too_little_tells_nothing(values: Sequence[tuple[int, ...]]) -> None:
    assert precision(machines(values), alpha=0.05) is None
    assert random_effects_mean(machines(values), alpha=0.05) is None


def test_two_machines_have_a_spread_and_no_mean() -> None:
    sides = machines([(1, 2), (3, 4), ()])
    assert known(precision(sides, alpha=0.05)).sides == 2
    assert random_effects_mean(sides, alpha=0.05) is None


@pytest.mark.parametrize("resolution", [0.0, 0.1])
def test_constant_values_spread_as_far_as_their_rounding(resolution: float) -> None:
    sides = machines([(0.3,) * 3] * 3, resolution=resolution)
    spread = known(precision(sides, alpha=0.05))
    mean = known(random_effects_mean(sides, alpha=0.05))
    floor = resolution / math.sqrt(12)
    assert spread.repeatability_sd == spread.reproducibility_sd == pytest.approx(floor)
    assert mean.estimate == 0.3
    assert mean.standard_error == pytest.approx(floor / 3)
    assert (spread.upper > 0) == (resolution > 0)


@pytest.mark.parametrize("scale", [1e-300, 1e-160, 1e160, 1e299])
def test_no_magnitude_leaves_the_range_of_doubles(scale: float) -> None:
    values = np.array([(1.0, 1.5, 1.2), (2.0, 2.2, 2.7), (0.1, 0.3, -0.2)])
    there, here = (
        known(precision(machines(values), alpha=0.05)),
        known(precision(machines(values * scale), alpha=0.05)),
    )
    for name in ("repeatability_sd", "between_sd", "reproducibility_sd", "lower", "upper"):
        assert getattr(here, name) / scale == pytest.approx(getattr(there, name), rel=1e-12)
    mean = known(random_effects_mean(machines(values * scale), alpha=0.05))
    assert mean.upper / scale == pytest.approx(
        known(random_effects_mean(machines(values), alpha=0.05)).upper, rel=1e-12
    )


def test_one_machine_far_noisier_than_the_others_is_told() -> None:
    quiet, noisy = (1.0, 1.01, 0.99, 1.0, 1.02), (1.0, 3.0, -2.0, 5.0, 0.0)
    unequal = known(precision(machines([quiet, quiet, noisy]), alpha=0.05))
    assert known(unequal.equal_spread_p) < 0.001
    unlike = known(precision(machines([quiet, (1.0,) * 5]), alpha=0.05))
    assert unlike.equal_spread_p == 0


# properties

SIDE = st.lists(st.floats(-100, 100).map(lambda x: round(x, 3)), min_size=1, max_size=5)
SIDES = st.lists(SIDE, min_size=3, max_size=5).filter(lambda all_: max(map(len, all_)) > 1)


@examples(60)
@given(SIDES, st.randoms(use_true_random=False))
def test_neither_the_order_of_machines_nor_that_of_runs_matters(
    values: Sequence[Sequence[float]], chance: Random
) -> None:
    sides = machines(values)
    shuffled = [Runs.of(dict(chance.sample(side.by_seed, side.n))) for side in sides]
    chance.shuffle(shuffled)
    assert precision(shuffled, alpha=0.05) == precision(sides, alpha=0.05)
    assert random_effects_mean(shuffled, alpha=0.05) == random_effects_mean(sides, alpha=0.05)


@examples(60)
@given(SIDES)
def test_estimates_lie_within_their_limits_and_common_seeds_never_narrow_them(
    values: Sequence[Sequence[float]],
) -> None:
    apart, together = (
        (known(precision(sides, alpha=0.05)), known(random_effects_mean(sides, alpha=0.05)))
        for sides in (machines(values), machines(values, shared=True))
    )
    for spread, mean in (apart, together):
        assert spread.repeatability_sd <= spread.reproducibility_sd
        assert spread.lower <= spread.reproducibility_sd <= spread.upper
        assert mean.lower <= mean.estimate <= mean.upper
    assert together[0].within_df <= apart[0].within_df
    assert together[0].upper >= apart[0].upper * (1 - 1e-12)
    assert together[0].lower <= apart[0].lower * (1 + 1e-12)
    assert together[1].standard_error >= apart[1].standard_error * (1 - 1e-12)


@examples(40)
@given(SIDES, st.sampled_from([0.5, 2.0, 64.0]), st.integers(-50, 50))
def test_another_unit_changes_nothing_but_the_unit(
    values: Sequence[Sequence[float]], factor: float, offset: int
) -> None:
    there = machines(values)
    here = machines([[offset + factor * value for value in side] for side in values])
    a, b = known(precision(there, alpha=0.05)), known(precision(here, alpha=0.05))
    assert b.upper == pytest.approx(factor * a.upper, rel=1e-6, abs=1e-9)
    x = known(random_effects_mean(there, alpha=0.05))
    y = known(random_effects_mean(here, alpha=0.05))
    assert y.lower == pytest.approx(offset + factor * x.lower, rel=1e-6, abs=1e-6)


@pytest.mark.parametrize(
    ("n", "between", "same_seed"),
    [
        ((3, 3, 3), 0.3, 0.0),
        ((5, 5, 5), 1.0, 1.0),
        ((30, 5, 5), 0.3, 0.5),
        ((5,) * 8, 0.0, 1.0),
        ((5,) * 8, 1.0, 0.5),
    ],
)
def test_limits_hold_as_often_as_they_say(
    n: tuple[int, ...], between: float, same_seed: float
) -> None:
    """At most 10 % outside a 90 % interval, also when re-executions share their seeds.

    `same_seed` is the part of the variance between runs that comes back with the same seed. The
    standard error of a share is 1.2 points.
    """
    chance, repetitions = np.random.default_rng([len(n), n[0], int(10 * between)]), 600
    outside = outside_mean = 0
    for _ in range(repetitions):
        by_seed = chance.normal(0, math.sqrt(same_seed), (2, max(n)))
        values = [
            chance.normal(chance.normal(0, between), math.sqrt(1 - same_seed), runs)
            + by_seed[min(side, 1), :runs]
            for side, runs in enumerate(n)
        ]
        sides = machines(values, shared=True)
        spread = known(precision(sides, alpha=0.05))
        mean = known(random_effects_mean(sides, alpha=0.05))
        outside += not spread.lower <= math.hypot(1, between) <= spread.upper
        outside_mean += not mean.lower <= 0 <= mean.upper
    assert outside / repetitions <= 0.10 + 3 * 0.0122
    assert outside_mean / repetitions <= 0.10 + 3 * 0.0122
    assert outside > 0  # not merely unbounded
