"""What `benchmarks/statistics/pairs.py` makes of recorded rounds."""

import math
from collections.abc import Sequence

import numpy as np
import pairs
import pytest


def record(
    spread: float, slower: float, rounds: int = 400, jumps: Sequence[int] = ()
) -> pairs.Recording:
    """Rounds that scatter normally, some of which take 30 % longer."""
    noise = np.random.default_rng(5).normal(math.log(slower), spread, rounds)
    noise[list(jumps)] += 0.3
    return pairs.Recording(noisy=False, slower=slower, differences=tuple(map(float, noise)))


@pytest.mark.parametrize(("slower", "due"), [(1.0, "REPRODUCED"), (1.02, "DIFFERENT")])
def test_a_hundred_quiet_rounds_tell_two_percent_from_nothing(slower: float, due: str) -> None:
    *_, line = pairs.lines(record(0.02, slower), resamples=200, seed=1)
    assert (line.size, line.word, line.advice, line.missed) == (100, due, "", False)
    assert line.right >= 0.9
    assert line.wrong == 0


@pytest.mark.parametrize("slower", [1.0, 1.02])
def test_a_noisy_machine_misses_and_says_how_many_rounds_would_do(slower: float) -> None:
    few, _, line = pairs.lines(record(0.08, slower), resamples=100, seed=1)
    assert line.missed
    assert not few.missed
    assert line.wrong < 0.05
    assert line.word == "INCONCLUSIVE"
    assert " rounds (now 100) would settle this claim with 80 % chance" in line.advice
    assert "if the sides are equal (`capsule pair --pairs " in line.advice


def test_a_wrong_word_is_a_miss_however_many_are_right() -> None:
    line = pairs.Line(size=100, right=0.94, wrong=0.06, word="REPRODUCED", advice="")
    assert line.missed


def test_only_numbers_of_rounds_that_were_recorded_are_judged() -> None:
    sizes = [line.size for line in pairs.lines(record(0.01, 1.0, 60), resamples=5, seed=1)]
    assert sizes == [25, 50]


def test_rounds_that_depend_on_each_other_are_told() -> None:
    assert abs(record(0.02, 1.0).lag) < 0.15
    assert record(0.002, 1.0, jumps=range(100, 200)).lag > 0.9
