"""Processes of this machine, as /proc describes them."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Stat:
    """Contents of /proc/PID/stat.

    Attributes:
        state: One letter.
        parent: Process id.
        session: Id of its session.
        threads: How many it has.
        started: Clock ticks since the machine started.
    """

    state: str
    parent: int
    session: int
    threads: int
    started: int


def list_living(belongs: Callable[[int, Stat], bool], oldest: int = 0) -> list[int]:
    """Return processes that belong, of those that started at `oldest` or later."""
    pids = []
    for name in os.listdir("/proc"):  # noqa: PTH208 - a Path for each costs more than the look
        if not name.isdigit():
            continue
        try:
            stat = read_stat(int(name))
            # a first thread that has ended says Z while the process's others live on
            ended = stat.state in "ZX" and stat.threads < 2
            if stat.started >= oldest and not ended and belongs(int(name), stat):
                pids.append(int(name))
        except OSError:
            # gone meanwhile, or another user's
            continue
    return pids


def read_stat(pid: int) -> Stat:
    """Read the status of one process.

    Raises:
        OSError: It is gone.
    """
    with open(f"/proc/{pid}/stat", "rb", buffering=0) as stream:  # noqa: PTH123 - as above
        # the command's name is in parentheses and may hold anything, parentheses too
        fields = stream.read().rpartition(b")")[2].split()
    return Stat(fields[0].decode(), *(int(fields[place]) for place in (1, 3, 17, 19)))


def read_variables(pid: int) -> list[bytes]:
    """Return the environment of a process, as shown by one of its living threads.

    Raises:
        OSError: It is gone, or another user's.
    """
    try:
        return Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except ProcessLookupError:
        # its first thread has ended; the others are looked for only then, as this costs more
        for path in Path(f"/proc/{pid}/task").glob("*/environ"):
            with suppress(ProcessLookupError):
                return path.read_bytes().split(b"\0")
        raise


def read_lineage() -> set[int]:
    """Return this process and its ancestors."""
    pid = os.getpid()
    own: set[int] = set()
    while pid > 0 and pid not in own:
        own.add(pid)
        try:
            pid = read_stat(pid).parent
        except OSError:
            break
    return own


def count_memory(pids: Sequence[int], most: int) -> int:
    """Return the memory that processes use together, in bytes: their own and shared pages, and
    swap.

    Pages of files are left out, which the kernel can drop. What several processes share is counted
    in each of them first, which is quick, and once where that would be too much.

    Args:
        pids: Those that are gone count nothing.
        most: What would be too much.
    """
    quick = {pid: _read_sizes(pid, "status", ("RssAnon", "RssShmem", "VmSwap")) for pid in pids}
    if sum(quick.values()) <= most:
        return sum(quick.values())
    names = ("Pss_Anon", "Pss_Shmem", "SwapPss")
    return sum(_read_sizes(pid, "smaps_rollup", names) or size for pid, size in quick.items())


def _read_sizes(pid: int, file: str, names: Sequence[str]) -> int:
    """Return the sum of some sizes that a file of a process tells in kB; 0 where it cannot be
    read.
    """
    try:
        lines = Path(f"/proc/{pid}/{file}").read_text(errors="replace").splitlines()
    except OSError:
        return 0
    fields = (line.partition(":") for line in lines)
    return sum(int(rest.split()[0]) << 10 for name, _, rest in fields if name in names)


_STATES = {
    "R": "running",
    "S": "sleeping",
    "D": "waiting inside the kernel, mostly for a disk, a network file system or a device",
    "T": "stopped",
    "t": "stopped by a debugger",
    "Z": "ended, but not reaped by its parent",
    "I": "idle",
}
_MOST_DESCRIBED = 3


def describe(pids: Sequence[int]) -> str:
    """Return what processes do now, in words; empty where none of them is left.

    Of a process and those that it started the last ones are told: the others wait for them.
    """
    stats: dict[int, Stat] = {}
    for pid in pids:
        with suppress(OSError):
            stats[pid] = read_stat(pid)
    parents = {stat.parent for stat in stats.values()}
    last = [pid for pid in stats if pid not in parents]
    told = [_describe(pid, stats[pid]) for pid in last[:_MOST_DESCRIBED]]
    more = len(last) - len(told)
    return ", ".join(told) + (f" and {more} more" if more else "")


def _describe(pid: int, stat: Stat) -> str:
    name = place = ""
    with suppress(OSError):
        name = Path(f"/proc/{pid}/comm").read_text(errors="replace").strip()
    with suppress(OSError):
        place = Path(f"/proc/{pid}/wchan").read_text(errors="replace").strip().strip("0")
    state = _STATES.get(stat.state, "of unknown state")
    where = f" in {place}" if place else ""
    return f"{name or 'process'} ({pid}) {stat.state}, {state}{where}"
