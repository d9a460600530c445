"""A network cut along its first spatial axis, a slab on each rank: where slabs lie, what they take.

A trunk is the chain of convolutions and poolings that a network begins with. Its rows, planes of a
volume or lines of a picture, are cut where no window of a pooling lies on two ranks, so slabs may
be of unequal size; a convolution needs a halo, the rows beyond a slab's borders that its windows
reach into, from the ranks that have them (Dryden et al., "Improving strong-scaling of CNN training
by exploiting finer-grained parallelism", IPDPS 2019). Where the trunk ends, or has too few rows for
the ranks, all rows are gathered, and every rank computes the rest.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from math import prod

from .networks import NETWORKS


@dataclass(frozen=True)
class Layer:
    """A convolution or pooling of a trunk.

    Attributes:
        name: Name of the node in the network's graph.
        row: Elements of one row of one sample of what it reads, of all channels.
        window: Rows that one row of its result depends on.
        stride: Rows between two of these.
        padding: Rows of zeros on either side.
        pools: True if it is a pooling.
    """

    name: str
    row: int
    window: int
    stride: int
    padding: int
    pools: bool

    def count_rows(self, rows: int) -> int:
        """Return the number of rows of a layer's result."""
        return (rows + 2 * self.padding - self.window) // self.stride + 1


@dataclass(frozen=True)
class Trunk:
    """Part of a network that is cut into slabs.

    Attributes:
        rows: Rows of the input.
        layers: In their order.
        row: Elements of one row of one sample of the last one's result, of all channels.
    """

    rows: int
    layers: tuple[Layer, ...]
    row: int


@dataclass(frozen=True)
class Halo:
    """Rows that a rank needs around its slab, and that others need of it.

    Attributes:
        zeros_before: Zeros of the padding before the first row of all.
        from_before: Of the rank before.
        own: Of its slab, from its first row on.
        from_after: Of the rank after it.
        zeros_after: Zeros of the padding after the last row of all.
        to_before: First rows of the slab that the rank before needs.
        to_after: Last rows of the slab that the rank after it needs.
    """

    zeros_before: int
    from_before: int
    own: int
    from_after: int
    zeros_after: int
    to_before: int
    to_after: int

    @property
    def rows(self) -> int:
        """Return the rows of the slab with its surroundings."""
        beyond = self.zeros_before + self.from_before + self.from_after + self.zeros_after
        return self.own + beyond


Cuts = tuple[int, ...]
"""First rows of all ranks' slabs, and the end of the last slab."""


def fit(trunk: Trunk, ranks: int) -> Trunk:
    """Return the longest beginning of a trunk of which each of so many ranks has a slab.

    Raises:
        ValueError: They cannot share its first layer, or its poolings cannot be cut.

    >>> layers = Layer("conv3d1", 4, 3, 1, 1, False), Layer("pool1", 6, 2, 2, 0, True)
    >>> [len(fit(Trunk(8, layers, 5), ranks).layers) for ranks in (4, 8)]
    [2, 1]
    """
    _check_pools(trunk)
    for count in range(len(trunk.layers), 1, -1):
        part = _begin(trunk, count)
        try:
            cut(part, ranks)
        except ValueError:
            continue
        return part
    first = _begin(trunk, 1)
    cut(first, ranks)
    return first


def _begin(trunk: Trunk, count: int) -> Trunk:
    """Return the first layers of a trunk."""
    behind = trunk.layers[count:]
    return Trunk(trunk.rows, trunk.layers[:count], behind[0].row if behind else trunk.row)


def cut(trunk: Trunk, ranks: int) -> tuple[Cuts, ...]:
    """Return the cuts of the input, and of each layer's result.

    Raises:
        ValueError: Ranks cannot share it; says at which layer, and the sizes.

    >>> cut(Trunk(8, (Layer("conv3d1", 4, 3, 1, 1, False), Layer("pool1", 4, 2, 2, 0, True)), 4), 3)
    ((0, 2, 4, 8), (0, 2, 4, 8), (0, 1, 2, 4))
    """
    _check_pools(trunk)
    step = prod(layer.stride for layer in trunk.layers)
    units = trunk.rows // step
    if units < ranks:
        why = f", because the layers reduce {step} rows to 1" if step > 1 else ""
        raise ValueError(f"an input of {trunk.rows} rows allows at most {units} slabs{why}")
    cuts: list[Cuts] = [(*(units * rank // ranks * step for rank in range(ranks)), trunk.rows)]
    for layer in trunk.layers:
        before = cuts[-1]
        after = (*(one // layer.stride for one in before[:-1]), layer.count_rows(before[-1]))
        _check(layer, before, after)
        cuts.append(after)
    return tuple(cuts)


def _check_pools(trunk: Trunk) -> None:
    for layer in trunk.layers:
        if layer.pools and (layer.window > layer.stride or layer.padding):
            raise ValueError(
                f"{layer.name} has windows of {layer.window} rows, stride {layer.stride} and"
                f" padding {layer.padding}; expected windows of at most {layer.stride} rows and"
                " padding 0"
            )


def _check(layer: Layer, before: Cuts, after: Cuts) -> None:
    for rank in range(len(after) - 1):
        if after[rank] >= after[rank + 1]:
            raise ValueError(
                f"{layer.name} reduces {before[-1]} rows to {after[-1]}, which leaves no row for"
                f" rank {rank}"
            )
    for rank in range(len(after) - 1):
        around = find_halo(layer, before, after, rank)
        for peer, rows in ((rank - 1, around.from_before), (rank + 1, around.from_after)):
            if rows and rows > before[peer + 1] - before[peer]:
                raise ValueError(
                    f"{layer.name} reads {rows} rows beyond the slab of rank {rank}; the slab of"
                    f" rank {peer} has only {before[peer + 1] - before[peer]} of {before[-1]} rows"
                )


def find_halo(layer: Layer, before: Cuts, after: Cuts, rank: int) -> Halo:
    """Return the rows that a rank needs for its slab of a layer's result.

    Args:
        layer: The layer.
        before: Cuts of what it reads.
        after: Cuts of its result.
        rank: From 0.
    """
    begin, end = before[rank], before[rank + 1]
    low, high = _reach(layer, after, rank)
    size, last = before[-1], len(before) - 2
    return Halo(
        zeros_before=max(0, -low),
        from_before=begin - max(0, low),
        own=min(high, end) - begin,
        from_after=max(0, min(high, size) - end),
        zeros_after=max(0, high - size),
        to_before=max(0, min(_reach(layer, after, rank - 1)[1], end) - begin) if rank else 0,
        to_after=end - max(_reach(layer, after, rank + 1)[0], begin) if rank < last else 0,
    )


def _reach(layer: Layer, after: Cuts, rank: int) -> tuple[int, int]:
    """Return the first row that a slab of a result depends on, and the one after the last."""
    first = after[rank] * layer.stride - layer.padding
    last = (after[rank + 1] - 1) * layer.stride - layer.padding
    return first, last + layer.window


def traffic(
    trunk: Trunk, batch: int, parts: int, rank: int, ranks: int, elements: int, item: int
) -> tuple[int, int, int]:
    """Return the traffic of one rank in a step, as `communicators` counts.

    Of each convolution the halo, and but for the first one, whose input has no gradient, as much
    back; the rows at the end, all slabs filled up to the largest one; gradients of all parameters.

    Args:
        trunk: What is cut, as far as it can be.
        batch: Samples of a step.
        parts: Micro-batches that they are taken in.
        rank: From 0.
        ranks: Number of ranks.
        elements: Number of elements of all trained parameters.
        item: Bytes of each.

    Returns:
        Bytes sent, bytes received, messages.
    """
    trunk = fit(trunk, ranks)
    cuts, sent, received, messages = cut(trunk, ranks), 0, 0, 0
    for place, layer in enumerate(trunk.layers):
        if layer.pools:
            continue
        around = find_halo(layer, cuts[place], cuts[place + 1], rank)
        out, into = around.to_before + around.to_after, around.from_before + around.from_after
        sides = (around.to_before, around.from_before), (around.to_after, around.from_after)
        peers = sum(map(any, sides))
        sent += layer.row * (out + into if place else out)
        received += layer.row * (out + into if place else into)
        messages += 2 * peers if place else peers
    largest = trunk.row * max(end - begin for begin, end in zip(cuts[-1], cuts[-1][1:]))
    sent, received = sent + largest, received + largest * (ranks - 1)
    gradients = elements * item
    return (
        sent * batch * item + gradients,
        received * batch * item + gradients,
        (messages + 1) * parts + 1,
    )


Step = tuple[str, int, int, int, int]
"""Operator, channels of its result (0 for as many as before), window, stride and padding."""


def find_trunk(network: str, sizes: Mapping[str, int]) -> Trunk | None:
    """Return the trunk of a network of the catalogue; None if it begins with no chain of layers.

    Args:
        network: Key of `NETWORKS`.
        sizes: Its options, any of them.

    Raises:
        ValueError: See `types.Subject.complete`.
    """
    if network not in _TRUNKS:
        return None
    return _TRUNKS[network](NETWORKS[network].complete({**sizes, "batch": 1}))


def _chain(axes: int, channels: int, side: int, steps: Iterable[Step]) -> Trunk:
    """Return layers over samples of (channels, side, ...) with so many spatial axes."""
    rows, layers, counts = side, list[Layer](), dict[str, int]()
    for operator, width, window, stride, padding in steps:
        counts[operator] = counts.get(operator, 0) + 1
        row, name = channels * side ** (axes - 1), f"{operator}{counts[operator]}"
        layers.append(Layer(name, row, window, stride, padding, "pool" in operator))
        side, channels = layers[-1].count_rows(side), width or channels
    return Trunk(rows, tuple(layers), channels * side ** (axes - 1))


def _cosmoflow(sizes: Mapping[str, int]) -> Trunk:
    steps: list[Step] = []
    for layer in range((sizes["side"] // 4).bit_length() - 1):
        steps.append(("conv3d", sizes["width"] << layer, 3, 1, 1))
        steps.append(("max_pool3d", 0, 2, 2, 0))
    return _chain(3, 4, sizes["side"], steps)


def _lenet(sizes: Mapping[str, int]) -> Trunk:
    pool: Step = ("average_pool2d", 0, 2, 2, 0)
    return _chain(
        2, 1, sizes["side"], (("conv2d", 6, 5, 1, 2), pool, ("conv2d", 16, 5, 1, 0), pool)
    )


def _hepcnn(sizes: Mapping[str, int]) -> Trunk:
    convolution: Step = ("conv2d", sizes["width"], 3, 1, 1)
    pool: Step = ("max_pool2d", 0, 2, 2, 0)
    steps = (convolution, pool) * 4 + (convolution,)
    return _chain(2, sizes["channels"], sizes["side"], steps)


def _alexnet(sizes: Mapping[str, int]) -> Trunk:
    pool: Step = ("max_pool2d", 0, 3, 2, 0)
    deep: tuple[Step, ...] = tuple(("conv2d", width, 3, 1, 1) for width in (384, 256, 256))
    first: tuple[Step, ...] = (("conv2d", 64, 11, 4, 2), pool, ("conv2d", 192, 5, 1, 2), pool)
    return _chain(2, 3, sizes["side"], (*first, *deep, pool))


_TRUNKS: dict[str, Callable[[Mapping[str, int]], Trunk]] = {
    "alexnet": _alexnet,
    "cosmoflow": _cosmoflow,
    "hepcnn": _hepcnn,
    "lenet": _lenet,
}

CHAINS = tuple(_TRUNKS)
"""Networks that begin with one."""
