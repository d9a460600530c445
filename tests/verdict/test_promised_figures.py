"""Figures in the text of docs/explanation/statistics.md: computed again, or simulated in seconds.

Simulated ones are held to about four standard errors of so few repetitions.
"""

import itertools
import math

import numpy as np
import pytest
import scipy.stats
from numpy.typing import NDArray
from spreads import narrowest_spreads

from capsule import stats
from capsule.manifest import Claim, Margin
from capsule.stats import Region, Runs, narrowest_margin
from capsule.stats.permutation import can_count
from capsule.stats.ranks import critical_rank
from tests.stats.sides import known

REPETITIONS = 40_000
LOG_SD = 0.6
OF_TWO_LOOKS = stats.default_alpha(0.05)
Sample = NDArray[np.float64]


def generator(*key: int) -> np.random.Generator:
    return np.random.default_rng([20260301, *key])


def lognormal(random: np.random.Generator, n: int) -> Sample:
    """Sets of skewed values with a mean of 0."""
    return random.lognormal(0, LOG_SD, (REPETITIONS, n)) - math.exp(LOG_SD**2 / 2)


def side(values: Sample, first_seed: int = 0) -> Runs:
    return Runs.of({first_seed + i: float(value) for i, value in enumerate(values)})


def confirmed(
    n: int,
    spreads: float | None,
    *,
    alpha: float = 0.05,
    relabel: bool = True,
    repetitions: int,
) -> float:
    """The share, in percent, of equal normal sides within 2 sd: true ones, or the original's."""
    random, hits = generator(n), 0
    for _ in range(repetitions):
        a, b = side(random.standard_normal(n)), side(random.standard_normal(n), 100)
        end = 2.0 if spreads is None else spreads * a.sd / stats.c4(n)
        interval = known(stats.shift(a, b, alpha=alpha, relabel=relabel))
        hits += stats.decide(interval, Region(lower=-end, upper=end)).word == "REPRODUCED"
    return 100 * hits / repetitions


def test_a_claim_has_five_percent_unless_it_says_otherwise() -> None:
    assert Claim(metric="a/b/c/d", type="equivalence").alpha == 0.05


def test_relabelings_are_counted_up_to_as_many_as_the_page_says() -> None:
    assert math.comb(20, 10) == 184_756
    assert can_count(10, 10)
    assert not can_count(11, 10)


def test_welch_alone_is_wrong_under_skew_and_unequal_numbers_of_runs() -> None:
    random = generator(1)
    a, b = lognormal(random, 30), lognormal(random, 3)
    parts = a.var(axis=1, ddof=1) / 30, b.var(axis=1, ddof=1) / 3
    df = (parts[0] + parts[1]) ** 2 / (parts[0] ** 2 / 29 + parts[1] ** 2 / 2)
    t = (b.mean(axis=1) - a.mean(axis=1)) / np.sqrt(parts[0] + parts[1])
    assert 100 * np.mean(t < scipy.stats.t.ppf(0.05, df)) == pytest.approx(15, abs=0.8)


def test_ranks_alone_are_wrong_under_unequal_spread() -> None:
    random = generator(2)
    a, b = 3 * random.standard_normal((10_000, 3)), random.standard_normal((10_000, 30))
    differences = np.sort((b[:, :, None] - a[:, None, :]).reshape(10_000, -1), axis=1)
    low = differences[:, critical_rank(3, 30, 0.05) - 1]
    assert 100 * np.mean(low > 0) == pytest.approx(12, abs=1.4)


@pytest.mark.parametrize(("n", "by_relabelings", "by_ranks"), [(4, 52, 39), (6, 88, 82)])
def test_relabelings_cost_less_power_than_ranks(
    n: int, by_relabelings: float, by_ranks: float
) -> None:
    counted = confirmed(n, None, repetitions=800)
    ranked = confirmed(n, None, relabel=False, repetitions=800)
    assert counted == pytest.approx(by_relabelings, abs=7)
    assert ranked == pytest.approx(by_ranks, abs=7)
    assert counted > ranked


def test_half_the_level_is_used_where_nothing_guards_the_mean() -> None:
    def level(n_a: int, n_b: int, alpha: float = 0.05) -> float:
        sides = side(np.linspace(0.0, 1.0, n_a)), side(np.linspace(0.0, 1.1, n_b), 100)
        return known(stats.shift(*sides, alpha=alpha)).alpha

    assert [level(2, n) for n in (2, 3, 4, 5)] == [0.025, 0.025, 0.025, 0.05]
    two_looks = OF_TWO_LOOKS
    assert (level(3, 3), level(3, 3, two_looks)) == (0.05, two_looks / 2)
    paper = stats.Summary(mean=1.0, sd=0.1, n=5)
    assert known(stats.summary_shift(paper, side(np.arange(5.0)), alpha=0.05)).alpha == 0.025


@pytest.mark.parametrize(("part", "wrong", "off"), [(1.0, 14, 0.7), (0.5, 9, 0.7), (1 / 6, 5, 0.7)])
def test_one_skewed_set_of_five_is_wrong_at_a_part_of_the_level(
    part: float, wrong: float, off: float
) -> None:
    values = lognormal(generator(3), 5)
    t = values.mean(axis=1) / (values.std(axis=1, ddof=1) / math.sqrt(5))
    below = t < scipy.stats.t.ppf(0.05 * part, 4)
    assert 100 * below.mean() == pytest.approx(wrong, abs=off)


def level_of_one_set(n: int) -> float:
    return known(stats.location(side(np.arange(float(n))), alpha=0.05)).alpha


def wrong_of_one_set(values: Sample) -> tuple[float, float]:
    """How often the whole interval of a mean of 0 lies below it, or above, in percent."""
    n = values.shape[1]
    t = values.mean(axis=1) / (values.std(axis=1, ddof=1) / math.sqrt(n))
    reach = scipy.stats.t.isf(level_of_one_set(n), n - 1)
    return 100 * np.mean(t < -reach), 100 * np.mean(t > reach)


def test_of_normal_values_a_sixth_of_the_level_is_what_it_says() -> None:
    for n in (2, 5, 10, 11):
        assert 100 * level_of_one_set(n) == pytest.approx(0.8, abs=0.05)


def test_of_up_to_ten_skewed_values_a_sixth_of_the_level_is_wrong_a_little_above_it() -> None:
    worst = max(wrong_of_one_set(lognormal(generator(14), n))[0] for n in (5, 6, 7, 8, 10))
    assert worst == pytest.approx(5.1, abs=0.3)


def test_more_values_of_one_set_have_as_much_of_the_level_as_the_page_says() -> None:
    parts = [100 * level_of_one_set(n) / 0.05 for n in (20, 50, 100)]
    assert parts == pytest.approx([23, 37, 49], abs=0.5)
    for n in (15, 20, 50):
        assert wrong_of_one_set(lognormal(generator(15), n))[0] < 5.2
    # what so many pairs take for one margin, with power 0.8 where nothing changed
    at_a_sixth, at_its_level = (
        (scipy.stats.norm.isf(level) + scipy.stats.norm.isf(0.1)) ** 2
        for level in (0.05 / 6, level_of_one_set(100))
    )
    assert 100 * at_a_sixth / at_its_level == pytest.approx(128, abs=2)


@pytest.mark.parametrize(("rounds", "wrong"), [(30, 6), (100, 5), (200, 5)])
def test_pairs_that_jump_in_one_round_of_twenty_are_wrong_as_the_page_says(
    rounds: int, wrong: float
) -> None:
    random = generator(16, rounds)
    jumps = random.random((10_000, rounds)) < 0.05
    values = random.standard_normal((10_000, rounds)) + 6 * (jumps - 0.05)
    assert max(wrong_of_one_set(values)) == pytest.approx(wrong, abs=0.95)


@pytest.mark.parametrize("n", [5, 6, 10])
def test_sign_flips_and_signed_ranks_are_no_remedy_for_skew(n: int) -> None:
    values = lognormal(generator(4), n)[:8000]
    signs = np.array(list(itertools.product((1, -1), repeat=n)))
    allowed = math.floor(0.05 * len(signs))
    order = np.argsort(np.argsort(np.abs(values), axis=1), axis=1) + 1
    for parts in (values, np.sign(values) * order):
        flipped = np.abs(parts) @ signs.T
        seen = parts.sum(axis=1)[:, None]
        wrong = (flipped <= seen + 1e-12).sum(axis=1) <= allowed
        assert 8 < 100 * wrong.mean() < 14


def test_what_no_run_showed_is_guarded_against_by_nothing() -> None:
    without_any = 100 * 0.9**5
    assert without_any == pytest.approx(59, abs=0.1)
    random = generator(5)
    far = random.random((REPETITIONS, 5)) < 0.1
    values = random.standard_normal((REPETITIONS, 5)) + 20 * far - 2
    t = values.mean(axis=1) / (values.std(axis=1, ddof=1) / math.sqrt(5))
    assert 100 * np.mean(t < scipy.stats.t.ppf(0.05 / 6, 4)) == pytest.approx(40, abs=1)


def test_a_single_run_that_scatters_three_times_as_far_is_wrong_up_to_a_limit() -> None:
    many, one = side(generator(6).standard_normal(200)), Runs.of({900: 0.0})
    interval = known(stats.shift(many, one, alpha=0.05))
    assert (interval.method, interval.alpha) == ("prediction", 0.0125)
    # of ever more runs on the other side
    limit = scipy.stats.norm.sf(scipy.stats.norm.isf(interval.alpha) / 3)
    assert 22 < 100 * limit < 23


def test_a_single_run_is_different_at_an_eighth_of_the_level() -> None:
    ten, (low, high) = side(generator(7).standard_normal(10)), (0.0, 50.0)
    while high - low > 1e-9:
        middle = (low + high) / 2
        interval = known(stats.shift(ten, Runs.of({900: ten.mean + 1 + middle}), alpha=0.05))
        differs = stats.decide(interval, Region(lower=-1, upper=1)).word == "DIFFERENT"
        low, high = (low, middle) if differs else (middle, high)
    error = ten.sd * math.sqrt(1 + 1 / 10)
    assert scipy.stats.t.sf(high / error, 9) == pytest.approx(0.05 / 8, rel=1e-6)


def test_the_first_nan_in_the_re_execution_alone_is_no_rare_thing() -> None:
    clean = 0.9**5
    assert 100 * clean * (1 - clean) == pytest.approx(24, abs=0.5)


def test_a_rare_collapse_is_excluded_from_fifty_nine_runs_on() -> None:
    assert stats.failure_bound(0, 59) <= 0.05 < stats.failure_bound(0, 58)


def test_more_runs_on_both_sides_confirm_narrower_margins() -> None:
    margins = [narrowest_margin(n, n, alpha=OF_TWO_LOOKS, power=0.8) for n in range(2, 21)]
    assert margins == sorted(margins, reverse=True)
    assert len(set(margins)) == len(margins)


def test_more_re_runs_alone_help_from_four_original_runs_on() -> None:
    for n_a in (4, 5, 6, 10):
        beside = [
            narrowest_margin(n_a, n_b, alpha=OF_TWO_LOOKS, power=0.8)
            for n_b in (n_a, 2 * n_a, 40, None)
        ]
        # what is simulated has two standard errors to spare
        assert all(more <= 1.03 * fewer for fewer, more in itertools.pairwise(beside))
        # the ceiling: no number of re-runs confirms less
        assert min(beside) >= 0.97 * narrowest_margin(n_a, None, alpha=OF_TWO_LOOKS, power=0.8)


@pytest.mark.parametrize(("n_a", "best", "margin"), [(2, 7, 6.3), (3, 12, 2.9)])
def test_beside_two_or_three_original_runs_a_few_re_runs_do_best(
    n_a: int, best: int, margin: float
) -> None:
    beside = {
        n: narrowest_margin(n_a, n, alpha=OF_TWO_LOOKS, power=0.8)
        for n in (2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 20, 100)
    }
    assert min(beside, key=lambda n: beside[n]) == best
    assert beside[best] == pytest.approx(margin, abs=0.05)
    assert beside[best] < beside[20] < beside[100]


@pytest.mark.parametrize(("n_a", "n_b", "passing"), [(5, 5, 95), (5, 6, 99), (30, 30, 84)])
def test_equal_failure_rates_pass_as_often_as_the_page_says(
    n_a: int, n_b: int, passing: float
) -> None:
    assert passes(n_a, 0.1, n_b, 0.1) == pytest.approx(passing, abs=0.5)


@pytest.mark.parametrize(("n_a", "n_b", "passing"), [(5, 5, 74), (5, 6, 90), (30, 30, 1)])
def test_one_sided_failures_pass_as_often_as_the_page_says(
    n_a: int, n_b: int, passing: float
) -> None:
    assert passes(n_a, 0.0, n_b, 0.2) == pytest.approx(passing, abs=0.5)


def passes(n_a: int, rate_a: float, n_b: int, rate_b: float) -> float:
    """How often failures of such rates forbid nothing, in percent: all outcomes, weighed."""
    return 100 * sum(
        float(scipy.stats.binom.pmf(a, n_a, rate_a) * scipy.stats.binom.pmf(b, n_b, rate_b))
        for a in range(n_a + 1)
        for b in range(n_b + 1)
        if not stats.veto(a, n_a, b, n_b)
    )


def test_a_margin_of_failures_takes_as_many_clean_runs_as_the_page_says() -> None:
    for level, runs in ((0.05, [29, 14, 9]), (OF_TWO_LOOKS, [32, 16, 10])):
        for margin, n in zip((0.1, 0.2, 0.3), runs, strict=True):
            assert stats.p_within(0, n, 0, n, margin) <= level
            assert stats.p_within(0, n - 1, 0, n - 1, margin) > level


def test_a_veto_begins_at_the_p_values_of_the_page() -> None:
    for n_a, n_b in ((5, 5), (5, 8), (30, 12)):
        for a, b in itertools.product(range(n_a + 1), range(n_b + 1)):
            more, fewer = stats.fisher_more(a, n_a, b, n_b), stats.fisher_more(b, n_b, a, n_a)
            assert stats.veto(a, n_a, b, n_b) == (more <= 0.25 or fewer <= 0.05)


def test_two_sd_of_five_runs_are_a_wide_range_of_true_ones() -> None:
    low, high = (
        2 * math.sqrt(scipy.stats.chi2.ppf(share, 4) / 4) / stats.c4(5) for share in (0.05, 0.95)
    )
    assert low == pytest.approx(0.9, abs=0.05)
    assert high == pytest.approx(3.3, abs=0.05)


def test_a_margin_as_frozen_has_less_power_than_a_true_one() -> None:
    frozen = confirmed(8, 2.0, alpha=OF_TWO_LOOKS, repetitions=600)
    true = confirmed(8, None, alpha=OF_TWO_LOOKS, repetitions=600)
    assert frozen == pytest.approx(85, abs=5.8)
    assert true == pytest.approx(93, abs=4.2)
    assert frozen < true - 3


def test_of_few_published_runs_lint_promises_ten_points_too_much_at_most() -> None:
    spreads, random, hits = narrowest_spreads(2, 10, alpha=OF_TWO_LOOKS, power=0.8), generator(8), 0
    for _ in range(600):
        a, b = side(random.standard_normal(2)), side(random.standard_normal(10), 100)
        end = spreads * a.sd / stats.c4(2)
        interval = known(stats.shift(a, b, alpha=OF_TWO_LOOKS))
        hits += stats.decide(interval, Region(lower=-end, upper=end)).word == "REPRODUCED"
    assert 100 * hits / 600 > 80 - 10 - 7


def test_the_best_three_of_twenty_are_as_much_too_good_as_the_page_says() -> None:
    launched = np.sort(generator(9).standard_normal((REPETITIONS, 20)), axis=1)
    best, any_three = launched[:, -3:], generator(10).standard_normal((REPETITIONS, 3))
    assert best.mean() == pytest.approx(1.5, abs=0.05)
    assert best.std(axis=1, ddof=1).mean() < 0.5 * any_three.std(axis=1, ddof=1).mean()


def test_the_two_equal_sides_of_the_examples_are_told_apart_by_a_t_test() -> None:
    a, b = [75.91, 76.18, 75.62, 76.40, 75.84], [76.31, 76.62, 76.44, 76.20, 76.52, 76.38]
    assert scipy.stats.ttest_ind(a, b, equal_var=False).pvalue == pytest.approx(0.03, abs=0.005)


def test_a_geometric_mean_is_never_above_the_arithmetic_one() -> None:
    values = np.exp(generator(11).standard_normal((1000, 7)))
    assert np.all(np.exp(np.log(values).mean(axis=1)) <= values.mean(axis=1))


def test_a_look_at_every_number_of_runs_is_wrong_more_often_than_promised() -> None:
    assert stats.nominal_alpha(0.05, 2) < 0.05
    random = generator(12)
    sums = np.cumsum(random.standard_normal((REPETITIONS, 5)), axis=1)
    z = sums / np.sqrt(np.arange(1, 6))
    assert np.mean((z > scipy.stats.norm.isf(0.05)).any(axis=1)) > 0.1
    planned = scipy.stats.norm.isf(stats.nominal_alpha(0.05, 5))
    assert np.mean((z > planned).any(axis=1)) == pytest.approx(0.05, abs=0.005)


def test_margins_in_sd_are_those_of_the_presets() -> None:
    from capsule.freezing import spreads

    names = {"strict": 1.0, "middle": 1.5, "default": 2.0, "lenient": 2.8}
    for name, number in names.items():
        claim = Claim(metric="a/b/c/d", type="equivalence", margin=Margin(preset=name))  # type: ignore[arg-type]
        assert spreads(claim) == number
    assert spreads(Claim(metric="a/b/c/d", type="equivalence")) == 2.0
    assert spreads(Claim(metric="a/b/c/d", type="curve")) == 3.0


@pytest.mark.parametrize(("failed_a", "n_a", "failed_b", "n_b"), [(0, 5, 2, 5), (1, 10, 4, 8)])
def test_runs_that_lift_a_veto_do_so_with_the_power_that_is_named(
    failed_a: int, n_a: int, failed_b: int, n_b: int
) -> None:
    def lifted(n: int) -> float:
        further = n - n_b
        return sum(
            float(scipy.stats.binom.pmf(k, further, failed_a / n_a))
            for k in range(further + 1)
            if not stats.veto(failed_a, n_a, failed_b + k, n)
        )

    needed = stats.runs_to_lift(failed_a, n_a, failed_b, n_b, power=0.8)
    assert needed is not None
    assert lifted(needed) >= 0.8
    assert needed == n_b + 1 or lifted(needed - 1) < 0.8


def test_as_many_pairs_as_advised_decide_with_the_power_that_is_named() -> None:
    seen = side(np.array([-1.0, 1.0, 0.5, -0.5, 0.0]))
    region = Region(lower=-1.0, upper=1.0)
    pairs = stats.runs_to_decide(
        None, seen, known(stats.paired_shift(seen, alpha=0.05)), region, power=0.8
    )
    assert isinstance(pairs, int)
    values = seen.sd * generator(13).standard_normal((2000, pairs))
    words = [
        stats.decide(known(stats.paired_shift(side(one), alpha=0.05)), region).word
        for one in values
    ]
    # one pair fewer would do it less often than asked
    assert 0.76 < np.mean([word != "INCONCLUSIVE" for word in words]) < 0.9


def test_two_single_results_differ_by_the_limit_in_one_of_twenty() -> None:
    from capsule.stats.reproducibility import LIMIT_FACTOR

    beyond = 2 * scipy.stats.norm.sf(LIMIT_FACTOR / math.sqrt(2))
    assert beyond == pytest.approx(0.05, abs=0.005)
