"""Faults of optimizers and of batches' statistics, and what shows each."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy
import pytest

from capsule.levels import frameworks
from capsule.levels.data import generators
from capsule.levels.frameworks.base import Trainer
from capsule.levels.frameworks.numpy.networks import NumpyNetworks
from capsule.levels.frameworks.numpy.training import NumpyTrainer
from capsule.levels.graphs.graph import Graph
from capsule.levels.optimizers import Step
from tests.support.jobs import needs_torch
from tests.support.trainings import SGD, SMALL, measure, numpy_alone


@pytest.fixture(scope="module")
def glyphs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("glyphs")
    generators.write(generators.generate("glyphs", SMALL), folder)
    return folder


@pytest.fixture(scope="module")
def colored(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """For networks that normalize by batch."""
    folder = tmp_path_factory.mktemp("colored")
    generators.write(generators.generate("glyphs", {**SMALL, "channels": 3}), folder)
    return folder


Fault = Callable[[type[NumpyTrainer]], type[NumpyTrainer]]


def scaled_rate(factor: float) -> Fault:
    def make(right: type[NumpyTrainer]) -> type[NumpyTrainer]:
        class Wrong(right):  # type: ignore[valid-type, misc]
            def step(self, inputs: Mapping[str, Any], rate: float) -> Any:
                return super().step(inputs, rate * factor)

        return Wrong

    return make


def gradients_kept(right: type[NumpyTrainer]) -> type[NumpyTrainer]:
    """Never set back to zero."""

    class Wrong(right):  # type: ignore[valid-type, misc]
        def __init__(self, *arguments: Any) -> None:
            super().__init__(*arguments)
            inner: Any = vars(self)["_optimizer"]
            total: dict[str, Any] = {}

            class Adding:
                def step(self, parameters: Any, gradients: Any, rate: float) -> Any:
                    for name, gradient in gradients.items():
                        total[name] = total.get(name, 0) + gradient
                    return inner.step(parameters, dict(total), rate)

            self._optimizer = Adding()

    return Wrong


def with_formula(change: Callable[..., Any]) -> Fault:
    def make(right: type[NumpyTrainer]) -> type[NumpyTrainer]:
        class Wrong(right):  # type: ignore[valid-type, misc]
            def __init__(self, *arguments: Any) -> None:
                super().__init__(*arguments)
                formula = self._optimizer._formula
                self._optimizer._formula = lambda *every: change(formula, *every)

        return Wrong

    return make


def without_bias_correction(formula: Any, step: Step, *rest: Any) -> Any:
    change, state = formula(step, *rest)
    one, two = (1 - step.numbers[name] ** step.number for name in ("beta1", "beta2"))
    return change * one / numpy.sqrt(two), state


def with_coupled_decay(formula: Any, step: Step, state: Any, parameter: Any, gradient: Any) -> Any:
    decayed = gradient + step.numbers["weight_decay"] * parameter
    return without_decay(formula, step, state, parameter, decayed)


def with_momentum_of_one_step(formula: Any, step: Step, state: Any, *rest: Any) -> Any:
    return formula(step, tuple(0 * one for one in state), *rest)


def without_decay(formula: Any, step: Step, *rest: Any) -> Any:
    return formula(replace(step, numbers={**step.numbers, "weight_decay": 0.0}), *rest)


def with_nesterov(formula: Any, step: Step, *rest: Any) -> Any:
    return formula(replace(step, numbers={**step.numbers, "nesterov": 1}), *rest)


DECAYING: dict[str, Any] = {"name": "adamw", "lr": 0.01, "weight_decay": 5.0}

FAULTS: list[tuple[str, dict[str, Any], Fault]] = [
    ("learning rate x 3", SGD, scaled_rate(3)),
    ("learning rate not divided", SGD, scaled_rate(4)),
    ("learning rate x 0.8", SGD, scaled_rate(0.8)),
    ("learning rate negative", SGD, scaled_rate(-1)),
    ("gradients kept", SGD, gradients_kept),
    ("momentum of one step", SGD, with_formula(with_momentum_of_one_step)),
    ("nesterov unasked", SGD, with_formula(with_nesterov)),
    ("adam uncorrected", {"name": "adam", "lr": 0.01}, with_formula(without_bias_correction)),
    ("decay coupled", DECAYING, with_formula(with_coupled_decay)),
    ("decay left out", DECAYING, with_formula(without_decay)),
]


@pytest.mark.parametrize(
    ("optimizer", "fault"), [one[1:] for one in FAULTS], ids=[one[0] for one in FAULTS]
)
def test_a_wrong_optimizer_leaves_the_reference(
    glyphs: Path, optimizer: dict[str, Any], fault: Fault
) -> None:
    wrong = fault(NumpyTrainer)
    alone = numpy_alone()

    class Networks(NumpyNetworks):
        def trainer(self, *arguments: Any) -> Trainer:
            return wrong(*arguments)

    assert max(measure(alone, glyphs, optimizer=optimizer, epochs=1)["trajectory_error"]) < 1e-3
    alone.networks = Networks()
    values = measure(alone, glyphs, optimizer=optimizer, epochs=1)
    assert max(values["trajectory_error"]) > 0.1
    assert max(values["exact_trajectory_error"]) > 0.1
    assert values["node_error_ratio"][0] > 1


RESNET: dict[str, Any] = {
    "network": "resnet44",
    "optimizer": {"name": "sgd", "lr": 0.01, "momentum": 0.9},
    "epochs": 1,
}


@needs_torch
def test_statistics_of_batches_go_the_same_way_too(colored: Path) -> None:
    torch, reference = (
        measure(frameworks.load(framework, "cpu", 1, "default"), colored, **RESNET)
        for framework in ("torch", "numpy")
    )
    for values in (torch, reference):
        # a relu whose input rounding has moved across 0 is seen in a whole channel
        assert max(values["trajectory_error"]) < 0.05
        assert values["trajectory_error"][0] < 1e-4
        assert max(values["exact_trajectory_error"]) < 1e-9
        assert values["evaluation_error"][0] < 1e-9
    assert torch["train_loss"] == pytest.approx(reference["train_loss"], rel=0.02)
    assert torch["loss"] == pytest.approx(reference["loss"], rel=0.1)


def with_frozen_statistics(right: type[NumpyTrainer]) -> type[NumpyTrainer]:
    class Wrong(right):  # type: ignore[valid-type, misc]
        def __init__(self, *arguments: Any) -> None:
            super().__init__(*arguments)
            self._moving, self._statistics = vars(self)["_statistics"], ()

        def parameters(self) -> Any:
            names = (name for one in self._moving for name in one.names)
            return {**super().parameters(), **{name: self._values[name] for name in names}}

    return Wrong


def judged_by_batches(right: type[NumpyTrainer]) -> type[NumpyTrainer]:
    """Evaluation in training mode."""

    class Wrong(right):  # type: ignore[valid-type, misc]
        def evaluate(self, graph: Graph, inputs: Any) -> Any:
            nodes = tuple(
                replace(node, operator="batch_norm", inputs=node.inputs[:3])
                if node.operator == "batch_norm_inference"
                else node
                for node in graph.nodes
            )
            return super().evaluate(replace(graph, nodes=nodes), inputs)

    return Wrong


@pytest.mark.parametrize(
    ("fault", "metric"),
    [
        (with_frozen_statistics, "trajectory_error"),
        (with_frozen_statistics, "exact_trajectory_error"),
        (judged_by_batches, "evaluation_error"),
    ],
)
def test_wrong_statistics_leave_the_reference(colored: Path, fault: Any, metric: str) -> None:
    alone = numpy_alone()
    wrong = fault(NumpyTrainer)

    class Networks(NumpyNetworks):
        def trainer(self, *arguments: Any) -> Trainer:
            made: Trainer = wrong(*arguments)
            return made

    alone.networks = Networks()
    values = measure(alone, colored, **RESNET)
    assert max(values[metric]) > 0.1
