"""The formulas of optimizers and schedules, held to torch's own."""

import math
from collections.abc import Callable
from typing import Any

import numpy
import pytest

from capsule.levels.catalog import training
from capsule.levels.optimizers import Optimizer, schedules
from tests.support.jobs import needs_torch

RECIPES: list[tuple[str, dict[str, float]]] = [
    ("sgd", {"lr": 0.1}),
    ("sgd", {"lr": 0.1, "momentum": 0.9}),
    ("sgd", {"lr": 0.1, "momentum": 0.9, "nesterov": 1, "weight_decay": 0.01}),
    ("sgd", {"lr": 0.1, "nesterov": 1}),
    ("adam", {"lr": 0.01}),
    ("adam", {"lr": 0.01, "beta1": 0.5, "beta2": 0.9, "epsilon": 0.1, "weight_decay": 0.1}),
    ("adamw", {"lr": 0.01}),
    ("adamw", {"lr": 0.01, "weight_decay": 0.5, "beta1": 0.0}),
    ("adagrad", {"lr": 0.1, "weight_decay": 0.01}),
    ("rmsprop", {"lr": 0.01}),
    ("rmsprop", {"lr": 0.01, "alpha": 0.5, "momentum": 0.9, "weight_decay": 0.01}),
]
EACH_RECIPE = pytest.mark.parametrize(("name", "given"), RECIPES)


def random_gradients(steps: int) -> list[dict[str, Any]]:
    random = numpy.random.default_rng(1)
    return [
        {"a": random.normal(size=(3, 4)), "b": random.normal(size=5) * 1e-3} for _ in range(steps)
    ]


@needs_torch
@EACH_RECIPE
def test_the_formula_is_that_of_torch(name: str, given: dict[str, float]) -> None:
    import torch

    from capsule.levels.frameworks.torch.training import OPTIMIZERS

    numbers = training.complete(training.OPTIMIZERS[name], given)
    start = {"a": numpy.linspace(-1, 1, 12).reshape(3, 4), "b": numpy.ones(5)}
    leaves = {key: torch.tensor(array, requires_grad=True) for key, array in start.items()}
    theirs = OPTIMIZERS[name](leaves.values(), numbers)
    ours, present = Optimizer(name, numbers), dict(start)
    for step, gradients in enumerate(random_gradients(20)):
        rate = numbers["lr"] / (1 + step)  # that of each step, not the one it was made with
        for key, leaf in leaves.items():
            leaf.grad = torch.tensor(gradients[key])
        for group in theirs.param_groups:
            group["lr"] = rate
        theirs.step()
        present = ours.step(present, gradients, rate)
        for key, leaf in leaves.items():
            numpy.testing.assert_allclose(present[key], leaf.detach().numpy(), rtol=1e-12)


@EACH_RECIPE
def test_a_step_changes_no_array_of_the_caller(name: str, given: dict[str, float]) -> None:
    numbers = training.complete(training.OPTIMIZERS[name], given)
    optimizer, parameters = Optimizer(name, numbers), {"a": numpy.ones((3, 4)), "b": numpy.ones(5)}
    for gradients in random_gradients(3):
        kept = {key: array.copy() for key, array in gradients.items()}
        optimizer.step(parameters, gradients, 0.1)
        for key, array in gradients.items():
            assert (array == kept[key]).all()
            assert (parameters[key] == 1).all()


def test_a_parameter_without_a_gradient_stays() -> None:
    numbers = training.complete(training.OPTIMIZERS["adamw"], {"lr": 0.1})
    parameters = {"a": numpy.ones(2), "b": numpy.ones(2)}
    moved = Optimizer("adamw", numbers).step(parameters, {"a": numpy.ones(2)}, 0.1)
    assert (moved["b"] == 1).all()
    assert (moved["a"] < 1).all()


def test_every_optimizer_of_the_catalogue_is_there() -> None:
    assert {name for name, _ in RECIPES} == training.OPTIMIZERS.keys()


@pytest.mark.parametrize(
    ("numbers", "given", "message"),
    [
        ("sgd", {}, "lr is missing"),
        ("sgd", {"lr": 0}, "lr is 0"),
        ("sgd", {"lr": -0.1}, "lr is -0.1"),
        ("sgd", {"lr": True}, "lr is True"),
        ("sgd", {"lr": "0.1"}, "lr is '0.1'"),
        ("sgd", {"lr": math.nan}, "lr is nan"),
        ("sgd", {"lr": 0.1, "momentum": 1.1}, "momentum is 1.1, not a number >= 0 and <= 1"),
        ("sgd", {"lr": 0.1, "nesterov": 0.5}, "nesterov is 0.5, not a whole number"),
        ("adam", {"lr": 0.1, "beta2": 1}, "beta2 is 1"),
        ("adam", {"lr": 0.1, "epsilon": 0}, "epsilon is 0"),
    ],
)
def test_a_number_out_of_its_range_is_refused(
    numbers: str, given: dict[str, Any], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        training.complete(training.OPTIMIZERS[numbers], given)


def rates(name: str, epochs: int, per_epoch: int, **given: float) -> list[float]:
    numbers = training.complete(training.SCHEDULES[name], given)
    return [
        schedules.rate(name, numbers, 0.4, step, per_epoch, epochs)
        for step in range(epochs * per_epoch)
    ]


def torch_rates(make: Callable[[Any, Any], Any], steps: int, every: int = 1) -> list[float]:
    """Those of a scheduler of torch, which takes its step after each `every` steps of ours."""
    import torch

    optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=0.4)
    scheduler = make(torch.optim.lr_scheduler, optimizer)
    seen = []
    for step in range(1, steps + 1):
        seen.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        if step % every == 0:
            scheduler.step()
    return seen


@needs_torch
def test_schedules_are_those_of_torch() -> None:
    cosine = torch_rates(lambda s, o: s.CosineAnnealingLR(o, T_max=12, eta_min=0.1), 12)
    assert rates("cosine", 4, 3, end=0.1) == pytest.approx(cosine)
    step = torch_rates(lambda s, o: s.StepLR(o, step_size=2, gamma=0.5), 15, every=3)
    assert rates("step", 5, 3, every=2, factor=0.5) == pytest.approx(step)
    polynomial = torch_rates(lambda s, o: s.PolynomialLR(o, total_iters=12, power=2), 12)
    assert rates("polynomial", 4, 3, power=2) == pytest.approx(polynomial)


def test_a_warm_up_rises_to_the_peak_and_what_follows_starts_there() -> None:
    assert rates("constant", 3, 4, warmup_epochs=1.5) == pytest.approx(
        [0.4 * n / 6 for n in range(1, 7)] + [0.4] * 6
    )
    seen = rates("cosine", 3, 4, warmup_epochs=1)
    assert seen[3] == seen[4] == 0.4
    assert seen[-1] < 0.04


def test_a_warm_up_longer_than_the_training_only_rises() -> None:
    seen = rates("cosine", 2, 2, warmup_epochs=4)
    assert seen == pytest.approx([0.05, 0.1, 0.15, 0.2])
