"""Micro-batches of networks that drop values or normalize by batch, and of those that do both."""

from pathlib import Path
from typing import Any

import numpy
import pytest

from capsule.levels import frameworks, networks
from capsule.levels.data import generators
from capsule.levels.frameworks.numpy.training import NumpyTrainer
from capsule.levels.graphs import passes, values
from tests.support import trainings
from tests.support.jobs import needs_torch
from tests.support.trainings import SMALL

UNIVERSE: tuple[str, dict[str, int]] = "universe", {"samples": 24, "test_samples": 5, "side": 8}
MARKOV = "markov", {"samples": 24, "test_samples": 5, "length": 4, "vocabulary": 9}
GLYPHS = "glyphs", {**SMALL, "side": 12, "samples": 24, "channels": 3}
BOTH = {"side": 12, "width": 2, "classes": 3, "dropout": 30}
"""Of ResNet-9, whose last convolution has one value of each sample in a channel."""


def write(folder: Path, data: tuple[str, dict[str, int]]) -> Path:
    generators.write(generators.generate(*data), folder)
    return folder


def train(framework: str, folder: Path, **recipe: Any) -> trainings.Values:
    loaded = frameworks.load(framework, "cpu", 1, "strict")
    adam = {"name": "adam", "lr": 0.001}
    return trainings.measure(loaded, folder, **{"batch": 12, "optimizer": adam, **recipe})


@needs_torch
@pytest.mark.parametrize("framework", ["numpy", "torch"])
@pytest.mark.parametrize(
    ("network", "data", "sizes"),
    [
        ("cosmoflow", UNIVERSE, {"side": 8, "width": 2, "dropout": 50}),
        (
            *("transformer", MARKOV),
            {"layers": 1, "width": 8, "heads": 2, "length": 4, "vocabulary": 9, "dropout": 30},
        ),
    ],
    ids=["cosmoflow", "transformer"],
)
def test_micro_batches_drop_what_their_batch_drops(
    framework: str, network: str, data: tuple[str, dict[str, int]], sizes: Any, tmp_path: Path
) -> None:
    recipe: dict[str, Any] = {"network": network, "parameters": sizes}
    folder = write(tmp_path, data)
    whole = train(framework, folder, **recipe)
    # three micro-batches are held to the reference with a sample each, of twelve four
    parts = train(framework, folder, **recipe, accumulate=3 if framework == "torch" else 12)
    for curve in ("train_loss", "loss"):
        assert parts[curve] == pytest.approx(whole[curve], rel=1e-5)
    assert max(parts["exact_trajectory_error"]) < 1e-9
    assert max(parts["trajectory_error"]) < 0.05
    assert parts["evaluation_error"][0] < 1e-9
    assert parts["node_error_ratio"][0] < 1


def test_the_masks_of_micro_batches_are_the_rows_of_that_of_the_batch() -> None:
    for network, rows in (("cosmoflow", 1), ("transformer", 32)):
        whole, part = (networks.build(network, {"batch": n, "dropout": 50}) for n in (6, 2))
        drawn = values.noise(whole, 17, 5)
        inputs = {name: numpy.zeros(one.shape) for name, one in whole.inputs.items()}
        every = list(passes.split(part, {**inputs, **drawn}))
        assert len(every) == 3
        for name, mask in drawn.items():
            assert len(mask) == 6 * rows
            assert (numpy.concatenate([one[name] for one in every]) == mask).all()
            assert (every[0][name] != every[1][name]).any()


@needs_torch
@pytest.mark.parametrize("framework", ["numpy", "torch"])
def test_statistics_are_of_micro_batches_in_the_reference_too(
    framework: str, tmp_path: Path
) -> None:
    folder = write(tmp_path, GLYPHS)
    recipe: dict[str, Any] = {"network": "resnet9", "parameters": BOTH, "epochs": 1}
    losses = set()
    # of 12, 4 and 2 samples: what is held to the reference takes no single ones either
    for count in (1, 3, 6):
        parts = train(framework, folder, **recipe, accumulate=count)
        assert max(parts["exact_trajectory_error"]) < 1e-9
        assert parts["evaluation_error"][0] < 1e-9
        losses.add(round(parts["train_loss"][0], 3))
    # unlike without normalization by batch, how a batch is taken apart matters
    assert len(losses) == 3
    with pytest.raises(ValueError, match="no variance: use a larger batch, or fewer parts"):
        train(framework, folder, **recipe, accumulate=12)


def test_micro_batches_that_share_a_mask_are_seen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def step(trainer: NumpyTrainer, inputs: Any, rate: float) -> Any:
        shared = dict(inputs)
        for name, mask in inputs.items():
            if name.endswith(".mask"):
                half = mask[: len(mask) // 2]
                shared[name] = numpy.concatenate([half, half])
        return right(trainer, shared, rate)

    right = NumpyTrainer.step
    monkeypatch.setattr(NumpyTrainer, "step", step)
    sizes = {"side": 8, "width": 2, "dropout": 50}
    recipe: dict[str, Any] = {"network": "cosmoflow", "parameters": sizes, "epochs": 1}
    found = train("numpy", write(tmp_path, UNIVERSE), **recipe, accumulate=2)
    assert max(found["exact_trajectory_error"]) > 0.01
    assert max(found["trajectory_error"]) > 0.01
