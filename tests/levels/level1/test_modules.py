"""A user's torch.nn.Module at Level 1: held to itself in float64, within bounds that notice."""

from pathlib import Path
from typing import Any

import numpy
import pytest
from numpy.typing import NDArray

from capsule.levels import catalog, frameworks, networks
from capsule.levels.frameworks.base import InferringModule
from capsule.levels.instruments import errors, roofs
from capsule.levels.instruments.roofs import ImpossibleRateError
from tests.support import trials

pytest.importorskip("torch")

import torch

from capsule.levels.frameworks.torch import fused, moves

FILE = """
import torch
from torch import nn

inputs = {"image": (3, 8, 8), "token": {"below": 7, "shape": (5,)}, "label": {"below": 4}}
quality = "accuracy"

CALLS = []

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.norm = nn.Conv2d(3, 6, 3, padding=1), nn.BatchNorm2d(6)
        self.table = nn.Embedding(7, 6)
        self.attention = nn.TransformerEncoderLayer(6, 2, 12, batch_first=True)
        self.last = nn.Linear(12, 4)

    def sum(self):
        CALLS.append(1)
        return (1 - 2 * (len(CALLS) % 2)) * 1e9

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


def test_a_trial_reports_what_is_due(tmp_path: Path) -> None:
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
    assert set(reported) == {metric.name for metric in catalog.due(entry, "torch", "cpu")}
    for name in ("l2_error_ratio", "grad_l2_error_ratio", "gradient_check", "node_error_ratio"):
        assert 0 < reported[name][0] < 1, name
    assert 0 < reported["bound_share"][0] < 1e-3
    assert reported["repeatable"] == (1.0,)
    # convolution, norm, activation, mean, table, attention as one, and what comes after
    assert len(reported["layer_time"]) >= 8
    assert min(reported["layer_time"]) > 0
    # each of these has one operation or more that goes back
    assert len(reported["layer_backward_time"]) > len(reported["layer_time"])
    assert min(reported["layer_backward_time"]) > 0
    # convolution, norm, embedding, attention and its products and norms, last layer
    assert reported["parameters"] == (168 + 12 + 42 + 168 + 162 + 24 + 52,)


@pytest.mark.parametrize(
    ("words", "old", "new"),
    [
        ("draws random numbers", "mean((2, 3))", "mean((2, 3)) * torch.rand(1)"),
        ("returned int", "return Net()", "return 5"),
        ("returns a int", "return torch.log_softmax(", "return 5 or ("),
        (
            "operations depend on its data",
            "y = self",
            "x = x * 2 if self.sum() > 0 else x; y = self",
        ),
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


SMALL = """
import torch
from torch import nn

inputs = {"x": (6,), "label": {"below": 3}}
quality = "accuracy"

class Scaled(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 3

    @staticmethod
    def backward(ctx, upstream):
        return upstream * 3

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.norm = nn.Linear(6, 8), nn.BatchNorm1d(8)
        self.last, self.dropout = nn.Linear(8, 3), nn.Dropout(0.25)

    def forward(self, x):
        return self.last(self.dropout(torch.tanh(Scaled.apply(self.norm(self.first(x))))))

def network():
    return Net()
"""


def train(path: Path, text: str, dtype: str = "float32") -> dict[str, tuple[float, ...]]:
    path.write_text(text)
    framework = frameworks.load("torch", "cpu", 1, "default")
    how: Any = {"network": "net.py", "source": str(path), "parameters": {"batch": 3}}
    return trials.values(framework, dtype=dtype, repetitions=1, warmup=0, **how)


CHECKS = ("grad_l2_error_ratio", "gradient_check", "node_error_ratio")


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_a_module_of_one_s_own_is_differentiated_within_its_bounds(
    tmp_path: Path, dtype: str
) -> None:
    reported = train(tmp_path / "net.py", SMALL, dtype)
    assert all(0 < reported[name][0] < 1 for name in CHECKS), reported
    assert reported["repeatable"] == (1.0,)
    # the loss of three classes that nothing was learned of
    assert 0.5 < reported["loss"][0] < 3


def test_a_gradient_that_is_not_the_loss_s_fails_its_check(tmp_path: Path) -> None:
    wrong = SMALL.replace("return upstream * 3", "return upstream * 3.03")
    reported = train(tmp_path / "net.py", wrong)
    assert reported["gradient_check"][0] > 1
    # each of its operations is right, and so is what they come to in float64
    assert max(reported["node_error_ratio"][0], reported["grad_l2_error_ratio"][0]) < 1


LACKING = SMALL.replace("return x * 3", "return x * 3 + 0.02 * x.sin()")


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
def test_a_backward_that_lacks_a_term_fails_its_check_in_every_dtype(
    tmp_path: Path, dtype: str
) -> None:
    assert LACKING != SMALL
    reported = train(tmp_path / "net.py", LACKING, dtype)
    assert reported["gradient_check"][0] > 1
    # the reference is the module's own, and lacks the same
    assert max(reported["node_error_ratio"][0], reported["grad_l2_error_ratio"][0]) < 1


OPERATION = """
@torch.library.custom_op("capsule_test::scaled", mutates_args=())
def scaled(x: torch.Tensor) -> torch.Tensor:
    return x * (3.003 if x.dtype == torch.float32 else 3)

scaled.register_autograd(lambda ctx, upstream: scaled(upstream))
"""


def test_an_operation_that_is_wrong_in_the_dtype_exceeds_its_bound(tmp_path: Path) -> None:
    text = SMALL.replace("class Net(", f"{OPERATION}\nclass Net(").replace("Scaled.apply", "scaled")
    reported = train(tmp_path / "net.py", text)
    assert reported["node_error_ratio"][0] > 10
    assert reported["grad_l2_error_ratio"][0] > 1


@pytest.mark.parametrize(
    ("words", "old", "new"),
    [
        ("draws random numbers with aten.randn", "self.dropout(", "torch.randn(3, 8) * ("),
        ("has no parameters to train", "return Net()", "return Net().requires_grad_(False)"),
        ("expected a function or one of", "class Net", "loss = 'none'\nclass Net"),
        ("expected a scalar", "class Net", "loss = lambda y, due: y\nclass Net"),
        ("returned shape \\(4, 8\\), expected shape \\(4, 3\\)", "self.last(self", "(self"),
    ],
)
def test_a_module_that_cannot_be_differentiated_says_why(
    tmp_path: Path, words: str, old: str, new: str
) -> None:
    assert SMALL.count(old) == 1, old
    path = tmp_path / "net.py"
    module = open_module(path, SMALL.replace(old, new))
    generator = numpy.random.default_rng(3)
    inputs = {
        "x": generator.uniform(-2, 2, (4, 6)).astype("float32"),
        "label": generator.integers(0, 3, 4),
    }
    with pytest.raises(ValueError, match=words):
        module.differentiation().right(inputs, "float32", 5)


RECURRENT = """
import torch
from torch import nn

inputs = {"x": (7, 6), "label": {"below": 3}}
quality = "accuracy"

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.cells, self.last = LAYER, nn.Linear(10, 3)

    def forward(self, x):
        y, (h, c) = self.cells(x)
        return self.last(y[:, -1] + y[:, 0] + LEFT)

def network():
    return Net()
"""
LAYERS = {
    "one": ("nn.LSTM(6, 10, batch_first=True)", "c[0]"),
    "no bias": ("nn.LSTM(6, 10, batch_first=True, bias=False)", "h[0] * c[0]"),
    "two layers, two ways": (
        "nn.LSTM(6, 5, 2, batch_first=True, bidirectional=True)",
        "torch.cat((h[1], c[2]), 1)",
    ),
}


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("name", LAYERS)
def test_an_lstm_is_trained_and_held(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, dtype: str
) -> None:
    layer, left = LAYERS[name]
    text = RECURRENT.replace("LAYER", layer).replace("LEFT", left)
    reported = train(tmp_path / "net.py", text, dtype)
    assert all(0 < reported[metric][0] < 1 for metric in CHECKS), reported
    assert reported["bound_share"][0] < (1e-3 if dtype == "float32" else 0.5)
    if dtype != "float32":
        return
    backward = fused.REFERENCES["mkldnn_rnn_layer_backward"]

    def scaled(*operands: Any) -> Any:
        first, *others = backward(*operands)
        return (first * 1.001, *others)

    # what is due of it has to agree with what oneDNN computes
    monkeypatch.setitem(fused.REFERENCES, "mkldnn_rnn_layer_backward", scaled)
    assert train(tmp_path / "net.py", text, dtype)["node_error_ratio"][0] > 1


def test_losses_in_16_bits_are_granted_what_torch_s_kernels_lose_and_no_more() -> None:
    generator = numpy.random.default_rng(5)
    x = torch.from_numpy(generator.uniform(-2, 2, (40, 9))).bfloat16()
    labels = torch.arange(40) % 9
    logarithms = torch.ops.aten._log_softmax.default
    mean = torch.ops.aten.nll_loss_forward.default
    rows = logarithms(x, 1, False)
    for function, operands in ((logarithms, (x, 1, False)), (mean, (rows, labels, None, 1, -100))):
        wide = (operands[0].double(), *operands[1:])
        dues, limits = moves.Limits("bfloat16", "label", 8).find(function, wide, {})
        result, due, limit = function(*operands), dues[0], limits[0]
        assert limit is not None
        result = result[0] if isinstance(result, tuple) else result
        assert 0 < float((result.double() - due).norm() / limit.norm()) < 1
        assert float(0.2 * due.norm() / limit.norm()) > 1


FEW = """
import torch
from torch import nn

inputs = {"x": (3, 8, 8), "label": {"below": 4}}
quality = "accuracy"

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.last = nn.Conv2d(3, 6, 3), nn.Linear(6, 4)
        self.kept = {}

    def forward(self, x):
        y = self.last(self.first(x).mean((2, 3)))
        ANSWER

def network():
    return Net()
"""
KEEPS = "return y if self.training else self.kept.setdefault(len(x), y)"
FIRST_WRONG = "self.kept[0] = self.kept.get(0, -1) + 1; return y + (self.kept[0] == 1)"


@pytest.mark.parametrize("batch", [2, 8, 9, 20])
@pytest.mark.parametrize(
    ("answer", "is_right"), [("return y", True), (KEEPS, False), (FIRST_WRONG, False)]
)
def test_what_was_timed_is_held(tmp_path: Path, answer: str, is_right: bool, batch: int) -> None:
    path = tmp_path / "net.py"
    path.write_text(FEW.replace("ANSWER", answer))
    framework = frameworks.load("torch", "cpu", 1, "default")
    how: Any = {"network": "net.py", "source": str(path), "parameters": {"batch": batch}}
    reported = trials.values(framework, dtype="float32", repetitions=2, warmup=0, **how)
    assert (reported["l2_error_ratio"][0] < 1) == is_right


def test_a_step_that_was_kept_is_none(tmp_path: Path) -> None:
    path = tmp_path / "net.py"
    text = FEW.replace("ANSWER", "return y")
    text = text.replace("class Net", "loss = lambda y, due: y.square().mean()\n\nclass Net")
    keeps = "x = self.kept.setdefault(len(x), x.clone()) if self.training else x"
    framework = frameworks.load("torch", "cpu", 1, "default")
    ratios: list[float] = []
    for begin in ("", keeps):
        path.write_text(text.replace("        y =", f"        {begin}\n        y ="))
        how: Any = {"network": "net.py", "source": str(path), "parameters": {"batch": 6}}
        reported = trials.values(framework, dtype="float32", repetitions=2, warmup=0, **how)
        ratios += reported["grad_l2_error_ratio"]
    assert ratios[0] < 1 < ratios[1]


def test_examples_that_depend_on_each_other_are_not_held_apart(tmp_path: Path) -> None:
    path = tmp_path / "net.py"
    framework = frameworks.load("torch", "cpu", 1, "default")
    how: Any = {"network": "net.py", "source": str(path), "parameters": {"batch": 20}}
    ratios: list[float] = []
    for answer in ("return y", KEEPS):
        path.write_text(FEW.replace("ANSWER", f"y = y - y.mean(0); {answer}"))
        reported = trials.values(framework, dtype="float32", repetitions=2, warmup=0, **how)
        ratios += reported["l2_error_ratio"]
    assert 0 < ratios[0] < 1 < ratios[1]


def test_fewest_operations_are_those_of_the_module_s_dtype_and_one_place_of_each_window(
    tmp_path: Path,
) -> None:
    for answer in ("return y", "return y + (y.half() @ y.half().t())[:, :1]"):
        module = open_module(tmp_path / "net.py", FEW.replace("ANSWER", answer))
        flops = module.fewest_flops({"x": torch.zeros(5, 3, 8, 8)})
        assert flops == 5 * 2 * 36 * 6 * 3 + 5 * 2 * 6 * 4


def test_a_rate_that_this_machine_has_not_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "net.py"
    path.write_text(FEW.replace("ANSWER", "return y"))
    framework = frameworks.load("torch", "cpu", 1, "default")
    monkeypatch.setattr(roofs, "BELIEVED", 1.0)
    monkeypatch.setattr(roofs, "product_rates", lambda *_: (2.0,))
    with pytest.raises(ImpossibleRateError, match="reuse an earlier result"):
        trials.values(framework, network="net.py", source=str(path), parameters={"batch": 2})
