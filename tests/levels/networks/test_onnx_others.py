"""ONNX nodes that are no operation of Level 0: in every framework, within bounds that notice."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy
import pytest
from numpy.typing import NDArray

from capsule.levels import frameworks
from capsule.levels.frameworks.base import FrameworkError
from capsule.levels.graphs import reference, structure
from capsule.levels.graphs.bounds import bounds
from capsule.levels.graphs.graph import Graph
from capsule.levels.instruments import errors
from tests.support import trials
from tests.support.capabilities import inference, training
from tests.support.networks import ran, tensors

pytest.importorskip("onnx")
pytest.importorskip("torch")
pytest.importorskip("onnxruntime")

from onnx import TensorProto, helper, numpy_helper

from capsule.levels.graphs.onnx import exchange

Array = NDArray[Any]
SHAPE = (3, 4, 7, 9)


def weights(*shape: int) -> Array:
    return numpy.linspace(-1, 1.5, int(numpy.prod(shape)), dtype="float32").reshape(shape)


def encode(
    nodes: Sequence[Any],
    shape: Sequence[int] = SHAPE,
    opset: int = 20,
    constants: Mapping[str, Array] | None = None,
    kind: int = TensorProto.FLOAT,
    yields: int = TensorProto.FLOAT,
) -> bytes:
    graph = helper.make_graph(
        list(nodes),
        "g",
        [helper.make_tensor_value_info("x", kind, shape)],
        [helper.make_tensor_value_info(nodes[-1].output[0], yields, None)],
        [numpy_helper.from_array(array, name) for name, array in (constants or {}).items()],
    )
    opsets = [helper.make_opsetid("", opset)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=10)
    content: bytes = model.SerializeToString()
    return content


def load(nodes: Sequence[Any], *options: Any, batch: int = 3, **further: Any) -> Graph:
    return exchange.load(encode(nodes, *options, **further), {"batch": batch})


def node(kind: str, inputs: Sequence[str], output: str = "y", **attributes: Any) -> Any:
    return helper.make_node(kind, inputs, [output], **attributes)


NUMBER = {"c": numpy.array(0.5, "float32")}

OTHERS: Mapping[str, tuple[Any, Mapping[str, Array]]] = {
    "another kind": (node("Elu", ["x"]), {}),
    "a number of the formula": (node("Add", ["x", "c"]), NUMBER),
    "a product of values": (node("Mul", ["x", "x"]), {}),
    "one spread over axes": (node("Mul", ["x", "c"]), {"c": weights(4, 1, 1)}),
    "uneven pads": (node("Conv", ["x", "w"], pads=[0, 1, 2, 1]), {"w": weights(2, 4, 3, 3)}),
    "uneven strides": (node("Conv", ["x", "w"], strides=[1, 2]), {"w": weights(2, 4, 3, 3)}),
    "windows over the edge": (
        node("MaxPool", ["x"], kernel_shape=[2, 2], strides=[2, 2], ceil_mode=1),
        {},
    ),
    "a mean with its axes": (
        node("ReduceMean", ["x", "a"], keepdims=1),
        {"a": numpy.array([1, 3])},
    ),
    "a sum of many": (node("ReduceSum", ["x", "a"], keepdims=0), {"a": numpy.array([1, 2, 3])}),
    "a norm": (node("LpNormalization", ["x"], axis=1, p=2), {}),
    "a softmax along another axis": (node("Softmax", ["x"], axis=1), {}),
    "a product of four axes": (node("MatMul", ["x", "w"]), {"w": weights(4, 9, 5)}),
    "a slice backwards": (
        node("Slice", ["x", "s", "e", "a", "d"]),
        {
            **{"s": numpy.array([5]), "e": numpy.array([-99])},
            **{"a": numpy.array([2]), "d": numpy.array([-2])},
        },
    ),
    "values by their places": (
        node("Gather", ["x", "i"], axis=2),
        {"i": numpy.array([[0, 6], [-1, 3]])},
    ),
    "resampling": (
        node("Resize", ["x", "", "s"], mode="linear"),
        {"s": numpy.array([1, 1, 2, 2], "float32")},
    ),
    "a recurrence": (
        helper.make_node("LSTM", ["v", "w", "r", "b"], ["y", "h"], hidden_size=5, layout=0),
        {"w": weights(1, 20, 9), "r": weights(1, 20, 5), "b": weights(1, 40)},
    ),
}


def made(name: str) -> Graph:
    other, constants = OTHERS[name]
    if other.op_type != "LSTM":
        return load([other], constants=constants)
    first = node("Reshape", ["x", "to"], "v")
    last = node("Add", ["y", "h"], "z")
    return load([first, other, last], constants={"to": numpy.array([3, 28, 9]), **constants})


@pytest.mark.parametrize("name", OTHERS)
def test_every_framework_is_within_bounds_that_notice_a_thousandth(name: str) -> None:
    graph = replace(made(name), loss=None)
    graph = replace(graph, nodes=graph.inference)
    assert structure.ONNX in {one.operator for one in graph.nodes}
    limits = bounds(
        graph,
        tensors(frameworks.load("numpy", "cpu", 1, "default"), graph, "float32")[0],
        "float32",
        3,
    ).outputs
    for framework in (
        frameworks.load(one, "cpu", 1, "default") for one in ("torch", "onnxruntime")
    ):
        arrays, native = tensors(framework, graph, "float32")
        due = reference.forward(graph, arrays, "float32")
        right = tuple(due[one] for one in graph.outputs)
        as_file = ran(framework, inference(framework, graph, native))
        written = ran(framework, inference(framework, replace(graph, file=None), native))
        for results in (as_file, written):
            assert errors.worst_ratio(tuple(results), right, limits) <= 1
        off = tuple(one * numpy.float32(1.001) for one in as_file)
        assert errors.worst_ratio(off, right, limits) > 1 or "slice" in name


def test_decisions_and_whole_numbers_are_held_to_the_reference_too() -> None:
    nodes = [
        node("Greater", ["x", "c"], "above"),
        node("Where", ["above", "x", "c"], "v"),
        node("ArgMax", ["v"], axis=1, keepdims=0),
    ]
    graph = load(nodes, constants=NUMBER, yields=TensorProto.INT64)
    assert [one.type for one in graph.nodes] == ["bool", None, "int64"]
    arrays = tensors(frameworks.load("numpy", "cpu", 1, "default"), graph, "float32")[0]
    (limit,) = bounds(graph, arrays, "float32", 3).outputs
    right = reference.forward(graph, arrays, "float32")[graph.outputs[0]]
    assert limit == 0
    for name in ("torch", "onnxruntime", "numpy"):
        framework = frameworks.load(name, "cpu", 1, "default")
        _, native = tensors(framework, graph, "float32")
        (result,) = ran(framework, inference(framework, graph, native))
        assert result.dtype == right.dtype == numpy.int64
        assert (result == right).all()


def test_whole_numbers_that_come_in_have_the_range_of_what_they_look_up() -> None:
    nodes = [
        node("Cast", ["x"], "i", to=TensorProto.INT64),
        node("Gather", ["w", "i"], "v"),
        node("Sin", ["v"]),
    ]
    indices = load(nodes, (3, 5), constants={"w": weights(11, 2)}, kind=TensorProto.INT32)
    assert [(one.shape, one.below) for one in indices.inputs.values()] == [((15,), 11)]
    nodes = [node("Cast", ["x"], "v", to=TensorProto.FLOAT), node("Sin", ["v"])]
    masks = load(nodes, (3, 5), kind=TensorProto.BOOL)
    assert masks.inputs["x"].below == 2
    for graph in (indices, masks):
        arrays = tensors(frameworks.load("numpy", "cpu", 1, "default"), graph, "float32")[0]
        right = reference.forward(graph, arrays, "float32")[graph.outputs[0]]
        for name in ("torch", "onnxruntime"):
            framework = frameworks.load(name, "cpu", 1, "default")
            _, native = tensors(framework, graph, "float32")
            for one in (graph, replace(graph, file=None)):
                (result,) = ran(framework, inference(framework, one, native))
                assert abs(result - right).max() < 1e-6


@pytest.mark.parametrize("low", [-numpy.inf, float(numpy.finfo("float32").min)])
def test_a_number_below_all_others_masks_what_it_is_added_to(low: float) -> None:
    mask = numpy.where(numpy.tri(9, dtype=bool), 0, -numpy.inf).astype("float32")
    nodes = [
        node("Where", ["keep", "zero", "low"], "mask"),
        node("Add", ["x", "mask"], "scores"),
        node("Softmax", ["scores"]),
    ]
    constants = {
        "keep": numpy.isfinite(mask),
        "zero": numpy.array(0, "float32"),
        "low": numpy.array(low, "float32"),
    }
    graph = load(nodes, (3, 2, 9, 9), constants=constants)
    framework = frameworks.load("torch", "cpu", 1, "default")
    arrays, native = tensors(framework, graph, "float32")
    (limit,) = bounds(graph, arrays, "float32", 3).outputs
    right = reference.forward(graph, arrays, "float32")[graph.outputs[0]]
    (result,) = ran(framework, inference(framework, graph, native))
    assert 0 < limit < 1e-4
    assert numpy.linalg.norm(result - right) <= limit
    assert (right[:, :, 0, 1:] == 0).all()


def test_a_framework_without_the_kind_says_so_and_others_run() -> None:
    graph = load([node("Det", ["x"])], (3, 4, 4))
    arrays = tensors(frameworks.load("numpy", "cpu", 1, "default"), graph, "float32")[0]
    torch = frameworks.load("torch", "cpu", 1, "default")
    with pytest.raises(FrameworkError, match=r"torch has no function for y \(Det of ONNX\)"):
        inference(torch, graph, arrays)
    framework = frameworks.load("onnxruntime", "cpu", 1, "default")
    (result,) = ran(framework, inference(framework, graph, arrays))
    assert numpy.allclose(result, numpy.linalg.det(arrays["x"]), atol=1e-5)


def test_what_has_no_derivative_is_not_trained_and_no_gradient_is_nought() -> None:
    graph = load(
        [node("Flatten", ["x"], "v"), node("MatMul", ["v", "w"], "u"), node("Sin", ["u"])],
        (3, 4),
        constants={"w": weights(4, 5)},
    )
    assert graph.loss is not None
    framework = frameworks.load("numpy", "cpu", 1, "default")
    with pytest.raises(ValueError, match="no derivative of ONNX's Sin"):
        ran(framework, training(framework, graph, tensors(framework, graph, "float32")[1]))


def test_a_network_that_cannot_be_trained_says_what_its_node_has_that_level_0_lacks(
    tmp_path: Path,
) -> None:
    nodes = [
        node("Flatten", ["x"], "v"),
        node("MatMul", ["v", "w"], "u"),
        node("LeakyRelu", ["u"], alpha=0.013),
    ]
    path = tmp_path / "leaky.onnx"
    path.write_bytes(encode(nodes, (3, 4), constants={"w": weights(4, 5)}))
    framework = frameworks.load("numpy", "cpu", 1, "default")
    sizes = {"batch": 3}
    reason = r"LeakyRelu: its alpha is 0\.013, expected a multiple of 0\.01 from 0 to 0\.99\)"
    with pytest.raises(ValueError, match=f"no derivative of .* \\({reason}; leave trains out"):
        trials.values(framework, network="leaky", source=str(path), parameters=sizes)


def test_each_node_runs_alone_also_between_whole_numbers() -> None:
    nodes = [
        node("ArgMax", ["x"], "i", axis=1, keepdims=1),
        node("Cast", ["i"], "v", to=TensorProto.FLOAT),
        node("Cos", ["v"]),
    ]
    from capsule.levels.level1 import layers

    graph = load(nodes)
    for name in ("torch", "onnxruntime", "numpy"):
        framework = frameworks.load(name, "cpu", 1, "default")
        _, native = tensors(framework, graph, "float32")
        clock = layers.make_clock(framework, 1)
        seconds = layers.forward(graph, native, framework, "float32", clock)
        assert len(seconds) == len(graph.inference)


def test_a_zero_that_is_due_decides_as_zero() -> None:
    """As in masks of windows, which are made of differences of the windows' numbers."""
    windows = numpy.repeat(numpy.arange(9, dtype="float32"), 3)[:9]
    nodes = [
        node("Sub", ["row", "column"], "apart"),
        node("Equal", ["apart", "zero"], "same"),
        node("Where", ["same", "x", "low"], "scores"),
        node("Sin", ["scores"]),
    ]
    constants = {"row": windows[None], "column": windows[:, None]}
    numbers = {"zero": numpy.array(0, "float32"), "low": numpy.array(-100, "float32")}
    graph = load(nodes, (3, 9, 9), constants={**constants, **numbers})
    arrays = tensors(frameworks.load("numpy", "cpu", 1, "default"), graph, "float32")[0]
    (limit,) = bounds(graph, arrays, "float32", 3).outputs
    right = reference.forward(graph, arrays, "float32")[graph.outputs[0]]
    assert 0 < limit < 1e-2 * numpy.linalg.norm(right)
