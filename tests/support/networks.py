"""Small forms of the named networks, and how a framework runs them."""

from collections.abc import Sequence
from typing import Any

import numpy
from numpy.typing import NDArray

from capsule.levels.frameworks.base import Call, Framework, NativeTensor
from capsule.levels.graphs import values
from capsule.levels.graphs.graph import Graph

Arrays = Sequence[NDArray[Any]]

NETWORKS = {
    "lenet": {"batch": 2},
    "resnet44": {"batch": 2, "side": 8},
    "cosmoflow": {"batch": 2, "side": 8, "width": 3},
    "transformer": {
        "batch": 2,
        "length": 8,
        "layers": 2,
        "width": 32,
        "heads": 4,
        "vocabulary": 50,
    },
}


def tensors(
    framework: Framework, graph: Graph, dtype: str
) -> tuple[dict[str, NDArray[Any]], dict[str, NativeTensor]]:
    arrays = {**values.inputs(graph, dtype, 17), **values.parameters(graph, dtype, 17)}
    return arrays, {name: framework.from_numpy(array, dtype) for name, array in arrays.items()}


def ran(framework: Framework, call: Call) -> list[NDArray[Any]]:
    function, arguments = call
    return [framework.to_numpy(tensor) for tensor in function(*arguments)]


def distance(results: Arrays, right: Arrays) -> float:
    """Of each array over the largest norm of its kind, so that gradients of 0 do not divide."""
    most = max(numpy.linalg.norm(array) for array in right)
    distances = [
        float(numpy.linalg.norm(one.astype("float64") - other)) / most
        for one, other in zip(results, right, strict=True)
    ]
    return float(max(distances))
