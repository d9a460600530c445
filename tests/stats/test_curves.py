"""Curves: the common grid, the rule at every point, and its error rates by simulation."""

import math
from collections.abc import Iterable, Mapping, Sequence
from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from capsule.stats import Curve, Region, Runs, curve_shift, decide, shift
from capsule.stats.curves import common_grid
from capsule.stats.series import Series
from tests.stats.sides import known, runs
from tests.support.properties import examples

POINTS = 100
# of a whole curve, or of each of its points
Move = float | NDArray[np.float64]
BUMP = np.exp(-(((np.arange(POINTS) - 50) / 3) ** 2) / 2)


def curve(values: Series, steps: Sequence[float] | None = None) -> Curve:
    steps = range(len(values)) if steps is None else steps
    return Curve(steps=tuple(map(float, steps)), values=tuple(map(float, values)))


def bundle(rows: Iterable[Series]) -> dict[int, Curve]:
    return {seed: curve(row) for seed, row in enumerate(rows)}


def draw(random: np.random.Generator, n: int, moved: Move = 0.0) -> dict[int, Curve]:
    """Curves of sd 1: an offset of each run and wandering inside it, half of the variance each."""
    noise = random.normal(size=(n, POINTS))
    noise[:, 1:] *= math.sqrt(1 - 0.9**2)
    for point in range(1, POINTS):
        noise[:, point] += 0.9 * noise[:, point - 1]
    return bundle((noise + random.normal(size=(n, 1))) / math.sqrt(2) + moved)


def rates(n: int, moved: Move, margin: float = 3.0, repetitions: int = 150) -> tuple[float, float]:
    """Shares of REPRODUCED and DIFFERENT."""
    random = np.random.default_rng([n, int(np.sum(moved))])
    words = [
        curve_shift(draw(random, n), draw(random, n, moved), margin=margin, alpha=0.05).word
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
def test_what_is_no_curve_is_refused(steps: tuple[float, ...], values: tuple[float, ...]) -> None:
    with pytest.raises(ValueError, match=r"curve|steps"):
        Curve(steps=steps, values=values)


# the common grid


def test_the_grid_begins_with_the_latest_run_and_ends_with_the_shortest() -> None:
    curves = [curve([5, 4, 3, 2], [0, 1, 2, 3]), curve([5, 4, 3], [0.5, 1.5, 2.5])]
    assert common_grid(curves) == (0.5, 1.0, 1.5, 2.0, 2.5)


def test_a_fine_grid_is_read_at_a_hundred_of_its_steps_with_both_ends() -> None:
    grid = common_grid([curve(range(12_345)), curve(range(20_000))])
    assert (len(grid), grid[0], grid[-1]) == (100, 0.0, 12_344.0)
    assert max(np.diff(grid)) - min(np.diff(grid)) <= 1


@pytest.mark.parametrize("curves", [[], [curve([])], [curve([1], [1]), curve([1], [2])]])
def test_curves_may_have_no_step_in_common(curves: Sequence[Curve]) -> None:
    assert common_grid(curves) == ()


def test_values_between_the_steps_of_a_run_are_interpolated() -> None:
    a = {1: curve([0, 2], [0, 2]), 2: curve([0.5, 2.5], [0, 2])}
    b = {3: curve([0, 1, 2]), 4: curve([1, 2, 3])}
    decision = curve_shift(a, b, margin=1.0, alpha=0.05)
    expected = shift(Runs.of({1: 1.0, 2: 1.5}), Runs.of({3: 1.0, 4: 2.0}), alpha=0.05)
    assert decision.points == 3
    at_one = curve_shift(
        {seed: curve(np.interp([1], line.steps, line.values), [1]) for seed, line in a.items()},
        {seed: curve(np.interp([1], line.steps, line.values), [1]) for seed, line in b.items()},
        margin=1.0,
        alpha=0.05,
    )
    assert at_one.interval == expected


# the rule


def test_a_curve_of_one_point_is_judged_as_the_number_it_is() -> None:
    a, b = [1.0, 1.1, 0.9, 1.05, 0.95], [1.2, 1.3, 1.1, 1.25, 1.15]
    for margin in (0.05, 0.25, 0.5):
        columns = bundle([[v] for v in a]), bundle([[v] for v in b])
        of_curves = curve_shift(*columns, margin=margin, alpha=0.05)
        interval = known(shift(runs(a), runs(b), alpha=0.05, relabel=False))
        of_numbers = decide(interval, Region(lower=-margin, upper=margin))
        assert of_curves.word == of_numbers.word
        assert of_curves.interval == interval
        assert of_curves.p_reproduced == pytest.approx(of_numbers.p_reproduced)
        assert of_curves.p_different == pytest.approx(of_numbers.p_different)


def test_the_worst_step_is_where_the_curves_part() -> None:
    random = np.random.default_rng(5)
    far = curve_shift(draw(random, 10), draw(random, 10, 8 * BUMP), margin=3.0, alpha=0.05)
    assert far.word == "DIFFERENT"
    assert 46 <= known(far.worst_step) <= 54
    assert known(far.interval).lower > 3
    assert far.p_different <= 0.05 < far.p_reproduced


def test_below_five_runs_ten_checkpoints_may_differ_and_from_five_on_all_points() -> None:
    random = np.random.default_rng(6)
    few = curve_shift(draw(random, 4), draw(random, 9), margin=3.0, alpha=0.05)
    many = curve_shift(draw(random, 5), draw(random, 5), margin=3.0, alpha=0.05)
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
def test_curves_that_tell_nothing_are_inconclusive(
    a: Mapping[int, Curve], b: Mapping[int, Curve], points: int
) -> None:
    decision = curve_shift(a, b, margin=1.0, alpha=0.05)
    assert (decision.word, decision.points, decision.interval) == ("INCONCLUSIVE", points, None)
    assert decision.p_reproduced == decision.p_different == 1.0


def test_equal_constant_curves_are_compared_exactly() -> None:
    same = bundle([[3, 2, 1]] * 3)
    assert curve_shift(same, same, margin=0.0, alpha=0.05).word == "REPRODUCED"
    other = curve_shift(same, bundle([[3, 2, 1.5]] * 3), margin=0.25, alpha=0.05)
    assert (other.word, other.worst_step) == ("DIFFERENT", 2.0)


def test_steps_and_values_at_the_end_of_their_range_are_judged_like_others() -> None:
    steps = (-1.7e308, 0.0, 1.0, 1.7e308)
    a = {seed: Curve(steps=steps, values=(1e300, -1e300, seed, 1e300)) for seed in (1, 2, 3)}
    b = {seed: Curve(steps=steps, values=(1e300, -1e300, seed + 0.5, 1e300)) for seed in (1, 2, 3)}
    decision = curve_shift(a, b, margin=9.0, alpha=0.05)
    assert (decision.word, decision.worst_step) == ("REPRODUCED", 1.0)


def test_one_run_against_several_is_held_against_the_prediction_interval() -> None:
    random = np.random.default_rng(9)
    decision = curve_shift(draw(random, 10), draw(random, 1), margin=9.0, alpha=0.05)
    assert decision.word == "REPRODUCED"
    assert known(decision.interval).method == "prediction"


# properties

LINES = st.lists(st.lists(st.integers(-50, 50), min_size=4, max_size=4), min_size=2, max_size=6)
FAST = examples(40)


@FAST
@given(LINES, LINES, st.integers(0, 60), st.randoms())
def test_sides_order_and_unit_do_not_matter(
    a: Sequence[Sequence[int]], b: Sequence[Sequence[int]], margin: int, random: Random
) -> None:
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
def test_a_wider_margin_never_undoes_reproduced(
    a: Sequence[Sequence[int]], b: Sequence[Sequence[int]], margin: int, more: int
) -> None:
    if curve_shift(bundle(a), bundle(b), margin=margin, alpha=0.05).word == "REPRODUCED":
        wider = curve_shift(bundle(a), bundle(b), margin=margin + more, alpha=0.05)
        assert wider.word == "REPRODUCED"


# error rates; limits 6 and 5 %, and two standard errors of 150 repetitions


@pytest.mark.parametrize("n", [5, 10])
def test_a_bump_on_the_margin_is_seldom_reproduced(n: int) -> None:
    reproduced, different = rates(n, 3.0 * BUMP)
    assert reproduced <= 0.10
    assert different <= 0.05


def test_an_offset_on_the_margin_is_seldom_different() -> None:
    assert rates(5, 3.0)[1] <= 0.07


def test_equal_curves_are_confirmed_and_far_ones_found() -> None:
    reproduced, different = rates(10, 0.0)
    assert reproduced >= 0.97
    assert different == 0
    assert rates(10, 6.0 * BUMP)[1] >= 0.9
    assert rates(3, 6.0)[1] >= 0.45
