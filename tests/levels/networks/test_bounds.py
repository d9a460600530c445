"""Bounds of networks: right results lie within, wrong ones beyond, and they are the same again."""

import subprocess
import sys
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy
import pytest
from numpy.typing import NDArray

from capsule.levels import networks
from capsule.levels.graphs import reference, values
from capsule.levels.graphs.bounds import Bounds, bounds
from capsule.levels.graphs.graph import Graph
from capsule.levels.graphs.reference import Formula, Step
from capsule.levels.operators import several
from capsule.levels.operators.rounding import Bilinear, Exact

Array = NDArray[Any]
Arrays = Mapping[str, Array]

Case = tuple[Graph, Arrays, Bounds]
"""A network, its inputs and parameters, and how far its results may be off."""

Results = tuple[Array, Array, Arrays]
"""Its outputs, its loss and its gradients."""

SMALL = {
    "lenet": {"batch": 2},
    "resnet44": {"batch": 2, "side": 16},
    "unet": {"batch": 2, "side": 16, "width": 4},
    "cosmoflow": {"batch": 2, "side": 8, "width": 4},
    "transformer": {"batch": 2},
}


@pytest.fixture(scope="module", params=SMALL)
def case(request: pytest.FixtureRequest) -> Case:
    graph = networks.build(request.param, SMALL[request.param])
    arrays = {**values.inputs(graph, "float32", 17), **values.parameters(graph, "float32", 17)}
    return graph, arrays, bounds(graph, arrays, "float32", 17)


def run(graph: Graph, arrays: Arrays, step: Step = reference.exactly) -> Results:
    """In the dtype of the arrays."""
    computed = reference.evaluate(graph.nodes, arrays, step)
    gradients = reference.differentiate(graph, arrays, computed, step)
    return computed[graph.outputs[0]], computed[graph.require_loss()], gradients


def ratios(case: Case, results: Results) -> tuple[float, float, float]:
    """Of the outputs, the loss, and the worst gradient."""
    graph, arrays, limits = case
    assert limits.loss is not None
    output, loss, gradients = results
    right = reference.forward(graph, arrays, "float32")
    due = reference.backward(graph, arrays, "float32")
    return (
        float(numpy.linalg.norm(output - right[graph.outputs[0]])) / limits.outputs[0],
        float(abs(loss - right[graph.require_loss()])) / limits.loss,
        max(
            float(numpy.linalg.norm(gradients[name] - due[name])) / limits.gradients[name]
            for name in graph.trainable
        ),
    )


class _Coarse(Exact):
    """Factors of products cut to `bits` significant ones, as faster arithmetic takes them."""

    def __init__(self, bits: int) -> None:
        self._bits = bits

    def bilinear(
        self, function: Bilinear, x: Array, y: Array, terms: int, passes: int = 0
    ) -> Array:
        product: Array = function(self._cut(x), self._cut(y))
        return product

    def _cut(self, x: Array) -> Array:
        significand, exponent = numpy.frexp(x)
        short = numpy.round(significand * 2**self._bits) / 2**self._bits
        cut: Array = numpy.ldexp(short, exponent)
        return cut


def coarse(bits: int) -> Step:
    calculator = _Coarse(bits)

    def step(label: str, function: Formula, *arrays: Array) -> tuple[Any, ...]:
        return several(function(calculator, *arrays))

    return step


def test_float32_stays_far_within(case: Case) -> None:
    graph, arrays, _ = case
    computed = run(graph, arrays)
    assert computed[0].dtype == numpy.float32
    assert max(ratios(case, computed)) < 0.1


def test_bounds_are_narrow_against_what_they_bound(case: Case) -> None:
    graph, arrays, limits = case
    assert limits.loss is not None
    right = reference.forward(graph, arrays, "float32")
    assert limits.outputs[0] < 3e-4 * numpy.linalg.norm(right[graph.outputs[0]])
    assert limits.loss < 1e-2 * abs(right[graph.require_loss()])


@pytest.mark.parametrize("bits", [8, 11], ids=["bfloat16", "tf32"])
def test_products_of_shortened_factors_lie_beyond(case: Case, bits: int) -> None:
    graph, arrays, _ = case
    output, _, gradient = ratios(case, run(graph, arrays, coarse(bits)))
    assert output > 1
    assert gradient > 1


@pytest.mark.parametrize("dtype", ["tf32", "bfloat16"])
def test_shortened_factors_are_right_where_the_dtype_says_so(case: Case, dtype: str) -> None:
    graph, _, _ = case
    arrays = {**values.inputs(graph, dtype, 17), **values.parameters(graph, dtype, 17)}
    limits = bounds(graph, arrays, dtype, 17)
    computed = run(graph, arrays, coarse(11 if dtype == "tf32" else 8))
    assert max(ratios((graph, arrays, limits), computed)) < 1


def test_a_gradient_left_out_lies_beyond(case: Case) -> None:
    graph, arrays, limits = case
    due = reference.backward(graph, arrays, "float32")
    unseen = [
        name for name in graph.trainable if numpy.linalg.norm(due[name]) <= limits.gradients[name]
    ]
    # a bias of the keys shifts all scores of a row alike: its gradient is 0
    keys = {"transformer": ["linear2.bias", "linear8.bias"]}
    assert unseen == keys.get(graph.name, [])


def faulty(graph: Graph, place: str, **changes: Any) -> Graph:
    """The graph with one node changed."""
    nodes = tuple(replace(node, **changes) if node.name == place else node for node in graph.nodes)
    return replace(graph, nodes=nodes)


def test_a_residual_dropped_lies_beyond() -> None:
    graph = networks.build("resnet44", SMALL["resnet44"])
    arrays = {**values.inputs(graph, "float32", 17), **values.parameters(graph, "float32", 17)}
    case = (graph, arrays, bounds(graph, arrays, "float32", 17))
    for suffix, index in ((".inference", 0), ("", 2)):
        node = next(node for node in graph.nodes if node.name == f"sum21{suffix}")
        alone = {"sizes": {**node.sizes, "count": 1}, "inputs": node.inputs[:1]}
        assert ratios(case, run(faulty(graph, node.name, **alone), arrays))[index] > 1


@pytest.mark.parametrize(
    ("name", "place", "sizes", "index"),
    [
        ("unet", "transpose1", {"axes": (0, 3, 2, 1)}, 1),
        ("transformer", "attention2", {"causal": 0}, 0),
        ("transformer", "gelu1", {"approximate": 0}, 0),
    ],
)
def test_a_wrong_axis_or_option_lies_beyond(
    name: str, place: str, sizes: Mapping[str, Any], index: int
) -> None:
    graph = networks.build(name, SMALL[name])
    arrays = {**values.inputs(graph, "float32", 17), **values.parameters(graph, "float32", 17)}
    case = (graph, arrays, bounds(graph, arrays, "float32", 17))
    node = next(node for node in graph.nodes if node.name == place)
    wrong = faulty(graph, place, sizes={**node.sizes, **sizes})
    assert ratios(case, run(wrong, arrays))[index] > 1


def test_bounds_are_the_same_again_and_in_another_process() -> None:
    graph = networks.build("transformer", {"batch": 2, "layers": 1})
    arrays = {**values.inputs(graph, "float32", 5), **values.parameters(graph, "float32", 5)}
    limits = bounds(graph, arrays, "float32", 5)
    assert bounds(graph, arrays, "float32", 5) == limits
    assert bounds(graph, arrays, "float32", 6) != limits
    script = (
        "from capsule.levels import networks\n"
        "from capsule.levels.graphs import bounds, values\n"
        "graph = networks.build('transformer', {'batch': 2, 'layers': 1})\n"
        "arrays = values.inputs(graph, 'float32', 5)\n"
        "arrays.update(values.parameters(graph, 'float32', 5))\n"
        "print(repr(bounds.bounds(graph, arrays, 'float32', 5)))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == repr(limits)


def test_a_network_without_a_loss_has_bounds_of_its_outputs_alone() -> None:
    g = networks.Builder("mine")
    graph = g.graph(g.relu(g.linear(g.input("x", (4, 8)), 3)))
    arrays = {**values.inputs(graph, "float16", 5), **values.parameters(graph, "float16", 5)}
    limits = bounds(graph, arrays, "float16", 5)
    assert limits.outputs[0] > 0
    assert (limits.loss, limits.gradients) == (None, {})


def test_a_kink_within_reach_of_rounding_is_covered_whatever_the_seed() -> None:
    g = networks.Builder("mine")
    x = g.parameter("x", (1, 2), value=numpy.ones((1, 2)), trainable=False)
    weight = g.parameter("w", (1, 2), value=numpy.array([[1, 2.0**-24 - 1]]))
    y = g.relu(g.linear(x, 1, bias=False, weight=weight))
    graph = g.graph([y], loss=g.mean_squared_error(y, g.input("target", (1, 1))))
    for seed in range(30):
        arrays = {
            **values.inputs(graph, "float32", seed),
            **values.parameters(graph, "float32", seed),
        }
        (due,) = reference.backward(graph, arrays, "float32").values()
        # summed the other way round, or in fewer bits, the relu is closed and the gradient 0
        assert bounds(graph, arrays, "float32", seed).gradients["w"] > numpy.linalg.norm(due) > 0
