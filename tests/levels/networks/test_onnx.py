"""ONNX files in and out, against ONNX's own node tests, torch's exporter and random networks."""

import warnings
from collections.abc import Callable, Mapping
from math import prod
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from capsule.levels import frameworks
from capsule.levels.graphs import reference, values
from capsule.levels.graphs.graph import Graph
from capsule.levels.networks import Builder, build
from tests.support.capabilities import inference, training
from tests.support.networks import NETWORKS, distance, ran
from tests.support.properties import examples

pytest.importorskip("onnx")
pytest.importorskip("torch")
pytest.importorskip("onnxruntime")

import onnx
import torch

from capsule.levels.graphs.onnx import exchange

Array = NDArray[Any]


def results(graph: Graph, arrays: Mapping[str, Array]) -> list[Array]:
    """Outputs, loss and gradients by numpy."""
    framework = frameworks.load("numpy", "cpu", 1, "default")
    outputs = ran(framework, inference(framework, graph, arrays))
    trained = ran(framework, training(framework, graph, arrays)) if graph.loss else []
    return outputs + trained


def there_and_back(graph: Graph, batch: int) -> Graph:
    inputs = values.inputs(graph, "float64", 3)
    weights = values.parameters(graph, "float64", 3)
    again = exchange.load(exchange.dump(graph, weights, batch=batch), {"batch": batch})
    read = {name: parameter.value for name, parameter in again.parameters.items()}
    assert again.inputs == graph.inputs
    assert {name: parameter.trainable for name, parameter in again.parameters.items()} == {
        name: parameter.trainable for name, parameter in graph.parameters.items()
    }
    # parameters come in the order of their use
    order = [again.trainable.index(name) for name in graph.trainable]
    right, arrays = results(graph, {**inputs, **weights}), results(again, {**inputs, **read})
    outputs = len(graph.outputs) + 1
    if graph.loss:
        arrays = arrays[:outputs] + [arrays[outputs:][place] for place in order]
    assert all((one == other).all() for one, other in zip(arrays, right, strict=True))
    assert [array.shape for array in arrays] == [array.shape for array in right]
    return again


@pytest.mark.parametrize("name", NETWORKS)
def test_a_named_network_survives(name: str) -> None:
    graph = build(name, NETWORKS[name])
    again = there_and_back(graph, NETWORKS[name]["batch"])
    assert [node.operator for node in again.nodes] == [node.operator for node in graph.nodes]


@pytest.mark.parametrize("name", NETWORKS)
def test_a_file_for_one_batch_runs_with_another(name: str) -> None:
    sizes = NETWORKS[name]
    small, large = build(name, sizes), build(name, {**sizes, "batch": 5})
    file = exchange.dump(small, values.parameters(small, "float64", 3), batch=sizes["batch"])
    again = exchange.load(file, {"batch": 5})
    assert again.inputs == large.inputs
    assert [node.shape for node in again.nodes] == [node.shape for node in large.nodes]


@st.composite
def networks(draw: st.DrawFn) -> Graph:
    g = Builder("random")
    x = g.input("x", (2, draw(st.integers(1, 3)), draw(st.integers(3, 6)), draw(st.integers(3, 6))))
    for _ in range(draw(st.integers(1, 6))):
        shape = g.shape(x)
        steps: dict[str, Callable[[str, tuple[int, ...]], str]]
        if len(shape) == 4:
            steps = {
                "conv": lambda x, shape: g.conv2d(x, 2, 3, padding=1, bias=draw(st.booleans())),
                "norm": lambda x, shape: g.batch_norm(x),
                "pool": lambda x, shape: g.average_pool2d(x, 3, stride=1, padding=1),
                "most": lambda x, shape: g.max_pool2d(x, 1, stride=1),
                "up": lambda x, shape: g.conv_transpose2d(
                    x, 2, 3, stride=2, padding=1, output_padding=draw(st.integers(0, 1))
                ),
                "apart": lambda x, shape: g.conv2d(
                    x, shape[1], 3, padding=2, dilation=2, groups=shape[1], bias=False
                ),
                "spread": lambda x, shape: g.expand(g.global_average_pool(x), shape),
                "turn": lambda x, shape: g.transpose(x, (0, 1, 3, 2)),
                "twice": lambda x, shape: g.concat([x, g.relu(x)], 1),
                "mean": lambda x, shape: g.global_average_pool(x),
                "flat": lambda x, shape: g.flat(x),
            }
        else:
            steps = {
                "slope": lambda x, shape: g.leaky_relu(x, draw(st.integers(0, 99))),
                "scale": lambda x, shape: g.scale(x, draw(st.sampled_from([1.2, -3, 1e-3]))),
                "volume": lambda x, shape: g.flat(
                    g.max_pool3d(
                        g.conv3d(g.view(x, (shape[0], 1, shape[1], 1, 1)), 2, 3, padding=1),
                        1,
                        stride=1,
                    )
                ),
                "linear": lambda x, shape: g.linear(x, 3, bias=draw(st.booleans())),
                "norm": lambda x, shape: g.layer_norm(x),
                "softmax": lambda x, shape: g.softmax(x),
                "gelu": lambda x, shape: g.gelu(x, approximate=draw(st.booleans())),
                "sum": lambda x, shape: g.sum(x, g.tanh(x), x),
                "view": lambda x, shape: g.view(x, (1, prod(shape), 1, 1)),
                "attention": lambda x, shape: g.view(
                    g.attention(*[g.view(x, (shape[0], 1, 1, shape[1]))] * 3), shape
                ),
            }
        x = steps[draw(st.sampled_from(sorted(steps)))](x, shape)
    x = g.flat(x)
    loss: str | None = None
    kind = draw(st.sampled_from(["classes", "squares", "none"]))
    if kind == "classes":
        loss = g.softmax_cross_entropy(x, g.labels("label", *g.shape(x)))
    elif kind == "squares":
        loss = g.mean_squared_error(x, g.input("y", g.shape(x)))
    return g.graph([x], loss)


@examples(60)
@given(networks())
def test_a_random_network_survives(graph: Graph) -> None:
    weights = values.parameters(graph, "float64", 3)
    inputs = values.inputs(graph, "float64", 3)
    fixed = min(tensor.shape[0] for tensor in graph.inputs.values())
    again = exchange.load(exchange.dump(graph, weights, "float64"), {"batch": fixed})
    read = {name: parameter.value for name, parameter in again.parameters.items()}
    right = reference.evaluate(graph.nodes, {**inputs, **weights})
    new = values.inputs(again, "float64", 3)
    computed = reference.evaluate(again.nodes, {**new, **inputs, **read})
    # a view of the shape that is there already is left out
    assert (computed[again.outputs[0]] == right[graph.outputs[0]]).all()
    if graph.loss is not None:
        assert computed[again.require_loss()] == right[graph.loss]


def export(module: torch.nn.Module, *inputs: torch.Tensor, **options: Any) -> tuple[bytes, Array]:
    """What torch.onnx.export writes, and what torch computes."""
    import io

    module.eval()
    file = io.BytesIO()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(module, inputs, file, dynamo=False, **options)
    return file.getvalue(), module(*inputs).detach().numpy()


class Residual(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        nn = torch.nn
        self.first, self.norm = nn.Conv2d(3, 6, 3, padding=1), nn.BatchNorm2d(6)
        self.again, self.last = nn.Conv2d(6, 6, 3, padding=1), nn.Linear(6, 4)
        self.drop, self.pool = nn.Dropout(), nn.AdaptiveAvgPool2d(1)
        with torch.no_grad():
            self.norm.running_mean.uniform_()
            self.norm.running_var.uniform_(0.5, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = torch.relu(self.norm(self.first(x)))
        x = torch.sigmoid(self.again(x)) + torch.nn.functional.gelu(x)
        x = torch.nn.functional.avg_pool2d(x, 2)
        return torch.softmax(self.last(self.drop(torch.flatten(self.pool(x), 1))), -1)


class Rows(torch.nn.Module):
    """Tokens, positions, and attention by hand, as older files have it."""

    def __init__(self) -> None:
        super().__init__()
        self.table = torch.nn.Embedding(11, 8)
        self.places = torch.nn.Parameter(torch.randn(1, 6, 8))
        self.qkv = torch.nn.ModuleList(torch.nn.Linear(8, 8) for _ in range(3))
        self.norm, self.last = torch.nn.LayerNorm(8), torch.nn.Linear(8, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.norm(self.table(x) + self.places)
        q, k, v = (layer(x).view(x.shape[0], 6, 2, 4).transpose(1, 2) for layer in self.qkv)
        x = torch.softmax(q @ k.transpose(2, 3), -1) @ v
        return self.last(x.transpose(1, 2).reshape(x.shape[0], 6 * 8)[:, :].view(-1, 6, 8)).flatten(
            1
        )


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("model", [Residual, Rows])
@pytest.mark.parametrize("name", ["torch", "numpy", "onnxruntime"])
def test_what_torch_exports_runs_everywhere(
    name: str, model: type[Residual] | type[Rows], dynamic: bool
) -> None:
    torch.manual_seed(5)
    module = model()
    rows = model is Rows
    x = torch.randint(11, (3, 6)) if rows else torch.randn(3, 3, 8, 8)
    axes = {"dynamic_axes": {"x": {0: "batch"}}} if dynamic else {}
    file, right = export(module, x, input_names=["x"], output_names=["y"], **axes)
    graph = exchange.load(file, {"batch": 3})
    framework = frameworks.load(name, "cpu", 1, "default")
    arrays = {**values.inputs(graph, "float32", 1), **values.parameters(graph, "float32", 1)}
    arrays["x"] = x.numpy().reshape(graph.inputs["x"].shape)
    native = {key: framework.from_numpy(array, "float32") for key, array in arrays.items()}
    outputs = ran(framework, inference(framework, graph, native))
    assert distance(outputs, [right]) < 1e-5
    count = sum(prod(graph.parameters[key].shape) for key in graph.trainable)
    kept = sum(parameter.numel() for parameter in module.parameters())
    # torch's exporter folds batch normalization into the convolution before it
    assert count == kept - (12 if model is Residual else 0)
    if name != "onnxruntime":
        _, *gradients = ran(framework, training(framework, graph, native))
        wider = reference.backward(graph, arrays, "float32")
        assert distance(gradients, list(wider.values())) < 1e-4
    other = exchange.load(file, {"batch": 8})
    assert other.nodes[-1].shape == () or other.nodes[-1].shape[0] == 8


def test_a_file_without_a_loss_gets_one_on_the_scores_before_its_softmax() -> None:
    file, _ = export(Residual(), torch.randn(3, 3, 8, 8))
    graph = exchange.load(file, {"batch": 4})
    nodes = {node.name: node for node in graph.nodes}
    scores, labels = nodes[graph.require_loss()].inputs
    assert nodes[scores].operator == "gemm"
    assert nodes[graph.outputs[0]].operator == "softmax"
    assert (graph.inputs[labels].shape, graph.inputs[labels].below) == ((4,), 4)


def test_weights_beside_the_file_are_asked_for_in_it(tmp_path: Path) -> None:
    graph = build("lenet", {"batch": 2})
    model = onnx.load_from_string(exchange.dump(graph, values.parameters(graph, "float32", 1)))
    onnx.save(model, tmp_path / "net.onnx", save_as_external_data=True, location="net.bin")
    assert exchange.load(tmp_path / "net.onnx", {"batch": 2}).trainable
    (tmp_path / "net.bin").unlink()
    with pytest.raises(ValueError, match="external_data=False"):
        exchange.load(tmp_path / "net.onnx", {"batch": 2})
