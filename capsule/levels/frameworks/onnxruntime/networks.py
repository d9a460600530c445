"""Networks in ONNX Runtime: one model for the whole graph, in one session.

A network of an ONNX file is that file itself, where it has the batch and the type that are due;
else, as every other one, what `graphs.onnx` writes of it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Callable

import numpy

from ...graphs.graph import File, Graph
from ...graphs.onnx import exchange
from ..base import Call, FrameworkError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Values = Mapping[str, NDArray[Any]]


class OnnxRuntimeNetworks:
    """A session for each network, its parameters constants of the model."""

    backward = None
    training = None
    trainer = None
    module = None
    inferring = None
    mixed_trainer = None

    def __init__(self, start: Callable[[bytes], Any]) -> None:
        self._start = start

    def inference(self, graph: Graph, values: Values) -> Call:
        """`InferenceSession.run` as a tuple."""
        if graph.file is not None and _is_due(graph, graph.file, values):
            return self._run_file(graph.file, values)
        nodes = graph.inference
        read = {name for node in nodes for name in node.inputs}
        parameters = {key: value for key, value in graph.parameters.items() if key in read}
        inputs = {key: value for key, value in graph.inputs.items() if key in read}
        needed = replace(graph, inputs=inputs, parameters=parameters, nodes=nodes, loss=None)
        reals = [values[name] for name in (*inputs, *parameters) if values[name].dtype.kind == "f"]
        arrays = {name: values[name] for name in parameters}
        types = {name: str(values[name].dtype) for name in inputs}
        real = str(reals[0].dtype) if reals else "float32"
        try:
            model = exchange.dump(needed, arrays, real, types=types)
        except ValueError as error:
            raise FrameworkError(f"onnxruntime: {error}") from None
        run = self._start(model).run
        operands = {name: values[name] for name in inputs}
        return (lambda: tuple(run(None, operands))), ()

    def alone(self, graph: Graph, values: Values) -> Call:
        """Run one node as in a network."""
        return self.inference(graph, values)

    def _run_file(self, file: File, values: Values) -> Call:
        run, names = self._start(file.content).run, list(file.outputs)
        operands = {
            name: values[key].reshape(shape).astype(dtype, copy=False)
            for key, (name, shape, dtype) in file.inputs.items()
        }
        return (lambda: tuple(run(names, operands))), ()


def _is_due(graph: Graph, file: File, values: Values) -> bool:
    """Return whether a file is the network with these values."""
    reals = {one.dtype.name for one in values.values() if one.dtype.kind == "f"}
    read = {name for node in graph.inference for name in node.inputs}
    return (
        reals == {file.real}
        and file.values == graph.outputs
        and all(
            numpy.array_equal(values[name], parameter.value)
            for name, parameter in graph.parameters.items()
            if name in read
        )
    )
