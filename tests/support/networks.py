"""Small forms of the named networks, and how a framework runs them."""

import numpy

from capsule.levels.graphs import values

NETWORKS = {
    "lenet": {"batch": 2},
    "resnet44": {"batch": 2, "side": 8},
    "transformer": {
        "batch": 2,
        "length": 8,
        "layers": 2,
        "width": 32,
        "heads": 4,
        "vocabulary": 50,
    },
}


def tensors(framework, graph, dtype):
    arrays = {**values.inputs(graph, dtype, 17), **values.parameters(graph, dtype, 17)}
    return arrays, {name: framework.from_numpy(array, dtype) for name, array in arrays.items()}


def ran(framework, call):
    function, arguments = call
    return [framework.to_numpy(tensor) for tensor in function(*arguments)]


def distance(results, right):
    """Of each array over the largest norm of its kind, so that gradients of 0 do not divide."""
    most = max(numpy.linalg.norm(array) for array in right)
    return max(
        float(numpy.linalg.norm(one.astype("float64") - other)) / most
        for one, other in zip(results, right, strict=True)
    )
