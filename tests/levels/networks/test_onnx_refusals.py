"""ONNX files that cannot be read: one sentence names the node and what is wrong with it."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy
import pytest
from numpy.typing import NDArray

pytest.importorskip("onnx")

import onnx

from capsule.levels.graphs.onnx import exchange

Array = NDArray[Any]


def refuse(
    node: onnx.NodeProto,
    opset: int = 17,
    shape: Sequence[int | str] = (2, 3, 8, 8),
    constants: Mapping[str, Array] | None = None,
) -> str:
    """What is said of a file with one node, from x to y."""
    from onnx import TensorProto, helper, numpy_helper

    graph = helper.make_graph(
        [node],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(array, name) for name, array in (constants or {}).items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)])
    with pytest.raises(ValueError) as refusal:
        exchange.load(model.SerializeToString(), {"batch": 2})
    return str(refusal.value)


def node(kind: str, inputs: Sequence[str], **attributes: Any) -> onnx.NodeProto:
    return onnx.helper.make_node(kind, inputs, ["y"], name="it", **attributes)


KERNEL = {"w": numpy.ones((4, 3, 3, 3), "float32")}


@pytest.mark.parametrize(
    ("words", "wrong", "constants"),
    [
        ("node 'it' (Elu) is not supported: there is no operation", node("Elu", ["x"]), None),
        ("pads [0, 1] differ", node("Conv", ["x", "w"], pads=[0, 1, 1, 1]), KERNEL),
        ("strides [1, 2] differ", node("Conv", ["x", "w"], strides=[1, 2]), KERNEL),
        (
            "ceil_mode is 1",
            node("MaxPool", ["x"], kernel_shape=[3, 3], strides=[2, 2], ceil_mode=1),
            None,
        ),
        (
            "dilations of a pool",
            node("MaxPool", ["x"], kernel_shape=[2, 2], dilations=[2, 2]),
            None,
        ),
        ("pooling over 2 axes", node("AveragePool", ["x"], kernel_shape=[2, 2, 2]), None),
        ("pooling over 2 or 3 axes", node("MaxPool", ["x"], kernel_shape=[2]), None),
        (
            "output_padding [0, 1] differs",
            node("ConvTranspose", ["x", "w"], strides=[2, 2], output_padding=[0, 1]),
            {"w": numpy.ones((3, 4, 3, 3), "float32")},
        ),
        (
            "output_padding is 1, not below the stride 1",
            node("ConvTranspose", ["x", "w"], output_padding=[1, 1]),
            {"w": numpy.ones((3, 4, 3, 3), "float32")},
        ),
        ("has not as many axes", node("Expand", ["x", "s"]), {"s": numpy.array([2, 3, 5, 5, 5])}),
        ("cannot be expanded", node("Expand", ["x", "s"]), {"s": numpy.array([2, 3, 5, 99])}),
        ("its alpha is 0.125", node("LeakyRelu", ["x"], alpha=0.125), None),
        ("its alpha is 2", node("LeakyRelu", ["x"], alpha=2.0), None),
        ("product with one constant number", node("Mul", ["x", "x"]), None),
        (
            "product with one constant number",
            node("Mul", ["x", "c"]),
            {"c": numpy.ones(2, "float32")},
        ),
        (
            "the constant has more axes",
            node("Mul", ["x", "c"]),
            {"c": numpy.ones((1,) * 9, "float32")},
        ),
        ("it is not as ONNX has it", node("Conv", ["x"]), None),
        ("result that no supported node yields", node("Relu", ["nowhere"]), None),
        ("is not supported", node("Reshape", ["x", "s"]), {"s": numpy.array([2, 7])}),
        ("is not supported", node("Reshape", ["x", "s"]), {"s": numpy.array([0, 5, -1])}),
    ],
)
def test_what_cannot_be_read_is_refused_in_one_sentence(
    words: str, wrong: onnx.NodeProto, constants: Mapping[str, Array] | None
) -> None:
    message = refuse(wrong, constants=constants)
    assert words in message
    assert "Supported kinds of nodes: Add, Attention," in message


def test_other_versions_and_other_files_are_refused() -> None:
    assert "version 12" in refuse(node("Relu", ["x"]), opset=12)
    assert "must have a fixed length" in refuse(node("Relu", ["x"]), shape=(2, "n"))
    with pytest.raises(ValueError, match="not an ONNX file"):
        exchange.load(b"no such thing \xff", {"batch": 1})
