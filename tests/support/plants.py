"""Wrong trainers, samplers, evaluations and operators, for the time of a context."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Any
from unittest import mock

import numpy

from capsule.levels import level2
from capsule.levels.catalog.schedules import Schedule
from capsule.levels.data import samplers
from capsule.levels.frameworks.numpy import training as numpy_training
from capsule.levels.frameworks.numpy.training import NumpyTrainer
from capsule.levels.graphs import passes
from capsule.levels.graphs.graph import Graph
from capsule.levels.graphs.statistics import SHARE
from capsule.levels.level2 import samples
from capsule.levels.optimizers import Step
from capsule.levels.optimizers.lbfgs import Lbfgs
from tests.support.trainings import SMALL

Arrays = Mapping[str, Any]

Plant = Callable[[], Any]
"""Makes a context in which the program has a fault."""

# what trainers of numpy do wrong


def train_with(wrong: type[NumpyTrainer]) -> Plant:
    return lambda: mock.patch.object(numpy_training, "NumpyTrainer", wrong)


def scale_rate(factor: float) -> Plant:
    class Wrong(NumpyTrainer):
        def step(self, inputs: Arrays, rate: float) -> Any:
            return super().step(inputs, rate * factor)

    return train_with(Wrong)


class NoSchedule(NumpyTrainer):
    def __init__(self, graph: Graph, start: Arrays, optimizer: str, numbers: Any) -> None:
        super().__init__(graph, start, optimizer, numbers)
        self._peak = numbers["lr"]

    def step(self, inputs: Arrays, rate: float) -> Any:
        return super().step(inputs, self._peak)


class Late(NumpyTrainer):
    """An epoch of four steps behind the schedule, and in the first one at its start."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._rates: list[float] = []

    def step(self, inputs: Arrays, rate: float) -> Any:
        self._rates.append(rate)
        return super().step(inputs, self._rates[max(0, len(self._rates) - 5)])


class HalfPrecision(NumpyTrainer):
    def step(self, inputs: Arrays, rate: float) -> Any:
        loss = super().step(inputs, rate)
        for name in self._graph.trainable:
            array = self._values[name]
            self._values[name] = array.astype("float16").astype(array.dtype)
        return loss


class Frozen(NumpyTrainer):
    """The last parameter is none of the optimizer's."""

    def step(self, inputs: Arrays, rate: float) -> Any:
        name = self._graph.trainable[-1]
        before = self._values[name]
        loss = super().step(inputs, rate)
        self._values[name] = before
        return loss


class FrozenStatistics(NumpyTrainer):
    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._moving, self._statistics = self._statistics, ()

    def parameters(self) -> Any:
        names = (name for one in self._moving for name in one.names)
        return {**super().parameters(), **{name: self._values[name] for name in names}}


class TrainingMode(NumpyTrainer):
    """Evaluation by the statistics of its own batches."""

    def evaluate(self, graph: Graph, inputs: Arrays) -> Any:
        nodes = tuple(
            replace(node, operator="batch_norm", inputs=node.inputs[:3])
            if node.operator == "batch_norm_inference"
            else node
            for node in graph.nodes
        )
        return super().evaluate(replace(graph, nodes=nodes), inputs)


def change_gradients(change: Callable[[dict[str, Any], dict[str, Any]], dict[str, Any]]) -> Plant:
    """Args: change: Takes what it may keep between steps, and the gradients of one."""

    class Wrong(NumpyTrainer):
        def __init__(self, *arguments: Any) -> None:
            super().__init__(*arguments)
            inner: Any = self._optimizer
            kept: dict[str, Any] = {}

            class Between:
                def descend(self, parameters: Any, differentiate: Any, rate: float) -> Any:
                    _, gradients = differentiate(parameters)
                    return inner.step(parameters, change(kept, dict(gradients)), rate)

            vars(self)["_optimizer"] = Between()

    return train_with(Wrong)


def add_up(kept: dict[str, Any], gradients: dict[str, Any]) -> dict[str, Any]:
    for name, gradient in gradients.items():
        kept[name] = kept.get(name, 0) + gradient
    return dict(kept)


def delay(kept: dict[str, Any], gradients: dict[str, Any]) -> dict[str, Any]:
    before = dict(kept) or gradients
    kept.update(gradients)
    return before


def clip(_: dict[str, Any], gradients: dict[str, Any]) -> dict[str, Any]:
    norm = numpy.sqrt(sum((gradient**2).sum() for gradient in gradients.values()))
    return {name: gradient * min(1, 0.1 / norm) for name, gradient in gradients.items()}


def change_formula(change: Callable[..., Any]) -> Plant:
    class Wrong(NumpyTrainer):
        def __init__(self, *arguments: Any) -> None:
            super().__init__(*arguments)
            optimizer: Any = self._optimizer
            formula = optimizer._formula
            optimizer._formula = lambda *every: change(formula, *every)

    return train_with(Wrong)


def forget(formula: Any, step: Step, state: Any, *rest: Any) -> Any:
    return formula(step, tuple(0 * one for one in state), *rest)


def share_state() -> Callable[..., Any]:
    """One buffer for all parameters, in which each finds what another has left."""
    kept: dict[str, Any] = {}

    def change(formula: Any, step: Step, state: Any, parameter: Any, gradient: Any) -> Any:
        if "state" in kept:
            state = tuple(numpy.resize(one, parameter.shape) for one in kept["state"])
        moved, kept["state"] = formula(step, state, parameter, gradient)
        return moved, kept["state"]

    return change


def set_number(**numbers: float) -> Callable[..., Any]:
    def change(formula: Any, step: Step, *rest: Any) -> Any:
        return formula(replace(step, numbers={**step.numbers, **numbers}), *rest)

    return change


def leave_uncorrected(formula: Any, step: Step, *rest: Any) -> Any:
    change, state = formula(step, *rest)
    one, two = (1 - step.numbers[name] ** step.number for name in ("beta1", "beta2"))
    return change * one / numpy.sqrt(two), state


def couple_decay(formula: Any, step: Step, state: Any, parameter: Any, gradient: Any) -> Any:
    decayed = gradient + step.numbers["weight_decay"] * parameter
    return set_number(weight_decay=0.0)(formula, step, state, parameter, decayed)


def trust_all(formula: Any, step: Step, *rest: Any) -> Any:
    """LAMB without its ratio: every norm is the same."""
    return formula(replace(step, total=lambda _: 1.0), *rest)


class HistoryTurned(NumpyTrainer):
    """L-BFGS that remembers changes of the gradient with the wrong sign."""

    def __init__(self, graph: Graph, start: Arrays, optimizer: str, numbers: Any) -> None:
        super().__init__(graph, start, optimizer, numbers)

        class Turned(Lbfgs):
            def _turn(self, gradient: Any) -> Any:
                if self._before is not None:
                    self._before = -self._before
                return super()._turn(gradient)

        vars(self)["_optimizer"] = Turned(numbers)


class Summed(NumpyTrainer):
    """Gradients of micro-batches are added up, and the rate is not divided by their number."""

    def step(self, inputs: Arrays, rate: float) -> Any:
        return super().step(inputs, rate * len(list(passes.split(self._graph, inputs))))


class FirstPart(NumpyTrainer):
    """Of the micro-batches only the first one counts."""

    def step(self, inputs: Arrays, rate: float) -> Any:
        return super().step(next(passes.split(self._graph, inputs)), rate)


def early_schedule() -> Any:
    right = Schedule.rate

    def wrong(schedule: Schedule, step: int, per_epoch: int) -> float:
        return right(schedule, step + per_epoch, per_epoch)

    return mock.patch.object(Schedule, "rate", wrong)


def root_epsilon(formula: Any, step: Step, *rest: Any) -> Any:
    epsilon = step.numbers["epsilon"]
    inside = replace(
        step,
        numbers={**step.numbers, "epsilon": 0.0},
        sqrt=lambda array: numpy.sqrt(array + epsilon),
    )
    return formula(inside, *rest)


# what is done wrong with data, and with what a network is judged by


def order(wrong: Callable[..., Any]) -> Plant:
    right = samplers.shuffle
    return lambda: mock.patch.object(samplers, "shuffle", lambda *every: wrong(right, *every))


def twice(right: Any, *every: Any) -> Any:
    """The first batch again for the second."""
    order = right(*every)
    order[20:40] = order[:20]
    return order


@contextmanager
def shuffle_labels() -> Iterator[None]:
    take = samples.Samples.take

    def wrong(self: samples.Samples, indices: Any) -> dict[str, Any]:
        taken = take(self, indices)
        if self.count == SMALL["samples"]:
            taken["label"] = numpy.roll(taken["label"], 1)
        return taken

    with mock.patch.object(samples.Samples, "take", wrong):
        yield


@contextmanager
def change_trial(function: str, change: Callable[[Any], dict[str, Any]]) -> Iterator[None]:
    """One part of a training gets a trial that is not what it should be."""
    right = getattr(level2, function)

    def wrong(trial: Any, *every: Any, **more: Any) -> Any:
        return right(replace(trial, **change(trial)), *every, **more)

    with mock.patch.object(level2, function, wrong):
        yield


def leave_rest(count: int, batch: int) -> Iterator[Any]:
    for start in range(0, count - batch + 1, batch):
        yield numpy.arange(start, start + batch)


# what operators of torch do wrong


def operate(name: str, make: Callable[[Any], Callable[..., Any]]) -> Plant:
    def plant() -> Any:
        import torch

        from capsule.levels.frameworks.torch import networks

        function = make(torch)
        wrong = {name: lambda _, *tensors: (function, tensors)}
        return mock.patch.dict(networks.OPERATIONS, wrong)

    return plant


def normalize(torch: Any) -> Any:
    def batch_norm(x: Any, *rest: Any) -> Any:
        # by itself it has no statistics to keep
        mean, variance, w, b = rest[:4] if len(rest) > 2 else (None, None, *rest)
        return torch.nn.functional.batch_norm(x, mean, variance, w, b, True, SHARE, 2e-5)

    return batch_norm


def smooth(torch: Any) -> Any:
    def loss(x: Any, labels: Any) -> Any:
        return torch.nn.functional.cross_entropy(x, labels, label_smoothing=0.01)

    return loss


def add_up_losses(torch: Any) -> Any:
    def loss(x: Any, labels: Any) -> Any:
        return torch.nn.functional.cross_entropy(x, labels, reduction="sum")

    return loss
