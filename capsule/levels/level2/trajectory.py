"""The first steps of a training beside those of the reference, in more bits."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..catalog.training import Numbers
from ..graphs import passes, reference, statistics
from ..graphs.graph import Graph
from ..instruments.doubles import Bring, fetch, keep
from ..optimizers import Chosen, start

ROUNDING = 1e-9
"""Parts of a step's way that two steps in double precision may be apart and still be the same."""

MOST_SAMPLES = 4
"""Cost limit of a step that is compared with the reference."""

LARGE_SAMPLES = 2
"""Largest number of samples of a network with more than `MOST_VALUES` values, one at a time."""

MOST_VALUES = 1 << 30
"""Values of all nodes for one sample of a training, 8 GiB each time that they are held."""

ARRAYS = 6
"""Float64 arrays per value and parameter, at once, without bounds: measured on CosmoFlow."""


@dataclass(frozen=True)
class Followed:
    """One step of the reference.

    Attributes:
        gradients: By trained parameter, at its begin.
        after: The trained parameters and kept statistics after it.
    """

    gradients: Mapping[str, Any]
    after: Mapping[str, Any]


def follow(
    graph: Graph,
    parameters: Mapping[str, Any],
    batches: Sequence[Mapping[str, Any]],
    rates: Sequence[float],
    optimizer: Chosen,
    numbers: Numbers,
    first: reference.Step = reference.exactly,
    bring: Bring = keep,
) -> list[Followed]:
    """Return the reference's steps, in float64.

    Args:
        graph: The network for the batches, or for parts of them: see `graphs.passes`.
        parameters: Before the first step, numpy arrays by name.
        batches: The inputs of each step.
        rates: The learning rate of each.
        optimizer: Key of `catalog.training.OPTIMIZERS`, or a user's that has a formula.
        numbers: All that it takes.
        first: How the first micro-batch of the first step is computed.
        bring: Puts an array where loss and gradients are computed.
    """
    kept, formulas = statistics.find(graph), start(optimizer, numbers)
    moving = tuple(name for one in kept for name in one.names)
    present = _widen(parameters)
    steps: list[Followed] = []
    for batch, rate in zip(batches, rates):
        looks: list[Mapping[str, Any]] = []

        def differentiate(
            at: Mapping[str, Any],
            inputs: Mapping[str, Any] = _bring(_widen(batch), bring),
            looks: list[Mapping[str, Any]] = looks,
        ) -> tuple[Any, Mapping[str, Any]]:
            how = reference.exactly if steps or looks else first
            values = _bring({**present, **at}, bring)
            loss, gradients, moved = passes.differentiate(graph, kept, values, inputs, how)
            present.update(_fetch(moved))
            looks.append(_fetch(gradients))
            return fetch(loss), looks[-1]

        trained = {name: present[name] for name in graph.trainable}
        present.update(formulas.descend(trained, differentiate, rate))
        after = {name: present[name] for name in (*graph.trainable, *moving)}
        steps.append(Followed(looks[0], after))
    return steps


def look(
    graph: Graph,
    parameters: Mapping[str, Any],
    batch: Mapping[str, Any],
    first: reference.Step,
    bring: Bring = keep,
) -> None:
    """Take only the first step of `follow`, without moving anything.

    Args:
        graph: See `follow`.
        parameters: Likewise.
        batch: The inputs.
        first: How the first micro-batch is computed.
        bring: See `follow`.
    """
    values, inputs = _bring(_widen(parameters), bring), _bring(_widen(batch), bring)
    passes.differentiate(graph, statistics.find(graph), values, inputs, first)


def evaluate(
    graph: Graph,
    parameters: Mapping[str, Any],
    inputs: Mapping[str, Any],
    bring: Bring = keep,
) -> list[Any]:
    """Return outputs and loss of an evaluation, in float64.

    Args:
        graph: What `graphs.statistics.evaluation` makes of the network.
        parameters: All of them, numpy arrays by name.
        inputs: Inputs of the batch.
        bring: See `follow`.
    """
    results = reference.evaluate(graph.nodes, _bring(_widen({**parameters, **inputs}), bring))
    return [fetch(results[name]) for name in (*graph.outputs, graph.require_loss())]


def deviation(reached: Sequence[Any], expected: Sequence[Any]) -> float:
    """Return the L2 norm of the difference from the reference, relative to the reference's.

    The largest of all. Where the reference is 0: 0 if the other is, else infinity.
    """
    errors = []
    for one, other in zip(reached, expected):
        apart, size = _norm([""], {"": one}, {"": other}), _norm([""], {"": other}, {"": 0 * other})
        errors.append(_share(apart, size))
    return max(errors)


def distance(
    reached: Mapping[str, Any],
    expected: Mapping[str, Any],
    before: Mapping[str, Any],
    trainable: Collection[str],
) -> float:
    """Return the distance of parameters from the reference's, relative to the way of the latter.

    The L2 norm of the difference over all trained parameters, by that of the reference's change
    since the first step; the same of the kept statistics, which may move much more; the larger of
    both. Where the reference has not moved: 0 if nothing else has, else infinity.

    Args:
        reached: Arrays by name.
        expected: What `follow` says of the same step.
        before: Both as they were before the first step, and more.
        trainable: Names of the trained parameters; the others are statistics.
    """
    groups: tuple[list[str], list[str]] = ([], [])
    for name in expected:
        groups[name in trainable].append(name)
    errors = []
    for names in groups:
        errors.append(_share(_norm(names, reached, expected), _norm(names, expected, before)))
    return max(errors)


def _share(part: float, whole: float) -> float:
    return part / whole if whole else float("inf") if part else 0.0


def _norm(names: Sequence[str], one: Mapping[str, Any], other: Mapping[str, Any]) -> float:
    import numpy

    squares = [
        numpy.square(one[name].astype("float64") - other[name].astype("float64")).sum()
        for name in names
    ]
    return float(numpy.sqrt(sum(squares)))


def _widen(arrays: Mapping[str, Any]) -> dict[str, Any]:
    return {
        name: array.astype("float64") if array.dtype.kind == "f" else array
        for name, array in arrays.items()
    }


def _bring(arrays: Mapping[str, Any], bring: Bring) -> dict[str, Any]:
    return {name: bring(array) for name, array in arrays.items()}


def _fetch(arrays: Mapping[str, Any]) -> dict[str, Any]:
    return {name: fetch(array) for name, array in arrays.items()}
