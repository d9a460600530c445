"""How many threads a process of this machine has, with all that it started."""

from __future__ import annotations

import os
from collections import defaultdict
from pathlib import Path


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
                line = Path(f"/proc/{name}/stat").read_bytes()
            except OSError:
                # gone meanwhile
                continue
            # the command's name is in parentheses and may hold anything, parentheses too
            fields = line.rpartition(b")")[2].split()
            children[int(fields[1])].append(int(name))
            threads[int(name)] = int(fields[17])
    total, waiting = 0, [pid]
    while waiting:
        one = waiting.pop()
        total += threads.get(one, 0)
        waiting += children[one]
    return total
