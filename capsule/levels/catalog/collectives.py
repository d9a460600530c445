"""Operations by which ranks exchange arrays, each alone: what they do, and what trials yield.

Of S bytes in float32 and n ranks:

all-reduce      every rank has S bytes, and gets the sums of all ranks' elements
all-gather      every rank has an n-th of S bytes, and gets the parts of all
reduce-scatter  every rank has S bytes, and gets its own n-th of the sums
all-to-all      every rank has S bytes, and gives each rank its n-th of them
broadcast       rank 0 gives its S bytes to all others
ping-pong       a rank sends S bytes to the next one, and the last to the first, which sends them
                back; one after the other does so

So S is what NVIDIA's nccl-tests call the size (doc/PERFORMANCE.md there), and the two bandwidths
are theirs: S over the time ("algorithm bandwidth"), and that times the share of S that has to pass
the slowest link of a rank however it is done ("bus bandwidth"), which can be compared between
operations and numbers of ranks. A time is that of one call after all ranks have met at a barrier,
as in the OSU micro-benchmarks; that of a ping-pong is half of the way there and back, as theirs is
and mpi4py.bench's.
"""

from __future__ import annotations

from dataclasses import dataclass

from .metrics import MetricFacts

ITEM_BYTES = 4
"""Bytes of an element, a float32."""

MPI = "numpy"
"""The framework whose arrays go by MPI."""

LIBRARIES = {"torch": "torch.distributed", MPI: "MPI"}
"""Library of the exchange, by framework: process group of gloo, of NCCL on GPUs; MPI by mpi4py."""


@dataclass(frozen=True)
class Operation:
    """Effect of an operation on arrays.

    Attributes:
        parted: True if an array has a part of each rank's.
    """

    parted: bool = False


COLLECTIVES = {
    "all-reduce": Operation(),
    "all-gather": Operation(parted=True),
    "reduce-scatter": Operation(parted=True),
    "all-to-all": Operation(parted=True),
    "broadcast": Operation(),
    "ping-pong": Operation(),
}


@dataclass(frozen=True)
class Collective:
    """Exchange of a trial.

    Attributes:
        name: Key of `COLLECTIVES`.
        size: S, in bytes.
    """

    name: str
    size: int


METRICS = (
    MetricFacts("world_size", "1", "none", "portable", 1.0, "rank"),
    MetricFacts("latency", "s", "lower", "machine", 1e-9, "rank"),
    MetricFacts("bandwidth", "By/s", "higher", "machine", 0.0, "rank"),
    MetricFacts("bus_bandwidth", "By/s", "higher", "machine", 0.0, "rank"),
    MetricFacts("bytes_sent", "By", "none", "portable", 1.0, "rank"),
    MetricFacts("bytes_received", "By", "none", "portable", 1.0, "rank"),
    MetricFacts("messages", "1", "none", "portable", 1.0, "rank"),
)
"""Each rank has a value for every call, warm-up first; of `world_size` one."""


def refuse(framework: str, device: str) -> str | None:
    """Return why nothing exchanges the arrays of a framework; None where something does.

    Args:
        framework: Its name.
        device: `cpu` or `cuda`.
    """
    if framework not in LIBRARIES:
        able = " or ".join(f"{name} over {by}" for name, by in LIBRARIES.items())
        return f"capsule has no collectives for {framework}; use {able}"
    if framework == MPI and device != "cpu":
        return f"{MPI} over MPI exchanges arrays on cpu only, not on {device}; use torch over NCCL"
    return None


def refuse_size(name: str, size: int, ranks: int) -> str | None:
    """Return why so many ranks cannot exchange so many bytes; None where they can.

    >>> refuse_size("all-gather", 1000, 3)
    'all-gather cannot split 1000 bytes into 3 equal parts of 4-byte elements; use 996 or 1008'
    """
    if ranks == 1:
        return f"{name} needs at least 2 ranks, and resources has 1: raise ranks_per_node or nodes"
    parts = ranks if COLLECTIVES[name].parted else 1
    step = ITEM_BYTES * parts
    if not size % step:
        return None
    below = size // step * step
    near = " or ".join(str(one) for one in (below, below + step) if one)
    split = (
        f"split {size} bytes into {parts} equal parts of" if parts > 1 else f"send {size} bytes in"
    )
    return f"{name} cannot {split} {ITEM_BYTES}-byte elements; use {near}"


def bus_share(name: str, ranks: int) -> float:
    """Return the share of S that passes the slowest link of a rank at least.

    >>> bus_share("all-reduce", 4), bus_share("all-to-all", 4), bus_share("broadcast", 4)
    (1.5, 0.75, 1.0)
    """
    if name == "all-reduce":
        return 2 * (ranks - 1) / ranks
    return (ranks - 1) / ranks if COLLECTIVES[name].parted else 1.0


def traffic(name: str, size: int, rank: int, ranks: int) -> tuple[int, int, int]:
    """Return the traffic of one rank in a call by definition, as `communicators` counts.

    Args:
        name: Key of `COLLECTIVES`.
        size: S, in bytes.
        rank: From 0.
        ranks: Number of ranks.

    Returns:
        Bytes sent, bytes received, messages.

    >>> traffic("all-gather", 4096, 3, 4), traffic("ping-pong", 4096, 3, 4)
    ((1024, 3072, 1), (8192, 8192, 4))
    """
    part = size // ranks
    if name == "all-gather":
        return part, size - part, 1
    if name == "reduce-scatter":
        return size, part, 1
    if name == "all-to-all":
        return size - part, size - part, 1
    if name == "broadcast":
        return (0, size, 1) if rank else (size, 0, 1)
    if name == "ping-pong":
        # its own there and back, and that of the rank before
        return 2 * size, 2 * size, 4
    return size, size, 1
