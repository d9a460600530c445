"""Curves: the common grid, the rule at every point, and its error rates by simulation."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from capsule.stats import Curve, Region, Runs, curve_shift, decide, shift
from capsule.stats.curves import common_grid
from tests.support.properties import examples

POINTS = 100
BUMP = np.exp(-(((np.arange(POINTS) - 50) / 3) ** 2) / 2)


def curve(values, steps=None):
    steps = range(len(values)) if steps is None else steps
    return Curve(steps=tuple(map(float, steps)), values=tuple(map(float, values)))


def bundle(rows, first_seed=0):
    return {first_seed + i: curve(row) for i, row in enumerate(rows)}


def drawn(random, n, moved=0.0):
    """Curves of sd 1: an offset of each run and wandering inside it, half of the variance each."""
    noise = random.normal(size=(n, POINTS))
    noise[:, 1:] *= math.sqrt(1 - 0.9**2)
    for point in range(1, POINTS):
        noise[:, point] += 0.9 * noise[:, point - 1]
    return bundle((noise + random.normal(size=(n, 1))) / math.sqrt(2) + moved)


def rates(n, moved, margin=3.0, repetitions=150):
    random = np.random.default_rng([n, int(np.sum(moved))])
    words = [
        curve_shift(drawn(random, n), drawn(random, n, moved), margin=margin, alpha=0.05).word
        for _ in range(repetitions)
    ]
    return words.count("REPRODUCED") / repetitions, words.count("DIFFERENT") / repetitions


# what may be a curve


@pytest.mark.parametrize(
    ("steps", "values"),
    [
        ((1.0,), (1.0, 2.0)),
        ((1.0, 1.0), (1.0, 2.0)),
        ((2.0, 1.0), (1.0, 2.0)),
        ((1.0, 2.0), (1.0, math.nan)),
        ((1.0, math.inf), (1.0, 2.0)),
    ],
)
def test_what_is_no_curve_is_refused(steps, values):
    with pytest.raises(ValueError, match=r"curve|steps"):
        Curve(steps=steps, values=values)


# the common grid


def test_the_grid_begins_with_the_latest_run_and_ends_with_the_shortest():
    curves = [curve([5, 4, 3, 2], [0, 1, 2, 3]), curve([5, 4, 3], [0.5, 1.5, 2.5])]
    assert common_grid(curves) == (0.5, 1.0, 1.5, 2.0, 2.5)


def test_a_fine_grid_is_read_at_a_hundred_of_its_steps_with_both_ends():
    grid = common_grid([curve(range(12_345)), curve(range(20_000))])
    assert (len(grid), grid[0], grid[-1]) == (100, 0.0, 12_344.0)
    assert max(np.diff(grid)) - min(np.diff(grid)) <= 1


@pytest.mark.parametrize("curves", [[], [curve([])], [curve([1], [1]), curve([1], [2])]])
def test_curves_may_have_no_step_in_common(curves):
    assert common_grid(curves) == ()


def test_values_between_the_steps_of_a_run_are_interpolated():
    a = {1: curve([0, 2], [0, 2]), 2: curve([0.5, 2.5], [0, 2])}
    b = {3: curve([0, 1, 2]), 4: curve([1, 2, 3])}
    decision = curve_shift(a, b, margin=1.0, alpha=0.05)
    expected = shift(Runs.of({1: 1.0, 2: 1.5}), Runs.of({3: 1.0, 4: 2.0}), alpha=0.05)
    assert decision.points == 3
    at_one = curve_shift(
        {seed: curve(np.interp([1], each.steps, each.values), [1]) for seed, each in a.items()},
        {seed: curve(np.interp([1], each.steps, each.values), [1]) for seed, each in b.items()},
        margin=1.0,
        alpha=0.05,
    )
    assert at_one.interval == expected


# the rule


def test_a_curve_of_one_point_is_judged_as_the_number_it_is():
    a, b = [1.0, 1.1, 0.9, 1.05, 0.95], [1.2, 1.3, 1.1, 1.25, 1.15]
    for margin in (0.05, 0.25, 0.5):
        columns = bundle([[v] for v in a]), bundle([[v] for v in b])
        found = curve_shift(*columns, margin=margin, alpha=0.05)
        interval = shift(Runs.of(dict(enumerate(a))), Runs.of(dict(enumerate(b))), alpha=0.05)
        decision = decide(interval, Region(lower=-margin, upper=margin))
        assert found.word == decision.word
        assert found.interval == interval
        assert found.p_reproduced == pytest.approx(decision.p_reproduced)
        assert found.p_different == pytest.approx(decision.p_different)


def test_the_worst_step_is_where_the_curves_part():
    random = np.random.default_rng(5)
    far = curve_shift(drawn(random, 10), drawn(random, 10, 8 * BUMP), margin=3.0, alpha=0.05)
    assert far.word == "DIFFERENT"
    assert 46 <= far.worst_step <= 54
    assert far.interval.lower > 3
    assert far.p_different <= 0.05 < far.p_reproduced


def test_below_five_runs_ten_checkpoints_may_differ_and_from_five_on_all_points():
    random = np.random.default_rng(6)
    few = curve_shift(drawn(random, 4), drawn(random, 9), margin=3.0, alpha=0.05)
    many = curve_shift(drawn(random, 5), drawn(random, 5), margin=3.0, alpha=0.05)
    assert (few.points, few.checkpoints) == (100, 10)
    assert (many.points, many.checkpoints) == (100, 100)


@pytest.mark.parametrize(
    ("a", "b", "points"),
    [
        ({}, {}, 0),
        ({}, {1: curve([1, 2])}, 0),
        ({1: curve([])}, {2: curve([1]), 3: curve([2])}, 0),
        ({1: curve([1, 2])}, {2: curve([1, 2])}, 2),
        ({1: curve([1], [1]), 2: curve([1], [1])}, {3: curve([1], [2])}, 0),
    ],
)
def test_curves_that_tell_nothing_are_inconclusive(a, b, points):
    decision = curve_shift(a, b, margin=1.0, alpha=0.05)
    assert (decision.word, decision.points, decision.interval) == ("INCONCLUSIVE", points, None)
    assert decision.p_reproduced == decision.p_different == 1.0


def test_equal_constant_curves_are_compared_exactly():
    same = bundle([[3, 2, 1]] * 3)
    assert curve_shift(same, same, margin=0.0, alpha=0.05).word == "REPRODUCED"
    other = curve_shift(same, bundle([[3, 2, 1.5]] * 3), margin=0.25, alpha=0.05)
    assert (other.word, other.worst_step) == ("DIFFERENT", 2.0)


def test_steps_and_values_at_the_end_of_their_range_are_judged_like_others():
    steps = (-1.7e308, 0.0, 1.0, 1.7e308)
    a = {seed: Curve(steps=steps, values=(1e300, -1e300, seed, 1e300)) for seed in (1, 2, 3)}
    b = {seed: Curve(steps=steps, values=(1e300, -1e300, seed + 0.5, 1e300)) for seed in (1, 2, 3)}
    decision = curve_shift(a, b, margin=9.0, alpha=0.05)
    assert (decision.word, decision.worst_step) == ("REPRODUCED", 1.0)


def test_one_run_against_several_is_held_against_the_prediction_interval():
    random = np.random.default_rng(9)
    decision = curve_shift(drawn(random, 10), drawn(random, 1), margin=9.0, alpha=0.05)
    assert decision.word == "REPRODUCED"
    assert decision.interval.method == "prediction"


# properties

LINES = st.lists(st.lists(st.integers(-50, 50), min_size=4, max_size=4), min_size=2, max_size=6)
FAST = examples(40)


@FAST
@given(LINES, LINES, st.integers(0, 60), st.randoms())
def test_sides_order_and_unit_do_not_matter(a, b, margin, random):
    there = curve_shift(bundle(a), bundle(b), margin=margin, alpha=0.05)
    back = curve_shift(bundle(b), bundle(a), margin=margin, alpha=0.05)
    assert back.word == there.word
    assert (back.p_reproduced, back.p_different) == (there.p_reproduced, there.p_different)
    doubled = (
        [[8 * value for value in line] for line in a],
        [[8 * value for value in line] for line in b],
    )
    assert curve_shift(*map(bundle, doubled), margin=8 * margin, alpha=0.05).word == there.word
    shuffled = list(bundle(a).items())
    random.shuffle(shuffled)
    assert curve_shift(dict(shuffled), bundle(b), margin=margin, alpha=0.05) == there


@FAST
@given(LINES, LINES, st.integers(0, 200), st.integers(0, 200))
def test_a_wider_margin_never_undoes_reproduced(a, b, margin, more):
    if curve_shift(bundle(a), bundle(b), margin=margin, alpha=0.05).word == "REPRODUCED":
        wider = curve_shift(bundle(a), bundle(b), margin=margin + more, alpha=0.05)
        assert wider.word == "REPRODUCED"


# error rates; limits 6 and 5 %, and two standard errors of 150 repetitions


@pytest.mark.parametrize("n", [5, 10])
def test_a_bump_on_the_margin_is_seldom_reproduced(n):
    reproduced, different = rates(n, 3.0 * BUMP)
    assert reproduced <= 0.10
    assert different <= 0.05


def test_an_offset_on_the_margin_is_seldom_different():
    assert rates(5, 3.0)[1] <= 0.07


def test_equal_curves_are_confirmed_and_far_ones_found():
    reproduced, different = rates(10, 0.0)
    assert reproduced >= 0.97
    assert different == 0
    assert rates(10, 6.0 * BUMP)[1] >= 0.9
    assert rates(3, 6.0)[1] >= 0.45
