"""The benchmark of ranks' steps: two trainings of the same ranks that take turns."""

from dataclasses import replace
from importlib import util

import ddp_steps
import pytest

pytestmark = [
    pytest.mark.torch,
    pytest.mark.skipif(util.find_spec("torch") is None, reason="torch is not installed here"),
]


def test_ranks_take_turns_with_those_of_a_loop() -> None:
    row = ddp_steps.ROWS[0]
    seconds, ratio = ddp_steps.compare(replace(row, batch=6), 2, 2, 2, "bucketed", 2)
    assert seconds > 0
    assert 0 < ratio.low <= ratio.middle <= ratio.high


def test_a_rank_that_fails_ends_the_benchmark() -> None:
    row = ddp_steps.ROWS[0]
    with pytest.raises(SystemExit, match="a rank failed"):
        ddp_steps.compare(row, 2, 1, 1, "no such scheme", 1)
