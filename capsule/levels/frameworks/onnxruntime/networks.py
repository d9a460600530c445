"""Networks in ONNX Runtime: one model for the whole graph, in one session."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Callable

from ...graphs.graph import Graph
from ...graphs.onnx import exchange
from ..base import Call, FrameworkError


def inference(graph: Graph, values: Mapping[str, Any], session: Callable[[bytes], Any]) -> Call:
    """`InferenceSession.run` as a tuple; parameters are constants of the model.

    Args:
        graph: The network.
        values: Arrays of all inputs and parameters by name.
        session: Makes one for a model.
    """
    nodes = graph.inference
    read = {name for node in nodes for name in node.inputs}
    parameters = {name: each for name, each in graph.parameters.items() if name in read}
    inputs = {name: each for name, each in graph.inputs.items() if name in read}
    needed = replace(graph, inputs=inputs, parameters=parameters, nodes=nodes, loss=None)
    reals = [values[name] for name in (*inputs, *parameters) if values[name].dtype.kind == "f"]
    arrays = {name: values[name] for name in parameters}
    try:
        model = exchange.dump(needed, arrays, str(reals[0].dtype))
    except ValueError as error:
        raise FrameworkError(str(error)) from None
    run = session(model).run
    given = {name: values[name] for name in inputs}
    return (lambda: tuple(run(None, given))), ()
