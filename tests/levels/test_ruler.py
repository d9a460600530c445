"""The number of the rules of bounds, which is to change with every change of them.

python -m tests.levels.test_ruler       writes what is expected of the present rules
"""

import json
from pathlib import Path
from typing import Any

import numpy
import pytest

from capsule.levels import catalog, networks
from capsule.levels.catalog.ruler import RULED, RULER
from capsule.levels.graphs import bounds, values
from capsule.levels.operators import base, load
from tests.support.networks import NETWORKS

KEPT = Path(__file__).parents[1] / "data" / "ruler.json"
# what two machines differ by in sums of float64
TOLERANCE = 1e-6


def of_operator(name: str, dtype: str) -> list[float]:
    """Bounds of norms, and the sums of those of elements, forward and backward."""
    operator = load(name)
    ((_, point),) = catalog.OPERATORS[name].cases["odd"]
    sizes = catalog.OPERATORS[name].complete(point)
    inputs = operator.inputs(sizes, dtype, 17)
    upstream = operator.upstream(sizes, dtype, 17)
    arguments = operator, sizes, inputs
    elements = (
        *base.due(*arguments, dtype),
        *base.due_gradients(*arguments, upstream, dtype),
    )
    norms = (
        *base.bounds(*arguments, dtype),
        *base.gradient_bounds(*arguments, upstream, dtype),
    )
    return [*norms, *(float(numpy.sum(one.error)) for one in elements)]


def of_network(name: str, dtype: str) -> list[float]:
    graph = networks.build(name, NETWORKS[name])
    arrays = {**values.inputs(graph, dtype, 17), **values.parameters(graph, dtype, 17)}
    limits = bounds.bounds(graph, arrays, dtype, 17)
    assert limits.loss is not None
    return [*limits.outputs, limits.loss, *limits.gradients.values()]


def measure() -> dict[str, Any]:
    kept: dict[str, Any] = {"ruler": RULER}
    for name, operator in catalog.OPERATORS.items():
        for dtype in ("float32", "bfloat16"):
            if dtype in operator.dtypes and "odd" in operator.cases:
                kept[f"{name}/{dtype}"] = of_operator(name, dtype)
    kept["lenet/float32"] = of_network("lenet", "float32")
    return kept


def test_the_rules_of_bounds_are_those_of_their_number() -> None:
    kept, now = json.loads(KEPT.read_text()), measure()
    moved = [
        name
        for name in kept.keys() & now.keys() - {"ruler"}
        if now[name] != pytest.approx(kept[name], rel=TOLERANCE, abs=0)
    ]
    assert not moved, (
        "bounds have changed: raise RULER in capsule/levels/catalog/ruler.py, then run"
        " python -m tests.levels.test_ruler"
    )
    assert now["ruler"] == kept["ruler"]
    # an operator that is new has been kept too
    assert now.keys() == kept.keys()


def test_every_ruled_metric_is_one_of_the_catalogue() -> None:
    known = {facts.name for subject in catalog.SUBJECTS.values() for facts in subject.metrics}
    assert RULED - known == {"node_error_ratio"}  # of trainings and of modules


if __name__ == "__main__":
    rows = (f"{json.dumps(name)}: {json.dumps(value)}" for name, value in measure().items())
    KEPT.write_text("{\n" + ",\n".join(rows) + "\n}\n")
