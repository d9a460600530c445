"""A training killed at any instant goes on from its checkpoint, to the same values."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from capsule.levels.data import checkpoints, generators
from tests.support.jobs import STRICT, needs_torch
from tests.support.trainings import SGD, SMALL
from tests.support.trials import JOB

ROOT = Path(__file__).parents[3]
CURVES = ("train_loss", "loss", "accuracy", "mean_absolute_error", "spectrum_distance")
EPOCHS = 5
Event = dict[str, Any]

GLYPHS = ("glyphs", {**SMALL, "channels": 3})
MAPS = ("mass-maps", {"samples": 90, "test_samples": 25, "side": 16})
Kind = tuple[str, str, dict[str, int], dict[str, Any], tuple[str, dict[str, int]]]
"""Framework, network, its sizes, optimizer, and the data with a generator's numbers."""

ALL = (
    *("resnet9", {"side": 12, "width": 2, "classes": 3, "dropout": 30}),
    *({"name": "adamw", "lr": 0.01}, GLYPHS),
)
KINDS: dict[str, Kind] = {
    "plain": ("numpy", "lenet", {"side": 12, "classes": 3}, SGD, ("glyphs", SMALL)),
    "all in torch": ("torch", *ALL),
    "all in numpy": ("numpy", *ALL),
    "adversarial": (
        *("numpy", "cosmogan", {"side": 16, "width": 2, "layers": 2, "latent": 3}),
        *({"name": "adam", "lr": 0.01, "beta1": 0.5}, MAPS),
    ),
}
EVERYTHING = {"accumulate": 2, "workers": 2}
"""Besides normalization by batch, dropout and checkpoints."""


class Training:
    """A job of one training in a folder, and its attempts."""

    def __init__(self, folder: Path, kind: str = "plain", **recipe: Any) -> None:
        self.folder = folder
        self.attempts = 0
        framework, network, sizes, optimizer, (name, numbers) = KINDS[kind]
        data = folder / "data"
        data.mkdir()
        generators.write(generators.generate(name, numbers), data)
        entry = {
            "id": "trial",
            "benchmark": "benchmark",
            "level": 2,
            "network": network,
            "dtype": "float32",
            "case": "default",
            "parameters": sizes,
            "datasets": ["data"],
            "recipe": {
                "batch": 30,
                "epochs": EPOCHS,
                "optimizer": optimizer,
                "schedule": {"name": "cosine"},
                "checkpoint_epochs": 1,
                **recipe,
            },
        }
        self.job = {
            **JOB,
            "framework": framework,
            "determinism": "strict",
            "data": {"data": str(data)},
            "trials": [entry],
        }

    @property
    def checkpoint(self) -> Path:
        return self.folder / checkpoints.paths("benchmark", "default")[0]

    def run(self, *strike: str) -> tuple[list[Event], str]:
        """One attempt, killed where that is said: the events of its journal, and its words."""
        self.attempts += 1
        job, journal = self.folder / "job.json", self.folder / f"{self.attempts}.jsonl"
        job.write_text(json.dumps(self.job))
        program = ["tests.support.strike", *strike] if strike else ["capsule.levels", "run"]
        ended = subprocess.run(
            [sys.executable, "-m", *program, str(job), str(journal)],
            cwd=ROOT,
            env={**os.environ, **STRICT, "PYTHONHASHSEED": str(self.job["seed"])},
            capture_output=True,
            text=True,
            check=False,
        )
        assert ended.returncode == (-9 if strike else 0), ended.stderr
        return [json.loads(line) for line in journal.read_text().splitlines()], ended.stderr


def values(events: list[Event], metric: str) -> list[float]:
    lines = [one for one in events if one.get("metric") == metric]
    return [value for line in lines for value in line["values"]]


def resumed(events: list[Event]) -> int | None:
    return next((one["epochs"] for one in events if one["event"] == "resume"), None)


STEPS = 3 + 3 * 3  # those that are held to the reference, and those of three epochs
PLACES = [
    ("step", STEPS + 2, 3),
    ("half", 3, 2),
    ("whole", 3, 2),
    ("placed", 3, 3),
]


def make_whole(folder: Path, kind: str, **recipe: Any) -> tuple[Training, list[Event]]:
    """A training that nobody kills."""
    whole = folder / "whole"
    whole.mkdir()
    training = Training(whole, kind, **recipe)
    due, _ = training.run()
    assert resumed(due) is None
    return training, due


def assert_same(
    training: Training, seen: list[Event], whole: Training, due: list[Event], epochs: int
) -> None:
    """That a resumed training tells what another one does, and times of its own epochs alone."""
    assert resumed(seen) == epochs
    prints = ("order_fingerprint", "test_fingerprint", "network_fingerprint")
    for metric in (*CURVES, "best_accuracy", *prints):
        assert values(seen, metric) == values(due, metric), metric
    assert len(values(due, "network_fingerprint")) == 1
    assert len(values(seen, "epoch_time")) == EPOCHS - epochs
    assert not training.checkpoint.exists()
    kept = Path("predictions/benchmark/default.npy")
    assert (training.folder / kept).read_bytes() == (whole.folder / kept).read_bytes()
    assert not [one for one in seen if one.get("wall") and one["metric"] in CURVES]


def test_a_kill_changes_no_value_wherever_it_strikes(tmp_path: Path) -> None:
    whole, due = make_whole(tmp_path, "plain")
    training = Training(tmp_path, "plain")
    for where, number, epochs in PLACES:
        training.run(where, str(number))
        seen, words = training.run()
        assert "discarded" not in words
        assert_same(training, seen, whole, due, epochs)


@needs_torch
@pytest.mark.parametrize("kind", ["all in numpy", "all in torch", "adversarial"])
def test_nor_do_kills_with_everything_on_and_without_workers(kind: str, tmp_path: Path) -> None:
    everything: dict[str, Any] = {**EVERYTHING}
    if kind != "adversarial":  # its maps are no pictures of something
        everything["augmentation"] = {"crop": 2, "flip": True, "cutout": 3}
    whole, due = make_whole(tmp_path, kind, **{**everything, "workers": 0})
    training = Training(tmp_path, kind, **everything)
    training.run("step", str(STEPS - 1))  # in the third epoch
    events, words = training.run("half", "2")  # of its own, after the fourth
    assert resumed(events) == 2
    assert "discarded" not in words
    seen, words = training.run()
    assert "discarded" not in words
    assert_same(training, seen, whole, due, 3)


def test_a_training_can_be_killed_again_and_again(tmp_path: Path) -> None:
    training = Training(tmp_path, checkpoint_epochs=2)
    began = []
    for strike in (("placed", "1"), ("step", "5"), ("placed", "1"), ()):
        events, _ = training.run(*strike)
        began.append(resumed(events))
    assert began == [None, 2, 2, 4]
    assert len(values(events, "accuracy")) == EPOCHS
    assert len(values(events, "epoch_time")) == 1


def test_a_resumed_training_says_when_it_reached_its_target_but_not_how_long_that_took(
    tmp_path: Path,
) -> None:
    target = {"value": 0.3, "stop": False}
    training = Training(tmp_path, target=target)
    training.run("placed", "4")
    events, _ = training.run()
    assert values(events, "epochs_to_target")
    assert not values(events, "time_to_target")


BROKEN: dict[str, Callable[[bytes], bytes]] = {
    "half of one": lambda data: data[: len(data) // 2],
    "a byte changed": lambda data: data[:2000] + bytes([data[2000] ^ 1]) + data[2001:],
    "nothing": lambda data: b"",
    "no checkpoint": lambda data: b"\x93NUMPY",
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_damaged_checkpoint_is_discarded_with_a_note(name: str, tmp_path: Path) -> None:
    training = Training(tmp_path, epochs=2)
    training.run("placed", "1")
    training.checkpoint.write_bytes(BROKEN[name](training.checkpoint.read_bytes()))
    events, words = training.run()
    assert resumed(events) is None
    assert f"discarded the checkpoint {training.checkpoint}" in words
    assert len(values(events, "epoch_time")) == 2


@pytest.mark.parametrize(
    "change",
    [{"seed": 18}, {"framework": "torch"}, {"lr": 0.2}],
    ids=["another seed", "another framework", "another rate"],
)
@needs_torch
def test_a_checkpoint_of_another_training_is_discarded(
    change: dict[str, Any], tmp_path: Path
) -> None:
    training = Training(tmp_path, epochs=2)
    training.run("placed", "1")
    recipe = training.job["trials"][0]["recipe"]
    if "lr" in change:
        recipe["optimizer"] = {**SGD, **change}
    else:
        training.job.update(change)
    events, words = training.run()
    assert resumed(events) is None
    assert "the checkpoint belongs to another training" in words


def test_state_that_the_trainer_cannot_take_is_discarded(tmp_path: Path) -> None:
    training = Training(tmp_path, epochs=2)
    training.run("placed", "1")
    read = checkpoints.read(training.checkpoint)
    assert read is not None
    facts, arrays = read
    name = next(one for one in arrays if one.startswith("state/parameter/"))
    for broken in (
        {**arrays, name: arrays[name][:1]},
        {k: v for k, v in arrays.items() if k != name},
    ):
        checkpoints.write(training.checkpoint, facts=facts, arrays=broken)
        events, words = training.run()
        assert resumed(events) is None
        assert "training starts without it" in words
