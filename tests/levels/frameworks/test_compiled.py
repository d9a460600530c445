"""torch.compile of whole networks; it needs a C++ compiler."""

import pytest

from capsule.levels import frameworks
from capsule.levels.graphs import reference
from capsule.levels.networks import Builder
from tests.support.capabilities import inference, training
from tests.support.compiler import needs_compiler
from tests.support.networks import distance, ran, tensors

pytest.importorskip("torch")
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


def test_there_are_no_single_operations_and_the_compiler_is_recorded() -> None:
    framework = frameworks.load("torch-compile", "cpu", 1, "default")
    assert framework.operators is None
    settings = framework.settings()
    assert settings["backend"] == "inductor"
    assert "compiler" not in settings["missing"]
    assert settings["compiler"]
