"""An optimizer of a user's file in training, in this process: what it gives, and odd files."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from capsule.levels import frameworks, run
from capsule.levels.catalog import optimizers, training
from capsule.levels.frameworks import Framework
from capsule.levels.journal import Samples
from capsule.levels.report import Report
from tests.support import trainings
from tests.support.documented import ROOT
from tests.support.jobs import needs_torch
from tests.support.trainings import numpy_alone

EXAMPLE = (ROOT / "manifests" / "own-optimizer" / "adabelief.py").read_text()
NUMBERS = {"lr": 0.003, "beta1": 0.9, "beta2": 0.999, "epsilon": 1e-8}
Train = Callable[..., dict[str, Any]]

# heavy ball, written by somebody in a hurry
HEAD = """
numbers = {"momentum": 0.5}
slots = 1

def formula(step, state, parameter, gradient):
    velocity = step.numbers["momentum"] * state[0] + gradient
    return -step.rate * velocity, (velocity,)
"""
TORCH = """
def torch(parameters, numbers):
    import torch
    return torch.optim.SGD(parameters, lr=numbers["lr"], momentum=numbers["momentum"])
"""
BALL = {"lr": 0.1, "momentum": 0.5}


@pytest.fixture(scope="module")
def torch() -> Framework:
    return frameworks.load("torch", "cpu", 1, "strict")


@pytest.fixture
def train(tmp_path: Path, glyphs: Path) -> Train:
    def measure(
        framework: Framework,
        text: str = EXAMPLE,
        numbers: dict[str, float] = NUMBERS,
        folder: Path | None = None,
        **recipe: Any,
    ) -> dict[str, Any]:
        source = tmp_path / "mine.py"
        source.write_text(text)
        recipe = {"epochs": 1, "optimizer": {"file": str(source), **numbers}, **recipe}
        trial = trainings.trial(framework.name, glyphs, 17, **recipe)
        lines: list[Samples] = []
        resumed: list[int] = []
        framework.seed(17)
        run.load_level(2)(
            trial, framework, Report(lines.append, folder=folder, resume=resumed.append)
        )
        values: dict[str, Any] = {"resumed": resumed} if resumed else {}
        for line in lines:
            values[line.metric] = values.get(line.metric, ()) + line.values
        return values

    return measure


@needs_torch
def test_one_with_a_formula_reports_what_any_other_does(train: Train, torch: Framework) -> None:
    values = train(torch, epochs=2, schedule={"name": "cosine"}, accumulate=4)
    due = training.metrics("accuracy", has_target=False, stops=False)
    assert set(values) == {facts.name for facts in due}
    assert max(values["exact_trajectory_error"]) < 1e-9
    assert max(values["trajectory_error"]) < 1e-3
    assert values["node_error_ratio"][0] <= 1
    by_formula = train(numpy_alone(), epochs=2, schedule={"name": "cosine"})
    assert by_formula["train_loss"] == pytest.approx(values["train_loss"], rel=1e-4)


@needs_torch
def test_mixed_precision_leaves_it_its_own(train: Train, torch: Framework) -> None:
    values = train(torch, dtype=training.MIXED)
    due = training.metrics("accuracy", has_target=False, stops=False, mixed=True)
    assert set(values) == {facts.name for facts in due}
    assert max(values["exact_trajectory_error"]) < 1e-9


@needs_torch
def test_one_without_a_formula_is_held_to_none(train: Train, torch: Framework) -> None:
    text = EXAMPLE.replace("slots = 2\n", "").replace("def formula", "def _formula")
    values = train(torch, text)
    due = training.metrics("accuracy", has_target=False, stops=False, has_formula=False)
    assert set(values) == {facts.name for facts in due}
    assert "trajectory_error" not in values
    assert values["evaluation_error"][0] < 1e-12
    assert values["node_error_ratio"][0] <= 1
    assert values["train_loss"] == train(torch)["train_loss"]
    with pytest.raises(
        ValueError, match=r"the file defines none: define formula, or use torch, torch-compile"
    ):
        train(numpy_alone(), text)


@needs_torch
def test_the_example_is_that_of_another_library() -> None:
    import torch as t
    from pytorch_optimizer import AdaBelief

    from capsule.levels.optimizers import user

    source = ROOT / "manifests" / "own-optimizer" / "adabelief.py"
    start = t.linspace(-1, 1, 12, dtype=t.float64)
    ours, theirs = (start.clone().requires_grad_() for _ in range(2))
    shown = user.load(source, NUMBERS).torch([ours], NUMBERS)
    judge = AdaBelief([theirs], lr=0.003, eps=1e-8, foreach=False)
    for step in range(5):
        ours.grad = theirs.grad = t.cos(3 * start + step)
        shown.step()
        judge.step()
        t.testing.assert_close(ours, theirs, rtol=1e-12, atol=0)


FAULTS = {
    "the bias of the mean": (' / (1 - one ** kept["step"])', ""),
    "the bias of the spread": ('(spread / (1 - two ** kept["step"]))', "spread.clone()"),
    "squares of gradients": ("off = parameter.grad - mean", "off = parameter.grad"),
    "epsilon left out": (".add_(epsilon)\n", "\n"),
    "counts twice": ('kept["step"] += 1', 'kept["step"] += 2'),
    "a mean for all": ('mean, spread = kept["mean"], kept["spread"]',
                       'mean, spread = kept["mean"] * 0, kept["spread"]'),
}  # fmt: skip


@needs_torch
@pytest.mark.parametrize("fault", FAULTS)
def test_a_step_that_is_not_the_formulas_shows(train: Train, torch: Framework, fault: str) -> None:
    right, wrong = FAULTS[fault]
    assert right in EXAMPLE
    numbers = {**NUMBERS, "epsilon": 1e-4}
    values = train(torch, EXAMPLE.replace(right, wrong), numbers)
    assert max(values["exact_trajectory_error"]) > 1e-3


WRONG_TORCH = {
    "return None": "returned NoneType, not a torch Optimizer",
    "return torch.optim.SGD(parameters[1:], lr=0.1)": "each of the 10 parameters once",
    "return torch.optim.SGD([torch.zeros(1)], lr=0.1)": "an optimizer of 1 tensors",
    """
    with torch.no_grad():
        parameters[0] += 1
    return torch.optim.SGD(parameters, lr=0.1)
    """: "parameters before the first step",
    """
    class Stubborn(torch.optim.SGD):
        def step(self):
            for group in self.param_groups:
                group["lr"] = 0.1
            super().step()
    return Stubborn(parameters, lr=0.1)
    """: "mine.py ignores the learning rate",
    """
    class Short(torch.optim.SGD):
        steps = 0
        def step(self):
            self.steps += 1
            if self.steps == 3:
                raise RuntimeError("no third step")
            super().step()
    return Short(parameters, lr=0.1)
    """: "no third step",
    """
    class Curious(torch.optim.SGD):
        def step(self, closure):
            with torch.enable_grad():
                return closure()
    return Curious(parameters, lr=0.1)
    """: "closure",
    """
    class Wild(torch.optim.SGD):
        def step(self):
            self.param_groups[0]["params"][0].add_(1)
    return Wild(parameters, lr=0.1)
    """: "a leaf Variable that requires grad",
}


@needs_torch
@pytest.mark.parametrize("body", WRONG_TORCH)
def test_what_no_training_goes_by_fails_with_its_reason(
    train: Train, torch: Framework, body: str
) -> None:
    text = (
        f"numbers = {{}}\ndef torch(parameters, numbers):\n    import torch\n    {body.strip()}\n"
    )
    with pytest.raises((ValueError, RuntimeError, TypeError), match=WRONG_TORCH[body]):
        train(torch, text, {"lr": 0.1})


WRONG_FORMULA = {
    "return -step.rate * gradient.sum(), state": r"a change of shape \(\)",
    "return -step.rate * gradient[..., None], state": "a change of shape",
    "return -step.rate * gradient, (gradient > 0,)": "a state of shape .* and type bool",
    "return -step.rate * gradient, ()": "a state of 0 arrays, expected 1, the value of slots",
    "return -step.rate * gradient": "expected a pair of change and state",
    "gradient += parameter; return -step.rate * gradient, state": "read-only",
    "parameter *= 0.9; return -step.rate * gradient, state": "read-only",
    "state[0][...] = 1; return -step.rate * gradient, state": "read-only",
    "step.numbers['momentum'] = 1; return gradient, state": "does not support item assignment",
    "return -gradient, state": "mine.py ignores the learning rate",
}


@pytest.mark.parametrize("body", WRONG_FORMULA)
def test_a_formula_that_yields_something_else_fails_with_its_reason(
    train: Train, body: str
) -> None:
    text = HEAD.partition("    velocity")[0] + f"    {body}\n" + TORCH
    with pytest.raises((ValueError, TypeError), match=WRONG_FORMULA[body]):
        train(numpy_alone(), text, BALL)


@pytest.mark.parametrize(
    ("text", "numbers", "message"),
    [
        (HEAD, BALL, "does not define torch"),
        (HEAD + "torch = 3\n", BALL, "torch is of type int, expected a function"),
        (
            HEAD + TORCH + "formula = None\n",
            BALL,
            "formula is of type NoneType, expected a function",
        ),
        (HEAD + TORCH, {"lr": 0.1}, "the recipe has the numbers lr, expected lr, momentum"),
        (HEAD + TORCH, {**BALL, "beta": 1.0}, "the recipe has the numbers lr, momentum, beta"),
        (HEAD + TORCH, {**BALL, "lr": 0.0}, "mine.py: lr is 0"),
        (HEAD.replace("0.5", "float('nan')") + TORCH, BALL, "expected a dictionary of names"),
        ("raise RuntimeError('not today')", BALL, "not today"),
    ],
)
def test_a_file_that_is_not_what_the_recipe_says_is_refused(
    train: Train, text: str, numbers: dict[str, float], message: str
) -> None:
    with pytest.raises((ValueError, RuntimeError), match=message):
        train(numpy_alone(), text, numbers)


def test_tensorflow_jax_and_onnx_runtime_are_refused() -> None:
    facts = optimizers.read({}, 0, ["formula"])
    for name in ("tensorflow", "tensorflow-xla", "jax", "onnxruntime"):
        reason = optimizers.refusal(name, facts)
        assert reason is not None
        assert "use torch, torch-compile, numpy" in reason


NET = """
from torch import nn
inputs = {"image": (1, 12, 12), "label": {"below": 3}}
quality = "accuracy"
def network():
    return nn.Sequential(nn.Flatten(), nn.Dropout(0.2), nn.Linear(144, 3))
"""


@needs_torch
def test_a_module_is_trained_by_one_too(train: Train, torch: Framework, tmp_path: Path) -> None:
    net = tmp_path / "net.py"
    net.write_text(NET)
    how = {"network": "net.py", "source": net, "parameters": {}}
    values = train(torch, **how)
    assert max(values["update_error"]) < 1e-9
    fault = FAULTS["the bias of the mean"]
    assert max(train(torch, EXAMPLE.replace(*fault), **how)["update_error"]) > 1e-3
    lacking = train(torch, EXAMPLE.replace("slots = 2", "").replace("def formula", "def f"), **how)
    due = training.metrics(
        "accuracy", has_target=False, stops=False, is_module=True, has_formula=False
    )
    assert set(lacking) == {facts.name for facts in due}


# fails in the step that a file beside it says
INTERRUPTED = """
from pathlib import Path
_steps = [0]
def _count():
    _steps[0] += 1
    stop = Path(__file__).with_name("stop")
    if stop.exists() and _steps[0] == int(stop.read_text()):
        raise RuntimeError("the lights go out")
"""
COUNTS = {
    # two trainers of the contract take 2 steps and 3, and the first steps are held to the formula
    "torch": ('            for group in self.param_groups:', 5 + 2 * 3 + 2 * 4 + 2),
    "numpy": ('    one, two, epsilon = (step', 10 * (5 + 3 + 2 * 3 + 2 * 4 + 2)),
}  # fmt: skip


@needs_torch
@pytest.mark.parametrize("name", ["torch", "numpy"])
def test_it_goes_on_from_a_checkpoint_to_the_same_values(
    train: Train, torch: Framework, name: str, tmp_path: Path
) -> None:
    framework = torch if name == "torch" else numpy_alone()
    place, count = COUNTS[name]
    indent = " " * (len(place) - len(place.lstrip()))
    assert EXAMPLE.count(place) == 1
    text = INTERRUPTED + EXAMPLE.replace(place, f"{indent}_count()\n{place}")
    recipe = {"epochs": 3, "checkpoint_epochs": 1, "schedule": {"name": "cosine"}}
    whole = train(framework, text, folder=tmp_path / "whole", **recipe)
    (tmp_path / "stop").write_text(str(count))
    with pytest.raises(RuntimeError, match="the lights go out"):
        train(framework, text, folder=tmp_path / "cut", **recipe)
    (tmp_path / "stop").unlink()
    resumed = train(framework, text, folder=tmp_path / "cut", **recipe)
    assert resumed["resumed"] == [2]
    for metric in ("train_loss", "loss", "accuracy"):
        assert resumed[metric] == whole[metric]


FORGETFUL = {
    "counts beside its state": """
    class Mine(torch.optim.Optimizer):
        count = 0
        @torch.no_grad()
        def step(self):
            self.count += 1
            for group in self.param_groups:
                for parameter in group["params"]:
                    parameter.sub_(parameter.grad, alpha=group["lr"] / self.count)
    return Mine(parameters, {"lr": numbers["lr"]})
    """,
    "draws": """
    class Mine(torch.optim.SGD):
        @torch.no_grad()
        def step(self):
            super().step()
            for parameter in self.param_groups[0]["params"]:
                parameter.add_(torch.randn_like(parameter), alpha=0.001)
    return Mine(parameters, lr=numbers["lr"])
    """,
}


@needs_torch
@pytest.mark.parametrize("kind", FORGETFUL)
def test_what_no_checkpoint_keeps_is_refused_where_there_is_one(
    train: Train, torch: Framework, kind: str, tmp_path: Path
) -> None:
    body = FORGETFUL[kind].strip()
    text = f"numbers = {{}}\ndef torch(parameters, numbers):\n    import torch\n    {body}\n"
    train(torch, text, {"lr": 0.1}, folder=tmp_path)
    with pytest.raises(ValueError, match=r"takes different steps than without the interruption"):
        train(torch, text, {"lr": 0.1}, folder=tmp_path, checkpoint_epochs=1)


@needs_torch
def test_so_it_is_with_a_module(train: Train, torch: Framework, tmp_path: Path) -> None:
    net = tmp_path / "net.py"
    net.write_text(NET)
    how = {"network": "net.py", "source": net, "parameters": {}, "checkpoint_epochs": 1}
    assert max(train(torch, folder=tmp_path, **how)["update_error"]) < 1e-9
    body = FORGETFUL["counts beside its state"].strip()
    text = f"numbers = {{}}\ndef torch(parameters, numbers):\n    import torch\n    {body}\n"
    with pytest.raises(ValueError, match=r"trains differently after a checkpoint"):
        train(torch, text, {"lr": 0.1}, folder=tmp_path, **how)


@needs_torch
def test_a_state_of_all_kinds_is_kept_and_one_of_objects_refused(
    train: Train, torch: Framework, tmp_path: Path
) -> None:
    kept = """
            for group in self.param_groups:
                group["count"] = group.get("count", 0) + 1
                for parameter in group["params"]:
                    state = self.state[parameter]
                    last, *_ = state.get("past", (None, [1.5, "a", True]))
                    state["past"] = (parameter.grad.clone(), {"x": [WHAT]})
                    pull = parameter.grad if last is None else parameter.grad + last
                    parameter.sub_(pull, alpha=group["lr"] / group["count"])
    """
    text = f"""
numbers = {{}}
def torch(parameters, numbers):
    import torch
    class Mine(torch.optim.Optimizer):
        @torch.no_grad()
        def step(self):
            {kept.strip()}
    return Mine(list(reversed(parameters)), {{"lr": numbers["lr"]}})
"""
    how = {"numbers": {"lr": 0.1}, "folder": tmp_path, "checkpoint_epochs": 1}
    train(torch, text.replace("WHAT", "None, 1e-3, 7"), **how)
    with pytest.raises(
        ValueError, match=r"\['past'\]\[1\]\['x'\]\[0\] is a set, which checkpoints"
    ):
        train(torch, text.replace("WHAT", "{1}"), **how)
