"""Time each node of a network on its own, with the values that reach it in the network."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from statistics import median
from typing import Any

from ..frameworks import Framework
from ..frameworks.base import require
from ..graphs import structure
from ..graphs.graph import Graph, Input, Node
from ..instruments.between import Before
from ..instruments.calls import time
from ..operators import several


def seconds(
    graph: Graph,
    values: Mapping[str, Any],
    framework: Framework,
    dtype: str,
    calls: int,
    before: Before = None,
) -> list[float]:
    """Median seconds of stand-alone calls of each node of `graph.inference`, in order.

    Each node runs as a network of its own (by `Networks.alone`), once to yield the value that the
    next ones take (which compiles it, too), then `calls` times; nodes that differ in nothing but
    their operands are one network, compiled once. A value is let go of with its last reader.

    Args:
        graph: The network.
        values: Tensors of all inputs and parameters, by name.
        framework: Where it runs.
        dtype: Of the values.
        calls: Timed calls of each node, at least 1.
        before: See `instruments.between`.
    """
    native = require(framework.networks, framework.name, "run networks")
    nodes = graph.inference
    last = {name: place for place, node in enumerate(nodes) for name in node.inputs}
    results: dict[str, Any] = {}
    kinds: dict[Any, Graph] = {}
    medians = []
    for place, node in enumerate(nodes):
        own = alone(graph, node)
        kind = kinds.setdefault(_kind(own), own)
        operands = {
            called: results[name] if name in results else values[name]
            for name, called in zip(node.inputs, kind.nodes[0].inputs)
        }
        call, arguments = native.alone(kind, operands)
        (result,) = several(call(*arguments))
        # some frameworks yield other types than they take
        results[node.name] = framework.from_numpy(framework.to_numpy(result), dtype)
        del result
        medians.append(median(time(framework, call, arguments, calls, before)[0]))
        for name in {node.name, *node.inputs} & set(results):
            if last.get(name, place) == place:
                del results[name]
    return medians


def alone(graph: Graph, node: Node) -> Graph:
    """A network of one node; what other nodes yield becomes an input."""
    shapes = {other.name: other.shape for other in graph.nodes}
    inputs = [name for name in node.inputs if name not in graph.parameters]
    return Graph(
        node.name,
        {name: graph.inputs.get(name) or Input(shapes[name]) for name in inputs},
        {name: graph.parameters[name] for name in node.inputs if name in graph.parameters},
        (node,),
        (node.name,),
        None,
    )


def _kind(single: Graph) -> Hashable:
    """What networks of one node have in common that run alike whatever they are given."""
    (node,) = single.nodes
    if node.operator == structure.ONNX:
        return node.name
    names = tuple(dict.fromkeys(node.inputs))
    tensors = tuple(single.inputs.get(name) or single.parameters[name].shape for name in names)
    places = tuple(map(names.index, node.inputs))
    return node.operator, repr(sorted(node.sizes.items())), node.shape, node.type, places, tensors
