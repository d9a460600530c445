"""A network taken apart: each of its nodes by itself, with inputs and an upstream gradient given.

As graphs again, so that every framework runs them as it runs networks. A loss that is the sum of
the products of some values with given ones has these as its gradients by the values: the product is
one of a row and a column, whose gradient is a product with 1, which every dtype has exactly.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from math import prod

from . import structure
from .draft import Draft
from .graph import Graph
from .reference import backward_order


def operand(node: str, place: int) -> str:
    """Name of the parameter that a node reads at a place, where that is a real tensor."""
    return f"{node}:{place}"


def upstream(value: str) -> str:
    """Name of the input that is the gradient of a value, as a column."""
    return f"{value}:gradient"


def take_apart(graph: Graph) -> Graph:
    """Return the nodes that training runs, each reading parameters of its own.

    The outputs are the values of all nodes. The trained parameters are what a gradient passes on
    its way to those of the network; whole numbers are read from the network's own inputs.

    Raises:
        ValueError: The network has no loss.
    """
    draft = Draft(f"{graph.name} apart")
    shapes = {one.name: one.shape for one in graph.nodes}
    for tensors in (graph.inputs, graph.parameters):
        shapes.update({name: tensor.shape for name, tensor in tensors.items()})
    whole = {name for name, tensor in graph.inputs.items() if tensor.below is not None}
    for name in sorted(whole):
        draft.input(name, shapes[name], graph.inputs[name].below)
    passed = dict(gradients(graph))
    for node in graph.training:
        operands = []
        differentiated = passed.get(node.name, {}).values()
        for place, name in enumerate(node.inputs):
            if name in whole:
                operands.append(name)
                continue
            own = operand(node.name, place)
            operands.append(draft.parameter(own, shapes[name], trainable=place in differentiated))
        draft.node(node.operator, operands, node.sizes, node.name)
    return draft.graph([node.name for node in graph.training], _weigh(draft, passed))


def gradients(graph: Graph) -> Iterator[tuple[str, dict[int, int]]]:
    """Yield the nodes that a gradient passes, last first, and which of their inputs it goes on to.

    Yields:
        A node's name, and where each such input stands: among the gradients of its operator, and
        among its inputs.
    """
    for node, passed in backward_order(graph):
        places = structure.load(node.operator).wrt(node.sizes)
        yield (
            node.name,
            {at: place for at, place in enumerate(places) if node.inputs[place] in passed},
        )


def leave_parameters(graph: Graph) -> Graph:
    """Return the trained parameters alone, by their names, with gradients that are given."""
    draft = Draft(f"{graph.name} parameters")
    for name in graph.trainable:
        draft.parameter(name, graph.parameters[name].shape)
    return draft.graph(graph.trainable[:1], _weigh(draft, graph.trainable))


def _weigh(draft: Draft, values: Iterable[str]) -> str:
    """Return the sum of the products of values with their `upstream`."""
    terms = []
    for name in values:
        shape = draft.shape(name)
        count = prod(shape)
        view = {"of": shape, "shape": (1, count)}
        row = draft.node("view", [name], view, f"{name}:row")
        column = draft.input(upstream(name), (count, 1))
        sizes = {"m": 1, "n": 1, "k": count}
        product = draft.node("gemm", [row, column], sizes, f"{name}:product")
        view = {"of": (1, 1), "shape": ()}
        terms.append(draft.node("view", [product], view, f"{name}:weighed"))
    return draft.node("sum", terms, {"n": 1, "count": len(terms)}, "weighed")
