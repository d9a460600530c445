"""Loss, gradients and kept statistics of a batch, in numpy."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from . import reference, statistics
from .graph import Graph

Values = Mapping[str, Any]


def split(graph: Graph, inputs: Values) -> Iterator[dict[str, Any]]:
    """Yield the micro-batches of a batch: as many samples as a network takes, one after the other.

    Args:
        graph: The network for a micro-batch.
        inputs: Arrays or tensors by name, whose first axis is a multiple of the graph's.
    """
    rows = {name: tensor.shape[0] for name, tensor in graph.inputs.items()}
    first = next(iter(rows))
    for part in range(inputs[first].shape[0] // rows[first]):
        yield {
            name: inputs[name][part * count : (part + 1) * count] for name, count in rows.items()
        }


def differentiate(
    graph: Graph,
    kept: Iterable[statistics.Kept],
    values: Values,
    inputs: Values,
    first: reference.Step = reference.exactly,
) -> tuple[Any, dict[str, Any], dict[str, Any]]:
    """Return a forward and a backward pass for each micro-batch, in the arrays' own dtype.

    Loss and gradients are the means over micro-batches, which are those of the whole batch unless
    the network normalizes by batch: statistics are those of each micro-batch, one after the other.

    Args:
        graph: The network for a micro-batch.
        kept: Its statistics.
        values: Parameters by name, those that keep statistics included.
        inputs: Inputs of the batch, by name; see `split`.
        first: How the first micro-batch is computed.

    Returns:
        The loss, gradients by name, and what the kept statistics are then.
    """
    losses, sums, moved = list[Any](), dict[str, Any](), dict[str, Any]()
    for part in split(graph, inputs):
        whole = {**values, **moved, **part}
        how = reference.exactly if losses else first
        results = reference.evaluate(graph.training, whole, how)
        for name, gradient in reference.differentiate(graph, whole, results, how).items():
            sums[name] = sums[name] + gradient if name in sums else gradient
        moved.update(statistics.follow(kept, whole, results))
        losses.append(results[graph.require_loss()])
    count = len(losses)
    return sum(losses) / count, {name: one / count for name, one in sums.items()}, moved
