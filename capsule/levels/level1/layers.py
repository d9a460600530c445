"""Time each node of a network on its own, with the values that reach it in the network.

Of a node the network's own operation is timed, forward with what it reads, backward for a gradient
of the size of what it yields: how long it takes does not depend on more.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Callable

from ..frameworks import Framework
from ..frameworks.base import Call, require
from ..graphs import reference, structure
from ..graphs.graph import Graph, Input, Node, Parameter
from ..instruments import between
from ..instruments.between import Before
from ..instruments.calls import typical
from ..operators import several
from .microbatch import Part
from .prepared import Prepared

Clock = Callable[[Call], float]
Seconds = Callable[[Graph, Mapping[str, Any], Framework, str, Clock], "list[float]"]
"""See `forward`."""


def measure(trial: Prepared, parts: Sequence[Part], seconds: Seconds) -> tuple[float, ...]:
    """Return seconds of each node, of all parts of a minibatch together.

    Args:
        trial: Says how often, and where.
        parts: Parts of one minibatch.
        seconds: `forward` or `backward`.
    """
    calls = trial.calls - trial.warmup
    firsts = {id(part.graph): part for part in parts}
    counts = Counter(id(part.graph) for part in parts)
    cold = [word for word in trial.conditions if word == "cold"]
    clock = make_clock(trial.framework, calls, between.prepare(cold, calls, int, trial.framework))
    totals: list[float] = []
    for key, part in firsts.items():
        tensors = trial.place(part)
        of_part = seconds(part.graph, tensors, trial.framework, trial.dtype, clock)
        weighed = [counts[key] * more for more in of_part]
        totals = [one + more for one, more in zip(totals, weighed)] if totals else weighed
    return tuple(totals)


def make_clock(framework: Framework, calls: int, before: Before = None) -> Clock:
    """Return a function for the median seconds of a call; see `instruments.calls.typical`."""

    def clock(call: Call) -> float:
        return typical(framework, *call, calls, before)

    return clock


def forward(
    graph: Graph, values: Mapping[str, Any], framework: Framework, dtype: str, clock: Clock
) -> list[float]:
    """Return median seconds of stand-alone calls of each node of `graph.inference`, in order.

    Each node runs as a network of its own (by `Networks.alone`), once to yield the value that the
    next ones take (which compiles it, too), and then timed; nodes that differ in nothing but their
    operands are one network, compiled once. A value is let go of with its last reader.

    Args:
        graph: The network.
        values: Tensors of all inputs and parameters, by name.
        framework: Where it runs.
        dtype: Element type of the values.
        clock: Times a call.
    """

    def run(node: Node, call: Call, operands: Mapping[str, Any], result: Any) -> float:  # noqa: ARG001
        return clock(call)

    return _go_through(graph, graph.inference, values, framework, dtype, run)


def backward(
    graph: Graph, values: Mapping[str, Any], framework: Framework, dtype: str, clock: Clock
) -> list[float]:
    """Return median seconds of the backward calls of each node of `graph.training` that has one,
    in order.

    As `forward`, by `Networks.backward`; the gradient that arrives is what the node yields.
    """
    networks = require(framework.networks, framework.name, "run networks")
    differentiate = require(networks.backward, framework.name, "differentiate nodes")
    passed = {node.name: names for node, names in reference.backward_order(graph)}

    def run(node: Node, call: Call, operands: Mapping[str, Any], result: Any) -> float | None:  # noqa: ARG001
        if node.name not in passed:
            return None
        single = _separate(graph, node, passed[node.name])
        return clock(differentiate(single, operands, result))

    return _go_through(graph, graph.training, values, framework, dtype, run)


def _go_through(
    graph: Graph,
    nodes: Sequence[Node],
    values: Mapping[str, Any],
    framework: Framework,
    dtype: str,
    run: Callable[[Node, Call, Mapping[str, Any], Any], float | None],
) -> list[float]:
    """Apply `run` to each node, its call, its inputs by name and its outputs."""
    native = require(framework.networks, framework.name, "run networks")
    last = {name: place for place, node in enumerate(nodes) for name in node.inputs}
    results: dict[str, Any] = {}
    kinds: dict[Any, Graph] = {}
    measured = []
    for place, node in enumerate(nodes):
        own = alone(graph, node)
        kind = kinds.setdefault(_kind(own), own)
        operands = {
            name: results[name] if name in results else values[name] for name in node.inputs
        }
        called = {other: operands[name] for name, other in zip(node.inputs, kind.nodes[0].inputs)}
        call = native.alone(kind, called)
        (result,) = several(call[0](*call[1]))
        # some frameworks yield other types than they take
        results[node.name] = framework.from_numpy(framework.to_numpy(result), dtype)
        del result
        measured.append(run(node, call, operands, results[node.name]))
        for name in {node.name, *node.inputs} & set(results):
            if last.get(name, place) == place:
                del results[name]
    return [seconds for seconds in measured if seconds is not None]


def alone(graph: Graph, node: Node) -> Graph:
    """Return a network of one node; what other nodes yield becomes an input."""
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


def _separate(graph: Graph, node: Node, passed: set[str]) -> Graph:
    """Return the same, with what a gradient goes on to as its parameters."""
    single = alone(graph, node)
    shapes = {name: tensor.shape for name, tensor in single.parameters.items()}
    shapes.update({name: tensor.shape for name, tensor in single.inputs.items()})
    others = {name: Input(shapes[name]) for name in node.inputs if name not in passed}
    others.update({name: one for name, one in single.inputs.items() if name in others})
    parameters = {name: Parameter(shapes[name]) for name in node.inputs if name in passed}
    return replace(single, inputs=others, parameters=parameters)


def _kind(single: Graph) -> Hashable:
    """Return a key that is equal for nodes that run alike for any input."""
    (node,) = single.nodes
    if node.operator == structure.ONNX:
        return node.name
    names = tuple(dict.fromkeys(node.inputs))
    tensors = tuple(single.inputs.get(name) or single.parameters[name].shape for name in names)
    places = tuple(map(names.index, node.inputs))
    return node.operator, repr(sorted(node.sizes.items())), node.shape, node.type, places, tensors
