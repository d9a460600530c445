"""The first steps of a training beside those of the reference, in more bits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..catalog.training import Numbers
from ..graphs import reference
from ..graphs.graph import Graph
from ..optimizers import Optimizer

MOST_SAMPLES = 4
"""Of a step that is held to the reference, so that a large batch can be afforded."""


def follow(
    graph: Graph,
    parameters: Mapping[str, Any],
    batches: Sequence[Mapping[str, Any]],
    rates: Sequence[float],
    optimizer: str,
    numbers: Numbers,
) -> list[dict[str, Any]]:
    """The trained parameters after each step, in float64.

    Args:
        graph: The network for the batches.
        parameters: Before the first step, numpy arrays by name.
        batches: The inputs of each step.
        rates: The learning rate of each.
        optimizer: Key of `catalog.training.OPTIMIZERS`.
        numbers: All that it takes.
    """
    formulas = Optimizer(optimizer, numbers)
    present = _widen(parameters)
    steps = []
    for inputs, rate in zip(batches, rates):
        values = {**present, **_widen(inputs)}
        results = reference.evaluate(graph.training, values)
        gradients = reference.differentiate(graph, values, results)
        present = formulas.step(present, gradients, rate)
        steps.append({name: present[name] for name in graph.trainable})
    return steps


def distance(
    reached: Mapping[str, Any], expected: Mapping[str, Any], before: Mapping[str, Any]
) -> float:
    """How far parameters are from the reference's, in parts of the way that those have come.

    The L2 norm of the difference over all parameters, by that of the reference's change since the
    first step. Where the reference has not moved: 0 if nothing else has, else infinity.
    """
    apart = _norm(reached, expected)
    way = _norm(expected, before)
    return apart / way if way else float("inf") if apart else 0.0


def _norm(one: Mapping[str, Any], other: Mapping[str, Any]) -> float:
    import numpy

    squares = [
        numpy.square(one[name].astype("float64") - other[name].astype("float64")).sum()
        for name in one
    ]
    return float(numpy.sqrt(sum(squares)))


def _widen(arrays: Mapping[str, Any]) -> dict[str, Any]:
    return {
        name: array.astype("float64") if array.dtype.kind == "f" else array
        for name, array in arrays.items()
    }
