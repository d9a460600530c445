"""A training step node by node: each held to its own a-priori bound, in the trial's own dtype.

How far a whole network's step may be off cannot be told from rounding where the network is deep.
So every node is run by itself, forward and backward, with the reference's inputs and upstream
gradient rounded to the dtype, and the optimizer likewise with the reference's gradients. The bounds
of nodes are those of `graphs.bounds`. With u the unit roundoff of the dtype, the parameters p after
some steps of the optimizer may be off, in the L2 norm over all of them, by

    the sum over the steps of   u |p| + ROUNDINGS u |change of p in the step| / (1 - b)

where b is the largest number of the optimizer by which a moving average forgets, and 1 - b is what
it divides by.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ..catalog.training import Numbers
from ..frameworks import Framework
from ..frameworks.base import Networks, require
from ..graphs import apart
from ..graphs.bounds import calculator
from ..graphs.graph import Graph
from ..graphs.reference import BACKWARD, Formula
from ..graphs.values import round_to
from ..instruments.errors import worst_ratio
from ..operators import ARITHMETIC, EXACT, several
from ..optimizers import Optimizer

ROUNDINGS = 16
"""Of an element in one step of an optimizer, with those of its numbers: Adam has the most."""

ARRAYS = 10
"""Of float64 per value and parameter of the network, at once: measured on CosmoFlow."""

_FORGETTING = ("beta1", "beta2", "alpha", "momentum")

Arrays = Mapping[str, Any]


@dataclass(frozen=True)
class Held:
    """How far off something is, and may be.

    Attributes:
        ratio: The largest error over its bound.
        share: The bound over the size of what it bounds.
    """

    ratio: float
    share: float


@dataclass(frozen=True)
class _Due:
    """What is due of a node's forward or backward run by itself.

    Attributes:
        operands: As the framework gets them; of a backward run the upstream gradient alone.
        values: The right results.
        bounds: The largest right L2 norm of the error of each.
    """

    operands: tuple[Any, ...]
    values: tuple[Any, ...]
    bounds: tuple[float, ...]


class Record:
    """A step of `graphs.reference` that keeps what is due of it with operands in a dtype.

    Attributes:
        dtype: A key of `ARITHMETIC`.
        due: By the labels of `graphs.reference`.
    """

    def __init__(self, dtype: str) -> None:
        self.dtype = dtype
        self.due: dict[str, _Due] = {}
        self._calculator = calculator(dtype)

    def __call__(self, label: str, function: Formula, *arrays: Any) -> tuple[Any, ...]:
        """The results in float64, of the arrays as they are."""
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

    def _find(self, function: Formula, operands: tuple[Any, ...]) -> _Due:
        import numpy

        wider = ARITHMETIC[self.dtype].wider
        wide = [array.astype(wider) if array.dtype.kind == "f" else array for array in operands]
        c = self._calculator
        try:
            entered = (c.enter(array) if array.dtype.kind == "f" else array for array in operands)
            rounded = several(function(c, *entered))
        except ValueError:
            # a divisor may be 0: whatever comes is within no bound
            values = several(function(EXACT, *wide))
            return _Due(operands, values, (float("inf"),) * len(values))
        norms = tuple(float(numpy.linalg.norm(result.error)) for result in rounded)
        if wider == "float64":
            return _Due(operands, tuple(result.value for result in rounded), norms)
        return _Due(operands, several(function(EXACT, *wide)), norms)


def hold_nodes(framework: Framework, graph: Graph, inputs: Arrays, record: Record) -> Held:
    """Run every node by itself, forward and backward.

    Args:
        framework: Where.
        graph: The network.
        inputs: Of the step, by name.
        record: Of the same step of the reference.

    Returns:
        The largest ratio of all nodes; the share is that of the gradients by trained parameters,
        all together.

    Raises:
        FrameworkError: The framework lacks an operator of the network.
    """
    pieces = apart.take_apart(graph)
    values = {name: inputs[name] for name in pieces.inputs if name in inputs}
    due, last = {}, []
    for node in graph.training:
        forward = record.due[node.name]
        due[node.name] = forward.values[0], forward.bounds[0]
        values.update(
            (apart.operand(node.name, place), array) for place, array in enumerate(forward.operands)
        )
    reads = {node.name: node.inputs for node in graph.training}
    for name, places in apart.gradients(graph):
        backward = record.due[name + BACKWARD]
        values[apart.upstream(name)] = backward.operands[0].reshape(-1, 1)
        for at, place in places.items():
            own = apart.operand(name, place)
            due[own] = backward.values[at], backward.bounds[at]
            if reads[name][place] in graph.trainable:
                last.append(due[own])
    reached = _run(framework, pieces, values, record.dtype)
    pairs = [due[name] for name in reached]
    ratio = worst_ratio(
        tuple(reached.values()), tuple(one for one, _ in pairs), tuple(one for _, one in pairs)
    )
    return Held(ratio, _share([bound for _, bound in last], [value for value, _ in last]))


def hold_optimizer(
    framework: Framework,
    graph: Graph,
    parameters: Arrays,
    gradients: Sequence[Arrays],
    rates: Sequence[float],
    optimizer: str,
    numbers: Numbers,
    dtype: str,
) -> Held:
    """Let the optimizer take some steps with gradients that are given.

    Args:
        framework: Where.
        graph: The network.
        parameters: Before the first step, in the dtype.
        gradients: Those of each step by trained parameter, in any dtype.
        rates: The learning rate of each.
        optimizer: Key of `catalog.training.OPTIMIZERS`.
        numbers: All that it takes.
        dtype: A key of `ARITHMETIC`.

    Returns:
        The largest of all steps; the share is that of the change since the first.
    """
    weighed, formulas = apart.leave_parameters(graph), Optimizer(optimizer, numbers)
    trainer = require(_networks(framework).trainer, framework.name, "train")(
        weighed, _place(framework, parameters, graph.trainable, dtype), optimizer, numbers
    )
    before = {name: parameters[name].astype("float64") for name in graph.trainable}
    present, bound, ratios, shares = before, 0.0, [], []
    for of_step, rate in zip(gradients, rates):
        rounded = {name: round_to(of_step[name], dtype) for name in graph.trainable}
        columns = {apart.upstream(name): array.reshape(-1, 1) for name, array in rounded.items()}
        trainer.step(_place(framework, columns, columns, dtype), rate)
        wide = {name: array.astype("float64") for name, array in rounded.items()}
        moved = formulas.step(present, wide, rate)
        bound += _bound_step(present, moved, numbers, dtype)
        present = moved
        reached = trainer.parameters()
        off = [framework.to_numpy(reached[name]) - present[name] for name in before]
        ratios.append(_size(off) / bound)
        shares.append(_share([bound], [present[name] - before[name] for name in before]))
    return Held(max(ratios), max(shares))


def _bound_step(before: Arrays, after: Arrays, numbers: Numbers, dtype: str) -> float:
    """See the module."""
    arithmetic = ARITHMETIC[dtype]
    least = min(1 - numbers.get(name, 0.0) for name in _FORGETTING) or 1.0
    change = _size([after[name] - before[name] for name in after])
    count = sum(array.size for array in after.values())
    tiny = ROUNDINGS * arithmetic.tiny * math.sqrt(count)
    return arithmetic.storage * (_size(after.values()) + ROUNDINGS * change / least) + tiny


def _run(framework: Framework, pieces: Graph, values: Arrays, dtype: str) -> dict[str, Any]:
    """The values of all nodes, and all gradients, as arrays by name."""
    networks = _networks(framework)
    placed = _place(framework, values, values, dtype)
    call, operands = networks.inference(pieces, placed)
    reached = dict(zip(pieces.outputs, call(*operands)))
    train = require(networks.training, framework.name, "differentiate")
    call, operands = train(pieces, placed)
    reached.update(zip(pieces.trainable, call(*operands)[1:]))
    return {name: framework.to_numpy(tensor) for name, tensor in reached.items()}


def _place(
    framework: Framework, arrays: Arrays, names: Iterable[str], dtype: str
) -> dict[str, Any]:
    return {name: framework.from_numpy(arrays[name], dtype) for name in names}


def _networks(framework: Framework) -> Networks:
    return require(framework.networks, framework.name, "run networks")


def _share(bounds: Sequence[float], values: Sequence[Any]) -> float:
    bound, size = math.hypot(*bounds), _size(values)
    return bound / size if size else float("inf")


def _size(arrays: Iterable[Any]) -> float:
    import numpy

    return math.hypot(*(float(numpy.linalg.norm(array)) for array in arrays))
