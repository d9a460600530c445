"""Training node by node: bounds that right ones keep, and small faults that lie beyond them."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy
import pytest

from capsule.levels import frameworks
from capsule.levels.data import generators
from capsule.levels.graphs import apart, reference, values
from capsule.levels.networks import build
from tests.support.jobs import needs_torch
from tests.support.trainings import SMALL, measure, numpy_alone

SLOW: dict[str, Any] = {"name": "sgd", "lr": 0.01, "momentum": 0.9}
LENET = {"batch": 4, "side": 12, "classes": 3}


@pytest.fixture(scope="module")
def colored(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("colored")
    generators.write(generators.generate("glyphs", {**SMALL, "channels": 3}), folder)
    return folder


def test_a_network_taken_apart_has_the_values_and_gradients_of_the_whole() -> None:
    graph = build("lenet", LENET)
    given = reference.widen(
        {**values.inputs(graph, "float32", 3), **values.parameters(graph, "float32", 4)}, "float32"
    )
    whole = reference.evaluate(graph.training, given)
    backward: dict[str, Any] = {}

    def step(label: str, function: Any, *arrays: Any) -> tuple[Any, ...]:
        if label.endswith(" backward"):
            backward[label.removesuffix(" backward")] = arrays[0]
        return reference.exactly(label, function, *arrays)

    gradients = reference.differentiate(graph, given, whole, step)
    pieces = apart.take_apart(graph)
    known = {name: given[name] for name in pieces.inputs if name in given}
    for node in graph.training:
        for place, name in enumerate(node.inputs):
            known[apart.operand(node.name, place)] = whole.get(name, given.get(name))
    for name, array in backward.items():
        known[apart.upstream(name)] = array.reshape(-1, 1)
    results = reference.evaluate(pieces.nodes, known)
    assert all((results[name] == whole[name]).all() for name in pieces.outputs)
    assert set(pieces.outputs) == {node.name for node in graph.training}
    parts = reference.differentiate(pieces, known, results)
    read_by = {name: node for node in graph.training for name in node.inputs}
    for name, gradient in gradients.items():
        node = read_by[name]
        own = apart.operand(node.name, node.inputs.index(name))
        assert (parts[own] == gradient).all()


def test_a_right_training_keeps_the_bounds_and_they_are_small(glyphs: Path) -> None:
    held = measure(numpy_alone(), glyphs, epochs=1)
    assert 0 < held["node_error_ratio"][0] < 1
    assert 0 < held["bound_share"][0] < 0.01


@needs_torch
@pytest.mark.parametrize(
    ("network", "optimizer"),
    [
        ("lenet", {"name": "adam", "lr": 0.01}),
        ("lenet", {"name": "rmsprop", "lr": 0.001, "momentum": 0.5}),
        ("resnet44", {"name": "adamw", "lr": 0.01, "weight_decay": 0.1}),
    ],
)
def test_torch_keeps_them(
    glyphs: Path, colored: Path, network: str, optimizer: dict[str, Any]
) -> None:
    folder = glyphs if network == "lenet" else colored
    torch = frameworks.load("torch", "cpu", 1, "default")
    held = measure(torch, folder, network=network, optimizer=optimizer, epochs=1)
    assert held["node_error_ratio"][0] < 1
    assert held["bound_share"][0] < 0.1


Operation = Callable[..., Any]


def with_larger_epsilon(torch: Any) -> Iterator[tuple[str, Operation]]:
    function = torch.nn.functional.batch_norm
    yield (
        "batch_norm",
        lambda _, x, w, b: (function, (x, None, None, w, b, True, 0.0, 2e-5)),
    )


def with_leaking_relu(torch: Any) -> Iterator[tuple[str, Operation]]:
    yield "relu", lambda _, x: (torch.nn.functional.leaky_relu, (x, 1e-5))


def with_inexact_mean(_: Any) -> Iterator[tuple[str, Operation]]:
    yield (
        "global_average_pool",
        lambda _, x: (lambda x: x.mean((2, 3), keepdim=True) * 1.0001, (x,)),
    )


@needs_torch
@pytest.mark.parametrize("fault", [with_larger_epsilon, with_leaking_relu, with_inexact_mean])
def test_a_small_fault_of_one_operator_lies_beyond_them(
    colored: Path, fault: Callable[[Any], Iterator[tuple[str, Operation]]]
) -> None:
    import torch

    from capsule.levels.frameworks.torch import networks

    loaded = frameworks.load("torch", "cpu", 1, "default")
    with pytest.MonkeyPatch.context() as patch:
        for name, operation in fault(torch):
            # traces call it with what stands for tensors
            patch.setitem(networks.OPERATIONS, name, operation)
        held = measure(loaded, colored, network="resnet44", optimizer=SLOW, epochs=1)
    assert held["node_error_ratio"][0] > 1


@needs_torch
def test_a_bound_in_sixteen_bits_is_no_small_part_of_what_it_judges(glyphs: Path) -> None:
    torch = frameworks.load("torch", "cpu", 1, "default")
    optimizer = {"name": "sgd", "lr": 0.001}
    held = measure(torch, glyphs, optimizer=optimizer, epochs=1, dtype="bfloat16")
    assert held["node_error_ratio"][0] < 1
    assert held["bound_share"][0] > 0.1


def test_parameters_alone_are_moved_by_gradients_that_are_given() -> None:
    graph = build("lenet", LENET)
    alone = apart.leave_parameters(graph)
    assert alone.trainable == graph.trainable
    known: dict[str, Any] = {}
    for number, name in enumerate(graph.trainable):
        shape = graph.parameters[name].shape
        known[name] = numpy.ones(shape)
        known[apart.upstream(name)] = numpy.full((int(numpy.prod(shape)), 1), number + 0.5)
    results = reference.evaluate(alone.nodes, known)
    gradients = reference.differentiate(alone, known, results)
    for number, name in enumerate(graph.trainable):
        assert gradients[name].shape == graph.parameters[name].shape
        assert (gradients[name] == number + 0.5).all()
