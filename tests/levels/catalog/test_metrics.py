"""What the catalogue says of a metric's several values is what trials yield."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from capsule.levels import catalog, networks
from capsule.levels.graphs import reference
from tests.support import journals

LENET: dict[str, Any] = {"batch": 2, "side": 12}


def counts(nodes: int) -> dict[str, int]:
    """How many values three timed calls after one to warm up yield."""
    return {"call": 4, "trial": 1, "node": nodes}


@pytest.mark.parametrize(
    ("level", "name", "parameters"),
    [
        (0, "gemm", {"m": 20, "n": 10, "k": 5}),
        (0, "embedding", {"rows": 9, "width": 5, "count": 3}),
    ],
)
def test_a_trial_of_an_operator_has_one_value_per_what_its_metrics_say(
    tmp_path: Path, level: int, name: str, parameters: Mapping[str, Any]
) -> None:
    (ended,) = journals.run(tmp_path, "numpy", [journals.trial(level, name, **parameters)]).values()
    assert ended.reason is None, ended.message
    metrics = catalog.due(catalog.OPERATORS[name], "numpy", "cpu")
    assert set(ended.values) == {metric.name for metric in metrics}
    for metric in metrics:
        if metric.per == "block":
            assert metric.name == "error_heatmap"
            assert 1 < len(ended.values[metric.name]) <= 64
        else:
            assert len(ended.values[metric.name]) == counts(0)[metric.per], metric


def test_a_trial_of_a_network_has_one_value_per_what_its_metrics_say(tmp_path: Path) -> None:
    (ended,) = journals.run(tmp_path, "numpy", [journals.trial(1, "lenet", **LENET)]).values()
    assert ended.reason is None, ended.message
    graph = networks.build("lenet", LENET)
    nodes, back = len(graph.inference), len(reference.backward_order(graph))
    assert 4 < nodes < back  # the loss is one more
    metrics = catalog.due(catalog.NETWORKS["lenet"], "numpy", "cpu")
    assert {metric.per for metric in metrics} == {"call", "trial", "node"}
    for metric in metrics:
        due = counts(back if metric.name == "layer_backward_time" else nodes)
        assert len(ended.values[metric.name]) == due[metric.per], metric


def test_what_is_measured_of_each_call_is_a_time_or_a_rate() -> None:
    for metric in (*catalog.OPERATOR_METRICS, *catalog.NETWORK_METRICS):
        # what is compiled is compiled once
        of_calls = (metric.unit == "s" and metric.name != "compile_time") or metric.unit.endswith(
            "/s"
        )
        assert (metric.per in ("call", "node")) is of_calls, metric
