"""The interval engine against scipy, and its properties."""

import dataclasses
import math
from collections.abc import Sequence
from random import Random

import numpy as np
import pytest
import scipy.stats
from hypothesis import assume, given
from hypothesis import strategies as st
from numpy.typing import NDArray

from capsule.stats import (
    Region,
    Runs,
    Word,
    decide,
    fisher_more,
    holm,
    location,
    runs_to_decide,
    shift,
)
from capsule.stats.margin import c4
from capsule.stats.ranks import critical_rank
from capsule.stats.ranks import interval as rank_interval
from tests.stats.sides import known, runs
from tests.support.properties import examples

SAMPLES = [(3, 3), (2, 5), (5, 5), (10, 3), (5, 30), (30, 30), (60, 60)]


def draw(n_a: int, n_b: int, seed: int = 0) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    random = np.random.default_rng([n_a, n_b, seed])
    return random.normal(10, 2, n_a), random.normal(11, 5, n_b)


# what may be a run


def test_a_list_of_repetitions_is_not_runs() -> None:
    with pytest.raises((TypeError, AttributeError)):
        Runs.of([0.1, 0.2, 0.3])  # type: ignore[arg-type]  # a wrong type is what is tried


def test_one_seed_is_one_run() -> None:
    with pytest.raises(ValueError, match="seed 1 follows seed 1"):
        Runs(by_seed=((1, 0.5), (1, 0.6)))


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_a_run_without_a_finite_value_is_refused(value: float) -> None:
    with pytest.raises(ValueError, match="finite"):
        runs([1.0, value])


@pytest.mark.parametrize("n", [2, 3, 5, 7, 10, 49])
def test_the_mean_of_equal_values_is_that_value_and_their_spread_zero(n: int) -> None:
    assert (runs([0.1] * n).mean, runs([0.1] * n).sd) == (0.1, 0.0)


@pytest.mark.parametrize("scale", [1e-300, 1e-160, 1.0, 1e160, 1e300])
def test_moments_keep_their_precision_at_any_magnitude(scale: float) -> None:
    values = np.array([1.0, 2.0, 4.0, 8.0])
    scaled = runs(values * scale)
    assert scaled.mean / scale == pytest.approx(values.mean(), rel=1e-14)
    assert scaled.sd / scale == pytest.approx(values.std(ddof=1), rel=1e-14)


def test_the_resolution_of_logarithms_is_the_widest_step_there() -> None:
    assert runs([2.0, 8.0], resolution=1.0).log().resolution == 0.5


# oracles


@pytest.mark.parametrize(("n_a", "n_b"), SAMPLES)
def test_welch_equals_scipy(n_a: int, n_b: int) -> None:
    a, b = draw(n_a, n_b)
    interval = known(shift(runs(a), runs(b), alpha=0.05))
    test = scipy.stats.ttest_ind(b, a, equal_var=False)
    limits = test.confidence_interval(0.9)
    assert interval.method == "envelope"
    assert interval.df == pytest.approx(test.df, rel=1e-12)
    assert interval.lower <= limits.low + 1e-12
    assert interval.upper >= limits.high - 1e-12
    by_rank = known(shift(runs(a), runs(b), alpha=0.05, relabel=False))
    ranks = known(rank_interval(runs(a), runs(b), 0.05))
    assert by_rank.lower == pytest.approx(min(limits.low, ranks[0]), rel=1e-12)
    assert by_rank.upper == pytest.approx(max(limits.high, ranks[1]), rel=1e-12)


@pytest.mark.parametrize(("n_a", "n_b"), SAMPLES)
def test_p_values_equal_those_of_two_one_sided_welch_tests(n_a: int, n_b: int) -> None:
    a, b = draw(n_a, n_b)
    region = Region(lower=-1.5, upper=2.5)
    decision = decide(known(shift(runs(a), runs(b), alpha=0.05)), region)

    def p(bound: float, alternative: str) -> float:
        test = scipy.stats.ttest_ind(b - bound, a, equal_var=False, alternative=alternative)
        return float(test.pvalue)

    reproduced = max(p(region.lower, "greater"), p(region.upper, "less"))
    different = min(p(region.lower, "less"), p(region.upper, "greater"))
    assert decision.p_reproduced == pytest.approx(reproduced, rel=1e-11, abs=1e-15)
    assert decision.p_different == pytest.approx(different, rel=1e-11, abs=1e-15)


@pytest.mark.parametrize("n", [2, 5, 10])
def test_one_run_is_held_against_the_prediction_interval(n: int) -> None:
    a = draw(n, 1)[0]
    reach = scipy.stats.t.ppf(1 - 0.05 / 4, n - 1) * a.std(ddof=1) * math.sqrt(1 + 1 / n)
    there = known(shift(runs(a), runs([0.0]), alpha=0.05))
    back = known(shift(runs([0.0]), runs(a), alpha=0.05))
    assert there.method == back.method == "prediction"
    assert (there.upper - there.lower) / 2 == pytest.approx(reach, rel=1e-12)
    assert (back.lower, back.upper) == (-there.upper, -there.lower)


@pytest.mark.parametrize(("n_a", "n_b"), [(3, 3), (2, 5), (4, 7), (5, 5), (10, 3), (12, 12)])
@pytest.mark.parametrize("seed", range(5))
def test_rank_limits_are_bracketed_by_the_exact_mann_whitney_p(
    n_a: int, n_b: int, seed: int
) -> None:
    a, b = draw(n_a, n_b, seed)
    lower, upper = known(rank_interval(runs(a), runs(b), 0.05))
    nudge = 1e-9

    def p(shifted: float, alternative: str) -> float:
        test = scipy.stats.mannwhitneyu(b - shifted, a, method="exact", alternative=alternative)
        return float(test.pvalue)

    assert p(lower - nudge, "greater") <= 0.05 < p(lower + nudge, "greater")
    assert p(upper + nudge, "less") <= 0.05 < p(upper - nudge, "less")


def test_rank_intervals_exist_where_the_specification_says() -> None:
    exist = {(m, n) for m in range(1, 8) for n in range(m, 22) if critical_rank(m, n, 0.05)}
    assert min(n for m, n in exist if m == 1) == 19
    assert min(n for m, n in exist if m == 2) == 5
    assert min(n for m, n in exist if m == 3) == 3


def test_the_normal_approximation_continues_the_exact_ranks() -> None:
    for m, n in [(50, 50), (50, 51), (60, 60)]:  # the first is the last exact one
        sd = math.sqrt(m * n * (m + n + 1) / 12)
        rank = critical_rank(m, n, 0.05)
        assert scipy.stats.norm.cdf((rank - 0.5 - m * n / 2) / sd) <= 0.05
        assert scipy.stats.norm.cdf((rank + 0.5 - m * n / 2) / sd) > 0.05


def test_without_ranks_the_level_is_halved_until_runs_are_many() -> None:
    few = known(shift(runs([1, 2]), runs([1, 3]), alpha=0.05))
    assert (few.method, few.alpha) == ("welch", 0.025)
    many = np.random.default_rng(1).normal(size=600)
    plenty = known(shift(runs(many[:501]), runs(many[:500]), alpha=0.05))
    assert (plenty.method, plenty.alpha) == ("welch", 0.05)


@pytest.mark.parametrize("n", [2, 5, 20])
def test_c4_is_the_mean_of_the_chi_distribution(n: int) -> None:
    assert c4(n) == pytest.approx(scipy.stats.chi(n - 1).mean() / math.sqrt(n - 1), rel=1e-12)


@pytest.mark.parametrize("table", [(0, 5, 5, 5), (0, 5, 3, 5), (2, 30, 4, 5), (3, 7, 3, 7)])
def test_fisher_equals_scipy(table: tuple[int, int, int, int]) -> None:
    failed_a, n_a, failed_b, n_b = table
    cells = [[failed_b, n_b - failed_b], [failed_a, n_a - failed_a]]
    expected = scipy.stats.fisher_exact(cells, alternative="greater").pvalue
    assert fisher_more(*table) == pytest.approx(expected, rel=1e-12)


def test_holm_follows_its_definition() -> None:
    assert holm([]) == ()
    assert holm([0.04]) == (0.04,)
    assert holm([0.02, 0.001, 0.5, 0.03]) == pytest.approx((0.06, 0.004, 0.5, 0.06))
    assert max(holm([0.9, 0.8, 0.7])) == 1.0


# awkward samples


@pytest.mark.parametrize(("n_a", "n_b"), [(0, 0), (1, 1), (0, 5), (5, 0)])
def test_there_is_no_interval_without_a_spread_on_either_side(n_a: int, n_b: int) -> None:
    assert shift(runs(range(n_a)), runs(range(n_b)), alpha=0.05) is None


def test_constants_without_a_resolution_are_compared_exactly() -> None:
    same = known(shift(runs([0.1] * 3), runs([0.1] * 5), alpha=0.05))
    other = known(shift(runs([0.1] * 3), runs([0.1000001] * 5), alpha=0.05))
    point = Region(lower=0.0, upper=0.0)
    assert (same.method, other.method) == ("exact", "exact")
    assert decide(same, point).word == "REPRODUCED"
    assert decide(other, point).word == "DIFFERENT"
    assert decide(other, point).p_different == 0.0


def test_constants_with_a_resolution_are_uncertain_by_their_rounding() -> None:
    interval = known(shift(runs([18] * 5, 1.0), runs([18] * 5, 1.0), alpha=0.05))
    assert interval.standard_error == pytest.approx(math.sqrt(2 / 5 / 12))
    assert decide(interval, Region(lower=-0.1, upper=0.1)).word == "INCONCLUSIVE"
    assert decide(interval, Region(lower=-1.5, upper=1.5)).word == "REPRODUCED"


def test_one_run_needs_twice_the_evidence_to_differ() -> None:
    a = runs([-1.0, 0.0, 1.0])
    barely = known(shift(a, runs([9.0]), alpha=0.05))
    region = Region(lower=-1, upper=1)
    assert barely.lower > region.upper
    assert decide(barely, region).word == "INCONCLUSIVE"
    assert barely.alpha < decide(barely, region).p_different <= 2 * barely.alpha
    assert decide(known(shift(a, runs([12.0]), alpha=0.05)), region).word == "DIFFERENT"


# properties

VALUE = st.floats(-1e6, 1e6, allow_nan=False).map(lambda v: round(v, 3))
SIDE = st.lists(VALUE, min_size=2, max_size=8)
FAST = examples(60)


def word(a: Runs, b: Runs, lower: float, upper: float) -> Word:
    interval = known(shift(a, b, alpha=0.05))
    return decide(interval, Region(lower=lower, upper=upper)).word


@FAST
@given(SIDE, SIDE, st.floats(0, 1e6))
def test_swapping_the_sides_mirrors_the_interval_and_keeps_the_verdict(
    a: Sequence[float], b: Sequence[float], margin: float
) -> None:
    there = known(shift(runs(a), runs(b), alpha=0.05))
    back = known(shift(runs(b), runs(a), alpha=0.05))
    assert (back.lower, back.upper) == (-there.upper, -there.lower)
    assert word(runs(a), runs(b), -margin, margin) == word(runs(b), runs(a), -margin, margin)


@FAST
@given(SIDE, SIDE, st.integers(-8, 8), st.floats(0.01, 1e3))
def test_a_change_of_unit_keeps_the_verdict(
    a: Sequence[float], b: Sequence[float], exponent: int, margin: float
) -> None:
    factor = 2.0**exponent  # exact in binary, so that no border moves by rounding
    scaled = runs([v * factor for v in a]), runs([v * factor for v in b])
    before = word(runs(a), runs(b), -margin, margin)
    assert word(*scaled, -margin * factor, margin * factor) == before


@FAST
@given(SIDE, SIDE, st.floats(0, 1), st.floats(0, 1e6))
def test_a_wider_margin_never_undoes_reproduced(
    a: Sequence[float], b: Sequence[float], slack: float, more: float
) -> None:
    interval = known(shift(runs(a), runs(b), alpha=0.05))
    margin = max(abs(interval.lower), abs(interval.upper)) * (1.001 + slack) + 1e-3
    assert word(runs(a), runs(b), -margin, margin) == "REPRODUCED"
    assert word(runs(a), runs(b), -margin - more, margin + more) == "REPRODUCED"


@FAST
@given(SIDE, SIDE, st.randoms())
def test_the_order_of_runs_changes_no_bit(a: list[float], b: list[float], random: Random) -> None:
    before = known(shift(runs(a), runs(b), alpha=0.05))
    random.shuffle(a)
    random.shuffle(b)
    assert shift(runs(a), runs(b), alpha=0.05) == before


@FAST
@given(SIDE, SIDE, st.floats(0, 1), st.integers(2, 4))
def test_more_of_the_same_data_never_turns_reproduced_into_different(
    a: list[float], b: list[float], slack: float, times: int
) -> None:
    interval = known(shift(runs(a), runs(b), alpha=0.05))
    margin = max(abs(interval.lower), abs(interval.upper)) * (1.001 + slack) + 1e-3
    assert word(runs(a), runs(b), -margin, margin) == "REPRODUCED"
    assert word(runs(a * times), runs(b * times), -margin, margin) != "DIFFERENT"


@FAST
@given(SIDE, SIDE, st.integers(-1000, 1000), st.integers(-8, 8), st.integers(1, 10**6))
def test_an_affine_change_of_the_metric_keeps_the_verdict(
    a: Sequence[float], b: Sequence[float], offset: int, exponent: int, margin: int
) -> None:
    # whole thousandths and powers of two, so that no border moves by rounding
    factor = 2.0**exponent
    sides = [[round(1000 * value) for value in side] for side in (a, b)]
    moved_a, moved_b = (runs([factor * (value + offset) for value in side]) for side in sides)
    scaled = factor * (margin + 0.25)
    before = known(shift(*map(runs, sides), alpha=0.05))
    edges = (before.lower, before.upper)
    assume(all(abs(abs(edge) - margin - 0.25) > 1e-6 * (1 + abs(edge)) for edge in edges))
    expected = decide(before, Region(lower=-margin - 0.25, upper=margin + 0.25)).word
    assert word(moved_a, moved_b, -scaled, scaled) == expected


@FAST
@given(SIDE, SIDE, st.floats(0.001, 0.2))
def test_the_envelope_holds_the_estimate_and_widens_with_confidence(
    a: Sequence[float], b: Sequence[float], alpha: float
) -> None:
    wide = known(shift(runs(a), runs(b), alpha=alpha / 2))
    narrow = known(shift(runs(a), runs(b), alpha=alpha))
    assert narrow.lower <= narrow.estimate <= narrow.upper
    if wide.method == narrow.method:
        # limits that relabelings give are sought to twelve digits
        slack = 1e-9 * narrow.magnitude
        assert wide.lower <= narrow.lower + slack
        assert narrow.upper <= wide.upper + slack


@FAST
@given(SIDE, SIDE, st.floats(0.001, 1e6))
def test_p_values_and_verdict_agree_where_welch_decides_alone(
    a: Sequence[float], b: Sequence[float], margin: float
) -> None:
    interval = known(shift(runs(a[:2]), runs(b[:2]), alpha=0.05))
    decision = decide(interval, Region(lower=-margin, upper=margin))
    if decision.word == "REPRODUCED":
        assert decision.p_reproduced <= interval.alpha + 1e-12
    if decision.word == "DIFFERENT":
        assert decision.p_different <= interval.alpha + 1e-12


# advice


def test_advice_followed_decides() -> None:
    random = np.random.default_rng(7)
    a, b = np.linspace(-1.5, 1.5, 10), np.array([-1.1, 0.3, 1.7])
    region = Region(lower=-2, upper=2)
    interval = known(shift(runs(a), runs(b), alpha=0.05))
    assert decide(interval, region).word == "INCONCLUSIVE"
    needed = runs_to_decide(runs(a), runs(b), interval, region)
    assert isinstance(needed, int)
    assert 3 < needed < 60
    decided = 0
    for _ in range(200):
        more = random.normal(interval.estimate + np.mean(a), np.std(a, ddof=1), needed - 3)
        again = known(shift(runs(a), runs([*b, *more]), alpha=0.05))
        decided += decide(again, region).word != "INCONCLUSIVE"
    assert decided / 200 >= 0.75


def test_advice_says_when_no_number_of_runs_decides() -> None:
    a, b = runs([0.0, 1.0]), runs([0.0, 1.0, 0.5])
    interval = known(shift(a, b, alpha=0.05))
    region = Region(lower=-0.5, upper=0.5)
    assert runs_to_decide(a, b, interval, region) == "original-too-few"
    border = known(shift(b, b, alpha=0.05))
    edge = Region(lower=-1.0, upper=border.estimate)
    assert runs_to_decide(b, b, border, edge) == "on-the-margin"


def test_advice_about_a_constant_reckons_with_one_side() -> None:
    b = runs([0.4, 0.5, 0.9])
    interval = known(location(b, alpha=0.05))
    needed = runs_to_decide(None, b, interval, Region(upper=0.8))
    assert isinstance(needed, int)
    # three values hardly tell their spread
    assert 3 < needed < 60


def test_values_are_frozen() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        runs([1.0, 2.0]).resolution = 1.0  # type: ignore[misc]  # what is frozen is tried
