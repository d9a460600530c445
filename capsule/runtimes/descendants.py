"""Processes of this machine that descend from another one."""

from __future__ import annotations

import os
from collections import defaultdict

from capsule import processes


def count(pid: int) -> int:
    """Return the threads of a process and of those below it, 0 where it is gone.

    >>> count(os.getpid()) > 0
    True
    """
    return sum(_find(pid).values())


def count_memory(pid: int, most: int) -> int:
    """Return the memory of a process and of those below it, see `processes.count_memory`."""
    return processes.count_memory(list(_find(pid)), most)


def describe(pid: int) -> str:
    """Describe the activity of a process and its descendants, see `processes.describe`."""
    return processes.describe(list(_find(pid)))


def _find(pid: int) -> dict[int, int]:
    """Return a process and those below it, each with its threads; empty where it is gone.

    What loses its parent in a container is handed to the container's first process, so that below
    that one lies all of it, whatever it did to its session, environment or namespaces.
    """
    children: defaultdict[int, list[int]] = defaultdict(list)
    threads: dict[int, int] = {}
    for name in os.listdir("/proc"):  # noqa: PTH208 - a Path for each costs more than the look
        if name.isdigit():
            try:
                stat = processes.read_stat(int(name))
            except OSError:
                # gone meanwhile
                continue
            children[stat.parent].append(int(name))
            threads[int(name)] = stat.threads
    found, waiting = {}, [pid]
    while waiting:
        one = waiting.pop()
        if one in threads:
            found[one] = threads[one]
        waiting += children[one]
    return found
