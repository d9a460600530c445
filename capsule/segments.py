"""Shared memory with a name, below /dev/shm, which outlives the processes that made it.

Libraries of MPI, NCCL and torch remove theirs when they end well. What is left of those that are
killed is found by its name while one of them lives that has it mapped: a name alone tells nobody
whose it is.
"""

from __future__ import annotations

import os
import re
import shlex
import stat
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from capsule import plain, processes

# address, rights, offset, device, inode, path: proc(5)
_FOLDER = b"/dev/shm"
_OTHERS = stat.S_IRWXG | stat.S_IRWXO
_LINE = re.compile(rb"(?m)^\S+ \S+ \S+ ([0-9a-f]+):([0-9a-f]+) ([0-9]+) +(/dev/shm/.+)$")


@dataclass(frozen=True)
class Segment:
    """One of them.

    Attributes:
        path: Its name, as whoever maps it sees it: a container may have another /dev/shm.
        device: Device number of its file system.
        inode: There.
    """

    path: bytes
    device: int
    inode: int


def list_own() -> frozenset[Segment]:
    """Return this user's files in /dev/shm."""
    segments: set[Segment] = set()
    with suppress(OSError), os.scandir(_FOLDER) as listing:
        for entry in listing:
            with suppress(OSError):
                status = entry.stat(follow_symlinks=False)
                if status.st_uid == os.geteuid():
                    segments.add(Segment(entry.path, status.st_dev, status.st_ino))
    return frozenset(segments)


def find_mapped(segments: frozenset[Segment]) -> frozenset[Segment]:
    """Return the files that a readable process has mapped."""
    mapped = find(processes.list_living(lambda _pid, _stat: True)) if segments else frozenset()
    return segments & mapped


def find(pids: Iterable[int]) -> frozenset[Segment]:
    """Return the files mapped by these processes, apart from dead or foreign ones."""
    segments: set[Segment] = set()
    for pid in pids:
        with suppress(OSError):
            for line in _LINE.finditer(Path(f"/proc/{pid}/maps").read_bytes()):
                device = os.makedev(int(line[1], 16), int(line[2], 16))
                segments.add(Segment(line[4], device, int(line[3])))
    return frozenset(segments)


def remove(segments: frozenset[Segment]) -> None:
    """Remove this user's own of them that no process has mapped any more.

    Whether another user's process has mapped one only root can see, so that one which others may
    open stays.
    """
    left = frozenset(one for one in segments if is_there(one) and _is_private(one))
    for one in left - find_mapped(left):
        with suppress(OSError):
            os.unlink(one.path)  # noqa: PTH108 - a name in bytes


def removal(paths: Sequence[str]) -> str:
    """Return the command that removes what lies in /dev/shm by these paths."""
    program = "rm -r" if any(map(os.path.isdir, paths)) else "rm"
    return f"{program} {' '.join(shlex.quote(plain.clean(path)) for path in paths)}"


def is_there(segment: Segment) -> bool:
    """Return whether it still is, and is this user's."""
    try:
        status = os.lstat(segment.path)
    except OSError:
        return False
    own = status.st_uid == os.geteuid()
    return own and (status.st_dev, status.st_ino) == (segment.device, segment.inode)


def _is_private(segment: Segment) -> bool:
    try:
        return os.geteuid() == 0 or not os.lstat(segment.path).st_mode & _OTHERS
    except OSError:
        return False
