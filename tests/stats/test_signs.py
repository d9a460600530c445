"""Pairs: sign flips by their definition, blocks of rounds, and how often they err."""

import itertools
import math
from collections.abc import Sequence

import numpy as np
import populations
import pytest
import scipy.stats
from guards import Pairs

from capsule.stats import Region, Runs, decide, one_set, p_beyond_of_pairs, paired_shift, signs
from tests.stats.sides import known, runs


def draw(n: int, seed: int = 0) -> list[float]:
    drawn: list[float] = np.random.default_rng([n, seed]).normal(0.3, 1, n).tolist()
    return drawn


def by_definition(values: Sequence[float], shift: float) -> tuple[float, float]:
    """Shares of all flips whose Student's t is as extreme, by its own formula."""
    x = np.asarray(values) - shift
    flipped = np.array(list(itertools.product((1, -1), repeat=len(x)))) * x
    t = flipped.mean(axis=1) / flipped.std(axis=1, ddof=1)
    return float((t <= t[0] + 1e-9).mean()), float((t >= t[0] - 1e-9).mean())


@pytest.mark.parametrize("n", [2, 5, 8])
@pytest.mark.parametrize("shift", [-2.0, 0.0, 0.31, 3.0])
def test_p_values_are_shares_of_all_flips_of_students_t(n: int, shift: float) -> None:
    values = draw(n)
    assert signs.p_value(runs(values), shift) == pytest.approx(by_definition(values, shift))


def test_ties_count_as_as_extreme() -> None:
    assert signs.p_value(runs([1.0, 1.0, 2.0, 2.0, 3.0]), 1.0)[1] == 4 / 32


@pytest.mark.parametrize("n", [5, 8, 10, 11, 25])
@pytest.mark.parametrize("alpha", [0.05, 0.04])
def test_limits_are_where_the_test_turns(n: int, alpha: float) -> None:
    differences = runs(draw(n, 1))
    lower, upper = known(signs.interval(differences, alpha))
    for limit, sign, side in ((lower, -1, 1), (upper, 1, 0)):
        assert signs.p_value(differences, limit + sign * 1e-6)[side] <= alpha
        assert signs.p_value(differences, limit - sign * 1e-6)[side] > alpha


@pytest.mark.parametrize("n", [5, 10, 11, 24, 40])
def test_exchanged_sides_mirror_the_interval_to_the_digit(n: int) -> None:
    for values in (draw(n), [*range(-(n // 2), n // 2 + 1)]):
        there, back = (
            known(paired_shift(runs([sign * one for one in values]), alpha=0.05))
            for sign in (1, -1)
        )
        assert (there.lower, there.upper) == (-back.upper, -back.lower)


def test_the_unit_and_the_order_do_not_matter() -> None:
    values = draw(15)
    there = known(paired_shift(runs(values), alpha=0.05))
    assert known(paired_shift(runs(values[::-1]), alpha=0.05)) == there
    scaled = known(paired_shift(runs([1e-6 * one for one in values]), alpha=0.05))
    assert scaled.lower == pytest.approx(1e-6 * there.lower, rel=1e-12)


def test_values_of_any_size_have_limits() -> None:
    for size in (1e-300, 1e300):
        interval = known(paired_shift(runs([size * k for k in (-1, 2, 3, 4, 5, 6)]), alpha=0.05))
        assert math.isfinite(interval.lower)
        assert math.isfinite(interval.upper)


@pytest.mark.parametrize(
    ("n", "alpha", "whole"),
    [(4, 0.05, False), (5, 0.05, True), (6, 0.01, False), (7, 0.01, True), (11, 0.003, False),
     (11, 0.004, True)],
)  # fmt: skip
def test_too_few_pairs_for_flips_keep_a_part_of_the_level(
    n: int, alpha: float, whole: bool
) -> None:
    interval = known(paired_shift(runs(draw(n)), alpha=alpha))
    assert interval.alpha == (alpha if whole else one_set(n, alpha))
    by_t = scipy.stats.ttest_1samp(draw(n), 0).confidence_interval(1 - 2 * interval.alpha)
    # the flips only ever widen it
    assert interval.lower <= by_t.low + 1e-12
    assert interval.upper >= by_t.high - 1e-12


def test_values_that_are_all_equal_are_compared_exactly() -> None:
    interval = known(paired_shift(runs([0.5] * 12), alpha=0.05))
    assert (interval.method, interval.lower, interval.upper) == ("exact", 0.5, 0.5)
    assert p_beyond_of_pairs(runs([0.5] * 12), Region(lower=-1, upper=1)) is None


# far below the level


def test_a_p_for_corrected_levels_is_the_larger_of_both_tests() -> None:
    differences, region = runs([one + 2 for one in draw(8)]), Region(lower=-1, upper=1)
    p = known(p_beyond_of_pairs(differences, region))
    by_t = scipy.stats.ttest_1samp(list(differences.values), 1, alternative="greater").pvalue
    assert p == pytest.approx(max(by_t, signs.p_value(differences, 1.0)[1]))


def test_below_the_least_p_of_flips_students_counts_twice() -> None:
    differences = runs([10.0, 10.1, 10.2, 9.9, 9.8])
    p = known(p_beyond_of_pairs(differences, Region(lower=-1, upper=1)))
    by_t = scipy.stats.ttest_1samp(list(differences.values), 1, alternative="greater").pvalue
    assert p == pytest.approx(2 * by_t)
    assert p_beyond_of_pairs(runs([1.0]), Region(lower=-1, upper=1)) is None
    assert p_beyond_of_pairs(differences, Region()) == 1.0


# rounds


def test_a_block_frees_both_rounds_of_the_effect_of_going_first() -> None:
    order = [9, 4, 7, 1, *range(100, 120)]
    slower = {seed: (0.5 if place % 2 else -0.5) for place, seed in enumerate(order)}
    blocks = known(signs.blocks(Runs.of(slower), order))
    assert blocks.n == 12
    assert set(blocks.values) == {0.0}


def test_lost_rounds_are_matched_by_who_began_them() -> None:
    order = list(range(30))
    kept = {seed: float(seed % 2) for seed in order if seed not in (0, 3, 4, 8)}
    blocks = known(signs.blocks(Runs.of(kept), order))
    # of 12 that A began and 14 that B began, two are left out
    assert (blocks.n, set(blocks.values)) == (12, {0.5})


@pytest.mark.parametrize(("rounds", "found"), [(19, None), (20, 10), (21, 10), (22, 11)])
def test_fewer_than_twenty_rounds_are_judged_one_by_one(rounds: int, found: int | None) -> None:
    blocks = signs.blocks(Runs.of(dict.fromkeys(range(rounds), 1.0)), range(rounds))
    assert (blocks.n if blocks else None) == found


def wrong_with_order(n: int, effect: float, *, in_blocks: bool) -> float:
    """The share of rounds on the margin that are REPRODUCED where going first costs `effect` sd."""
    random, hits, repetitions = np.random.default_rng([n, 7]), 0, 1500
    sign = np.where(np.arange(n) % 2, 1.0, -1.0)
    for _ in range(repetitions):
        differences = runs(random.standard_normal(n) + effect * sign)
        judged = known(signs.blocks(differences, range(n))) if in_blocks else differences
        word = decide(known(paired_shift(judged, alpha=0.05)), Region(upper=0.0)).word
        hits += word == "REPRODUCED"
    return hits / repetitions


@pytest.mark.parametrize(("n", "in_blocks"), [(8, False), (9, False), (20, True)])
def test_whatever_going_first_costs_rounds_err_as_rarely_as_promised(
    n: int, in_blocks: bool
) -> None:
    for effect in (0.0, 1.0, 5.0):
        assert wrong_with_order(n, effect, in_blocks=in_blocks) < 0.05 + 3 * 0.0056


# rates


@pytest.mark.slow
@pytest.mark.parametrize("n", [5, 8, 11, 20])
@pytest.mark.parametrize("shape", populations.SHAPES)
def test_pairs_of_sides_that_vary_alike_err_as_rarely_as_promised(n: int, shape: str) -> None:
    figures = Pairs(n, shape, shape).measure(2000)
    assert max(figures["REPRODUCED"], figures["DIFFERENT"]) < 5.5 + 3 * 0.49


@pytest.mark.slow
def test_eight_pairs_confirm_a_margin_of_1_65_sd_in_three_of_four_cases() -> None:
    assert Pairs(8, "normal", "normal", margin=1.65).measure(2000)["REPRODUCED"] > 75 - 3
