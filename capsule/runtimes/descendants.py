"""How many threads a process of this machine has, with all that it started."""

from __future__ import annotations

import os
from collections import defaultdict

from capsule import processes


def count(pid: int) -> int:
    """The threads of a process and of those below it, 0 where it is gone.

    What loses its parent in a container is handed to the container's first process, so that below
    that one lies all of it, whatever it did to its session, environment or namespaces.

    >>> count(os.getpid()) > 0
    True
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
    total, waiting = 0, [pid]
    while waiting:
        one = waiting.pop()
        total += threads.get(one, 0)
        waiting += children[one]
    return total
