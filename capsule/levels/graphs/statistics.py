"""Running statistics of batch normalization, from training for inference."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from .graph import Graph

Values = Mapping[str, Any]

SHARE = 0.1
"""Share of a batch's statistics in the running ones, as in PyTorch (its `momentum`)."""

AXES = (0, 2, 3)
"""Axes of (n, c, h, w) that the statistics are taken over."""


@dataclass(frozen=True)
class Kept:
    """The statistics of one normalization.

    Attributes:
        node: Name of the `batch_norm`.
        source: Name of the value that it normalizes.
        mean: Name of the parameter that keeps the mean of each channel.
        variance: Name of that which keeps the variance.
    """

    node: str
    source: str
    mean: str
    variance: str

    @property
    def names(self) -> tuple[str, str]:
        """Return the names of both parameters: mean and variance."""
        return self.mean, self.variance


def find(graph: Graph) -> tuple[Kept, ...]:
    """Return the statistics that training moves, in the order of its nodes.

    Raises:
        ValueError: A normalization by batch has no form for inference.
    """
    nodes = {node.name: node for node in graph.nodes}
    every = []
    for node in graph.training:
        if node.operator == "batch_norm":
            twin = nodes.get(f"{node.name}.inference")
            if twin is None:
                raise ValueError(
                    f"{graph.name} lacks the node {node.name}.inference, which normalizes in"
                    f" inference as {node.name} does in training"
                )
            every.append(Kept(node.name, node.inputs[0], *twin.inputs[3:5]))
    return tuple(every)


def evaluation(graph: Graph) -> Graph:
    """Return the network with a loss that is taken as outputs are: by kept statistics, without
    dropout.

    Raises:
        ValueError: See `find`.
    """
    twins = {one.node: f"{one.node}.inference" for one in find(graph)}
    nodes = {node.name: node for node in graph.inference}
    known = {node.name: node for node in graph.nodes}
    for node in graph.training:
        twin = f"{node.name}.inference"
        inputs = tuple(twins.get(name, name) for name in node.inputs)
        if node.operator == "dropout" and graph.inputs[node.inputs[1]].percent is not None:
            twins[node.name] = inputs[0]
        elif node.name in twins:
            nodes.setdefault(twin, known[twin])
        elif inputs == node.inputs:
            nodes.setdefault(node.name, node)
        else:
            twins[node.name] = twin
            nodes.setdefault(twin, replace(node, name=twin, inputs=inputs))
    loss = graph.require_loss()
    return replace(graph, nodes=tuple(nodes.values()), loss=twins.get(loss, loss))


def follow(kept: Iterable[Kept], values: Values, results: Values) -> dict[str, Any]:
    """Return the running statistics after a step of numpy's, by name, each in its dtype.

    Args:
        kept: Running statistics of the network.
        values: Inputs and parameters of the step, by name.
        results: The value of each node.

    Raises:
        ValueError: See `move`.
    """
    moved = {}
    for one in kept:
        x = results[one.source] if one.source in results else values[one.source]
        before = [values[name] for name in one.names]
        after = move(before, (x.mean(AXES), x.var(AXES)), x.size // x.shape[1])
        for name, array, old in zip(one.names, after, before):
            moved[name] = array.astype(old.dtype, copy=False)
    return moved


def move(before: Sequence[Any], of_batch: Sequence[Any], count: int) -> tuple[Any, Any]:
    """Kept statistics after a step, arrays of any kind.

    Args:
        before: Mean and variance as they were kept.
        of_batch: Those of the batch, the variance over `count`.
        count: Elements of the batch in each channel; what is kept is the variance over one less.

    Raises:
        ValueError: One element has no variance.
    """
    if count < 2:
        raise ValueError(
            "batch normalization got one value per channel, which has no variance: use a larger"
            " batch, or fewer parts of the batch"
        )
    mean, variance = before
    batch_mean, batch_variance = of_batch
    unbiased = batch_variance * (count / (count - 1))
    return mean + SHARE * (batch_mean - mean), variance + SHARE * (unbiased - variance)
