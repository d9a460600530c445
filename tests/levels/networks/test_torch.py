"""Networks held to the same ones written by hand with torch.nn."""

from collections.abc import Mapping
from importlib import util
from typing import Any

import numpy
import pytest
from numpy.typing import NDArray

from capsule.levels import catalog, networks
from capsule.levels.graphs import reference, values
from capsule.levels.graphs.bounds import bounds
from capsule.levels.graphs.graph import Graph

pytestmark = [
    pytest.mark.torch,
    pytest.mark.skipif(util.find_spec("torch") is None, reason="torch is not installed here"),
]

SMALL = {
    "lenet": {"batch": 2},
    "alexnet": {"batch": 2, "side": 64, "classes": 10},
    "resnet9": {"batch": 2, "side": 16, "width": 4},
    "resnet18": {"batch": 2, "side": 64, "classes": 10},
    "resnet44": {"batch": 2, "side": 16},
    "resnet50": {"batch": 2, "side": 64, "classes": 10},
    "multilabel": {"batch": 3, "side": 32, "classes": 5, "width": 4, "blocks": 1},
    "hepcnn": {"batch": 2, "side": 32, "width": 4},
    "unet": {"batch": 2, "side": 32, "width": 8},
    "cosmoflow": {"batch": 2, "side": 16, "width": 4},
    "cosmogan": {"batch": 3, "side": 16, "width": 3, "layers": 3, "latent": 5},
    "deepcam": {"batch": 2, "height": 48, "width": 32, "divisor": 16, "middle": 2},
    "transformer": {"batch": 2},
}
assert set(SMALL) == set(catalog.NETWORKS)


def prepare(name: str, dtype: str) -> tuple[Mapping[str, int], Graph, dict[str, NDArray[Any]]]:
    sizes = catalog.NETWORKS[name].complete(SMALL[name])
    graph = networks.build(name, sizes)
    arrays = {**values.inputs(graph, dtype, 17), **values.parameters(graph, dtype, 17)}
    return sizes, graph, arrays


@pytest.mark.parametrize("name", SMALL)
def test_graph_and_reference_agree_with_autograd(name: str) -> None:
    from tests.support import torch_networks

    sizes, graph, arrays = prepare(name, "float32")
    output, loss, gradients = torch_networks.results(graph, sizes, arrays)
    right = reference.forward(graph, arrays, "float32")
    (due,) = (right[name] for name in graph.outputs)
    assert numpy.linalg.norm(output - due) <= 1e-10 * numpy.linalg.norm(due)
    assert abs(loss - right[graph.require_loss()]) <= 1e-10 * abs(loss)
    formula = reference.backward(graph, arrays, "float32")
    assert list(formula) == list(gradients)
    largest = max(map(numpy.linalg.norm, formula.values()))
    for parameter, gradient in formula.items():
        # the bias of keys in attention has gradient 0, whatever rounding makes of it
        size = max(numpy.linalg.norm(gradient), 1e-6 * largest)
        assert numpy.linalg.norm(gradients[parameter] - gradient) <= 1e-10 * size, parameter


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize(
    "name", ["lenet", "resnet44", "multilabel", "unet", "cosmoflow", "deepcam", "transformer"]
)
def test_torch_stays_within_the_bounds(name: str, dtype: str) -> None:
    import torch

    from tests.support import torch_networks

    sizes, graph, arrays = prepare(name, dtype)
    element = getattr(torch, dtype)
    output, loss, gradients = torch_networks.results(graph, sizes, arrays, element)
    limits = bounds(graph, arrays, dtype, 17)
    assert limits.loss is not None
    right = reference.forward(graph, arrays, dtype)
    due = reference.backward(graph, arrays, dtype)
    most = 0.1 if dtype == "float32" else 1
    assert numpy.linalg.norm(output - right[graph.outputs[0]]) < most * limits.outputs[0]
    assert abs(loss - right[graph.require_loss()]) < most * limits.loss
    for parameter, gradient in due.items():
        distance = numpy.linalg.norm(gradients[parameter] - gradient)
        assert distance < most * limits.gradients[parameter], parameter


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_a_loss_in_16_bits_keeps_what_is_left_of_likely_classes(dtype: str) -> None:
    from capsule.levels import frameworks

    g = networks.Builder("loss")
    x, labels = g.input("x", (1, 3)), g.input("labels", (1,), below=3)
    graph = g.graph(g.relu(x), g.softmax_cross_entropy(x, labels))
    torch = frameworks.load("torch", "cpu", 1, "default")
    assert torch.networks is not None
    assert torch.networks.training is not None
    tensors = {
        "x": torch.from_numpy(numpy.array([[7.0, -3.0, -4.0]], "float32"), dtype),
        "labels": torch.from_numpy(numpy.array([0])),
    }
    call, operands = torch.networks.training(graph, tensors)
    (loss,) = call(*operands)
    assert torch.dtype_of(loss) == dtype
    # torch's own log_softmax has 0 here
    assert float(loss) == pytest.approx(numpy.log1p(numpy.exp(-10.0) + numpy.exp(-11.0)), rel=0.01)
