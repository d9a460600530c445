"""Run a network by the formulas of its operators: the reference, and numpy's own way.

`forward` and `backward` compute in more bits than the dtype has (float64 for all that networks
offer); `evaluate` and `differentiate` in whatever the arrays have, in steps that `bounds` replaces.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Callable

from ..operators import ARITHMETIC, EXACT, several
from ..operators.rounding import Calculator
from . import structure
from .graph import Graph, Node

Values = Mapping[str, Any]

Formula = Callable[..., Any]
"""Formula: a function of a calculator and arrays, which returns one or several arrays."""

Step = Callable[..., tuple[Any, ...]]
"""Observer: a function of a unique label, a formula and its arrays, which returns its results."""


BACKWARD = " backward"
"""Ends the label of a node's step that computes gradients; that of the other is its name."""


def forward(graph: Graph, values: Values, dtype: str) -> dict[str, Any]:
    """Return the value of every node, for the outputs and for the loss.

    Args:
        graph: The network.
        values: Inputs and parameters by name, numpy arrays.
        dtype: A key of `ARITHMETIC`, that of the values.

    Returns:
        Arrays by the nodes' names, in `ARITHMETIC[dtype].wider`.
    """
    return evaluate(graph.nodes, widen(values, dtype))


def backward(graph: Graph, values: Values, dtype: str) -> dict[str, Any]:
    """Return the gradient of the loss by every trained parameter, in `ARITHMETIC[dtype].wider`.

    Raises:
        ValueError: The network has no loss.
    """
    exact = widen(values, dtype)
    return differentiate(graph, exact, evaluate(graph.training, exact))


def widen(values: Values, dtype: str) -> dict[str, Any]:
    """Return the same numbers in more bits; whole numbers as they are."""
    wider = ARITHMETIC[dtype].wider
    return {
        name: array.astype(wider) if array.dtype.kind == "f" else array
        for name, array in values.items()
    }


def as_reals(array: Any) -> Any:
    """Return an array whose differences can be taken: whole numbers and decisions as float64."""
    return array if array.dtype.kind == "f" else array.astype("float64")


def exactly(label: str, function: Formula, *arrays: Any) -> tuple[Any, ...]:  # noqa: ARG001
    """Return a step as it is: the formula on the arrays."""
    return several(function(EXACT, *arrays))


def evaluate(nodes: Iterable[Node], values: Values, step: Step = exactly) -> dict[str, Any]:
    """Return the value of each of these nodes, in the dtype of `values`."""
    results: dict[str, Any] = {}
    for node in nodes:
        operands = _operands(node, values, results)
        (results[node.name],) = step(node.name, _forward(node), *operands)
    return results


def differentiate(
    graph: Graph, values: Values, results: Values, step: Step = exactly
) -> dict[str, Any]:
    """Return the gradient of the loss by each trained parameter, zeros where it does not depend on
    one.

    Args:
        graph: The network.
        values: Inputs and parameters.
        results: What `evaluate` yields for `graph.training`.
        step: How to compute; see `Step`.

    Raises:
        ValueError: The network has no loss.
    """
    import numpy

    loss = graph.require_loss()
    gradients = {loss: numpy.ones_like(results[loss])}
    for node, passed in backward_order(graph):
        operands = (gradients.pop(node.name), *_operands(node, values, results))
        parts = step(node.name + BACKWARD, _backward(node), *operands)
        for name, part in zip(_sources(node), parts):
            if name in gradients:
                (gradients[name],) = step(f"{name} after {node.name}", _sum, gradients[name], part)
            elif name in passed:
                gradients[name] = part
    return {name: gradients.get(name, numpy.zeros_like(values[name])) for name in graph.trainable}


def pull_back(node: Node, values: Values, upstream: Any) -> dict[str, Any]:
    """Return the gradients of one node by the names of what it reads.

    Args:
        node: Node of a network.
        values: All that it reads, by name.
        upstream: The gradient of what it yields.
    """
    gradients: dict[str, Any] = {}
    operands = _operands(node, values, {})
    for name, part in zip(_sources(node), several(_backward(node)(EXACT, upstream, *operands))):
        gradients[name] = gradients[name] + part if name in gradients else part
    return gradients


def _forward(node: Node) -> Formula:
    formula = structure.load(node.operator)
    return lambda c, *inputs: formula.forward(c, node.sizes, *inputs)


def _backward(node: Node) -> Formula:
    formula = structure.load(node.operator)
    return lambda c, upstream, *inputs: formula.backward(c, node.sizes, upstream, *inputs)


def _sum(c: Calculator, one: Any, other: Any) -> Any:
    """Add the gradients that a value gets from two places."""
    return c.store(one + other)


def backward_order(graph: Graph) -> list[tuple[Node, set[str]]]:
    """Return the nodes that a gradient passes, last first, each with the inputs that it goes on
    to.
    """
    depending = set(graph.trainable)
    for node in graph.training:
        if depending & set(_sources(node)):
            depending.add(node.name)
    reached, order = {graph.loss}, []
    for node in reversed(graph.training):
        if node.name in reached & depending:
            passed = depending & set(_sources(node))
            reached |= passed
            order.append((node, passed))
    return order


def _sources(node: Node) -> list[str]:
    """Return names of the inputs that the operator is differentiated by, in the order of its
    gradients.
    """
    return [node.inputs[index] for index in structure.load(node.operator).wrt(node.sizes)]


def _operands(node: Node, values: Values, results: Values) -> list[Any]:
    """Return the inputs of a node: values of earlier nodes, inputs and parameters."""
    return [results[name] if name in results else values[name] for name in node.inputs]
