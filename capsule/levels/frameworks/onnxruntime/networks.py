"""Networks in ONNX Runtime: one model for the whole graph, in one session."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Callable

from ...graphs.graph import Graph
from ...graphs.onnx import exchange
from ..base import Call, FrameworkError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Values = Mapping[str, NDArray[Any]]


class OnnxRuntimeNetworks:
    """A session for each network, its parameters constants of the model."""

    training = None
    trainer = None
    module = None
    mixed_trainer = None

    def __init__(self, start: Callable[[bytes], Any]) -> None:
        self._start = start

    def inference(self, graph: Graph, values: Values) -> Call:
        """`InferenceSession.run` as a tuple."""
        nodes = graph.inference
        read = {name for node in nodes for name in node.inputs}
        parameters = {key: value for key, value in graph.parameters.items() if key in read}
        inputs = {key: value for key, value in graph.inputs.items() if key in read}
        needed = replace(graph, inputs=inputs, parameters=parameters, nodes=nodes, loss=None)
        reals = [values[name] for name in (*inputs, *parameters) if values[name].dtype.kind == "f"]
        arrays = {name: values[name] for name in parameters}
        try:
            model = exchange.dump(needed, arrays, str(reals[0].dtype))
        except ValueError as error:
            raise FrameworkError(f"onnxruntime: {error}") from None
        run = self._start(model).run
        operands = {name: values[name] for name in inputs}
        return (lambda: tuple(run(None, operands))), ()

    def alone(self, graph: Graph, values: Values) -> Call:
        """As in a network."""
        return self.inference(graph, values)
