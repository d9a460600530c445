"""A network as an ONNX model: each node as Level 0 writes it for ONNX Runtime, renamed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy

from .. import structure
from ..graph import Graph, Node
from . import alone, models, operators, pieces
from .models import node

Sizes = Mapping[str, Any]


BATCH = "capsule batch"
"""Key of a file's metadata: the batch that its first axes are multiples of."""


def write(
    graph: Graph,
    parameters: Mapping[str, Any],
    dtype: str | None,
    batch: int | None,
    types: Mapping[str, str],
) -> bytes:
    """See `exchange.dump`."""
    reals = [array for array in parameters.values() if array.dtype.kind == "f"]
    if dtype is None and not reals:
        raise ValueError(f"{graph.name} has no parameters from which to take the dtype: pass dtype")
    real = numpy.dtype(dtype or reals[0].dtype)
    nodes: list[Any] = []
    constants: dict[str, Any] = {name: parameters[name].astype(real) for name in graph.parameters}
    for step in graph.nodes:
        parts, more = _rename(step, real)
        nodes += parts
        constants.update(more)
    inputs = {
        # nothing but dtype and shape is read: no memory is taken
        name: numpy.broadcast_to(
            numpy.zeros((), types.get(name, real if tensor.below is None else "int64")),
            tensor.shape,
        )
        for name, tensor in graph.inputs.items()
    }
    kinds = {step.name: step.type or str(real) for step in graph.nodes}
    outputs = {name: kinds[name] for name in graph.outputs}
    if graph.loss is not None:
        outputs[graph.loss] = str(real)
    metadata = {} if batch is None else {BATCH: str(batch)}
    return models.serialize(nodes, inputs, outputs, constants, metadata, _versions(graph))


def _versions(graph: Graph) -> dict[str, int]:
    """Return the version of each domain in which all nodes keep their meaning."""
    steps = [
        alone.parse(step.sizes["model"]) for step in graph.nodes if step.operator == structure.ONNX
    ]
    versions = {"": models.OPSET}
    for step in steps:
        domain = alone.plain(step.node.domain)
        usual = versions.setdefault(domain, step.version)
        if alone.means_the_same(step, usual):
            continue
        if len(steps) < len(graph.nodes) or any(one.version != step.version for one in steps):
            raise ValueError(
                f"cannot write {step.kind} of version {step.version} of ONNX's operators: the"
                f" network is written in version {usual}, in which {step.kind} differs"
            )
        versions[domain] = step.version
    return versions


def _rename(step: Node, real: Any) -> tuple[list[Any], dict[str, Any]]:
    """Return the ONNX nodes of a node, and their constants."""
    if step.operator == structure.ONNX:
        return _rename_own(step, real)
    choose = _STRUCTURE.get(step.operator) or operators.OPERATIONS.get(step.operator)
    if choose is None:
        raise ValueError(f"ONNX has no operator {step.operator} for {step.name}")
    small = choose(step.sizes)
    if small.outputs != 1:
        raise ValueError(
            f"cannot write {step.name} to ONNX: its {step.operator} has {small.outputs} results,"
            " expected 1"
        )
    names = {f"i{place}": name for place, name in enumerate(step.inputs)}
    names.update({"o0": step.name, "": ""})
    for part in small.nodes:
        for words in (part.input, part.output):
            renamed = [names.get(word, f"{step.name}/{word}") for word in words]
            del words[:]
            words.extend(renamed)
        part.name = part.output[0]
    constants = {
        f"{step.name}/{key}": value.astype(real) if value.dtype.kind == "f" else value
        for key, value in small.constants.items()
    }
    return list(small.nodes), constants


def _rename_own(step: Node, real: Any) -> tuple[list[Any], dict[str, Any]]:
    """Return a node that is ONNX's own; of its results the one that the step is has the step's
    name.
    """
    single = alone.parse(step.sizes["model"])
    if any(attribute.HasField("g") for attribute in single.node.attribute):
        raise ValueError(
            f"cannot write {step.name} to ONNX: its {single.kind} contains nested nodes, which"
            " capsule does not support"
        )
    part = alone.copy(single.node)
    alone.retype_node(part, str(real))
    names = {name: f"{step.name}/{name}" for name in single.constants}
    names.update(zip(single.operands, step.inputs))
    inputs = [names.get(name, "") for name in part.input]
    outputs = [name and f"{step.name}/result {name}" for name in part.output]
    named = [place for place, name in enumerate(part.output) if name]
    outputs[named[step.sizes["output"]]] = step.name
    for words, renamed in ((part.input, inputs), (part.output, outputs)):
        del words[:]
        words.extend(renamed)
    part.name = step.name
    constants = {
        names[name]: array.astype(real) if array.dtype.kind == "f" else array
        for name, array in single.constants.items()
    }
    return [part], constants


def _view(sizes: Sizes) -> pieces.Graph:
    shape = numpy.array(sizes["shape"], dtype=numpy.int64)
    return pieces.Graph((node("Reshape", ["i0", "shape"], ["o0"]),), {"shape": shape})


def _transpose(sizes: Sizes) -> pieces.Graph:
    return pieces.Graph((node("Transpose", ["i0"], ["o0"], perm=list(sizes["axes"])),))


def _concat(sizes: Sizes) -> pieces.Graph:
    inputs = [f"i{place}" for place in range(len(sizes["of"]))]
    return pieces.Graph((node("Concat", inputs, ["o0"], axis=sizes["axis"]),))


def _expand(sizes: Sizes) -> pieces.Graph:
    shape = numpy.array(sizes["shape"], dtype=numpy.int64)
    return pieces.Graph((node("Expand", ["i0", "shape"], ["o0"]),), {"shape": shape})


def _scale(sizes: Sizes) -> pieces.Graph:
    factor = {"factor": numpy.array(sizes["factor"])}
    return pieces.Graph((node("Mul", ["i0", "factor"], ["o0"]),), factor)


def _detach(sizes: Sizes) -> pieces.Graph:  # noqa: ARG001
    return pieces.Graph((node("Identity", ["i0"], ["o0"]),))


_STRUCTURE = {
    "view": _view,
    "transpose": _transpose,
    "concat": _concat,
    "expand": _expand,
    "scale": _scale,
    "detach": _detach,
}
