"""Trainings in TensorFlow and XLA, through the real program; see `support.programs`."""

from pathlib import Path
from typing import Any

import pytest

from capsule.levels import frameworks
from capsule.levels.catalog import training
from capsule.levels.data import generators
from tests.support.programs import PROGRAMS, Program, run
from tests.support.trainings import SMALL, measure

OPTIMIZERS: list[dict[str, Any]] = [
    {"name": "sgd", "lr": 0.1, "momentum": 0.9, "nesterov": 1, "weight_decay": 0.001},
    {"name": "sgd", "lr": 0.1},
    {"name": "adam", "lr": 0.01},
    {"name": "adamw", "lr": 0.01},
    {"name": "adagrad", "lr": 0.01},
    {"name": "rmsprop", "lr": 0.001, "momentum": 0.9},
    {"name": "lamb", "lr": 0.01},
    {"name": "lamb-nvidia", "lr": 0.01, "max_norm": 0.1},
    {"name": "accelegrad", "lr": 0.1},
]


@pytest.mark.parametrize("framework", ["tensorflow", "tensorflow-xla"])
def test_all_optimizers_are_those_that_it_trains_by(framework: str) -> None:
    trained = {
        name for name in training.OPTIMIZERS if not training.refusal(framework, name, "float32")
    }
    assert {one["name"] for one in OPTIMIZERS} == trained


@pytest.mark.parametrize(
    ("framework", "optimizers"),
    [
        pytest.param("tensorflow", OPTIMIZERS, id="tensorflow"),
        # each of them is compiled, for some ten seconds, and so is the first in parts
        pytest.param("tensorflow-xla", OPTIMIZERS[:1], id="tensorflow-xla"),
        pytest.param("tensorflow-xla", OPTIMIZERS, id="xla-all", marks=pytest.mark.long),
    ],
)
@pytest.mark.parametrize("program", PROGRAMS)
def test_every_optimizer_goes_the_way_of_the_reference(
    program: Program, framework: str, optimizers: list[dict[str, Any]], tmp_path: Path
) -> None:
    folder = tmp_path / "glyphs"
    folder.mkdir()
    generators.write(generators.generate("glyphs", SMALL), folder)
    recipe: dict[str, Any] = {"batch": 20, "epochs": 2, "schedule": {"name": "constant"}}
    work: list[dict[str, Any]] = [
        {
            "id": str(index),
            "level": 2,
            "network": "lenet",
            "parameters": {"side": 12, "classes": 3},
            "datasets": ["glyphs"],
            "recipe": {**recipe, "optimizer": optimizer},
        }
        for index, optimizer in enumerate(optimizers)
    ]
    in_parts = {**work[0]["recipe"], "accumulate": 4}
    work.append({**work[0], "id": str(len(work)), "recipe": in_parts})
    values, _ = run(program, tmp_path, framework, work, data={"glyphs": "glyphs"})
    alone = frameworks.load("numpy", "cpu", 1, "default")
    for index, optimizer in enumerate([*optimizers, optimizers[0]]):
        seen = values[str(index)]
        assert seen["trajectory_error"][0] < 1e-3, optimizer
        assert seen["exact_trajectory_error"][0] < 1e-9, optimizer
        assert seen["evaluation_error"][0] < 1e-9, optimizer
        assert seen["node_error_ratio"][0] < 1, optimizer
        assert seen["bound_share"][0] < 0.1, optimizer
        reference = measure(alone, folder, optimizer=optimizer)
        assert seen["network_fingerprint"] == list(reference["network_fingerprint"])
        for metric in ("train_loss", "loss"):
            # the journal's last line has the last epoch's
            assert seen[metric] == pytest.approx(reference[metric][-1:], rel=1e-3), optimizer


SIZES = {"side": 12, "width": 2, "classes": 3, "dropout": 30}
RECIPE: dict[str, Any] = {
    **{"batch": 18, "accumulate": 3, "epochs": 1, "workers": 2},
    **{"optimizer": {"name": "adam", "lr": 0.001}, "schedule": {"name": "constant"}},
}


def write_pictures(folder: Path) -> Path:
    pictures = folder / "glyphs"
    pictures.mkdir(parents=True)
    generators.write(generators.generate("glyphs", {**SMALL, "channels": 3}), pictures)
    return pictures


def everything(**recipe: Any) -> list[dict[str, Any]]:
    """Dropout and normalization by batch in micro-batches, with workers."""
    entry = {"id": "0", "level": 2, "network": "resnet9", "parameters": SIZES}
    return [{**entry, "datasets": ["glyphs"], "recipe": {**RECIPE, **recipe}}]


@pytest.mark.parametrize("program", PROGRAMS)
def test_micro_batches_that_drop_and_normalize_go_the_way_of_the_reference(
    program: Program, tmp_path: Path
) -> None:
    folder = write_pictures(tmp_path)
    values, _ = run(program, tmp_path, "tensorflow", everything(), data={"glyphs": "glyphs"})
    alone = frameworks.load("numpy", "cpu", 1, "default")
    reference = measure(alone, folder, network="resnet9", parameters=SIZES, **RECIPE)
    for metric in ("train_loss", "loss"):
        assert values["0"][metric] == pytest.approx(reference[metric], rel=1e-3)
    assert values["0"]["exact_trajectory_error"][0] < 1e-9
    assert values["0"]["evaluation_error"][0] < 1e-9


EXIT = """
import os
import pathlib

right = pathlib.Path.replace

def replace(source, target):
    done = right(source, target)
    if target.suffix == ".npz":
        os._exit(9)
    return done

pathlib.Path.replace = replace
"""
"""Ends the program behind its first checkpoint, before anything else is done."""


@pytest.mark.long
@pytest.mark.parametrize("program", PROGRAMS)
def test_a_training_that_was_cut_off_goes_on_to_the_same_values(
    program: Program, tmp_path: Path
) -> None:
    how: dict[str, Any] = {"data": {"glyphs": "glyphs"}, "determinism": "strict"}
    work = everything(epochs=3, checkpoint_epochs=1)
    whole, cut = tmp_path / "whole", tmp_path / "cut"
    for folder in (whole, cut):
        write_pictures(folder)
    due, _ = run(program, whole, "tensorflow", work, **how)
    with pytest.raises(AssertionError):
        run(program, cut, "tensorflow", work, EXIT, **how)
    (cut / "sitecustomize.py").unlink()
    journal = cut / "journal.jsonl"
    assert '"train_loss"' in journal.read_text()
    journal.unlink()
    seen, _ = run(program, cut, "tensorflow", work, **how)
    assert '"event": "resume"' in journal.read_text().replace('":"', '": "')
    # of the last epoch, which follows from all before it
    for metric in ("train_loss", "loss", "accuracy"):
        assert seen["0"][metric] == due["0"][metric]
