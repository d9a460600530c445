"""One ONNX node as a model of its own: how networks hold what is no operation of Level 0.

Such a model has the node, what it reads as inputs, and the constants that belong to it. Real
numbers have no type here: they are of the trial's, so `retype` writes the model for each.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy
import onnx
from onnx import TensorProto, helper, numpy_helper

REALS = (TensorProto.FLOAT, TensorProto.DOUBLE, TensorProto.FLOAT16, TensorProto.BFLOAT16)

_TYPED = ("to", "dtype")
"""Attributes that name the type of a result."""

_KEPT = 4096
"""Models that are kept as they were read: more than a network has nodes."""


@dataclass(frozen=True)
class Step:
    """A node, read.

    Attributes:
        kind: Kind of the node.
        version: Version of the operator set of its domain.
        node: As ONNX has it.
        how: Its attributes by name.
        operands: Names of what it reads that is no constant, each once.
        constants: Arrays of the others, by name.
    """

    kind: str
    version: int
    node: Any
    how: Mapping[str, Any]
    operands: tuple[str, ...]
    constants: Mapping[str, Any]

    @property
    def reads(self) -> tuple[int | Any | None, ...]:
        """For each input of the node the place of its operand, its array, or None where it is left
        out.
        """
        places: dict[str, Any] = {name: place for place, name in enumerate(self.operands)}
        places.update(self.constants)
        return tuple(places[name] if name else None for name in self.node.input)


def pack(node: Any, types: Mapping[str, Any], constants: Mapping[str, Any], opsets: Any) -> Any:
    """Return the model of a node.

    Args:
        node: As ONNX has it.
        types: ONNX's type and the shape of each operand, by name.
        constants: Arrays by name.
        opsets: Operator sets of the file.
    """
    graph = helper.make_graph(
        [node],
        "node",
        [helper.make_tensor_value_info(name, *form) for name, form in types.items()],
        [onnx.ValueInfoProto(name=name) for name in node.output if name],
        [numpy_helper.from_array(array, name) for name, array in constants.items()],
    )
    return helper.make_model(graph, opset_imports=opsets)


@lru_cache(maxsize=_KEPT)
def parse(model: str) -> Step:
    """Return the node of a model, in hexadecimal digits."""
    content = onnx.load_from_string(bytes.fromhex(model))
    (node,) = content.graph.node
    versions = {plain(opset.domain): opset.version for opset in content.opset_import}
    return Step(
        kind=node.op_type,
        version=versions[plain(node.domain)],
        node=node,
        how=attributes(node),
        operands=tuple(value.name for value in content.graph.input),
        constants={
            tensor.name: numpy_helper.to_array(tensor) for tensor in content.graph.initializer
        },
    )


def plain(domain: str) -> str:
    """Return a domain's one name: the default one has two."""
    return "" if domain == "ai.onnx" else domain


def attributes(node: Any) -> dict[str, Any]:
    """Return values of a node's attributes by name."""
    return {one.name: helper.get_attribute_value(one) for one in node.attribute}


def copy(node: Any) -> Any:
    """Return a node that can be changed."""
    other = onnx.NodeProto()
    other.CopyFrom(node)
    return other


def retype(model: str, real: str) -> Any:
    """Return the model with its real numbers of a type of numpy."""
    wanted = helper.np_dtype_to_tensor_dtype(numpy.dtype(real))
    content = onnx.load_from_string(bytes.fromhex(model))
    for value in content.graph.input:
        if value.type.tensor_type.elem_type in REALS:
            value.type.tensor_type.elem_type = wanted
    for tensor in content.graph.initializer:
        _retype_tensor(tensor, real)
    for node in content.graph.node:
        retype_node(node, real)
    return content


def retype_node(node: Any, real: str) -> None:
    """Have a node yield its real numbers in a type of numpy."""
    wanted = helper.np_dtype_to_tensor_dtype(numpy.dtype(real))
    for attribute in node.attribute:
        if attribute.name in _TYPED and attribute.i in REALS:
            attribute.i = wanted
        elif attribute.HasField("t"):
            _retype_tensor(attribute.t, real)
    if node.op_type == "ConstantOfShape" and not node.attribute:
        zero = numpy_helper.from_array(numpy.zeros(1, real))
        node.attribute.append(helper.make_attribute("value", zero))


def _retype_tensor(tensor: Any, real: str) -> None:
    if tensor.data_type in REALS:
        array = numpy_helper.to_array(tensor).astype(real)
        tensor.CopyFrom(numpy_helper.from_array(array, tensor.name))


def means_the_same(step: Step, version: int) -> bool:
    """Return whether a node means the same in another version of the operators."""
    here, there = (_schema(step, number) for number in (step.version, version))
    if here is None or there is None:
        return False
    if here.since_version == there.since_version:
        return True
    inputs = len(step.node.input) <= len(there.inputs) or _is_variadic(there.inputs)
    unnamed = step.kind == "Split" and len(step.node.input) < 2
    return (
        min(step.version, version) >= _FIRST
        and inputs
        and set(step.how) <= set(there.attributes)
        and not unnamed
        and step.kind not in _CHANGED
    )


_FIRST = 13
"""Version from which on a kind with equal inputs and attributes keeps its meaning."""

_CHANGED = ("BatchNormalization", "GridSample", "GroupNormalization")


def schema(kind: str, version: int, domain: str = "") -> Any:
    """ONNX's own description of a kind of nodes, None where there is none."""
    try:
        return onnx.defs.get_schema(kind, version, domain)
    except onnx.defs.SchemaError:
        return None


def _schema(step: Step, version: int) -> Any:
    return schema(step.kind, version, step.node.domain)


def _is_variadic(inputs: Iterable[Any]) -> bool:
    return any(one.option == onnx.defs.OpSchema.FormalParameterOption.Variadic for one in inputs)
