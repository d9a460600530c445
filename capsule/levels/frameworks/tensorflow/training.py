"""Training in TensorFlow: a step as one function, with the formulas of `optimizers`.

Keras has optimizers too, but puts epsilon elsewhere than their papers do, and starts AdaGrad's sums
at 0.1.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any, Callable

import tensorflow

from ...catalog.training import Numbers
from ...graphs import passes, statistics
from ...graphs.graph import Graph
from ...optimizers import FORMULAS, Chosen, State, Step, gather, slots
from ..base import FrameworkError, NativeTensor, require_shape
from .operations import Transposed
from .plan import Plan

Values = Mapping[str, NativeTensor]


class TensorFlowTrainer:
    """See `base.StartTraining`."""

    def __init__(
        self, graph: Graph, values: Values, optimizer: Chosen, numbers: Numbers, *, compiled: bool
    ) -> None:
        if not isinstance(optimizer, str):
            raise FrameworkError(
                f"tensorflow cannot train with the optimizer of {optimizer.name}: use an optimizer"
                " of the catalogue, or torch"
            )
        self._kept = statistics.find(graph)
        self._constants = {name: values[name] for name in graph.parameters}
        self._leaves = {name: self._constants.pop(name) for name in graph.trainable}
        self._statistics = {
            name: self._constants.pop(name) for one in self._kept for name in one.names
        }
        self._states: dict[str, State] = {
            name: (tensorflow.zeros_like(leaf),) * slots(optimizer, numbers)
            for name, leaf in self._leaves.items()
        }
        self._graph = graph
        self._number = 0
        self._optimizer = optimizer
        self._numbers = numbers
        self._compiled = compiled
        results = (graph.require_loss(), *(one.source for one in self._kept))
        self._plan = Plan(graph, graph.training, results, graph.trainable, compiled=compiled)
        self._function = self._wrap(self._step)
        self._differentiation = self._wrap(self._differentiate)
        self._motion = self._wrap(self._move)
        # by the identity of a graph, which is kept so that no other one gets it
        self._evaluations: dict[int, tuple[Graph, Callable[..., Any]]] = {}

    def step(self, inputs: Values, rate: float) -> NativeTensor:
        """Return one call of one function, or one for each micro-batch and one for the
        optimizer.
        """
        self._number += 1
        dtype = next(iter(self._leaves.values())).dtype
        # as tensors, for numbers would make a function each
        numbers = [tensorflow.constant(number, dtype) for number in (rate, self._number)]
        parts = list(passes.split(self._graph, inputs))
        if len(parts) == 1:
            loss, self._leaves, self._states, self._statistics = self._function(
                self._leaves, self._states, self._statistics, parts[0], *numbers
            )
            return loss
        losses, sums = [], dict[str, NativeTensor]()
        for part in parts:
            loss, gradients, self._statistics = self._differentiation(
                self._leaves, self._statistics, part
            )
            losses.append(loss)
            for name, gradient in gradients.items():
                sums[name] = sums[name] + gradient if name in sums else gradient
        means = {name: one / len(parts) for name, one in sums.items()}
        self._leaves, self._states = self._motion(self._leaves, self._states, means, *numbers)
        return sum(losses) / len(parts)

    def evaluate(self, graph: Graph, inputs: Values) -> tuple[NativeTensor, ...]:
        """Return one function for each graph."""
        if id(graph) not in self._evaluations:
            results = (*graph.outputs, graph.require_loss())
            plan = Plan(graph, graph.nodes, results, (), compiled=self._compiled)
            self._evaluations[id(graph)] = graph, self._wrap(partial(_run, plan, plan.forward))
        _, function = self._evaluations[id(graph)]
        return tuple(function({**self._constants, **self.parameters(), **inputs}))

    def parameters(self) -> dict[str, NativeTensor]:
        """Return the tensors."""
        return {**self._leaves, **self._statistics}

    def state(self) -> dict[str, NativeTensor]:
        """Return the tensors, those of the optimizer, and how many steps were taken."""
        kept = {
            f"optimizer/{name}/{place}": one
            for name, state in self._states.items()
            for place, one in enumerate(state)
        }
        return {
            **{f"parameter/{name}": one for name, one in self.parameters().items()},
            **kept,
            "steps": tensorflow.constant(self._number, "int64"),
        }

    def restore(self, state: Values) -> None:
        """Replace the present tensors by these."""
        for group in (self._leaves, self._statistics):
            for name, one in group.items():
                require_shape(name, state[f"parameter/{name}"].shape, one.shape)
                group[name] = state[f"parameter/{name}"]
        for name, kept in self._states.items():
            self._states[name] = tuple(
                state[f"optimizer/{name}/{place}"] for place in range(len(kept))
            )
        self._number = int(state["steps"])

    def _wrap(self, function: Callable[..., Any]) -> Callable[..., Any]:
        wrapped: Callable[..., Any] = tensorflow.function(
            function, jit_compile=self._compiled, autograph=False
        )
        return wrapped

    def _step(
        self,
        leaves: dict[str, NativeTensor],
        states: dict[str, State],
        before: dict[str, NativeTensor],
        inputs: dict[str, NativeTensor],
        rate: NativeTensor,
        number: NativeTensor,
    ) -> tuple[NativeTensor, dict[str, NativeTensor], dict[str, State], dict[str, NativeTensor]]:
        loss, gradients, followed = self._differentiate(leaves, before, inputs)
        moved, kept = self._move(leaves, states, gradients, rate, number)
        return loss, moved, kept, followed

    def _differentiate(
        self,
        leaves: dict[str, NativeTensor],
        before: dict[str, NativeTensor],
        inputs: dict[str, NativeTensor],
    ) -> tuple[NativeTensor, dict[str, NativeTensor], dict[str, NativeTensor]]:
        values = {**self._constants, **leaves, **inputs}
        loss, *rest = _run(self._plan, self._plan.gradients, values)
        sources, gradients = rest[: len(self._kept)], rest[len(self._kept) :]
        followed: dict[str, NativeTensor] = {}
        for one, x in zip(self._kept, sources):
            of_batch = tensorflow.nn.moments(x, statistics.AXES)
            count = x.shape.num_elements() // x.shape[1]
            after = statistics.move([before[name] for name in one.names], of_batch, count)
            followed.update(zip(one.names, after))
        return loss, dict(zip(self._graph.trainable, gradients)), followed

    def _move(
        self,
        leaves: dict[str, NativeTensor],
        states: dict[str, State],
        gradients: dict[str, NativeTensor],
        rate: NativeTensor,
        number: NativeTensor,
    ) -> tuple[dict[str, NativeTensor], dict[str, State]]:
        functions = tensorflow.sqrt, tensorflow.reduce_sum, tensorflow.where
        step = gather(self._optimizer, Step(self._numbers, rate, number, *functions), gradients)
        moved, kept = {}, {}
        for name, gradient in gradients.items():
            leaf = leaves[name]
            change, kept[name] = FORMULAS[self._optimizer](step, states[name], leaf, gradient)
            moved[name] = leaf + change
        return moved, kept


def _run(
    plan: Plan, call: Callable[..., tuple[NativeTensor, ...]], values: Values
) -> list[NativeTensor]:
    """Return the results of a plan's call, in the graph's order of axes."""
    results = plan.in_order(call(*plan.operands(values)))
    return [
        tensorflow.transpose(result.tensor, result.axes)
        if isinstance(result, Transposed)
        else result
        for result in results
    ]
