"""Schemes whose ranks share a network, and not the samples of a batch: what they can share."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from . import slabs, stages


@dataclass(frozen=True)
class Work:
    """Work of the ranks in a step.

    Attributes:
        network: Its name.
        sizes: Options of the network, any of them.
        batch: Samples of a step.
        parts: Micro-batches that they are taken in.
    """

    network: str
    sizes: Mapping[str, int]
    batch: int
    parts: int


def refuse(name: str, network: str, sizes: Mapping[str, int], ranks: int) -> str | None:
    """Return why ranks cannot share a network; None where they can.

    Args:
        name: Key of `schemes.SCHEMES`, of a scheme that splits networks.
        network: Its name.
        sizes: Options of the network, any of them.
        ranks: Number of ranks.

    >>> refuse("spatial", "cosmoflow", {"side": 8}, 8)
    >>> refuse("spatial", "cosmoflow", {"side": 8}, 9)
    '9 ranks of spatial cannot share cosmoflow: an input of 8 rows allows at most 8 slabs'
    """
    try:
        if name == "pipelined":
            stages.choose(_find_line(network, sizes), ranks)
        else:
            slabs.fit(_find_trunk(network, sizes), ranks)
    except LookupError as error:
        return f"{name} {error.args[0]}"
    except ValueError as error:
        return f"{ranks} ranks of {name} cannot share {network}: {error}"
    return None


def _find_trunk(network: str, sizes: Mapping[str, int]) -> slabs.Trunk:
    trunk = slabs.find_trunk(network, sizes)
    if trunk is None:
        chains = ", ".join(slabs.CHAINS)
        raise LookupError(
            f"splits only networks that begin with a chain of convolutions ({chains}), not"
            f" {network}"
        )
    return trunk


def _find_line(network: str, sizes: Mapping[str, int]) -> stages.Line:
    line = stages.find_line(network, sizes)
    if line is None:
        lines = ", ".join(stages.LINES)
        raise LookupError(f"splits only these networks into stages: {lines}; found {network}")
    return line


def traffic(
    name: str, work: Work | None, rank: int, ranks: int, elements: int, item: int
) -> tuple[int, int, int]:
    """Return the traffic of one rank in a step: see `schemes.traffic`.

    Raises:
        ValueError: Nothing says what they do, or it is nothing that they can share.
        LookupError: Of the network nothing says how it is split.
    """
    if work is None:
        raise ValueError(
            f"no network is given, and the traffic of {name} ranks depends on the network"
        )
    how = work.batch, work.parts, rank, ranks
    if name == "pipelined":
        return stages.traffic(_find_line(work.network, work.sizes), *how, item)
    return slabs.traffic(_find_trunk(work.network, work.sizes), *how, elements, item)
