"""The benchmark of training steps: two trainings that take turns, of the same network and data."""

from importlib import util
from pathlib import Path

import pytest
import training_steps

pytestmark = [
    pytest.mark.torch,
    pytest.mark.skipif(util.find_spec("torch") is None, reason="torch is not installed here"),
]

ROW = training_steps.Row(
    "lenet", {"side": 12, "classes": 3}, "glyphs", {"side": 12, "classes": 3}, 4
)


def test_each_epoch_of_ours_lies_between_two_of_the_loop() -> None:
    steps, turns = training_steps.compare(ROW, 5, 1, 0.005)
    assert steps >= 1
    assert len(turns.ours) == len(turns.theirs) == training_steps.WARMUP + 5
    for clock in ("wall", "processor"):
        ratios = turns.ratios(clock)
        assert len(ratios) == 5
        assert min(ratios) > 0


def test_the_loop_trains(tmp_path: Path) -> None:
    loop = training_steps.Loop(ROW, training_steps.write(ROW, tmp_path, 5), 5)
    losses = [loop.epoch() for _ in range(30)]
    assert losses[-1] < losses[0]


def test_a_slow_change_of_the_machine_is_no_difference() -> None:
    turns = training_steps.Turns.__new__(training_steps.Turns)
    turns.ours = [training_steps.Turn(2 * n + 2, 1) for n in range(9)]
    turns.theirs = [training_steps.Turn(2 * n + 3, 1) for n in range(9)]
    assert turns.ratios("wall") == [1] * 7


def test_every_row_is_a_network_that_is_written_by_hand() -> None:
    from tests.support import torch_networks

    assert {row.network for row in training_steps.ROWS} <= torch_networks.MODELS.keys()
