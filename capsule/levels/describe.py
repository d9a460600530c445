"""Facts derived from a network's graph, without running it and without a framework."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from math import prod

from . import networks
from .graphs import structure


def main(name: str, sizes: str) -> int:
    """Print the description of a network as one JSON object.

    Args:
        name: As in the catalogue.
        sizes: `batch`, and any of its options, as a JSON object.

    Returns:
        The exit status: 2 where there is no such network, or the sizes are wrong.
    """
    try:
        description = describe(name, json.loads(sizes))
    except ValueError as error:
        sys.stderr.write(f"{error}\n")
        return 2
    sys.stdout.write(json.dumps(description) + "\n")
    return 0


def describe(name: str, sizes: Mapping[str, int]) -> dict[str, object]:
    """Return a network of the catalogue as JSON values.

    Returns:
        `parameters`, how many numbers are trained; `forward_flops_per_sample`, of inference, as
        each operator counts them; `inputs`, shapes by name, the loss's included; `outputs`, shapes.

    Raises:
        ValueError: There is no such network, or the sizes are wrong.
    """
    graph = networks.build(name, sizes)
    shapes = {node.name: node.shape for node in graph.nodes}
    one = networks.build(name, {**sizes, "batch": 1})
    return {
        "parameters": sum(prod(graph.parameters[weight].shape) for weight in graph.trainable),
        "forward_flops_per_sample": sum(
            structure.load(node.operator).flops(node.sizes) for node in one.inference
        ),
        "inputs": {key: tensor.shape for key, tensor in graph.inputs.items()},
        "outputs": [shapes[output] for output in graph.outputs],
    }
