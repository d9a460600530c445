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
    kind: int = 1,
) -> str:
    """What is said of a file with one node, from x to y."""
    from onnx import TensorProto, helper, numpy_helper

    graph = helper.make_graph(
        [node],
        "g",
        [helper.make_tensor_value_info("x", kind, shape)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(array, name) for name, array in (constants or {}).items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)])
    with pytest.raises(ValueError) as refusal:
        exchange.load(model.SerializeToString(), {"batch": 2})
    return str(refusal.value)


def node(kind: str, inputs: Sequence[str], **attributes: Any) -> onnx.NodeProto:
    return onnx.helper.make_node(kind, inputs, ["y"], name="it", **attributes)


@pytest.mark.parametrize(
    ("words", "wrong", "constants"),
    [
        ("draws random numbers", node("RandomNormalLike", ["x"]), None),
        ("depends on the data", node("NonZero", ["x"]), None),
        ("expected a tensor of", node("SequenceConstruct", ["x", "x"]), None),
        (
            "values of the unsupported type FLOAT8E4M3FN",
            node("Cast", ["x"], to=onnx.TensorProto.FLOAT8E4M3FN),
            None,
        ),
        ("", node("NoSuchKind", ["x"]), None),
        ("", node("Conv", ["x"]), None),
        ("no supported node returns its input 'nowhere'", node("Relu", ["nowhere"]), None),
        ("", node("Reshape", ["x", "s"]), {"s": numpy.array([2, 7])}),
        ("", node("Add", ["x", "c"]), {"c": numpy.ones((5,), "float32")}),
    ],
)
def test_what_cannot_be_read_is_refused_in_one_sentence(
    words: str, wrong: onnx.NodeProto, constants: Mapping[str, Array] | None
) -> None:
    message = refuse(wrong, constants=constants)
    assert message.startswith(f"network: node 'it' ({wrong.op_type}) is not supported: ")
    assert words in message
    assert "\n" not in message


def test_other_versions_types_and_files_are_refused() -> None:
    assert "version 99" in refuse(node("Relu", ["x"]), opset=99)
    assert "with a fixed length" in refuse(node("Relu", ["x"]), shape=(2, "n"))
    assert "unsupported type STRING" in refuse(node("Relu", ["x"]), kind=onnx.TensorProto.STRING)
    with pytest.raises(ValueError, match="not an ONNX file"):
        exchange.load(b"no such thing \xff", {"batch": 1})


def test_a_file_that_holds_its_batch_says_so_for_another() -> None:
    row = {"c": numpy.ones((4, 1, 8, 8), "float32")}
    message = refuse(node("Concat", ["x", "c"], axis=1), shape=(4, 3, 8, 8), constants=row)
    assert "the file has a fixed batch of 4, and the case needs 2" in message
