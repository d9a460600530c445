"""Number of trials in a process start, and the world of its ranks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from capsule.plan import Plan

MOST_TRIALS = 500
"""Trials of one process start, so that no more have to be looked through where it is cut off."""

LACKING = "exit code 0, but metric"
"""First words of the fault of a trial that ended well without a value of a metric."""

_WORLD_SIZE = "world_size"


JOINED = "joined by the launcher, not seen inside"
DECLARED = "declared by the author"
INDEPENDENT = "independent ranks"
NOT_SEEN = "not seen"
SEEN = "seen by "
"""Prefix of a record's word for a world that was seen; the libraries follow."""


def seen_by(libraries: Sequence[str]) -> str:
    """Return the word of a record on ranks of which these libraries showed that they were one
    world.

    >>> seen_by(["torch", "mpi4py"])
    'seen by torch, mpi4py'
    """
    return SEEN + ", ".join(libraries)


def describe_world(world: str, ranks: int) -> str:
    """Describe the world of a trial's own ranks for screens.

    Args:
        world: As an attempt has it, empty where nothing is known.
        ranks: That were started.

    >>> describe_world("seen by torch", 4), describe_world("", 4)
    ('4, seen by torch', 'not seen')
    """
    word = world or NOT_SEEN
    return word if word in (NOT_SEEN, INDEPENDENT) else f"{ranks}, {word}"


@dataclass(frozen=True, kw_only=True)
class World:
    """World of several ranks as the test before their first trial saw it.

    It proves nothing about the ranks of a benchmark.

    Attributes:
        nodes: Index into the record's nodes of each rank's.
        means: How its ranks reached each other, in order: `gloo`, `sockets`, `mpi`; none where the
            image has no Python that could say anything of its ranks.
        bytes: That each added up with all others, whose sum was right; 0 without means.
        seconds: From the start to the end of all ranks; 0 without means.
    """

    nodes: tuple[int, ...]
    means: tuple[str, ...] = ()
    bytes: int = 0
    seconds: float = 0.0

    @property
    def ranks(self) -> int:
        """Return the number of ranks."""
        return len(self.nodes)

    def follow(self, nodes: int) -> World:
        """Return the same in a record with so many nodes before its own."""
        return replace(self, nodes=tuple(node + nodes for node in self.nodes))


def count_starts(plan: Plan) -> int:
    """Return the number of uninterrupted starts: one a group, or one per `MOST_TRIALS` trials."""
    return sum(-(-len(group.trials) // MOST_TRIALS) for group in plan.groups)


def word_missing(metrics: Sequence[str]) -> str:
    """Return the fault of a trial that ended well, but gave no value of some metrics.

    >>> print(word_missing(["'loss'", "'time' from rank 1"]))
    exit code 0, but metrics 'loss', 'time' from rank 1 are missing
    """
    if len(metrics) == 1:
        return f"{LACKING} {metrics[0]} is missing"
    return f"{LACKING}s {', '.join(metrics)} are missing"


def world_fault(metric: str, values: Sequence[float], ranks: int) -> str | None:
    """Return why a world that a rank saw is not the one that was started, None where it is.

    A rank that meets nobody goes on alone without a word, and its numbers look as any others do.

    >>> world_fault("world_size", (1.0,), 4)
    'world_size is 1, but 4 ranks were started: the ranks did not form one world'
    """
    wrong = [value for value in values if value != ranks]
    if metric != _WORLD_SIZE or ranks == 1 or not wrong:
        return None
    return (
        f"{metric} is {wrong[0]:g}, but {ranks} ranks were started: the ranks did not form one"
        " world"
    )
