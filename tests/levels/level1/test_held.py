"""What of a network is held to the reference: what was timed, what it normalizes by, each node."""

from collections.abc import Callable
from copy import deepcopy
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy
import pytest

from capsule.levels import frameworks, networks, operators
from capsule.levels.frameworks.base import Call
from capsule.levels.frameworks.numpy import Numpy
from capsule.levels.frameworks.numpy.networks import NumpyNetworks
from capsule.levels.graphs import values
from capsule.levels.graphs.graph import Graph
from tests.support import trials
from tests.support.changed import Networks, change

NETWORK = """
parameters = ("batch",)

def network(g, sizes):
    x = g.input("x", (sizes["batch"], 2, 5, 4))
    x = g.relu(g.batch_norm(g.conv2d(x, 3, 3, padding=1)))
    x = g.linear(g.flat(x), 3)
    labels = g.labels("label", sizes["batch"], 3)
    return g.graph([x], loss=g.softmax_cross_entropy(x, labels))
"""
OUTPUTS, GRADIENTS, NODES = "l2_error_ratio", "grad_l2_error_ratio", "element_error_ratio"


@pytest.fixture
def mine(tmp_path: Path) -> str:
    path = tmp_path / "mine.py"
    path.write_text(NETWORK)
    return str(path)


def judge(framework: Numpy, mine: str, batch: int = 3) -> dict[str, float]:
    """The first value of each metric."""
    work: trials.Entry = {"network": "mine", "source": mine, "parameters": {"batch": batch}}
    reported = trials.values(framework, **work)
    return {name: numbers[0] for name, numbers in reported.items()}


@pytest.mark.parametrize("batch", [1, 3, 9])
def test_right_networks_keep_their_bounds_and_bounds_are_small(mine: str, batch: int) -> None:
    value = judge(Numpy(), mine, batch)
    assert all(0 < value[metric] < 1 for metric in (OUTPUTS, GRADIENTS, NODES))
    assert 0 < value["bound_share"] < 0.01
    assert value["repeatable"] == 1


def on_call(which: str) -> Callable[[str, Call], Call]:
    """Results of another call than the one that was made."""

    def changed(_: str, call: Call) -> Call:
        function, arguments = call
        kept: list[tuple[Any, ...]] = []

        def run(*operands: Any) -> tuple[Any, ...]:
            kept.append(tuple(map(deepcopy, function(*operands))))
            zeros = tuple(one * 0 for one in kept[-1])
            if which == "memoised":
                return kept[0]
            if which == "stale":
                return kept[-2] if len(kept) > 1 else zeros
            return kept[-1] if len(kept) > 1 else zeros

        return run, arguments

    return changed


@pytest.mark.parametrize("which", ["memoised", "stale", "first wrong"])
def test_what_was_kept_or_put_off_is_no_result(mine: str, which: str) -> None:
    framework = Numpy()
    change(framework, on_call(which))
    value = judge(framework, mine)
    assert value[OUTPUTS] > 1
    assert value[GRADIENTS] > 1


Alter = Callable[[Graph, tuple[Any, ...]], tuple[Any, ...]]


class Altered(NumpyNetworks):
    """numpy's networks, with something done to a graph or to what training yields."""

    def __init__(
        self,
        graph: Callable[[Graph], Graph] = lambda graph: graph,
        trained: Alter = lambda _, results: results,
        inferred: Alter = lambda _, results: results,
    ) -> None:
        super().__init__()
        self._graph = graph
        self._trained = trained
        self._inferred = inferred

    def inference(self, graph: Graph, values: Any) -> Call:
        function, arguments = super().inference(self._graph(graph), values)
        return (lambda *operands: self._inferred(graph, function(*operands))), arguments

    def training(self, graph: Graph, values: Any) -> Call:
        function, arguments = super().training(self._graph(graph), values)
        return (lambda *operands: self._trained(graph, function(*operands))), arguments


def altered(**how: Any) -> Numpy:
    framework = Numpy()
    framework.networks = Altered(**how)
    return framework


def test_results_of_the_timed_batch_are_held_and_not_those_of_another(mine: str) -> None:
    def for_two(graph: Graph, results: tuple[Any, ...]) -> tuple[Any, ...]:
        batch = graph.inputs["x"].shape[0] if "x" in graph.inputs else 2
        return results if batch == 2 else tuple(map(numpy.zeros_like, results))

    assert judge(altered(trained=for_two), mine, batch=2)[GRADIENTS] < 1
    assert judge(altered(trained=for_two), mine, batch=3)[GRADIENTS] > 1


BATCH = 11


def of_timed(change_array: Callable[[Any], Any]) -> Alter:
    """What the timed batch yields, changed: one of fewer is right."""

    def changed(graph: Graph, results: tuple[Any, ...]) -> tuple[Any, ...]:
        is_timed = "x" in graph.inputs and graph.inputs["x"].shape[0] == BATCH
        return tuple(map(change_array, results)) if is_timed else results

    return changed


def spoil_last(array: Any) -> Any:
    spoiled = numpy.array(array)
    spoiled[-1:] += 1
    return spoiled


@pytest.mark.parametrize("change_array", [numpy.zeros_like, spoil_last])
def test_some_examples_of_a_large_batch_are_held_as_they_were_timed(
    mine: str, change_array: Callable[[Any], Any]
) -> None:
    assert judge(altered(inferred=of_timed(change_array)), mine, BATCH)[OUTPUTS] > 1


def test_gradients_of_a_large_batch_change_with_what_it_is_given(mine: str) -> None:
    assert judge(altered(trained=of_timed(numpy.zeros_like)), mine, BATCH)[GRADIENTS] > 1e9


def test_what_was_kept_of_a_large_batch_is_no_result(mine: str) -> None:
    framework = Numpy()
    change(framework, on_call("memoised"))
    value = judge(framework, mine, BATCH)
    assert min(value[OUTPUTS], value[GRADIENTS]) > 1e9


def test_kept_gradients_of_a_deep_network_in_16_bits_are_none(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Their bound is as large as they are."""
    framework = frameworks.load("torch", "cpu", 1, "default")
    right = framework.networks
    assert right is not None
    keep = on_call("memoised")
    kept = Networks(right, lambda name, call: keep(name, call) if name == "training" else call)
    case = {"batch": 2, "side": 32, "width": 8}
    ratios: list[float] = []
    for networks_of in (right, kept):
        monkeypatch.setattr(framework, "networks", networks_of)
        reported = trials.values(framework, network="unet", dtype="bfloat16", parameters=case)
        ratios += reported[GRADIENTS]
    assert ratios[0] < 1 < ratios[1]


def test_examples_that_depend_on_each_other_are_not_held_apart(tmp_path: Path) -> None:
    path = tmp_path / "mine.py"
    over_examples = "x = g.transpose(g.softmax(g.transpose(x, (1, 0))), (1, 0))"
    path.write_text(NETWORK.replace("    labels", f"    {over_examples}\n    labels"))
    assert 0 < judge(Numpy(), str(path), BATCH)[OUTPUTS] < 1
    kept = altered(inferred=of_timed(numpy.zeros_like))
    assert judge(kept, str(path), BATCH)[OUTPUTS] > 1e9


@pytest.mark.parametrize("place", [1, 2, 3, 4])
def test_what_normalizes_has_nothing_trivial(mine: str, place: int) -> None:
    """Weight, bias, kept mean and kept variance: with zeros and ones for any results differ."""
    trivial = (1.0, 0.0, 0.0, 1.0)[place - 1]

    def forget(graph: Graph) -> Graph:
        nodes = [node for node in graph.nodes if node.operator == "batch_norm_inference"]
        if not nodes:
            return graph
        name = nodes[0].inputs[place]
        constant = f"{name}.trivial"
        shape = graph.parameters[name].shape
        parameter = replace(graph.parameters[name], trainable=False)
        swapped = tuple(
            replace(node, inputs=tuple(constant if one == name else one for one in node.inputs))
            if node.operator == "batch_norm_inference"
            else node
            for node in graph.nodes
        )
        forgotten.update({constant: numpy.full(shape, trivial, "float32")})
        parameters = {**graph.parameters, constant: parameter}
        return replace(graph, nodes=swapped, parameters=parameters)

    forgotten: dict[str, Any] = {}

    class Forgetting(Altered):
        def inference(self, graph: Graph, values: Any) -> Call:
            other = forget(graph)
            return NumpyNetworks.inference(self, other, {**values, **forgotten})

    framework = Numpy()
    framework.networks = Forgetting()
    value = judge(framework, mine)
    assert value[OUTPUTS] > 1
    assert value[GRADIENTS] < 1


def test_a_node_that_the_whole_hides_is_seen(mine: str) -> None:
    def flip(graph: Graph, results: tuple[Any, ...]) -> tuple[Any, ...]:
        if not graph.name.endswith(" apart"):
            return results
        *others, last = results
        wrong = last.copy()
        wrong.flat[-1] *= -1
        return (*others, wrong)

    value = judge(altered(trained=flip), mine)
    assert value[GRADIENTS] < 1
    assert value[NODES] > 1


def test_varied_parameters_are_those_of_a_training_but_for_what_normalizes() -> None:
    graph = networks.build("resnet44", {"batch": 2, "side": 16})
    plain, varied = (
        make(graph, "bfloat16", 3) for make in (values.parameters, values.varied_parameters)
    )
    changed = {name for name in plain if not numpy.array_equal(plain[name], varied[name])}
    assert changed == {name for name in plain if name.startswith("batch_norm")}
    for name in changed:
        assert numpy.array_equal(operators.round_to(varied[name], "bfloat16"), varied[name])
        assert len(numpy.unique(varied[name])) > 8
        assert varied[name].min() > (0.4 if name.endswith(("weight", "variance")) else -0.6)
