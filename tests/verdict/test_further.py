"""What is advised where a claim stays open: looks, a few at most, at the promised error rate."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import pytest

from capsule.manifest import Margin
from capsule.verdict.model import Look
from tests.support.judging import judge, metric
from tests.support.properties import pin_first

pytestmark = pytest.mark.slow

ORIGINAL = 5


def follow(original: Sequence[float], rerun: Sequence[float]) -> tuple[str, list[int]]:
    """Verify, and do what the advice says until it says nothing more.

    Returns:
        The last word, and the numbers of runs at which it was looked.
    """
    looks = [ORIGINAL]
    while True:
        judged = judge(
            metric(original),
            metric(rerun[: looks[-1]], first_seed=50),
            type="equivalence",
            margin=Margin(absolute=2.0),
            looks=(ORIGINAL, 2 * ORIGINAL),
        )
        advice = judged.advice
        number = advice and (advice.as_seen[0] or advice.if_equal[0])
        if judged.word != "INCONCLUSIVE" or not number or number > len(rerun):
            return judged.word, looks
        looks.append(number)


@pytest.fixture(scope="module", params=pin_first([30, 150]))
def followed(request: pytest.FixtureRequest) -> dict[float, list[tuple[str, list[int]]]]:
    """What comes of following the advice, by the true shift in standard deviations."""
    random = np.random.default_rng(11)
    ends: dict[float, list[tuple[str, list[int]]]] = {2.0: [], 1.0: []}
    for shift, told in ends.items():
        for _ in range(request.param):
            original = list(map(float, random.standard_normal(ORIGINAL)))
            rerun = list(map(float, shift + random.standard_normal(160)))
            told.append(follow(original, rerun))
    return ends


def test_advice_is_followed_a_few_times_and_never_for_one_run_more(
    followed: dict[float, list[tuple[str, list[int]]]],
) -> None:
    paths = [looks for ends in followed.values() for _, looks in ends]
    assert max(map(len, paths)) > 2
    for looks in paths:
        assert len(looks) <= 5
        assert all(later >= 2 * before for before, later in pairwise(looks))


def test_with_the_truth_on_the_margin_either_wrong_word_keeps_its_rate(
    followed: dict[float, list[tuple[str, list[int]]]],
) -> None:
    words = Counter(word for word, _ in followed[2.0])
    times = words.total()
    # 5 %, and three standard errors of it
    most = times * 0.05 + 3 * (times * 0.05 * 0.95) ** 0.5
    assert max(words["REPRODUCED"], words["DIFFERENT"]) <= most


@pytest.mark.parametrize(
    ("planned", "runs", "coming"),
    [
        ((5, 10), 5, (10, 20, 40, 80)),
        ((5, 10), 7, (10, 20, 40, 80)),
        ((5, 10), 30, (40, 80)),
        ((5, 10), 80, ()),
        ((3, 6, 12), 12, (24, 48)),
        ((2, 4, 6, 8, 10), 8, (10,)),
        ((2, 4, 6, 8, 10), 10, ()),
    ],
)
def test_looks_beyond_a_plan_double_until_there_are_five(
    planned: tuple[int, ...], runs: int, coming: tuple[int, ...]
) -> None:
    look = Look(planned=planned, runs=runs, number=None, alpha=0.0169, planned_alpha=0.0346)
    assert look.coming == coming
    assert dataclasses.replace(look, runs=0).coming[: len(planned)] == planned


def test_no_run_is_advised_once_five_looks_were_taken() -> None:
    rerun = [1.0 + 0.001 * place for place in range(80)]
    judged = judge(
        metric([0.0, 0.1, -0.1, 0.2, -0.2]),
        metric(rerun, first_seed=50),
        type="equivalence",
        margin=Margin(absolute=1.04),
        looks=(5, 10),
    )
    assert judged.word == "INCONCLUSIVE"
    assert judged.advice is not None
    assert judged.advice.answer == "looks-taken"
    assert "80 runs were the last of the 5 looks" in judged.advice.sentence


def test_where_the_last_look_would_not_do_as_many_runs_as_it_takes_are_advised() -> None:
    judged = judge(
        metric([0.0, 0.1, -0.1, 0.2, -0.2]),
        metric([-6.0, 6.0, -3.0, 3.0, 0.0], first_seed=50),
        type="equivalence",
        margin=Margin(absolute=2),
        looks=(5, 10),
    )
    assert judged.advice is not None
    number, _ = judged.advice.as_seen
    assert number is not None
    assert number > 80
    assert "not a planned look, so at level 0.0169" in judged.advice.sentence
    # and then none
    assert (
        Look(planned=(5, 10), runs=number, number=None, alpha=0.0169, planned_alpha=0.0346).coming
        == ()
    )
