"""Shared memory with a name, below /dev/shm, which outlives the processes that made it.

Libraries of MPI, NCCL and torch remove theirs when they end well. What is left of those that are
killed is found by its name while one of them lives that has it mapped: a name alone tells nobody
whose it is.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from capsule import processes

# address, rights, offset, device, inode, path: proc(5)
_LINE = re.compile(rb"(?m)^\S+ \S+ \S+ ([0-9a-f]+):([0-9a-f]+) ([0-9]+) +(/dev/shm/.+)$")


@dataclass(frozen=True)
class Segment:
    """One that is mapped somewhere.

    Attributes:
        path: Its name, as whoever maps it sees it: a container may have another /dev/shm.
        device: Of its file system, which tells that apart.
        inode: There.
    """

    path: bytes
    device: int
    inode: int


def find(pids: Iterable[int]) -> frozenset[Segment]:
    """What these processes have mapped; nothing of those that are gone, or another user's."""
    segments: set[Segment] = set()
    for pid in pids:
        with suppress(OSError):
            for line in _LINE.finditer(Path(f"/proc/{pid}/maps").read_bytes()):
                device = os.makedev(int(line[1], 16), int(line[2], 16))
                segments.add(Segment(line[4], device, int(line[3])))
    return frozenset(segments)


def remove(segments: frozenset[Segment]) -> None:
    """Remove this user's own of them that no process has mapped any more."""
    left = [one for one in segments if _is_there(one)]
    if not left:
        return
    mapped = find(processes.list_living(lambda _pid, _stat: True))
    for one in left:
        if one not in mapped:
            with suppress(OSError):
                os.unlink(one.path)  # noqa: PTH108 - a name in bytes


def _is_there(segment: Segment) -> bool:
    try:
        status = os.lstat(segment.path)
    except OSError:
        return False
    own = status.st_uid == os.geteuid()
    return own and (status.st_dev, status.st_ino) == (segment.device, segment.inode)
