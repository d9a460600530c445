"""The time of each node's backward pass, and that what is timed is that pass."""

from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy
import pytest
from numpy.typing import NDArray

from capsule.levels import frameworks
from capsule.levels.frameworks.base import Call
from capsule.levels.graphs import reference
from capsule.levels.graphs.graph import Graph
from capsule.levels.level1 import layers
from capsule.levels.networks import Builder, build
from tests.support import trials
from tests.support.networks import NETWORKS, distance, ran, tensors

pytest.importorskip("torch")


def knot() -> Graph:
    """What is read twice, by one node and by two, a constant, labels, and a value that no gradient
    passes."""
    g = Builder("knot")
    x = g.input("x", (4, 6))
    kept = g.scale(x, 0.5)
    a = g.relu(g.linear(x, 6))
    rows = g.sum(a, a, kept)
    rows = g.concat([rows, g.detach(rows), rows], 1)
    labels = g.labels("label", 4, 18)
    return g.graph([rows], loss=g.softmax_cross_entropy(rows, labels))


def gradients(name: str, graph: Graph) -> list[list[NDArray[Any]]]:
    """What the timed calls yield, node by node."""
    framework = frameworks.load(name, "cpu", 1, "default")
    _, native = tensors(framework, graph, "float64")
    yielded = []

    def clock(call: Call) -> float:
        yielded.append(ran(framework, call))
        # a call that is timed comes again and again
        again = ran(framework, call)
        assert all(map(numpy.array_equal, yielded[-1], again))
        return 1.0

    seconds = layers.backward(graph, native, framework, "float64", clock)
    assert seconds == [1.0] * len(yielded)
    return yielded


@pytest.mark.parametrize("network", [*NETWORKS, "knot"])
def test_what_is_timed_yields_the_gradients_of_each_node(network: str) -> None:
    graph = knot() if network == "knot" else build(network, NETWORKS[network])
    by_torch, by_formulas = (gradients(name, graph) for name in ("torch", "numpy"))
    passed = [names for _, names in reversed(reference.backward_order(graph))]
    assert [len(parts) for parts in by_torch] == list(map(len, passed))
    for parts, due in zip(by_torch, by_formulas, strict=True):
        assert [part.shape for part in parts] == [part.shape for part in due]
        assert distance(parts, due) < 1e-11


def test_a_node_that_reads_a_value_twice_adds_its_gradients() -> None:
    graph = knot()
    (summing,) = (node for node in graph.nodes if node.operator == "sum")
    values: Mapping[str, Any] = {
        name: numpy.ones((4, 6)) for name in {*summing.inputs, summing.name}
    }
    pulled = reference.pull_back(summing, values, numpy.full((4, 6), 3.0))
    assert sorted(float(one.mean()) for one in pulled.values()) == [3.0, 6.0]


def test_parts_of_a_minibatch_are_timed_together() -> None:
    torch = frameworks.load("torch", "cpu", 1, "default")
    run = partial(trials.values, torch, network="lenet", dtype="float32")
    whole = run(parameters={"batch": 256})
    split = run(parameters={"batch": 256, "limit_mib": 12})
    assert split["micro_batches"][0] > 1
    assert len(split["layer_backward_time"]) == len(whole["layer_backward_time"])
    assert min(split["layer_backward_time"]) > 0


@pytest.mark.parametrize("name", ["torch-compile", "onnxruntime"])
def test_only_what_runs_node_by_node_has_such_times(name: str) -> None:
    networks = frameworks.load(name, "cpu", 1, "default").networks
    assert networks is not None
    assert networks.backward is None
