"""A step of a network node by node: each held to its own a-priori bound, in the trial's own dtype.

How far a whole network's step may be off cannot be told from rounding where the network is deep.
So every node is run by itself, forward and backward, with the reference's inputs and upstream
gradient rounded to the dtype. The bounds of nodes are those of `graphs.bounds` in the L2 norm, and
of each element those of `operators.likely`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ..frameworks import Framework
from ..frameworks.base import Networks, require
from ..graphs import apart
from ..graphs.bounds import calculator
from ..graphs.graph import Graph
from ..graphs.reference import BACKWARD, Formula
from ..operators import ARITHMETIC, EXACT, Due, round_to, several
from ..operators.likely import PerElement
from .errors import worst_element, worst_ratio

ARRAYS = 10
"""Float64 arrays per value and parameter of the network, at once: measured on CosmoFlow."""

Arrays = Mapping[str, Any]


@dataclass(frozen=True)
class Held:
    """Error of a result, with its limit.

    Attributes:
        ratio: The largest error over its bound.
        share: The bound over the size of what it bounds.
        element: The largest error of an element over its own bound, 0 where none was recorded.
    """

    ratio: float
    share: float
    element: float = 0.0


@dataclass(frozen=True)
class _NodeDue:
    """Reference of one node's forward or backward run.

    Attributes:
        operands: As the framework gets them; of a backward run the upstream gradient alone.
        values: The right results.
        bounds: The largest right L2 norm of the error of each.
        errors: How far each element may be off; None where that is not recorded.
    """

    operands: tuple[Any, ...]
    values: tuple[Any, ...]
    bounds: tuple[float, ...]
    errors: tuple[Any, ...] | None = None


class Record:
    """A step of `graphs.reference` that keeps what is due of it with operands in a dtype.

    Attributes:
        dtype: A key of `ARITHMETIC`.
        due: By the labels of `graphs.reference`.
    """

    def __init__(self, dtype: str, *, per_element: bool = False) -> None:
        """Record nothing yet.

        Args:
            dtype: A key of `ARITHMETIC`.
            per_element: True if each element is bounded too.
        """
        import numpy

        self.dtype = dtype
        self.due: dict[str, _NodeDue] = {}
        self._calculator = calculator(dtype)
        arithmetic = ARITHMETIC[dtype]
        extra = float(numpy.finfo(arithmetic.wider).eps) / 2
        self._elements = PerElement(arithmetic, extra) if per_element else None

    def __call__(self, label: str, function: Formula, *arrays: Any) -> tuple[Any, ...]:
        """Return the results in float64, of the arrays as they are."""
        results = several(function(EXACT, *arrays))
        if any(array.dtype.kind == "f" for array in arrays):
            operands = tuple(
                round_to(array, self.dtype) if array.dtype.kind == "f" else array
                for array in arrays
            )
            due = self._find(function, operands)
            # the others are those of the forward run
            kept = operands[:1] if label.endswith(BACKWARD) else operands
            self.due[label] = replace(due, operands=kept)
        return results

    def _find(self, function: Formula, operands: tuple[Any, ...]) -> _NodeDue:
        import numpy

        wider = ARITHMETIC[self.dtype].wider
        wide = [array.astype(wider) if array.dtype.kind == "f" else array for array in operands]
        try:
            rounded = self._follow(self._calculator, function, operands)
            bounded = self._follow(self._elements, function, operands) if self._elements else None
        except ValueError:
            # a divisor may be 0: whatever comes is within no bound
            values = several(function(EXACT, *wide))
            limits = (float("inf"),) * len(values)
            return _NodeDue(operands, values, limits, limits if self._elements else None)
        norms = tuple(float(numpy.linalg.norm(result.error)) for result in rounded)
        errors = None if bounded is None else tuple(result.error for result in bounded)
        if wider == "float64":
            return _NodeDue(operands, tuple(result.value for result in rounded), norms, errors)
        return _NodeDue(operands, several(function(EXACT, *wide)), norms, errors)

    @staticmethod
    def _follow(c: Any, function: Formula, operands: tuple[Any, ...]) -> tuple[Any, ...]:
        entered = (c.enter(array) if array.dtype.kind == "f" else array for array in operands)
        return several(function(c, *entered))


def hold_nodes(framework: Framework, graph: Graph, inputs: Arrays, record: Record) -> Held:
    """Run every node by itself, forward and backward.

    Args:
        framework: Where.
        graph: The network.
        inputs: Inputs of the step, by name.
        record: Record of the same step of the reference.

    Returns:
        The largest ratio of all nodes; the share is that of the gradients by trained parameters,
        all together.

    Raises:
        FrameworkError: The framework lacks an operator of the network.
    """
    pieces = apart.take_apart(graph)
    values = {name: inputs[name] for name in pieces.inputs if name in inputs}
    due: dict[str, tuple[Any, float, Any]] = {}
    last = []
    for node in graph.training:
        forward = record.due[node.name]
        due[node.name] = _pick(forward, 0)
        values.update(
            (apart.operand(node.name, place), array) for place, array in enumerate(forward.operands)
        )
    reads = {node.name: node.inputs for node in graph.training}
    for name, places in apart.gradients(graph):
        backward = record.due[name + BACKWARD]
        values[apart.upstream(name)] = backward.operands[0].reshape(-1, 1)
        for at, place in places.items():
            own = apart.operand(name, place)
            due[own] = _pick(backward, at)
            if reads[name][place] in graph.trainable:
                last.append(due[own])
    reached = _run(framework, pieces, values, record.dtype)
    pairs = [due[name] for name in reached]
    results = tuple(reached.values())
    values_due, bounds, errors = zip(*pairs)
    ratio = worst_ratio(results, values_due, bounds)
    element = 0.0
    if errors[0] is not None:
        element = worst_element(results, tuple(map(Due, values_due, errors)))
    share = measure_share([bound for _, bound, _ in last], [value for value, _, _ in last])
    return Held(ratio, share, element)


def _pick(due: _NodeDue, at: int) -> tuple[Any, float, Any]:
    """Select one result: reference, bound of its norm, and bounds of its elements."""
    return due.values[at], due.bounds[at], due.errors and due.errors[at]


def _run(framework: Framework, pieces: Graph, values: Arrays, dtype: str) -> dict[str, Any]:
    """Return the values of all nodes, and all gradients, as arrays by name."""
    networks = find_networks(framework)
    placed = place(framework, values, values, dtype)
    call, operands = networks.inference(pieces, placed)
    reached = dict(zip(pieces.outputs, call(*operands)))
    train = require(networks.training, framework.name, "differentiate")
    call, operands = train(pieces, placed)
    reached.update(zip(pieces.trainable, call(*operands)[1:]))
    return {name: framework.to_numpy(tensor) for name, tensor in reached.items()}


def place(framework: Framework, arrays: Arrays, names: Iterable[str], dtype: str) -> dict[str, Any]:
    """Return some of the arrays on the device, by name."""
    import numpy

    # rounding to 16 bits makes a scalar of an array without axes
    return {name: framework.from_numpy(numpy.asarray(arrays[name]), dtype) for name in names}


def find_networks(framework: Framework) -> Networks:
    """Return the framework's runner of networks.

    Raises:
        FrameworkError: It does not.
    """
    return require(framework.networks, framework.name, "run networks")


def measure_share(bounds: Sequence[float], values: Sequence[Any]) -> float:
    """Return all bounds together over the size of all values, infinite over nothing."""
    bound, size = math.hypot(*bounds), measure_size(values)
    return bound / size if size else float("inf")


def measure_size(arrays: Iterable[Any]) -> float:
    """Return the L2 norm of all arrays together."""
    import numpy

    return math.hypot(*(float(numpy.linalg.norm(array)) for array in arrays))
