"""A network as an ONNX model: each node as Level 0 writes it for ONNX Runtime, renamed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy

from ..graph import Graph, Node
from . import models, operators
from .models import node

Sizes = Mapping[str, Any]


BATCH = "capsule batch"
"""Key of a file's metadata: the batch that its first axes are multiples of."""


def written(
    graph: Graph, parameters: Mapping[str, Any], dtype: str | None, batch: int | None
) -> bytes:
    """See `exchange.dump`."""
    reals = [each for each in parameters.values() if each.dtype.kind == "f"]
    if dtype is None and not reals:
        raise ValueError(f"{graph.name} has no parameters: say the dtype of its reals")
    real = numpy.dtype(dtype or reals[0].dtype)
    found: list[Any] = []
    constants: dict[str, Any] = {name: parameters[name].astype(real) for name in graph.parameters}
    for each in graph.nodes:
        nodes, more = _renamed(each, real)
        found += nodes
        constants.update(more)
    inputs = {
        # nothing but dtype and shape is read: no memory is taken
        name: numpy.broadcast_to(
            numpy.zeros((), real if each.below is None else "int64"), each.shape
        )
        for name, each in graph.inputs.items()
    }
    outputs = dict.fromkeys(graph.outputs, str(real))
    if graph.loss is not None:
        outputs[graph.loss] = str(real)
    metadata = {} if batch is None else {BATCH: str(batch)}
    return models.serialized(found, inputs, outputs, constants, metadata)


def _renamed(each: Node, real: Any) -> tuple[list[Any], dict[str, Any]]:
    """The ONNX nodes of a node, and their constants."""
    chosen = _STRUCTURE.get(each.operator) or operators.OPERATIONS.get(each.operator)
    if chosen is None:
        raise ValueError(f"ONNX has no operator {each.operator} for {each.name}")
    small = chosen(each.sizes)
    if small.outputs != 1:
        raise ValueError(f"{each.operator} of {each.name} has {small.outputs} results, not one")
    names = {f"i{place}": name for place, name in enumerate(each.inputs)}
    names.update({"o0": each.name, "": ""})
    for one in small.nodes:
        for words in (one.input, one.output):
            renamed = [names.get(word, f"{each.name}/{word}") for word in words]
            del words[:]
            words.extend(renamed)
        one.name = one.output[0]
    constants = {
        f"{each.name}/{key}": value.astype(real) if value.dtype.kind == "f" else value
        for key, value in small.constants.items()
    }
    return list(small.nodes), constants


def _view(sizes: Sizes) -> operators.Graph:
    shape = numpy.array(sizes["shape"], dtype=numpy.int64)
    return operators.Graph((node("Reshape", ["i0", "shape"], ["o0"]),), {"shape": shape})


def _transpose(sizes: Sizes) -> operators.Graph:
    return operators.Graph((node("Transpose", ["i0"], ["o0"], perm=list(sizes["axes"])),))


def _concat(sizes: Sizes) -> operators.Graph:
    inputs = [f"i{place}" for place in range(len(sizes["of"]))]
    return operators.Graph((node("Concat", inputs, ["o0"], axis=sizes["axis"]),))


_STRUCTURE = {"view": _view, "transpose": _transpose, "concat": _concat}
