"""What process starts share: how many trials, and the world of their ranks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from capsule.plan import Plan

MOST_TRIALS = 500
"""Trials of one process start, so that no more have to be looked through where it is cut off."""

_WORLD_SIZE = "world_size"


@dataclass(frozen=True, kw_only=True)
class World:
    """What was seen of several ranks before the first trial that they ran together.

    Attributes:
        nodes: Index into the record's nodes of each rank's.
        means: What they met by, in order: `gloo`, `sockets`, `mpi`; none where the image has no
            Python that could say anything of its ranks.
        bytes: That each added up with all others, whose sum was right; 0 without means.
        seconds: From the start to the end of all ranks; 0 without means.
    """

    nodes: tuple[int, ...]
    means: tuple[str, ...] = ()
    bytes: int = 0
    seconds: float = 0.0

    @property
    def ranks(self) -> int:
        """How many there are."""
        return len(self.nodes)

    def follow(self, nodes: int) -> World:
        """The same in a record with so many nodes before its own."""
        return replace(self, nodes=tuple(node + nodes for node in self.nodes))


def count_starts(plan: Plan) -> int:
    """How many it takes where none is cut off: one a group, or one for every `MOST_TRIALS`."""
    return sum(-(-len(group.trials) // MOST_TRIALS) for group in plan.groups)


def world_fault(metric: str, values: Sequence[float], ranks: int) -> str | None:
    """Why a world that a rank saw is not the one that was started, None where it is.

    A rank that meets nobody goes on alone without a word, and its numbers look as any others do.

    >>> world_fault("world_size", (1.0,), 4)
    'world_size is 1, and 4 ranks were started: not all of them met'
    """
    wrong = [value for value in values if value != ranks]
    if metric != _WORLD_SIZE or ranks == 1 or not wrong:
        return None
    return f"{metric} is {wrong[0]:g}, and {ranks} ranks were started: not all of them met"
