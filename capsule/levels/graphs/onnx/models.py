"""ONNX models of a few nodes, made in memory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from onnx import TensorProto, helper, numpy_helper

OPSET = 23
"""Version of the default operator set: ONNX 1.18 froze it in 2025, with attention."""

_IR_VERSION = 11


def node(kind: str, inputs: Sequence[str], outputs: Sequence[str], **attributes: Any) -> Any:
    """Return a node of the default operator set; an input or output left out is an empty name."""
    return helper.make_node(kind, list(inputs), list(outputs), **attributes)


def serialize(
    nodes: Sequence[Any],
    inputs: Mapping[str, Any],
    outputs: Mapping[str, str],
    constants: Mapping[str, Any] | None = None,
    metadata: Mapping[str, str] | None = None,
    versions: Mapping[str, int] | None = None,
) -> bytes:
    """Return a model with these nodes, in the order that they run.

    Args:
        nodes: Made by `node`.
        inputs: Name and example array of each input; its dtype and shape become the input's own.
        outputs: Name and numpy dtype of each output.
        constants: Name and array of each constant.
        metadata: Words that go with it.
        versions: Versions of the operators of each domain; None for `OPSET` alone.
    """
    graph = helper.make_graph(
        list(nodes),
        "capsule",
        [_describe(name, array.dtype, array.shape) for name, array in inputs.items()],
        [_describe(name, dtype, None) for name, dtype in outputs.items()],
        [numpy_helper.from_array(array, name) for name, array in (constants or {}).items()],
    )
    opsets = [helper.make_opsetid(*pair) for pair in (versions or {"": OPSET}).items()]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=_IR_VERSION)
    helper.set_model_props(model, dict(metadata or {}))
    content: bytes = model.SerializeToString()
    return content


def identity() -> bytes:
    """Return a model that returns its one number."""
    import numpy

    x = numpy.zeros(1, "float32")
    return serialize([node("Identity", ["x"], ["y"])], {"x": x}, {"y": "float32"})


def _describe(name: str, dtype: Any, shape: tuple[int, ...] | None) -> Any:
    import numpy

    kind: TensorProto.DataType = helper.np_dtype_to_tensor_dtype(numpy.dtype(dtype))
    return helper.make_tensor_value_info(name, kind, shape)
