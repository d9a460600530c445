"""torch.compile of operators and of whole networks; it needs a C++ compiler."""

import pytest

from capsule.levels import frameworks
from capsule.levels.graphs import reference
from capsule.levels.networks import Builder
from tests.support import trials
from tests.support.capabilities import inference, training
from tests.support.compiler import needs_compiler
from tests.support.networks import distance, ran, tensors

pytest.importorskip("torch")
counters = pytest.importorskip("torch._dynamo.utils").counters
pytestmark = [
    needs_compiler,
    # torch's own compiler uses what torch calls deprecated
    pytest.mark.filterwarnings("ignore::DeprecationWarning:torch"),
    pytest.mark.filterwarnings("ignore:.torch.jit:DeprecationWarning"),
]


def test_outputs_loss_and_gradients_are_the_references() -> None:
    g = Builder("small")
    x = g.linear(g.relu(g.input("x", (4, 8))), 6)
    graph = g.graph([x], loss=g.softmax_cross_entropy(x, g.labels("label", 4, 6)))
    framework = frameworks.load("torch-compile", "cpu", 1, "default")
    arrays, native = tensors(framework, graph, "float32")
    right = reference.forward(graph, arrays, "float32")
    gradients = reference.backward(graph, arrays, "float32")
    outputs = ran(framework, inference(framework, graph, native))
    assert distance(outputs, [right[name] for name in graph.outputs]) < 1e-6
    call = training(framework, graph, native)
    for _ in range(2):
        loss, *by = ran(framework, call)
        assert abs(loss - right[graph.require_loss()]) < 1e-6
        assert distance(by, list(gradients.values())) < 1e-6


def test_an_operator_is_compiled_before_it_is_timed_and_held_to_its_bounds() -> None:
    framework = frameworks.load("torch-compile", "cpu", 1, "default")
    counters.clear()
    values = trials.values(framework, operator="gemm", parameters={"m": 2, "n": 3, "k": 4})
    # forward, and forward with gradients, of the case and of odd sizes: nothing that is timed
    assert counters["stats"]["unique_graphs"] == 4
    for metric in ("element_error_ratio", "grad_element_error_ratio", "gradient_check"):
        assert values[metric][0] <= 1
    assert values["repeatable"] == (1.0,)


def test_the_compiler_is_recorded() -> None:
    framework = frameworks.load("torch-compile", "cpu", 1, "default")
    settings = framework.settings()
    assert settings["backend"] == "inductor"
    assert "compiler" not in settings["missing"]
    assert settings["compiler"]
