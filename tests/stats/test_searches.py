"""The score of a search, and quality against budget, held to all that can be drawn."""

import itertools
import math

import pytest

from capsule.stats.searches import best_of, order, score


@pytest.mark.parametrize("lower", [False, True])
@pytest.mark.parametrize(
    "values",
    [(3.0, 1.0, 2.0), (0.5, None, 0.5, 0.7, 0.1, 0.9, 0.3), (None, None, 1.0, 2.0), (4.0,)],
)
def test_best_of_is_the_median_over_all_draws(
    values: tuple[float | None, ...], lower: bool
) -> None:
    for k in range(1, len(values) + 1):
        bests = [order(draw, lower=lower)[-1] for draw in itertools.combinations(values, k)]
        # the first that half of them or more do not surpass
        due = order(bests, lower=lower)[math.ceil(len(bests) / 2) - 1]
        assert best_of(values, k, lower=lower) == due


def test_all_of_two_thousand_are_drawn() -> None:
    values = [float(number) for number in range(2000)]
    assert best_of(values, 2000, lower=False) == 1999
    assert best_of(values, 1, lower=False) == 999
    assert best_of(values, 1, lower=True) == 1000


def test_more_trials_are_never_worse() -> None:
    values = [0.3, None, 0.9, 0.2, None, 0.5]
    ranks = [order(values, lower=False).index(best_of(values, k, lower=False)) for k in range(1, 7)]
    assert ranks == sorted(ranks)


@pytest.mark.parametrize(
    ("studies", "lower", "due"),
    [
        (((0.7, 0.9), (0.8,), (0.6, None)), False, 0.8),
        (((0.7, 0.9), (0.8,), (0.6, None)), True, 0.7),
        (((None,), (0.8,), (0.6,)), False, 0.6),
        (((None,), (None,), (0.6,)), False, None),
        (((None,), (0.5,), (0.6,), (1.0,)), False, 0.55),
        (((None,), (None,), (0.6,), (1.0,)), False, None),
    ],
)
def test_the_score_is_the_median_of_the_studies_best(
    studies: tuple[tuple[float | None, ...], ...], lower: bool, due: float | None
) -> None:
    assert score(studies, lower=lower) == (None if due is None else pytest.approx(due))
