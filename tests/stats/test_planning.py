"""What numbers of runs can confirm, and how many are advised: tables, and the rule followed."""

import math
from collections.abc import Sequence

import numpy as np
import pytest
import scipy.stats

from capsule.stats import (
    Region,
    Runs,
    Summary,
    decide,
    narrowest_margin,
    runs_for_margin,
    runs_to_decide,
    shift,
    summary_shift,
)
from capsule.stats.planning import welch_margin
from tests.stats.sides import known, runs
from tests.support.properties import pin_first

RUNS = (2, 3, 4, 5, 6, 8, 10, 15, 20, 30)
BOTH = (4.61, 2.92, 2.35, 2.03, 1.82, 1.54, 1.36, 1.10, 0.94, 0.76)
UNLIMITED = (6.31, 2.66, 1.94, 1.60, 1.40, 1.15, 1.00, 0.80, 0.68, 0.55)


def one_sd(n: int) -> Runs:
    values = np.linspace(-1, 1, n)
    return runs(values / values.std(ddof=1))


def share_confirmed(
    n_a: int, n_b: int, margin: float, *, alpha: float = 0.05, repetitions: int = 1500
) -> float:
    """How often runs of equal location and spread are called REPRODUCED."""
    random = np.random.default_rng([n_a, n_b])
    region = Region(lower=-margin, upper=margin)
    words = []
    for _ in range(repetitions):
        a, b = runs(random.normal(size=n_a)), runs(random.normal(size=n_b))
        words.append(decide(known(shift(a, b, alpha=alpha)), region).word)
    return words.count("REPRODUCED") / repetitions


# margins


def test_welchs_narrowest_margins_are_those_of_the_table() -> None:
    both = [welch_margin(n, n, alpha=0.05, power=0.8) for n in RUNS]
    assert both == pytest.approx(BOTH, abs=0.0051)
    unlimited = [welch_margin(n, None, alpha=0.05, power=0.8) for n in RUNS]
    assert unlimited == pytest.approx(UNLIMITED, abs=0.0051)


@pytest.mark.parametrize(
    ("n_a", "n_b", "alpha"),
    pin_first(
        [(3, 3, 0.0232), (2, 2, 0.05), (3, 3, 0.05), (5, 5, 0.05), (10, 3, 0.05), (10, 1, 0.05),
         (1, 5, 0.05), (2, 7, 0.0304), (3, 12, 0.0304), (12, 12, 0.01)]
    ),
)  # fmt: skip
@pytest.mark.parametrize("power", pin_first([0.8, 0.9]))
def test_the_narrowest_margin_is_confirmed_as_often_as_it_says(
    n_a: int, n_b: int, alpha: float, power: float
) -> None:
    margin = narrowest_margin(n_a, n_b, alpha=alpha, power=power)
    assert share_confirmed(n_a, n_b, margin, alpha=alpha) == pytest.approx(power, abs=0.03)


def test_many_runs_continue_the_simulated_margins() -> None:
    simulated, reckoned = (narrowest_margin(30, n, alpha=0.05, power=0.8) for n in (30, 31))
    assert 0.97 < reckoned / simulated < 1.0


@pytest.mark.parametrize(("n_a", "n_b"), [(1, 1), (0, 5), (5, 0), (0, None), (1, 0)])
def test_without_a_spread_no_margin_is_confirmed(n_a: int, n_b: int | None) -> None:
    assert narrowest_margin(n_a, n_b, alpha=0.05, power=0.8) == math.inf


def test_one_original_run_is_predicted_by_any_number_of_others() -> None:
    z = scipy.stats.norm.isf(0.05 / 4) + scipy.stats.norm.isf(0.1)
    margin = narrowest_margin(1, None, alpha=0.05, power=0.8)
    assert margin == pytest.approx(z, rel=1e-3)


def test_the_side_does_not_matter() -> None:
    assert narrowest_margin(4, 9, alpha=0.05, power=0.8) == narrowest_margin(
        9, 4, alpha=0.05, power=0.8
    )


@pytest.mark.parametrize(("power", "expected"), [(0.8, [20, 10, 6, 4]), (0.9, [25, 12, 7, 5])])
def test_presets_need_as_many_runs_as_their_table_says(
    power: float, expected: Sequence[int]
) -> None:
    assert [runs_for_margin(k, alpha=0.05, power=power) for k in (1, 1.5, 2, 2.8)] == expected


def test_a_margin_may_be_too_narrow_for_any_number_of_runs() -> None:
    assert runs_for_margin(0.1, alpha=0.05, power=0.8) is None
    assert runs_for_margin(0.0, alpha=0.05, power=0.8) is None


# advice


def share_decided(
    a: Runs, b: Runs, total: int, region: Region, *, truth: float, repetitions: int = 1500
) -> float:
    """How often further runs beside those seen decide, given only what the runs tell."""
    random = np.random.default_rng([a.n, b.n, total])
    df = a.n + b.n - 2
    squares = (a.n - 1) * a.sd**2 + (b.n - 1) * b.sd**2
    words = []
    for _ in range(repetitions):
        sigma = math.sqrt(squares / random.chisquare(df))
        # where the original's mean lies beside the true one, given how far the shift seen is off
        off = (b.mean - a.mean - truth) * b.n / (a.n + b.n)
        off += sigma / math.sqrt(a.n + b.n) * random.standard_normal()
        further = a.mean + truth + off + sigma * random.standard_normal(total - b.n)
        together = runs([*b.values, *further])
        words.append(decide(known(shift(a, together, alpha=0.05)), region).word)
    return 1 - words.count("INCONCLUSIVE") / repetitions


@pytest.mark.parametrize(
    ("n_a", "k", "seen"),
    pin_first([(5, 2.0, 1.0), (5, 2.5, -1.5), (10, 1.5, 1.0), (12, 1.2, 0.5), (5, 1.0, 4.0)]),
)
@pytest.mark.parametrize("power", pin_first([0.8, 0.9]))
@pytest.mark.parametrize("is_equal", pin_first([True, False]))
def test_as_many_runs_as_advised_decide_as_often_as_asked(
    n_a: int, k: float, seen: float, power: float, is_equal: bool
) -> None:
    a, b = one_sd(n_a), runs([value + seen for value in one_sd(5).values])
    region, truth = Region(lower=-k, upper=k), 0.0 if is_equal else seen
    interval = known(shift(a, b, alpha=0.05))
    needed = runs_to_decide(a, b, interval, region, truth=truth, power=power)
    if isinstance(needed, str):
        return
    assert power - 0.06 <= share_decided(a, b, needed, region, truth=truth)
    if needed > b.n + 2:
        fewer = share_decided(a, b, needed - 2, region, truth=truth)
        assert fewer < power + 0.08


def test_bad_luck_so_far_asks_for_more_runs() -> None:
    a, region = one_sd(10), Region(lower=-1.5, upper=1.5)
    needed: list[int] = []
    for seen in (0.0, 0.5, 1.0):
        b = runs([value + seen for value in one_sd(4).values])
        interval = known(shift(a, b, alpha=0.05))
        number = runs_to_decide(a, b, interval, region, truth=0.0)
        assert isinstance(number, int)
        needed.append(number)
    assert needed == sorted(needed)
    assert needed[0] < needed[-1]


def test_advice_from_one_run_reckons_with_the_level_that_more_of_them_will_have() -> None:
    a, region = one_sd(10), Region(lower=-2, upper=2)
    alone = known(shift(a, runs([0.0]), alpha=0.05))
    assert alone.alpha == 0.05 / 4
    two = one_sd(2)
    needed = runs_to_decide(a, runs([0.0]), alone, region)
    assert needed == runs_to_decide(a, two, known(shift(a, two, alpha=0.05)), region)


def test_advice_from_a_single_original_run_takes_the_spread_of_the_other() -> None:
    a, b = runs([0.0]), one_sd(5)
    interval = known(shift(a, b, alpha=0.05))
    assert runs_to_decide(a, b, interval, Region(lower=-2, upper=2)) == "original-too-few"
    needed = runs_to_decide(a, b, interval, Region(lower=-9, upper=9))
    assert isinstance(needed, int)
    assert needed > 5


def test_advice_for_a_summary_stays_at_half_the_level() -> None:
    a, b = Summary(mean=0.0, sd=1.0, n=10), one_sd(3)
    region = Region(lower=-2, upper=2)
    interval = known(summary_shift(a, b, alpha=0.05))
    needed = runs_to_decide(a, b, interval, region)
    whole = one_sd(10)
    from_runs = runs_to_decide(whole, b, known(shift(whole, b, alpha=0.05)), region)
    assert isinstance(needed, int)
    assert isinstance(from_runs, int)
    # a guard of few levels takes one more
    assert needed >= from_runs - 1
    # from a single run on, which has a quarter, about the same number is asked for
    alone = runs([0.0])
    at_quarter = known(summary_shift(a, alone, alpha=0.05))
    two = one_sd(2)
    at_half = known(summary_shift(a, two, alpha=0.05))
    from_one, from_two = (
        runs_to_decide(a, b, interval, region)
        for b, interval in ((alone, at_quarter), (two, at_half))
    )
    assert isinstance(from_one, int)
    assert isinstance(from_two, int)
    assert abs(from_one - from_two) <= 1


def test_an_original_of_too_few_runs_is_told() -> None:
    a, b = one_sd(2), one_sd(3)
    interval = known(shift(a, b, alpha=0.05))
    assert runs_to_decide(a, b, interval, Region(lower=-1, upper=1)) == "original-too-few"
    border = Region(lower=0.0, upper=5.0)
    a = one_sd(5)
    interval = known(shift(a, b, alpha=0.05))
    assert runs_to_decide(a, b, interval, border) == "on-the-margin"


@pytest.mark.parametrize("margin", [5.0, 5.5, 6.0])
def test_where_power_falls_with_more_re_runs_fewer_are_advised(margin: float) -> None:
    a, region = one_sd(2), Region(lower=-margin, upper=margin)
    b = runs([-0.5, 0.5])
    advised = runs_to_decide(a, b, known(shift(a, b, alpha=0.05)), region)
    assert isinstance(advised, int)
    assert 2 < advised < 8


def test_constants_need_two_runs() -> None:
    same, one = runs([1.0, 1.0]), runs([1.0])
    interval = known(shift(same, one, alpha=0.05))
    assert runs_to_decide(same, one, interval, Region(lower=-1, upper=1)) == 3
