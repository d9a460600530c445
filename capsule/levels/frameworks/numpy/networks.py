"""Networks in numpy: the reference's formulas, in the arrays' own dtype."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ...graphs import reference
from ...graphs.graph import Graph
from ..base import Call


def inference(graph: Graph, values: Mapping[str, Any]) -> Call:
    """Node after node."""
    nodes = graph.inference

    def run() -> tuple[Any, ...]:
        found = reference.evaluate(nodes, values)
        return tuple(found[name] for name in graph.outputs)

    return run, ()


def training(graph: Graph, values: Mapping[str, Any]) -> Call:
    """Every node's formula, and then the derivatives' from the loss back."""
    nodes, loss = graph.training, graph.loss

    def run() -> tuple[Any, ...]:
        found = reference.evaluate(nodes, values)
        gradients = reference.differentiate(graph, values, found)
        return (found[loss], *(gradients[name] for name in graph.trained))

    return run, ()
