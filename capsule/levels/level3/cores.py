"""Detection of ranks that share cores, whose times say nothing about larger machines.

Ranks share the cores that each may run on. If they have more threads than cores, their threads take
turns.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from hashlib import sha256
from pathlib import Path

import torch

from ..communicators import Communicator

_BOOT = Path("/proc/sys/kernel/random/boot_id")
_SIBLINGS = "/sys/devices/system/cpu/cpu{}/topology/thread_siblings_list"


def find_own() -> frozenset[int]:
    """Return the cores that this process may run on, each as the lowest CPU of it."""
    return frozenset(map(_core, os.sched_getaffinity(0)))


def count_threads_per_core(communicator: Communicator, threads: int) -> float:
    """Return the threads for each core that this rank and its sharers have.

    Args:
        communicator: Of all ranks; what they tell each other here is counted by it.
        threads: Number of threads of this rank.
    """
    own, rank = find_own(), communicator.rank
    width = torch.tensor([max(own) + 1])
    communicator.all_reduce(width, largest=True)
    rows = torch.zeros((communicator.ranks, 2 + int(width)), dtype=torch.int64)
    rows[rank, 0], rows[rank, 1] = _machine(), threads
    rows[rank, [2 + core for core in own]] = 1
    flat = rows.reshape(-1)
    communicator.all_reduce(flat)
    places = [
        {(machine, core) for core, is_own in enumerate(mask) if is_own}
        for machine, _, *mask in rows.tolist()
    ]
    return share(rank, places, rows[:, 1].tolist())


def share(rank: int, places: Sequence[AbstractSet[object]], threads: Sequence[int]) -> float:
    """Return threads for each core, of all ranks that share any with a rank or with one that does.

    Args:
        rank: Of whom.
        places: By rank, the cores that each may run on.
        threads: By rank.

    >>> share(0, [{0, 1}, {0, 1}, {2}], [1, 1, 1]), share(0, [{0}, {0}], [1, 1])
    (1.0, 2.0)
    """
    cores, alike = set(places[rank]), {rank}
    while more := {
        one for one in range(len(places)) if one not in alike and not cores.isdisjoint(places[one])
    }:
        alike |= more
        cores = cores.union(*(places[one] for one in more))
    return sum(threads[one] for one in alike) / len(cores)


def _core(cpu: int) -> int:
    try:
        siblings = Path(_SIBLINGS.format(cpu)).read_text()
    except OSError:
        # where nothing tells, each CPU is one
        return cpu
    return int(siblings.replace("-", ",").split(",")[0])


def _machine() -> int:
    """Return a number of this machine's own: containers of one machine have many names for it."""
    try:
        name = _BOOT.read_text()
    except OSError:
        name = os.uname().nodename
    return int.from_bytes(sha256(name.encode()).digest()[:6], "big")
