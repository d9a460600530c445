"""Networks in torch, numpy and ONNX Runtime against the reference's formulas in more bits."""

import weakref
from collections.abc import Callable, Mapping
from functools import reduce
from typing import Any

import numpy
import pytest

from capsule.levels import frameworks
from capsule.levels.frameworks import FrameworkError
from capsule.levels.graphs import reference
from capsule.levels.graphs.graph import Graph, Input, Node
from capsule.levels.networks import Builder, build
from tests.support.capabilities import alone, inference, training
from tests.support.networks import NETWORKS, distance, ran, tensors

pytest.importorskip("torch")
pytest.importorskip("onnxruntime")

from torch.utils._python_dispatch import TorchDispatchMode

# a few times what the frameworks' errors were seen to be, a hundredth of what a wrong formula gives
TOLERANCE = {"float64": 1e-12, "float32": 2e-4, "bfloat16": 0.25, "float16": 0.05}


def chain() -> Graph:
    """Structural operators, values that are read twice, an input that only the loss reads."""
    g = Builder("chain")
    x = g.input("x", (2, 3, 4, 4))
    w = g.parameter("scale", (3, 3, 3, 3), "uniform", 0.3)
    sizes = {"n": 2, "c": 3, "h": 4, "w": 4, "k": 3, "r": 3, "s": 3, "padding": 1}
    a = g.node("conv2d", (x, w), sizes)
    b = g.concat([g.relu(a), a, g.tanh(x)], 1)
    c = g.transpose(b, (0, 2, 3, 1))
    rows = g.view(c, (32, 9))
    rows = g.softmax(g.layer_norm(g.add_rows(rows, g.parameter("row", (9,), "uniform", 0.5))))
    rows = g.sum(rows, rows, g.linear(rows, 9))
    mean = g.expand(g.global_average_pool(a), (2, 3, 4, 4))
    b = g.sum(g.scale(g.concat([mean, a, mean], 1), -0.3), b)
    target = g.input("target", (32, 9))
    return g.graph([rows, b], loss=g.mean_squared_error(rows, target))


DEEPCAM = {"batch": 2, "height": 32, "width": 48, "divisor": 32, "middle": 1}


@pytest.mark.parametrize("network", [*NETWORKS, "deepcam", "chain"])
@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("name", ["torch", "numpy"])
def test_outputs_loss_and_gradients_are_the_references(name: str, dtype: str, network: str) -> None:
    networks = {**NETWORKS, "deepcam": DEEPCAM}
    graph = chain() if network == "chain" else build(network, networks[network])
    framework = frameworks.load(name, "cpu", 1, "default")
    arrays, native = tensors(framework, graph, dtype)
    right = reference.forward(graph, arrays, dtype)
    gradients = reference.backward(graph, arrays, dtype)
    with framework.arithmetic(dtype):
        outputs = ran(framework, inference(framework, graph, native))
        loss, *by = ran(framework, training(framework, graph, native))
    assert [array.shape for array in outputs] == [right[name].shape for name in graph.outputs]
    assert {str(array.dtype) for array in (*outputs, loss, *by)} == {dtype}
    assert distance(outputs, [right[name] for name in graph.outputs]) < TOLERANCE[dtype]
    assert abs(loss - right[graph.require_loss()]) < TOLERANCE[dtype]
    # kinks between the nodes of a deep network may be crossed in float32
    slack = 100 if network in ("resnet44", "deepcam") else 1
    assert distance(by, list(gradients.values())) < TOLERANCE[dtype] * slack


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_torch_keeps_16_bit_types(dtype: str) -> None:
    graph = build("lenet", NETWORKS["lenet"])
    framework = frameworks.load("torch", "cpu", 1, "default")
    arrays, native = tensors(framework, graph, dtype)
    gradients = reference.backward(graph, arrays, dtype)
    with framework.arithmetic(dtype):
        function, arguments = training(framework, graph, native)
        loss, *by = function(*arguments)
    assert {framework.dtype_of(tensor) for tensor in (loss, *by)} == {dtype}
    computed = [framework.to_numpy(tensor) for tensor in by]
    assert distance(computed, list(gradients.values())) < TOLERANCE[dtype]


def test_a_call_leaves_the_tensors_it_was_given_as_they_are_and_repeats() -> None:
    graph = build("lenet", NETWORKS["lenet"])
    framework = frameworks.load("torch", "cpu", 1, "default")
    arrays, native = tensors(framework, graph, "float32")
    call = training(framework, graph, native)
    first, second = ran(framework, call), ran(framework, call)
    assert all((one == other).all() for one, other in zip(first, second, strict=True))
    assert not any(tensor.requires_grad for tensor in native.values())
    assert all((framework.to_numpy(native[name]) == arrays[name]).all() for name in arrays)


def test_inference_holds_no_more_than_what_later_nodes_read() -> None:
    g = Builder("long")
    x = g.input("x", (1, 100_000))
    graph = g.graph([reduce(lambda value, _: g.relu(value), range(40), x)])
    framework = frameworks.load("torch", "cpu", 1, "default")
    function, arguments = inference(framework, graph, tensors(framework, graph, "float32")[1])
    with Alive() as alive:
        function(*arguments)
    assert alive.calls == 40
    assert alive.most <= 2


class Alive(TorchDispatchMode):
    """How many results of torch's operations were held at once."""

    calls = most = 0

    def __init__(self) -> None:
        super().__init__()
        self.results: list[weakref.ref[Any]] = []

    def __torch_dispatch__(
        self,
        function: Callable[..., Any],
        types: Any,
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        result = function(*args, **(kwargs or {}))
        self.calls += 1
        self.results.append(weakref.ref(result))
        self.most = max(self.most, sum(result() is not None for result in self.results))
        return result


@pytest.mark.parametrize("name", ["torch", "numpy"])
def test_a_parameter_that_the_loss_does_not_read_has_the_gradient_0(name: str) -> None:
    g = Builder("two heads")
    x = g.input("x", (2, 3))
    left, right = g.linear(x, 4), g.linear(x, 5)
    graph = g.graph([left, right], loss=g.softmax_cross_entropy(left, g.labels("label", 2, 4)))
    framework = frameworks.load(name, "cpu", 1, "default")
    native = tensors(framework, graph, "float32")[1]
    _, *gradients = ran(framework, training(framework, graph, native))
    by = dict(zip(graph.trainable, gradients, strict=True))
    assert not by["linear2.weight"].any()
    assert by["linear2.weight"].shape == (5, 3)
    assert by["linear1.weight"].any()


@pytest.mark.parametrize("network", [*NETWORKS, "chain"])
def test_onnx_runtime_infers_the_whole_network(network: str) -> None:
    graph = chain() if network == "chain" else build(network, NETWORKS[network])
    framework = frameworks.load("onnxruntime", "cpu", 1, "default")
    arrays, native = tensors(framework, graph, "float32")
    right = reference.forward(graph, arrays, "float32")
    outputs = ran(framework, inference(framework, graph, native))
    assert distance(outputs, [right[name] for name in graph.outputs]) < TOLERANCE["float32"]


def test_onnx_runtime_runs_each_node_alone_and_trains_none() -> None:
    graph = build("transformer", NETWORKS["transformer"])
    framework = frameworks.load("onnxruntime", "cpu", 1, "default")
    arrays, native = tensors(framework, graph, "float32")
    right = reference.forward(graph, arrays, "float32")
    for node in graph.inference:
        operands = {
            name: native[name] if name in native else right[name].astype("float32")
            for name in node.inputs
        }
        (result,) = ran(framework, alone(framework, single(graph, node), operands))
        assert distance([result], [right[node.name]]) < 1e-4, node.name
    assert framework.networks is not None
    assert framework.networks.training is None


def single(graph: Graph, node: Node) -> Graph:
    """One node as a network whose inputs are that node's."""
    shapes = {other.name: Input(other.shape) for other in graph.nodes}
    shapes.update({name: Input(weight.shape) for name, weight in graph.parameters.items()})
    shapes.update(graph.inputs)
    inputs = {name: shapes[name] for name in node.inputs}
    return Graph(node.name, inputs, {}, (node,), (node.name,), None)


def test_an_operator_that_is_not_there_is_named() -> None:
    node = Node("strange1", "strange", {}, ("x",), (1,))
    graph = Graph("odd", {"x": Input((1,))}, {}, (node,), ("strange1",), None)
    for name in ("torch", "onnxruntime"):
        framework = frameworks.load(name, "cpu", 1, "default")
        native = {"x": framework.from_numpy(numpy.ones(1, "float32"), "float32")}
        with pytest.raises(FrameworkError, match="no operator strange for strange1"):
            inference(framework, graph, native)
