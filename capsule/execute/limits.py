"""Limits of a process start apart from time: disk, processes and threads, memory.

All are checked once a second. Under Docker and Podman the kernel also enforces them, so a fork bomb
stops at its limit; elsewhere it lives for a second before capsule ends it.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Literal

from capsule import memory
from capsule.launch.base import Launched
from capsule.options import Limits
from capsule.sizes import size

# what even an empty file or folder takes of a disk
_LEAST_BYTES = 4096
_LOGS = ("stdout.txt", "stderr.txt")
_PAUSE_SECONDS = 1.0
# looking may take a twentieth of one processor's time
_SHARE = 20


class Guard:
    """Looks at one process start now and then.

    Args:
        limits: What it may take.
        folders: Says where it can leave anything on the disk.
        launched: Says what its processes take.
        spared_bytes: What lies in these folders by itself.
    """

    def __init__(
        self,
        limits: Limits,
        folders: Callable[[], Iterable[Path]],
        launched: Launched,
        spared_bytes: int = 0,
    ) -> None:
        self._limits = limits
        self._folders = folders
        self._spared_bytes = spared_bytes
        self._launched = launched
        self._next = time.monotonic() + _PAUSE_SECONDS

    def look(self) -> tuple[Literal["limit", "memory"], str] | None:
        """Return the exceeded limit, or None; looks at most once in a while."""
        limits = self._limits
        if limits.disk is None and limits.pids is None and limits.memory is None:
            return None
        began = time.monotonic()
        if began < self._next:
            return None
        if excess := self._memory_fault():
            return "memory", excess
        fault = self._task_fault() or self.disk_fault()
        seconds = time.monotonic() - began
        self._next = began + seconds + max(_PAUSE_SECONDS, _SHARE * seconds)
        return ("limit", fault) if fault else None

    def disk_fault(self) -> str | None:
        """Return why what it left on the disk is too much, None where it is not."""
        most = self._limits.disk
        if most is None:
            return None
        try:
            used_bytes = -self._spared_bytes
            for folder in self._folders():
                used_bytes += disk_bytes(folder, most - used_bytes)
        except OSError as error:
            return f"left a folder that capsule cannot read to check --disk: {error.strerror}"
        if used_bytes > most:
            return f"left more than {size(most)} on disk, the limit of --disk"
        return None

    def _task_fault(self) -> str | None:
        most = self._limits.pids
        if most is None or self._launched.tasks() < most:
            return None
        return task_fault(most)

    def _memory_fault(self) -> str | None:
        most = self._limits.memory
        if most is None or (used := self._launched.memory_bytes(most)) <= most:
            return None
        return memory.describe_excess(used, most)


def task_fault(most: int) -> str:
    """Return the message about a start with too many processes and threads."""
    return f"reached the limit of --pids: {most} processes and threads"


def disk_bytes(folder: Path, most: int) -> int:
    """Return the disk space below a folder in bytes, counted until it exceeds the limit.

    Raises:
        OSError: A folder cannot be looked into.
    """
    total = 0
    folders = [str(folder)]
    while folders:
        try:
            with os.scandir(folders.pop()) as listing:
                for item in listing:
                    status = item.stat(follow_symlinks=False)
                    total += max(_LEAST_BYTES, 512 * status.st_blocks)
                    if item.name in _LOGS:
                        # holes take nothing here, and all that they measure in the capsule
                        total += max(0, status.st_size - 512 * status.st_blocks)
                    if total > most:
                        return total
                    if item.is_dir(follow_symlinks=False):
                        folders.append(item.path)
        except FileNotFoundError:
            # removed meanwhile
            continue
    return total
