"""Train a minibatch in parts whose memory stays below a limit: micro-batches.

Ben-Nun, Besta, Huber, Ziogas, Peter and Hoefler, "A modular benchmarking infrastructure for
high-performance and reproducible deep learning" (Deep500), IPDPS 2019, section V-C, after Oyama,
Ben-Nun, Hoefler and Matsuoka, "Accelerating deep learning frameworks with micro-batches", CLUSTER
2018: sizes are measured one by one, and the ones to use are those whose times sum up to the least.

The loss is a mean over examples, so the gradient of the minibatch is the sum of the parts' own
gradients, each weighted with the part's share of the examples; what it is off by is rounding. Where
a network normalises over the batch, a part's statistics are those of the part: "ghost batch
normalization" (Hoffer, Hubara and Soudry, "Train longer, generalize better", NeurIPS 2017). That is
another function than the whole minibatch's, and its reference is computed in the same parts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Callable

from ..graphs.graph import Graph
from ..operators import several
from ..operators.base import Call

MIB = 2**20
_COUPLED = "batch_norm"


@dataclass(frozen=True)
class Cost:
    """Cost of training one part.

    Attributes:
        seconds: Seconds of one forward and backward run.
        peak: Bytes of memory at once.
    """

    seconds: float
    peak: int


@dataclass(frozen=True)
class Part:
    """Some of the examples of a minibatch.

    Attributes:
        graph: The network for that many.
        inputs: Their arrays, by name.
        share: Share of the minibatch.
    """

    graph: Graph
    inputs: Mapping[str, Any]
    share: float


def couples(graph: Graph) -> bool:
    """Return whether an example's result depends on which others are in its batch."""
    return any(node.operator == _COUPLED for node in graph.nodes)


def check_divisible(single: Graph) -> None:
    """See that a network can be run on one example alone.

    Args:
        single: It for a batch of 1.

    Raises:
        ValueError: It would normalise single values, whose variance is 0.
    """
    for node in single.nodes:
        if node.operator == _COUPLED and node.sizes["h"] * node.sizes["w"] == 1:
            raise ValueError(
                f"{single.name} cannot be split to stay within limit_mib: {node.name} cannot"
                " normalize a part of one example, with one value per channel; leave limit_mib out"
            )


def choose(
    batch: int,
    limit: int,
    least: int,
    measure: Callable[[int], Cost],
    peak: Callable[[tuple[int, ...]], int],
) -> tuple[int, ...]:
    """Return the sizes of the parts, largest first, that train a minibatch in the least time.

    Sizes 1, 2, 4, ... up to the batch are measured, as long as a line through the peaks of the two
    before foretells that they stay within the limit; then the largest size of which it does. While
    the minibatch as a whole exceeds the limit (a host's allocator leaves gaps), the largest size in
    use is given up.

    Args:
        batch: Number of examples.
        limit: Bytes that no part's peak may exceed.
        least: Bytes that even a part without examples would need: where the line starts.
        measure: Runs a part of some size; of none that is foretold to exceed `limit`, but for that
            of one example, of which nothing is known but `least`.
        peak: Runs the minibatch in parts of these sizes, and returns its peak in bytes.

    Raises:
        MemoryError: Not even one example fits.
    """
    if least > limit:
        raise MemoryError(_excess(limit, "the gradients alone need", least))
    peaks, costs = {0: least}, {}
    size = 1
    while True:
        cost = measure(size)
        peaks[size] = cost.peak
        if cost.peak > limit:
            break
        costs[size] = cost
        following = _next(batch, size, limit, peaks)
        if following == size:
            break
        size = following
    if not costs:
        raise MemoryError(_excess(limit, "one example needs", peaks[1]))
    seconds = {size: cost.seconds for size, cost in costs.items()}
    while True:
        sizes = fastest(batch, seconds)
        needed = peak(sizes)
        if needed <= limit:
            return sizes
        if sizes[0] == 1:
            raise MemoryError(_excess(limit, "parts of one example need", needed))
        del seconds[sizes[0]]


def fastest(batch: int, seconds: Mapping[int, float]) -> tuple[int, ...]:
    """Return the sizes, largest first, that sum up to the batch with the least sum of their
    seconds.

    Exact, by dynamic programming over 1, 2, ... `batch` examples; of equals the fewer parts.

    Args:
        batch: Number of examples.
        seconds: Seconds of each size that may be used, any number of times; 1 is one of them.

    >>> fastest(7, {1: 1.0, 2: 1.5, 4: 3.5})
    (2, 2, 2, 1)
    """
    best: list[tuple[float, int, int]] = [(0.0, 0, 0)]
    for total in range(1, batch + 1):
        best.append(
            min(
                (best[total - size][0] + duration, best[total - size][1] + 1, size)
                for size, duration in seconds.items()
                if size <= total
            )
        )
    sizes = []
    while batch:
        sizes.append(best[batch][2])
        batch -= sizes[-1]
    return tuple(sorted(sizes, reverse=True))


def split(
    whole: Graph, graphs: Mapping[int, Graph], inputs: Mapping[str, Any], sizes: Sequence[int]
) -> tuple[Part, ...]:
    """Return the parts of a minibatch, in its order.

    Args:
        whole: The network for the minibatch.
        graphs: The network for each of `sizes`.
        inputs: The minibatch's arrays, by name.
        sizes: Examples of each part.

    Raises:
        ValueError: An input's first axis does not grow with the batch.
    """
    parts = []
    starts = dict.fromkeys(inputs, 0)
    for size in sizes:
        graph = graphs[size]
        ends = {name: starts[name] + graph.inputs[name].shape[0] for name in inputs}
        taken = {name: array[starts[name] : ends[name]] for name, array in inputs.items()}
        parts.append(Part(graph, taken, size / sum(sizes)))
        starts = ends
    for name, end in starts.items():
        if end != whole.inputs[name].shape[0]:
            raise ValueError(
                f"input {name} of {whole.name} cannot be split, because it has no batch axis; leave"
                " limit_mib out"
            )
    return tuple(parts)


def again(call: Call, inputs: Sequence[Any], others: Sequence[Any]) -> Call | None:
    """Return the same call for other inputs, or None where it does not take its inputs as they are.

    What a framework has compiled for a call is so compiled once for all parts of one size.

    Args:
        call: Made for `inputs`.
        inputs: Tensors.
        others: As many, alike, to take their places.
    """
    function, arguments = call
    places = {id(tensor): other for tensor, other in zip(inputs, others)}
    if not set(places) <= set(map(id, arguments)):
        return None
    return function, tuple(places.get(id(tensor), tensor) for tensor in arguments)


def training(calls: Sequence[Call], shares: Sequence[Any]) -> Call:
    """Return the loss and the gradients of a minibatch, of its parts' own; one part's call as it
    is.

    Args:
        calls: One for each part, of `Networks.training`.
        shares: Tensors without axes.
    """
    if len(calls) == 1:
        return calls[0]

    def run() -> tuple[Any, ...]:
        totals: list[Any] = []
        for (function, arguments), share in zip(calls, shares):
            terms = list(function(*arguments))
            for index in range(len(terms)):
                # one at a time, and let go of, for all gradients at once may be most of the memory
                scaled, terms[index] = terms[index] * share, None
                if len(totals) == index:
                    totals.append(scaled)
                else:
                    totals[index] = totals[index] + scaled
        return tuple(totals)

    return run, ()


def inference(calls: Sequence[Call]) -> Call:
    """Return the outputs of one part after the other; one part's call as it is."""
    if len(calls) == 1:
        return calls[0]

    def run() -> tuple[Any, ...]:
        return tuple(
            output for function, arguments in calls for output in several(function(*arguments))
        )

    return run, ()


def _next(batch: int, size: int, limit: int, peaks: Mapping[int, int]) -> int:
    """Return the size to measure after `size`; `size` itself where there is none."""
    (before, low), (_, high) = sorted(peaks.items())[-2:]
    slope = max(0.0, (high - low) / (size - before))
    largest = batch if slope == 0 else min(batch, size + int((limit - high) / slope))
    return min(2 * size, largest)


def _excess(limit: int, what: str, needed: int) -> str:
    return f"out of memory: limit_mib allows {limit / MIB:.1f} MiB, {what} {needed / MIB:.1f} MiB"
