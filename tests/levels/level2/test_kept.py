"""What checkpoints keep of L-BFGS and of a user's module: cut off in this process, and gone on."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from capsule.levels import frameworks, run
from capsule.levels.data import checkpoints
from capsule.levels.journal import Samples
from capsule.levels.report import Report
from tests.levels.level2.test_modules import HEAD, NET
from tests.support.jobs import needs_torch
from tests.support.trainings import Values, trial

CHECKPOINT = checkpoints.paths("benchmark", "default")[0]


class CutError(Exception):
    """Where a training was cut off."""


def train(
    framework: str, glyphs: Path, out: Path, cut: int | None = None, **recipe: Any
) -> tuple[Values, int | None]:
    """What a training of three epochs reports, cut off in one, and where it went on."""
    values: Values = {}
    began: list[int] = []

    def write(line: Samples) -> None:
        values[line.metric] = values.get(line.metric, ()) + line.values
        if line.metric == "train_loss" and len(values[line.metric]) == cut:
            raise CutError

    plain = trial(framework, glyphs, 17, **{"epochs": 3, "checkpoint_epochs": 1, **recipe})
    wanted = replace(plain, context=replace(plain.context, determinism="strict"))
    loaded = frameworks.load(framework, "cpu", 1, "strict")
    loaded.seed(17)
    run.load_level(2)(wanted, loaded, Report(write, folder=out, resume=began.append))
    return values, began[0] if began else None


def assert_goes_on(framework: str, glyphs: Path, folder: Path, **recipe: Any) -> Values:
    """That a training which is cut off in its second epoch ends as the whole one."""
    due, _ = train(framework, glyphs, folder / "whole", **recipe)
    with pytest.raises(CutError):
        train(framework, glyphs, folder / "cut", 2, **recipe)
    assert (folder / "cut" / CHECKPOINT).exists()
    seen, began = train(framework, glyphs, folder / "cut", **recipe)
    assert began == 1
    names = {"train_loss", "loss", "accuracy", "order_fingerprint", "initial_fingerprint"}
    assert {name: seen[name] for name in names & due.keys()} == {
        name: due[name] for name in names & due.keys()
    }
    return due


@needs_torch
@pytest.mark.parametrize(("framework", "search"), [("numpy", 1), ("torch", 0), ("torch", 1)])
def test_lbfgs_goes_on_with_its_history(
    framework: str, search: int, glyphs: Path, tmp_path: Path
) -> None:
    # a history that is full, whose oldest pairs are dropped
    numbers = {"iterations": 3, "history": 4, "strong_wolfe": search}
    optimizer = {"name": "lbfgs", "lr": 0.1, **numbers}
    assert_goes_on(framework, glyphs, tmp_path, optimizer=optimizer, accumulate=2, workers=2)


@needs_torch
def test_lbfgs_that_has_remembered_nothing_goes_on(glyphs: Path, tmp_path: Path) -> None:
    # so small a rate that no change counts, and one move a step
    optimizer = {"name": "lbfgs", "lr": 1e-12, "iterations": 1, "tolerance_change": 0}
    assert_goes_on("torch", glyphs, tmp_path, optimizer=optimizer)


def as_module(folder: Path, text: str) -> dict[str, Any]:
    source = folder / "net.py"
    source.write_text(text)
    return {"network": "net.py", "source": source, "parameters": {}}


DRAWING = (
    HEAD
    + """
import random
import numpy

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Flatten(), nn.BatchNorm1d(144), nn.Dropout(0.3))
        self.last = nn.Linear(144, 3)
        self.register_buffer("calls", torch.zeros(()), persistent=False)

    def forward(self, image):
        if self.training:
            self.calls = self.calls + 1
            image = image * (1 + 0.1 * random.random() + 0.1 * numpy.random.rand())
        return self.last(self.layers(image)) / (1 + 0.01 * self.calls)

network = Net
"""
)


@needs_torch
@pytest.mark.parametrize("text", [NET, DRAWING], ids=["layers", "all that is kept"])
def test_a_module_goes_on_with_its_buffers_and_generators(
    text: str, glyphs: Path, tmp_path: Path
) -> None:
    recipe = as_module(tmp_path, text)
    adam = {"name": "adam", "lr": 0.01}
    due = assert_goes_on("torch", glyphs, tmp_path, optimizer=adam, workers=2, **recipe)
    assert due["initial_fingerprint"]


@needs_torch
@pytest.mark.parametrize(
    ("before", "step"),
    [
        ("self.calls = 0", "self.calls += 1; image = image * self.calls"),
        (
            "self.own = torch.Generator().manual_seed(1)",
            "image = image * torch.rand((), generator=self.own)",
        ),
    ],
    ids=["a number", "a generator of its own"],
)
def test_a_module_that_keeps_more_is_refused(
    before: str, step: str, glyphs: Path, tmp_path: Path
) -> None:
    text = f"""{HEAD}
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.last = nn.Linear(144, 3)
        {before}

    def forward(self, image):
        {step}
        return self.last(image.flatten(1))

network = Net
"""
    recipe = as_module(tmp_path, text)
    with pytest.raises(ValueError, match=r"net\.py trains differently after a checkpoint"):
        train("torch", glyphs, tmp_path / "out", **recipe)
    assert not (tmp_path / "out" / CHECKPOINT).exists()
