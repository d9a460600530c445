"""A user's torch.nn.Module at Level 1: held to itself in float64, within bounds that notice."""

from pathlib import Path
from typing import Any

import numpy
import pytest
from numpy.typing import NDArray

from capsule.levels import frameworks, networks
from capsule.levels.frameworks.base import InferringModule
from capsule.levels.instruments import errors
from tests.support import trials

pytest.importorskip("torch")

import torch

FILE = """
import torch
from torch import nn

inputs = {"image": (3, 8, 8), "token": {"below": 7, "shape": (5,)}, "label": {"below": 4}}
quality = "accuracy"

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.norm = nn.Conv2d(3, 6, 3, padding=1), nn.BatchNorm2d(6)
        self.table = nn.Embedding(7, 6)
        self.attention = nn.TransformerEncoderLayer(6, 2, 12, batch_first=True)
        self.last = nn.Linear(12, 4)

    def sum(self):
        self.calls = getattr(self, "calls", 0) + 1
        return (1 - 2 * (self.calls % 2)) * 1e9

    def forward(self, image, token):
        x = torch.relu_(self.norm(self.first(image))).mean((2, 3))
        y = self.attention(self.table(token))[:, -1]
        return torch.log_softmax(self.last(torch.cat([x, y], 1)), 1)

def network():
    return Net()
"""

Array = NDArray[Any]


def open_module(path: Path, text: str = FILE, dtype: str = "float32") -> InferringModule:
    path.write_text(text)
    framework = frameworks.load("torch", "cpu", 1, "default")
    assert framework.networks is not None
    assert framework.networks.inferring is not None
    like = framework.from_numpy(numpy.zeros(1, "float32"), dtype)
    return framework.networks.inferring(path, 17, like)


def draw(batch: int) -> dict[str, Array]:
    generator = numpy.random.default_rng(3)
    return {
        "image": generator.uniform(-2, 2, (batch, 3, 8, 8)).astype("float32"),
        "token": generator.integers(0, 7, (batch, 5)),
    }


def ran(module: InferringModule, inputs: dict[str, Array], dtype: str = "float32") -> Array:
    framework = frameworks.load("torch", "cpu", 1, "default")
    native = {name: framework.from_numpy(array, dtype) for name, array in inputs.items()}
    function, operands = module.inference(native)
    (result,) = function(*operands)
    return framework.to_numpy(result)


@pytest.mark.parametrize(("dtype", "share"), [("float32", 1e-3), ("bfloat16", 0.3)])
def test_a_module_is_within_a_bound_that_notices(tmp_path: Path, dtype: str, share: float) -> None:
    module = open_module(tmp_path / "net.py", dtype=dtype)
    inputs = draw(3)
    inputs["image"] = torch.from_numpy(inputs["image"]).bfloat16().float().numpy()
    (right,), (limit,) = module.right(inputs, dtype, 5)
    result = ran(module, inputs, dtype)
    assert right.dtype == numpy.float64
    assert 0 < errors.worst_ratio((result,), (right,), (limit,)) < 1
    assert 0 < limit < share * numpy.linalg.norm(right)
    assert errors.worst_ratio((result * (1 + 2 * share),), (right,), (limit,)) > 1
    assert module.right(inputs, dtype, 5)[1] == (limit,)


def test_a_trial_reports_what_is_due_and_nothing_of_layers(tmp_path: Path) -> None:
    path = tmp_path / "net.py"
    path.write_text(FILE)
    for name in ("torch", "numpy"):
        framework = frameworks.load(name, "cpu", 1, "default")

        def measured(framework: Any = framework) -> Any:
            return trials.values(
                framework,
                network="net.py",
                dtype="float32",
                source=str(path),
                parameters={"batch": 2},
            )

        if name == "numpy":
            with pytest.raises(ValueError, match="no function for numpy"):
                measured()
            continue
        reported = measured()
    entry = networks.find("net.py", str(path))
    assert set(reported) == {metric.name for metric in entry.metrics}
    assert reported["l2_error_ratio"][0] < 1
    assert reported["repeatable"] == (1.0,)
    # convolution, norm, embedding, attention and its products and norms, last layer
    assert reported["parameters"] == (168 + 12 + 42 + 168 + 162 + 24 + 52,)


@pytest.mark.parametrize(
    ("words", "old", "new"),
    [
        ("draws random numbers", "mean((2, 3))", "mean((2, 3)) * torch.rand(1)"),
        ("returned int", "return Net()", "return 5"),
        ("yields a int", "return torch.log_softmax(", "return 5 or ("),
        ("decides by its data", "y = self", "x = x * 2 if self.sum() > 0 else x; y = self"),
    ],
)
def test_a_module_without_a_reference_is_refused(
    tmp_path: Path, words: str, old: str, new: str
) -> None:
    with pytest.raises(ValueError, match=words):
        open_module(tmp_path / "net.py", FILE.replace(old, new)).right(draw(2), "float32", 5)


def test_float64_has_no_reference(tmp_path: Path) -> None:
    module = open_module(tmp_path / "net.py", dtype="float64")
    with pytest.raises(ValueError, match="no type with more bits"):
        module.right(draw(2), "float64", 5)
