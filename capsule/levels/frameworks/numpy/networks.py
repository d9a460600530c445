"""Networks in numpy: the reference's formulas, in the arrays' own dtype."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ...catalog.training import Numbers
from ...graphs import reference
from ...graphs.graph import Graph
from ..base import Call, Trainer

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ...optimizers import Chosen

    Values = Mapping[str, NDArray[Any]]


class NumpyNetworks:
    """Formulas, node after node."""

    module = None
    inferring = None
    mixed_trainer = None

    def inference(self, graph: Graph, values: Values) -> Call:
        """Return every node's formula."""
        nodes = graph.inference

        def run() -> tuple[NDArray[Any], ...]:
            results = reference.evaluate(nodes, values)
            return tuple(results[name] for name in graph.outputs)

        return run, ()

    def alone(self, graph: Graph, values: Values) -> Call:
        """Run one node as in a network."""
        return self.inference(graph, values)

    def backward(self, graph: Graph, values: Values, upstream: NDArray[Any]) -> Call:
        """Return the node's derivative's formula."""
        (node,) = graph.nodes

        def run() -> tuple[NDArray[Any], ...]:
            gradients = reference.pull_back(node, values, upstream)
            return tuple(gradients[name] for name in graph.trainable)

        return run, ()

    def training(self, graph: Graph, values: Values) -> Call:
        """Return every node's formula, and then the derivatives' from the loss back."""
        nodes, loss = graph.training, graph.require_loss()

        def run() -> tuple[NDArray[Any], ...]:
            results = reference.evaluate(nodes, values)
            gradients = reference.differentiate(graph, values, results)
            return (results[loss], *(gradients[name] for name in graph.trainable))

        return run, ()

    def trainer(self, graph: Graph, values: Values, optimizer: Chosen, numbers: Numbers) -> Trainer:
        """Return the formulas of `optimizers`."""
        from .training import NumpyTrainer

        return NumpyTrainer(graph, values, optimizer, numbers)
