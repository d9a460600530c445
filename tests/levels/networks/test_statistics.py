"""What training keeps of its batches' statistics, held to torch's own batch normalization."""

from collections.abc import Mapping
from typing import Any

import numpy
import pytest

from capsule.levels.catalog import training
from capsule.levels.frameworks.numpy.training import NumpyTrainer
from capsule.levels.graphs import reference, statistics, values
from capsule.levels.graphs.builder import Builder
from capsule.levels.graphs.graph import Graph
from capsule.levels.networks import build
from tests.support.jobs import needs_torch

SIZES = {"batch": 3, "side": 8, "classes": 4}
NUMBERS = training.complete(training.OPTIMIZERS["sgd"], {"lr": 0.1})


def normalized(batch: int = 4, side: int = 3) -> Graph:
    """Pictures, normalized before anything else and after a convolution."""
    g = Builder("normalized")
    x = g.batch_norm(g.input("image", (batch, 2, side, side)))
    x = g.relu(g.batch_norm(g.conv2d(x, 5, 3, padding=1)))
    x = g.linear(g.flat(g.global_average_pool(x)), 3)
    return g.graph([x], loss=g.softmax_cross_entropy(x, g.labels("label", batch, 3)))


def batches(graph: Graph, count: int) -> list[dict[str, Any]]:
    made = [values.inputs(graph, "float32", seed) for seed in range(count)]
    # a mean and a variance that are not those of the start
    return [
        {name: 3 * array + 1 if array.dtype.kind == "f" else array for name, array in one.items()}
        for one in made
    ]


def widened(arrays: Mapping[str, Any]) -> dict[str, Any]:
    return reference.widen(arrays, "float32")


@needs_torch
def test_they_are_those_of_torchs_own_layer() -> None:
    import torch

    from capsule.levels.frameworks.torch.training import TorchTrainer

    graph = normalized()
    start = widened(values.parameters(graph, "float32", 1))
    tensors = {name: torch.tensor(array) for name, array in start.items()}
    ours = TorchTrainer(graph, tensors, "sgd", NUMBERS)
    plain = NumpyTrainer(graph, start, "sgd", NUMBERS)
    layer = torch.nn.BatchNorm2d(2, dtype=torch.float64)
    for inputs in map(widened, batches(graph, 5)):
        layer(torch.tensor(inputs["image"]))
        ours.step({name: torch.tensor(array) for name, array in inputs.items()}, 0.01)
        plain.step(inputs, 0.01)
    one, two = statistics.find(graph)
    assert one.names == ("batch_norm1.mean", "batch_norm1.variance")
    for name, due in zip(one.names, (layer.running_mean, layer.running_var), strict=True):
        assert due is not None
        numpy.testing.assert_allclose(ours.parameters()[name].numpy(), due.numpy(), rtol=1e-12)
        numpy.testing.assert_allclose(plain.parameters()[name], due.numpy(), rtol=1e-12)
        # what the caller gave stays as it was
        assert set(tensors[name].tolist()) == {float(name.endswith("variance"))}
    for name in two.names:
        theirs, mine = ours.parameters()[name].numpy(), plain.parameters()[name]
        numpy.testing.assert_allclose(theirs, mine, rtol=1e-9)


@needs_torch
def test_an_evaluation_is_torchs_own_in_its_mode() -> None:
    import torch

    from capsule.levels.frameworks.torch.training import TorchTrainer

    graph, one = normalized(), normalized(batch=1)
    start = widened(values.parameters(graph, "float32", 1))
    trainer = TorchTrainer(
        graph, {name: torch.tensor(array) for name, array in start.items()}, "sgd", NUMBERS
    )
    plain = NumpyTrainer(graph, start, "sgd", NUMBERS)
    for inputs in map(widened, batches(graph, 3)):
        trainer.step({name: torch.tensor(array) for name, array in inputs.items()}, 0.01)
        plain.step(inputs, 0.01)
    evaluation = statistics.evaluation(one)
    (inputs,) = map(widened, batches(one, 1))
    logits, loss = trainer.evaluate(
        evaluation, {name: torch.tensor(array) for name, array in inputs.items()}
    )
    layers = trainer.parameters()
    with torch.no_grad():
        x = torch.tensor(inputs["image"])
        x = normalize(x, layers, "batch_norm1")
        x = torch.conv2d(x, layers["conv2d1.weight"], layers["conv2d1.bias"], padding=1)
        x = normalize(x, layers, "batch_norm2").relu().mean((2, 3))
        due = torch.nn.functional.linear(x, layers["linear1.weight"], layers["linear1.bias"])
        due_loss = torch.nn.functional.cross_entropy(due, torch.tensor(inputs["label"]))
    numpy.testing.assert_allclose(logits.numpy(), due.numpy(), rtol=1e-10)
    numpy.testing.assert_allclose(float(loss), float(due_loss), rtol=1e-10)
    mine, mine_loss = plain.evaluate(evaluation, inputs)
    numpy.testing.assert_allclose(mine, due.numpy(), rtol=1e-8)
    numpy.testing.assert_allclose(mine_loss, float(due_loss), rtol=1e-8)


def normalize(x: Any, layers: Mapping[str, Any], name: str) -> Any:
    import torch

    return torch.nn.functional.batch_norm(
        x, *(layers[f"{name}.{part}"] for part in ("mean", "variance", "weight", "bias"))
    )


@pytest.mark.parametrize("name", ["resnet44", "deepcam"])
def test_the_loss_of_an_evaluation_reads_no_batch(name: str) -> None:
    sizes = {"batch": 2, "height": 32, "width": 32, "divisor": 64, "middle": 1}
    graph = build(name, sizes if name == "deepcam" else SIZES)
    evaluation = statistics.evaluation(graph)
    operators = {node.operator for node in evaluation.training}
    assert "batch_norm" not in operators
    assert "batch_norm_inference" in operators
    assert evaluation.outputs == graph.outputs
    assert evaluation.inference == graph.inference
    # for each normalization one that does not look at the batch
    counts = [
        sum(node.operator == operator for node in nodes)
        for nodes, operator in (
            (graph.training, "batch_norm"),
            (evaluation.training, "batch_norm_inference"),
        )
    ]
    assert counts[0] == counts[1] == len(statistics.find(graph))


def test_a_network_without_them_is_evaluated_as_it_is() -> None:
    graph = build("lenet", {"batch": 2, "side": 12, "classes": 3})
    assert statistics.find(graph) == ()
    assert statistics.evaluation(graph).training == graph.training


def test_one_value_in_a_channel_has_no_variance() -> None:
    graph = normalized(batch=1, side=1)
    trainer = NumpyTrainer(graph, values.parameters(graph, "float32", 1), "sgd", NUMBERS)
    with pytest.raises(ValueError, match="got one value per channel, which has no variance"):
        trainer.step(batches(graph, 1)[0], 0.1)
