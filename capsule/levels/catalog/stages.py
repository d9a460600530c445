"""A network cut into stages, one on each rank: where it can be cut, and what passes the cuts.

A cut is a value that all later ones follow from, but for inputs and parameters: what is before it
can be computed by one rank, and what is behind it by the next (Huang et al., "GPipe", NeurIPS
2019). Each rank has the parameters of its stage alone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from . import slabs
from .networks import NETWORKS


@dataclass(frozen=True)
class Cut:
    """A place at which a network can be cut.

    Attributes:
        name: Name of the value that passes, in the network's graph.
        elements: Of it, of one sample.
    """

    name: str
    elements: int


@dataclass(frozen=True)
class Line:
    """All places at which a network can be cut, in order.

    Attributes:
        cuts: All of them.
        tied: Numbers of a parameter that the first stage and the last one both read.
    """

    cuts: tuple[Cut, ...]
    tied: int = 0


def choose(line: Line, ranks: int) -> tuple[Cut, ...]:
    """Return the cuts between the stages of so many ranks, with as equal numbers of parts as there
    can be.

    Raises:
        ValueError: There are fewer parts.

    >>> [cut.name for cut in choose(Line((Cut("a", 1), Cut("b", 1), Cut("c", 1))), 2)]
    ['b']
    """
    parts = len(line.cuts) + 1
    if ranks > parts:
        raise ValueError(
            f"expected at most {parts} stages for this network, found {ranks}; use fewer ranks"
        )
    return tuple(line.cuts[parts * rank // ranks - 1] for rank in range(1, ranks))


def traffic(
    line: Line, batch: int, parts: int, rank: int, ranks: int, item: int
) -> tuple[int, int, int]:
    """Return the traffic of one rank in a step, as `communicators` counts.

    Of each cut what passes it, and as much back; gradients of what is tied.

    Args:
        line: Where the network can be cut.
        batch: Samples of a step.
        parts: Micro-batches that they are taken in.
        rank: From 0.
        ranks: Number of ranks.
        item: Bytes of each number.

    Returns:
        Bytes sent, bytes received, messages.
    """
    cuts = choose(line, ranks)
    own = [cuts[place].elements for place in (rank - 1, rank) if 0 <= place < len(cuts)]
    is_tied = bool(line.tied) and rank in (0, ranks - 1)
    passing = sum(own) * batch * item + is_tied * line.tied * item
    return passing, passing, 2 * len(own) * parts + is_tied


def find_line(network: str, sizes: Mapping[str, int]) -> Line | None:
    """Return the places at which a network of the catalogue can be cut, or None.

    Args:
        network: Key of `NETWORKS`.
        sizes: Its options, any of them.

    Raises:
        ValueError: See `types.Subject.complete`.
    """
    if network not in _LINES:
        return None
    return _LINES[network](NETWORKS[network].complete({**sizes, "batch": 1}))


def _cut_trunk(network: str, sizes: Mapping[str, int], activation: str) -> list[Cut]:
    """Behind each convolution of a trunk, its activation and its pooling."""
    trunk = slabs.find_trunk(network, sizes)
    assert trunk is not None
    cuts, rows, count = list[Cut](), trunk.rows, 0
    made = [*(layer.row for layer in trunk.layers[1:]), trunk.row]
    for layer, row in zip(trunk.layers, made):
        rows = layer.count_rows(rows)
        if layer.pools:
            cuts[-1] = Cut(layer.name, row * rows)
        else:
            count += 1
            cuts.append(Cut(f"{activation}{count}", row * rows))
    return cuts


def _cosmoflow(sizes: Mapping[str, int]) -> Line:
    cuts, name = _cut_trunk("cosmoflow", sizes, "leaky_relu"), "leaky_relu"
    first = len(cuts) + 1
    if sizes["dropout"]:
        name, first = "dropout", 1
    return Line((*cuts, *(Cut(f"{name}{first + place}", (128, 64)[place]) for place in range(2))))


def _lenet(sizes: Mapping[str, int]) -> Line:
    return Line((*_cut_trunk("lenet", sizes, "tanh"), Cut("tanh3", 120), Cut("tanh4", 84)))


def _hepcnn(sizes: Mapping[str, int]) -> Line:
    *cuts, _ = _cut_trunk("hepcnn", sizes, "relu")
    return Line((*cuts, Cut("global_average_pool1", sizes["width"])))


def _alexnet(sizes: Mapping[str, int]) -> Line:
    return Line((*_cut_trunk("alexnet", sizes, "relu"), Cut("relu6", 4096), Cut("relu7", 4096)))


def _transformer(sizes: Mapping[str, int]) -> Line:
    elements = sizes["length"] * sizes["width"]
    blocks = (Cut(f"sum{2 * block}", elements) for block in range(1, sizes["layers"] + 1))
    first = Cut("dropout1" if sizes["dropout"] else "view3", elements)
    return Line((first, *blocks), sizes["vocabulary"] * sizes["width"])


_LINES: dict[str, Callable[[Mapping[str, int]], Line]] = {
    "alexnet": _alexnet,
    "cosmoflow": _cosmoflow,
    "hepcnn": _hepcnn,
    "lenet": _lenet,
    "transformer": _transformer,
}

LINES = tuple(_LINES)
"""Networks that are known to have cuts."""
