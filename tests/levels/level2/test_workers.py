"""Minibatches gathered by threads: what is trained is the same, and no thread is left behind."""

import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from capsule.levels import level2
from capsule.levels.data import samplers
from capsule.levels.data.formats import writers
from capsule.levels.data.formats.files import FormatError
from capsule.levels.frameworks.numpy.training import NumpyTrainer
from capsule.levels.level2 import ahead
from capsule.levels.report import DivergedError, Report
from tests.support import trainings
from tests.support.trainings import SMALL, Values, numpy_alone

SAME = (
    *("untrained_loss", "train_loss", "learning_rate", "loss", "accuracy", "final_accuracy"),
    *("order_fingerprint", "test_fingerprint", "class_counts", "exact_trajectory_error"),
)


def workers() -> list[str]:
    return [one.name for one in threading.enumerate() if one.name.startswith("capsule-worker")]


def train(folder: Path, count: int, **recipe: Any) -> Values:
    return trainings.measure(numpy_alone(), folder, workers=count, **recipe)


def test_what_is_trained_does_not_depend_on_them(glyphs: Path) -> None:
    due = train(glyphs, 0)
    # of four steps an epoch: fewer, and so many that most have nothing to do
    for count in (1, 3, 64):
        seen = train(glyphs, count)
        assert {name: seen[name] for name in SAME} == {name: due[name] for name in SAME}
        assert not workers()


def test_the_wait_is_that_of_the_steps(glyphs: Path) -> None:
    seen = train(glyphs, 2)
    shares = zip(seen["data_share"], seen["epoch_time"], strict=True)
    waits = [share * seconds / 4 for share, seconds in shares]
    assert seen["batch_latency"] == pytest.approx(waits)
    assert all(0 < share < 1 for share in seen["data_share"])
    size = 20 * (12 * 12 * 4 + 8)  # of a batch
    assert seen["data_bytes_per_second"] == pytest.approx([size / wait for wait in waits])


def test_a_sample_that_cannot_be_read_is_the_same_error(tmp_path: Path) -> None:
    writers.write("image-folder", "glyphs", {**SMALL, "channels": 1, "seed": 1}, tmp_path)
    pictures = sorted((tmp_path / "train").rglob("*.p?m"))
    assert len(pictures) == 90
    # in the third step of the first epoch, behind what is held to the reference
    broken = pictures[samplers.shuffle(90, 17, 0)[50]]
    broken.write_bytes(broken.read_bytes()[:-1])
    messages = []
    for count in (0, 2):
        trial = trainings.trial("numpy", tmp_path, 17, workers=count)
        context = replace(trial.context, formats={"glyphs": "image-folder"})
        with pytest.raises(FormatError, match="bytes of pixels") as raised:
            level2.measure(replace(trial, context=context), numpy_alone(), Report(lambda _: None))
        messages.append(str(raised.value))
        assert not workers()
    assert messages[0] == messages[1]
    assert f"{broken.parent.name}/{broken.name}" in messages[0]


class StoppedError(Exception):
    """Of the third step."""


def test_a_training_that_ends_early_leaves_none(
    glyphs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps = 0

    def step(trainer: NumpyTrainer, inputs: Any, rate: float) -> Any:
        nonlocal steps
        # those that are held to the reference take fewer samples
        steps += "image" in inputs and len(inputs["image"]) == 20
        if steps == 3:
            assert workers()
            raise StoppedError
        return right(trainer, inputs, rate)

    right = NumpyTrainer.step
    monkeypatch.setattr(NumpyTrainer, "step", step)
    with pytest.raises(StoppedError):
        train(glyphs, 2)
    assert not workers()


@pytest.mark.filterwarnings("ignore:overflow:RuntimeWarning")
@pytest.mark.filterwarnings("ignore:invalid:RuntimeWarning")
@pytest.mark.filterwarnings("ignore:divide:RuntimeWarning")
def test_one_that_diverges_leaves_none(glyphs: Path) -> None:
    with pytest.raises(DivergedError):
        train(glyphs, 2, optimizer={"name": "sgd", "lr": 1e38})
    assert not workers()


def test_items_come_in_their_order_whichever_is_made_first() -> None:
    second = threading.Event()

    def make(number: int) -> int:
        if number == 0:
            assert second.wait(60)
        if number == 1:
            second.set()
        return number * number

    with ahead.gather(make, range(9), 2) as made:
        assert list(made) == [number * number for number in range(9)]


def test_so_many_are_made_ahead_and_no_more() -> None:
    began: list[int] = []
    with ahead.gather(began.append, range(100), 3) as made:
        next(made)
        next(made)
    assert 2 <= len(began) <= 2 + 2 * 3
    assert sorted(began) == list(range(len(began)))


def test_an_error_is_raised_where_its_item_is_due() -> None:
    def make(number: int) -> int:
        if number == 3:
            raise ValueError("the third")
        return number

    for count in (0, 2):
        seen: list[int] = []
        with (
            pytest.raises(ValueError, match="the third"),
            ahead.gather(make, range(9), count) as made,
        ):
            seen.extend(made)
        assert seen == [0, 1, 2]
        assert not workers()
