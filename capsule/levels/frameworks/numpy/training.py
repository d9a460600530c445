"""Training in numpy: the reference's formulas and those of `optimizers`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ...catalog.training import Numbers
from ...graphs import passes, reference, statistics
from ...graphs.graph import Graph
from ...optimizers import Chosen, start
from ..base import require_shape

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Values = Mapping[str, NDArray[Any]]


class NumpyTrainer:
    """See `base.StartTraining`; in the arrays' own dtype."""

    def __init__(self, graph: Graph, values: Values, optimizer: Chosen, numbers: Numbers) -> None:
        graph.require_loss()
        self._graph = graph
        self._values: dict[str, NDArray[Any]] = dict(values)
        self._optimizer = start(optimizer, numbers)
        self._statistics = statistics.find(graph)

    def step(self, inputs: Values, rate: float) -> NDArray[Any]:
        """Forward, back, and the optimizer's formula."""
        losses = []

        def differentiate(parameters: Values) -> tuple[Any, Values]:
            loss, gradients, moved = passes.differentiate(
                self._graph, self._statistics, {**self._values, **parameters}, inputs
            )
            self._values.update(moved)
            losses.append(loss)
            return loss, gradients

        before = {name: self._values[name] for name in self._graph.trainable}
        for name, array in self._optimizer.descend(before, differentiate, rate).items():
            # formulas of numbers and float32 arrays may yield more bits
            self._values[name] = array.astype(self._values[name].dtype, copy=False)
        first: NDArray[Any] = losses[0]
        return first

    def evaluate(self, graph: Graph, inputs: Values) -> tuple[NDArray[Any], ...]:
        """Return every node's formula."""
        results = reference.evaluate(graph.nodes, {**self._values, **inputs})
        return tuple(results[name] for name in (*graph.outputs, graph.require_loss()))

    def parameters(self) -> dict[str, NDArray[Any]]:
        """Return the arrays."""
        moved = (name for one in self._statistics for name in one.names)
        return {name: self._values[name] for name in (*self._graph.trainable, *moved)}

    def state(self) -> dict[str, NDArray[Any]]:
        """Return the arrays, and those of the optimizer."""
        kept = {f"optimizer/{name}": array for name, array in self._optimizer.state().items()}
        return {**{f"parameter/{name}": one for name, one in self.parameters().items()}, **kept}

    def restore(self, state: Values) -> None:
        """Replace the present arrays by these."""
        for name, array in self.parameters().items():
            require_shape(name, state[f"parameter/{name}"].shape, array.shape)
            self._values[name] = state[f"parameter/{name}"]
        prefix = "optimizer/"
        self._optimizer.restore(
            {name[len(prefix) :]: one for name, one in state.items() if name.startswith(prefix)}
        )
