"""The formulas of optimizers and schedules, held to torch's own."""

import math
from collections.abc import Callable
from typing import Any

import numpy
import pytest

from capsule.levels.catalog import training
from capsule.levels.catalog.schedules import Schedule
from capsule.levels.optimizers import Optimizer
from capsule.levels.optimizers.lbfgs import Lbfgs
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
    ("lamb", {"lr": 0.01}),
    ("lamb", {"lr": 0.01, "bias_correction": 0, "weight_decay": 0.0}),
    ("lamb-nvidia", {"lr": 0.01}),
    ("lamb-nvidia", {"lr": 0.01, "max_norm": 100.0, "weight_decay": 0.0}),
    ("accelegrad", {"lr": 0.1}),
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
        theirs.step(lambda: None)
        present = ours.step(present, gradients, rate)
        for key, leaf in leaves.items():
            numpy.testing.assert_allclose(present[key], leaf.detach().numpy(), rtol=1e-12)


@needs_torch
@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("lamb", {}),
        ("lamb-nvidia", {"pre_norm": True, "max_grad_norm": 0.5}),
        ("lamb-nvidia", {"pre_norm": True, "max_grad_norm": 100.0}),
    ],
)
def test_lamb_is_that_of_another_library(name: str, options: dict[str, Any]) -> None:
    """Which leaves the bias of the moments as it is, and adds epsilon to norms of divisors."""
    import torch
    from pytorch_optimizer import Lamb

    given = {"lr": 0.01, "weight_decay": 0.1, "epsilon": 1e-13, "bias_correction": 0}
    most = {"max_norm": options["max_grad_norm"]} if options else {}
    numbers = training.complete(training.OPTIMIZERS[name], {**given, **most})
    start = {"a": numpy.linspace(-1, 1, 12).reshape(3, 4), "b": numpy.zeros(5)}
    leaves = {key: torch.tensor(array, requires_grad=True) for key, array in start.items()}
    shared = {"lr": 0.01, "weight_decay": 0.1, "eps": 1e-13, "weight_decouple": False}
    # without it the rate is divided by what corrects the first moment
    shared["adam_debias"] = True
    judge = Lamb(leaves.values(), foreach=False, **shared, **options)
    ours, present = Optimizer(name, numbers), dict(start)
    for gradients in random_gradients(20):
        for key, leaf in leaves.items():
            leaf.grad = torch.tensor(gradients[key])
        judge.step()
        present = ours.step(present, gradients, 0.01)
        for key, leaf in leaves.items():
            numpy.testing.assert_allclose(present[key], leaf.detach().numpy(), rtol=1e-7)


@needs_torch
@pytest.mark.parametrize(("name", "weight_decay"), [("lamb", 0.1), ("lamb-nvidia", 0.0)])
def test_lamb_with_its_bias_corrected_is_adamw_of_another_length(
    name: str, weight_decay: float
) -> None:
    """Torch's AdamW gives the direction; NVIDIA's does not scale it without weight decay."""
    import torch

    given = {"lr": 0.1, "weight_decay": weight_decay, "max_norm": 1e9}
    numbers = training.complete(training.OPTIMIZERS[name], given)
    ours, present = Optimizer(name, numbers), {"a": numpy.linspace(-1, 1, 12).reshape(3, 4)}
    leaf = torch.tensor(present["a"], requires_grad=True)
    judge = torch.optim.AdamW([leaf], lr=1.0, eps=1e-6, weight_decay=weight_decay)
    for gradients in random_gradients(5):
        before = present["a"]
        with torch.no_grad():
            leaf.copy_(torch.tensor(before))
        leaf.grad = torch.tensor(gradients["a"])
        judge.step()
        direction = leaf.detach().numpy() - before
        trust = numpy.linalg.norm(before) / numpy.linalg.norm(direction) if weight_decay else 1.0
        present = ours.step(present, {"a": gradients["a"]}, 0.1)
        numpy.testing.assert_allclose(present["a"], before + 0.1 * trust * direction, rtol=1e-9)


def test_accelegrad_is_the_algorithm_of_its_paper() -> None:
    """Levy, Yurtsever and Cevher, algorithm 2, as it stands there: x, y and z over all parameters;
    its state is not reset from step to step, as it is in the sample of Deep500.
    """
    numbers = training.complete(training.OPTIMIZERS["accelegrad"], {"lr": 1.0, "bound": 0.3})
    ours, present = Optimizer("accelegrad", numbers), {"a": numpy.ones((3, 4)), "b": numpy.zeros(5)}
    x = numpy.concatenate([numpy.ones(12), numpy.zeros(5)])
    y, z, squares = x, x, 0.0
    for t, gradients in enumerate(random_gradients(20)):
        alpha = 1.0 if t <= 2 else (t + 1) / 4
        x = z / alpha + (1 - 1 / alpha) * y
        reached = numpy.concatenate([present["a"].ravel(), present["b"]])
        numpy.testing.assert_allclose(reached, x, rtol=1e-12, atol=1e-14)
        g = numpy.concatenate([gradients["a"].ravel(), gradients["b"]])
        squares += alpha**2 * float(g @ g)
        eta = 2 * 0.5 / math.sqrt(0.3**2 + squares)
        z = z - alpha * eta * g
        y = x - eta * g
        present = ours.step(present, gradients, 1.0)


@needs_torch
@pytest.mark.parametrize("iterations", [1, 4, 8])
@pytest.mark.parametrize(
    ("strong_wolfe", "lr"), [(0, 0.01), (0, 1.0), (1, 0.01), (1, 1.0), (1, 30.0)]
)
def test_lbfgs_is_that_of_torch(strong_wolfe: int, iterations: int, lr: float) -> None:
    """On Rosenbrock's valley, turned a little in each step as batches do. Up to 32 moves multiply
    rounding to 1e-7, as they do between two runs of torch from starts that are 1e-15 apart, yet no
    decision may be another.
    """
    import torch

    from capsule.levels.frameworks.torch.training import OPTIMIZERS

    given = {"lr": lr, "iterations": iterations, "strong_wolfe": strong_wolfe, "history": 3}
    numbers = training.complete(training.OPTIMIZERS["lbfgs"], given)
    start = {"a": numpy.array([[-1.2, 1.0]]), "b": numpy.array([0.5])}
    leaves = {key: torch.tensor(array, requires_grad=True) for key, array in start.items()}
    theirs, ours, present = OPTIMIZERS["lbfgs"](leaves.values(), numbers), Lbfgs(numbers), start
    looks = [0, 0]
    for tilt in (0.0, 0.1, 0.2, 0.3):

        def loss(a: Any, b: Any, tilt: float = tilt) -> Any:
            bend = 100 * (a[0, 1] - a[0, 0] ** 2 + tilt) ** 2 + (1 - a[0, 0]) ** 2
            return (1 + bend).log() + (b[0] - tilt) ** 2

        def closure(loss: Any = loss) -> Any:
            looks[0] += 1
            theirs.zero_grad()
            lowered = loss(*leaves.values())
            lowered.backward()
            return lowered

        def differentiate(at: Any, loss: Any = loss) -> Any:
            looks[1] += 1
            own = {key: torch.tensor(array, requires_grad=True) for key, array in at.items()}
            lowered = loss(*own.values())
            lowered.backward()
            return lowered.item(), {key: leaf.grad.numpy() for key, leaf in own.items()}

        theirs.step(closure)
        present = ours.descend(present, differentiate, lr)
        assert looks[0] == looks[1]
        for key, leaf in leaves.items():
            numpy.testing.assert_allclose(present[key], leaf.detach().numpy(), rtol=1e-6)


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
    assert {name for name, _ in RECIPES} == training.OPTIMIZERS.keys() - {"lbfgs"}


@pytest.mark.parametrize(
    ("numbers", "given", "message"),
    [
        ("sgd", {}, "lr is missing"),
        ("sgd", {"lr": 0}, "lr is 0"),
        ("sgd", {"lr": -0.1}, "lr is -0.1"),
        ("sgd", {"lr": True}, "lr is True"),
        ("sgd", {"lr": "0.1"}, "lr is '0.1'"),
        ("sgd", {"lr": math.nan}, "lr is nan"),
        ("sgd", {"lr": 0.1, "momentum": 1.1}, "momentum is 1.1, expected a number >= 0 and <= 1"),
        ("sgd", {"lr": 0.1, "nesterov": 0.5}, "nesterov is 0.5, expected a whole number"),
        ("adam", {"lr": 0.1, "beta2": 1}, "beta2 is 1"),
        ("adam", {"lr": 0.1, "epsilon": 0}, "epsilon is 0"),
    ],
)
def test_a_number_out_of_its_range_is_refused(
    numbers: str, given: dict[str, Any], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        training.complete(training.OPTIMIZERS[numbers], given)


def rates(
    name: str, epochs: int, per_epoch: int, milestones: tuple[int, ...] = (), **given: float
) -> list[float]:
    numbers = training.complete(training.SCHEDULES[name], given)
    schedule = Schedule(name, numbers, milestones, 0.4, epochs)
    return [schedule.rate(step, per_epoch) for step in range(epochs * per_epoch)]


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
    multistep = torch_rates(lambda s, o: s.MultiStepLR(o, [1, 3, 4], gamma=0.5), 15, every=3)
    assert rates("multistep", 5, 3, (1, 3, 4), factor=0.5) == pytest.approx(multistep)
    polynomial = torch_rates(lambda s, o: s.PolynomialLR(o, total_iters=12, power=2), 12)
    assert rates("polynomial", 4, 3, power=2) == pytest.approx(polynomial)


def test_a_warm_up_rises_to_the_peak_and_what_follows_starts_there() -> None:
    assert rates("constant", 3, 4, warmup_epochs=1.5) == pytest.approx(
        [0.4 * n / 6 for n in range(1, 7)] + [0.4] * 6
    )
    seen = rates("cosine", 3, 4, warmup_epochs=1)
    assert seen[3] == seen[4] == 0.4
    assert seen[-1] < 0.04


def test_the_mean_of_an_epoch_is_that_of_its_steps() -> None:
    for name, milestones in (("multistep", (1, 2)), ("cosine", ())):
        numbers = training.complete(training.SCHEDULES[name], {"warmup_epochs": 0.5})
        schedule = Schedule(name, numbers, milestones, 0.4, 3)
        seen = rates(name, 3, 7, milestones, warmup_epochs=0.5)
        for epoch in (1, 2, 3):
            mean = sum(seen[7 * epoch - 7 : 7 * epoch]) / 7
            assert schedule.mean(epoch, 7) == pytest.approx(mean)


def test_a_warm_up_longer_than_the_training_only_rises() -> None:
    seen = rates("cosine", 2, 2, warmup_epochs=4)
    assert seen == pytest.approx([0.05, 0.1, 0.15, 0.2])
