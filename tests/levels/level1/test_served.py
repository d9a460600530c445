"""Networks that are served: what is reported, and that answers are those of their queries."""

from collections.abc import Mapping
from typing import Any

import pytest

from capsule.levels import catalog
from capsule.levels.catalog import serving
from capsule.levels.frameworks.base import Call
from capsule.levels.frameworks.numpy import Numpy
from capsule.levels.frameworks.numpy.networks import NumpyNetworks
from capsule.levels.graphs.graph import Graph
from tests.support import trials

LENET: dict[str, Any] = {"network": "lenet", "parameters": {"batch": 2, "side": 12}}
CALLS = {"repetitions": 2, "warmup": 1}


class Keeping(NumpyNetworks):
    """The second time that a whole network is made ready, its first answer is kept for all."""

    def __init__(self) -> None:
        self.made = 0

    def inference(self, graph: Graph, values: Mapping[str, Any]) -> Call:
        run, operands = super().inference(graph, values)
        if len(graph.inference) == 1:
            return run, operands
        self.made += 1
        if self.made != 2:
            return run, operands
        answers: list[Any] = []

        def answer() -> Any:
            if not answers:
                answers.append(tuple(one.copy() for one in run()))
            return answers[0]

        return answer, operands


@pytest.mark.parametrize("scenario", serving.SCENARIOS)
def test_what_is_due_of_a_scenario_is_reported(scenario: str) -> None:
    how = {"scenario": scenario, "queries": 7, **({"rate": 1e5} if scenario == "server" else {})}
    lines = trials.measure(Numpy(), **LENET, **CALLS, serving=how)
    due = catalog.due(catalog.NETWORKS["lenet"], "numpy", "cpu")
    besides = serving.METRICS[scenario]
    assert set(lines) == {metric.name for metric in (*due, *besides)}
    for metric in besides:
        assert len(lines[metric.name].values) == (7 if metric.per == "call" else 1)
    assert lines["l2_error_ratio"].values[0] <= 1


@pytest.mark.parametrize("queries", [2, 3])
def test_an_answer_that_was_kept_is_no_answer(queries: int) -> None:
    framework = Numpy()
    framework.networks = Keeping()
    how = {"scenario": "single-stream", "queries": queries}
    lines = trials.measure(framework, **LENET, **CALLS, serving=how)
    assert lines["l2_error_ratio"].values[0] > 1
