"""A user's `torch.nn.Module` in training, in this process: what it gives, and odd files."""

from collections.abc import Callable
from importlib import util
from pathlib import Path
from typing import Any

import numpy
import pytest

from capsule.levels import frameworks
from capsule.levels.catalog import modules, training
from capsule.levels.data import generators
from capsule.levels.frameworks import Framework
from tests.support.compiler import needs_compiler
from tests.support.trainings import measure

pytestmark = [
    pytest.mark.torch,
    pytest.mark.skipif(util.find_spec("torch") is None, reason="torch is not installed here"),
]

HEAD = """
import torch
from torch import nn

inputs = {"image": (1, 12, 12), "label": {"below": 3}}
quality = "accuracy"
"""
NET = (
    HEAD
    + """
def network():
    return nn.Sequential(
        nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.ReLU(),
        nn.Flatten(), nn.Dropout(0.2), nn.Linear(400, 3),
    )
"""
)


@pytest.fixture(scope="module")
def torch() -> Framework:
    return frameworks.load("torch", "cpu", 1, "strict")


@pytest.fixture
def train(tmp_path: Path, glyphs: Path, torch: Framework) -> Callable[..., dict[str, Any]]:
    def run(
        text: str,
        seed: int = 17,
        folder: Path = glyphs,
        framework: Framework = torch,
        **recipe: Any,
    ) -> dict[str, Any]:
        source = tmp_path / "net.py"
        source.write_text(text)
        return measure(
            framework, folder, seed, network="net.py", source=source, parameters={}, **recipe
        )

    return run


def test_a_module_reports_what_is_due(train: Callable[..., dict[str, Any]]) -> None:
    values = train(NET, epochs=3, target={"value": 0.0, "stop": False})
    due = training.metrics("accuracy", has_target=True, stops=False, is_module=True)
    assert set(values) == {facts.name for facts in due}
    assert values["parameters"] == (4 * 9 + 4 + 8 + 1200 + 3,)
    assert max(values["update_error"]) < 1e-9
    assert sum(values["class_counts"]) == 80


@pytest.mark.parametrize(
    "optimizer",
    [
        {"name": "sgd", "lr": 0.1, "momentum": 0.9, "weight_decay": 0.01},
        {"name": "adam", "lr": 0.01},
        {"name": "adamw", "lr": 0.01},
        {"name": "rmsprop", "lr": 0.01},
        {"name": "adagrad", "lr": 0.01},
    ],
)
def test_steps_are_the_formulas_whatever_is_frozen_or_unused(
    train: Callable[..., dict[str, Any]], optimizer: dict[str, Any]
) -> None:
    text = (
        HEAD
        + """
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.frozen, self.unused = nn.Linear(144, 8), nn.Linear(3, 3)
        self.last = nn.Linear(8, 3)
        self.frozen.requires_grad_(False)

    def forward(self, image):
        return self.last(torch.tanh(self.frozen(image.flatten(1))))

network = Net
"""
    )
    values = train(text, epochs=1, optimizer=optimizer)
    assert max(values["update_error"]) < 1e-9
    assert values["parameters"] == (27 + 12,)


def test_the_seed_gives_the_same_training_and_another_one_another(
    train: Callable[..., dict[str, Any]],
) -> None:
    names = ("initial_fingerprint", "train_loss", "loss", "accuracy", "order_fingerprint")
    once, again, other = (
        [train(NET, seed, epochs=2)[name] for name in names] for seed in (17, 17, 18)
    )
    assert once == again
    assert not any(one == two for one, two in zip(once[:3], other[:3], strict=True))


def test_a_module_is_in_the_mode_of_training_and_of_evaluation(
    train: Callable[..., dict[str, Any]], glyphs: Path
) -> None:
    text = (
        HEAD
        + """
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.last = nn.Linear(144, 3)
        self.zero = nn.Parameter(torch.zeros(()))

    def forward(self, image):
        scores = self.last(image.flatten(1)) * 0
        # certain of the first class in training, of the last one in evaluation
        shift = torch.tensor([9.0, 0, 0] if self.training else [0, 0, 9.0])
        return scores + shift + self.zero
def network():
    return Net()
"""
    )
    values = train(text, epochs=1, optimizer={"name": "sgd", "lr": 1e-9})
    first = values["class_counts"][0]
    assert values["train_loss"] == pytest.approx([9 * (80 - first) / 80], rel=0.01)
    labels = numpy.load(glyphs / "test_label.npy")
    assert values["accuracy"] == (numpy.mean(labels == 2),)


def test_numbers_are_judged_by_their_distance(
    train: Callable[..., dict[str, Any]], tmp_path: Path
) -> None:
    folder = tmp_path / "lines"
    folder.mkdir()
    x = numpy.random.default_rng(1).normal(size=(60, 5)).astype("float32")
    y = x @ numpy.arange(10, dtype="float32").reshape(5, 2)
    generators.write(
        {"x": x[:40], "target": y[:40], "test_x": x[40:], "test_target": y[40:]}, folder
    )
    text = """
from torch import nn
inputs = {"x": (5,), "target": (2,)}
quality = "mean_absolute_error"
def network():
    return nn.Linear(5, 2)
def loss(yielded, due):
    return (yielded - due).abs().mean()
"""
    values = train(text, folder=folder, batch=8, epochs=30, optimizer={"name": "adam", "lr": 0.3})
    assert values["final_mean_absolute_error"][0] < 1
    assert "class_counts" not in values


def test_whole_numbers_of_a_sample_lie_flat_or_in_its_shape(
    train: Callable[..., dict[str, Any]], tmp_path: Path
) -> None:
    text = """
from torch import nn
inputs = {"token": {"shape": (6,), "below": 9}, "label": {"shape": (6,), "below": 9}}
quality = "accuracy"
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(9, 9)
    def forward(self, token):
        return self.table(token).transpose(1, 2)
def network():
    return Net()
"""
    tokens = numpy.random.default_rng(2).integers(0, 9, (50, 6))
    losses = []
    for name, shape in (("flat", (-1,)), ("shaped", (-1, 6))):
        folder = tmp_path / name
        folder.mkdir()
        arrays = {"token": tokens[:40], "label": 8 - tokens[:40]}
        arrays |= {"test_token": tokens[40:], "test_label": 8 - tokens[40:]}
        generators.write({key: one.reshape(shape) for key, one in arrays.items()}, folder)
        values = train(
            text, folder=folder, batch=8, epochs=4, optimizer={"name": "adam", "lr": 0.3}
        )
        assert values["final_accuracy"][0] > 0.9
        losses.append(values["loss"])
    assert losses[0] == losses[1]


@needs_compiler
@pytest.mark.long
@pytest.mark.filterwarnings("ignore::DeprecationWarning:torch")
@pytest.mark.filterwarnings("ignore:.torch.jit:DeprecationWarning")
def test_a_compiled_module_goes_the_same_way(train: Callable[..., dict[str, Any]]) -> None:
    text = NET.replace(" nn.Dropout(0.2),", "")
    compiled = train(
        text, framework=frameworks.load("torch-compile", "cpu", 1, "default"), epochs=1
    )
    plain = train(text, epochs=1)
    assert compiled["initial_fingerprint"] == plain["initial_fingerprint"]
    assert compiled["train_loss"] == pytest.approx(plain["train_loss"], rel=1e-3)


ODD = [
    ("network = lambda: 3", "network\\(\\) of net.py returned int"),
    ("network = lambda: nn.ReLU()", "has no parameters to train"),
    ("network = lambda: nn.LazyLinear(3)", "lazy parameters"),
    (
        "network = lambda: nn.Linear(12, 3)",
        r"net.py returned shape \(20, 1, 12, 3\), expected shape \(20, 3\)",
    ),
    (
        "network = lambda: nn.Sequential(nn.Flatten(), nn.Linear(144, 4))",
        r"returned shape \(20, 4\)",
    ),
    ("def network():\n    raise KeyError('mine')", "mine"),
    (
        "loss = 'hinge'\nnetwork = lambda: nn.Linear(1, 1)",
        "loss is 'hinge', expected a function or",
    ),
    (
        "loss = lambda yielded, due: yielded\n"
        "network = lambda: nn.Sequential(nn.Flatten(), nn.Linear(144, 3))",
        "expected a scalar that depends on the parameters",
    ),
    (
        "class Net(nn.Module):\n"
        "    def __init__(self):\n        super().__init__()\n"
        "        self.last = nn.Linear(144, 3)\n"
        "    def forward(self, image):\n        return [self.last(image.flatten(1))]\n"
        "network = Net",
        "net.py returned a list",
    ),
    (
        "class Net(nn.Module):\n"
        "    def __init__(self):\n        super().__init__()\n"
        "        self.last = nn.Linear(144, 3)\n"
        "    def forward(self, image):\n"
        "        scores = self.last(image.flatten(1))\n"
        "        self.last = nn.Linear(144, 3).to(image)\n        return scores\n"
        "network = Net",
        "replaced its parameter last.weight",
    ),
    ("quality = 'beauty'\nnetwork = lambda: 3", "net.py: quality is 'beauty', expected one of"),
    (
        "inputs = {'image': 3}\nnetwork = lambda: 3",
        "net.py: inputs has image 3, expected the shape",
    ),
]


@pytest.mark.parametrize(("text", "message"), ODD)
def test_an_odd_file_fails_with_one_message(
    train: Callable[..., dict[str, Any]], text: str, message: str
) -> None:
    with pytest.raises((ValueError, KeyError), match=message):
        train(HEAD + text, epochs=1)


def test_what_has_no_modules_says_so(
    train: Callable[..., dict[str, Any]],
) -> None:
    numpy_alone = frameworks.load("numpy", "cpu", 1, "default")
    with pytest.raises(ValueError, match=r"numpy cannot train a torch\.nn\.Module; use torch"):
        train(NET, framework=numpy_alone)


@pytest.mark.parametrize(
    ("inputs", "quality", "message"),
    [
        ({"x": (3,), "label": {"below": 2}}, "mean_absolute_error", "inputs lacks target"),
        ({"label": {"below": 2}}, "accuracy", "inputs lacks an array for forward"),
        (
            {"x": (3,), "label": (1,)},
            "accuracy",
            r"inputs has label \(1,\), expected whole numbers",
        ),
        ({"x": (3,), "target": {"below": 3}}, "mean_absolute_error", "has target"),
        ({"x": (0,), "label": {"below": 2}}, "accuracy", "inputs has x"),
        ({"x": (3,), "label": {"below": True}}, "accuracy", "inputs has label"),
        ({"x": (3,), "label": {"below": 2, "above": 1}}, "accuracy", 'expected "below"'),
        ({"../x": (3,), "label": {"below": 2}}, "accuracy", "inputs is .*, expected a dictionary"),
        ([], "accuracy", "expected a dictionary of lower-case names"),
        ({"x": (2**20, 2**20), "label": {"below": 2}}, "accuracy", "inputs has x"),
    ],
)
def test_what_a_file_says_is_checked(inputs: Any, quality: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        modules.read(inputs, quality)


def test_the_host_knows_how_many_predictions_a_sample_has() -> None:
    label = {"shape": (2, 2), "below": 2}
    assert modules.read({"x": (3,), "label": label}, "accuracy").choices == 4
    assert modules.read({"x": (3,), "target": (5,)}, "mean_absolute_error").choices == 5
