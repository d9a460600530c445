"""The part of a network that one rank runs where its first spatial axis is cut: `catalog.slabs`.

Three operators are in the part that no network has otherwise; whoever runs it brings them.

    slab    the rank's rows of an input
    halo    its rows of a value, and those around them
    whole   all ranks' rows of a value
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import takewhile

from ..catalog import slabs
from ..catalog.slabs import Cuts, Layer, Trunk
from .graph import Graph, Node

_CONVOLUTIONS = frozenset(("conv2d", "conv3d"))
_POOLS = frozenset(("average_pool2d", "max_pool2d", "max_pool3d"))
_ELEMENTWISE = frozenset(("gelu", "leaky_relu", "relu", "sigmoid", "tanh"))
_WHOLE = frozenset(("global_average_pool", "view"))
"""Operators that take all rows, with which a network goes on behind its trunk."""

_ROWS = 2
"""The axis that is cut, of (n, c, rows, ...)."""


@dataclass(frozen=True)
class Chain:
    """Position of a network's trunk in its graph.

    Attributes:
        source: The input that it begins with.
        nodes: Its nodes, in order.
        trunk: What they are.
    """

    source: str
    nodes: tuple[Node, ...]
    trunk: Trunk

    @property
    def parameters(self) -> frozenset[str]:
        """Return the trunk's parameters, whose gradients each rank computes from its rows."""
        return frozenset(name for node in self.nodes for name in node.inputs[1:])


def find(graph: Graph) -> Chain:
    """Return the chain of layers that a network begins with.

    Raises:
        ValueError: There is none, or something else in it.
    """
    first = next(
        (
            node
            for node in graph.nodes
            if node.operator in _CONVOLUTIONS and node.inputs[0] in graph.inputs
        ),
        None,
    )
    if first is None:
        raise ValueError(f"{graph.name} cannot be cut into slabs: no convolution reads its input")
    source, nodes = first.inputs[0], list[Node]()
    value, shape, layers = source, graph.inputs[source].shape, list[Layer]()
    while (node := _follow(graph, value)).operator not in _WHOLE:
        if node.operator in _CONVOLUTIONS | _POOLS:
            layers.append(_describe(node, shape))
        nodes.append(node)
        value, shape = node.name, node.shape
    read_elsewhere = {name for one in graph.nodes if one not in nodes for name in one.inputs}
    chain = Chain(source, tuple(nodes), Trunk(graph.inputs[source].shape[_ROWS], tuple(layers), 0))
    if shared := chain.parameters & read_elsewhere:
        raise ValueError(
            f"{graph.name} cannot be cut into slabs: the parameter {min(shared)} is read by the"
            " chain of convolutions and after the chain, so slabs would split the parameter's"
            " gradient"
        )
    return replace(chain, trunk=replace(chain.trunk, row=_count_row(shape)))


def share(graph: Graph, ranks: int) -> Chain:
    """Return the beginning of the chain that so many ranks share.

    Raises:
        ValueError: See `find` and `catalog.slabs.fit`.
    """
    chain = find(graph)
    trunk = slabs.fit(chain.trunk, ranks)
    behind = {layer.name for layer in chain.trunk.layers[len(trunk.layers) :]}
    nodes = takewhile(lambda node: node.name not in behind, chain.nodes)
    return replace(chain, nodes=tuple(nodes), trunk=trunk)


def _follow(graph: Graph, value: str) -> Node:
    """Yield the nodes that read a value of the chain."""
    readers = [node for node in graph.nodes if value in node.inputs]
    able = _CONVOLUTIONS | _POOLS | _ELEMENTWISE | _WHOLE
    if len(readers) != 1 or readers[0].operator not in able or readers[0].inputs[0] != value:
        by = ", ".join(f"{node.name} ({node.operator})" for node in readers) or "nothing"
        raise ValueError(
            f"{value} of {graph.name} is cut into slabs and read by {by}; only"
            f" {', '.join(sorted(able))} can read slabs"
        )
    return readers[0]


def _describe(node: Node, shape: tuple[int, ...]) -> Layer:
    sizes, is_volume = node.sizes, len(shape) == len("ncdhw")
    window = (sizes["q" if is_volume else "r"] - 1) * sizes.get("dilation", 1) + 1
    return Layer(
        name=node.name,
        row=_count_row(shape),
        window=window,
        stride=sizes["stride"],
        padding=sizes["padding"],
        pools=node.operator in _POOLS,
    )


def _count_row(shape: tuple[int, ...]) -> int:
    n, _, rows, *_ = shape
    elements = 1
    for length in shape:
        elements *= length
    return elements // (n * rows)


def split(graph: Graph, rank: int, ranks: int) -> Graph:
    """Split a network for one rank, with its inputs, outputs and loss.

    Args:
        graph: The network for a batch.
        rank: From 0.
        ranks: Number of ranks.

    Raises:
        ValueError: See `share`.
    """
    chain = share(graph, ranks)
    cuts = slabs.cut(chain.trunk, ranks)
    end = chain.nodes[-1].name
    own = {node.name for node in chain.nodes}
    nodes = list(_cut_chain(graph, chain, cuts, rank))
    whole = f"{end}.whole"
    nodes.append(Node(whole, "whole", {"cuts": cuts[-1]}, (end,), chain.nodes[-1].shape))
    for node in graph.nodes:
        if node.name not in own:
            inputs = tuple(whole if name == end else name for name in node.inputs)
            nodes.append(replace(node, inputs=inputs))
    return replace(graph, nodes=tuple(nodes))


def _cut_chain(graph: Graph, chain: Chain, cuts: tuple[Cuts, ...], rank: int) -> Iterator[Node]:
    begin, end = cuts[0][rank : rank + 2]
    value, shape = f"{chain.source}.slab", _resize(graph.inputs[chain.source].shape, end - begin)
    yield Node(value, "slab", {"begin": begin, "rows": end - begin}, (chain.source,), shape)
    place = 0
    for node in chain.nodes:
        sizes = node.sizes
        if node.operator in _CONVOLUTIONS:
            layer = chain.trunk.layers[place]
            around = slabs.find_halo(layer, cuts[place], cuts[place + 1], rank)
            inputs, value = (value,), f"{node.name}.halo"
            yield Node(value, "halo", {"halo": around}, inputs, _resize(shape, around.rows))
            # rows of zeros are of the halo, where they are at all
            padding = (0, *(sizes["padding"] for _ in shape[_ROWS + 1 :]))
            sizes = {**sizes, "padding": padding}
        place += node.operator in _CONVOLUTIONS | _POOLS
        shape = _resize(node.shape, cuts[place][rank + 1] - cuts[place][rank])
        yield replace(node, sizes=sizes, inputs=(value, *node.inputs[1:]), shape=shape)
        value = node.name


def _resize(shape: tuple[int, ...], rows: int) -> tuple[int, ...]:
    return (*shape[:_ROWS], rows, *shape[_ROWS + 1 :])
