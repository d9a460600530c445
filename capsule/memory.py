"""Memory of this machine and of this process's control group.

A kill for lack of memory looks like any other SIGKILL; these numbers before and after it tell
most of them apart. The numbers of a control group include its own processes and, in version 2,
the groups below it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from capsule.sizes import size


class _Files(NamedTuple):
    """Names of a control group's files."""

    kills: str
    limit: str
    peak: str


class _Group(NamedTuple):
    """A control group: its folder, and what the files in it are called."""

    folder: Path
    files: _Files


_ROOT = Path("/")
_FIRST = _Files("memory.oom_control", "memory.limit_in_bytes", "memory.max_usage_in_bytes")
_SECOND = _Files("memory.events", "memory.max", "memory.peak")
# version 1 tells no limit by a number near 2**63
_NO_LIMIT_BYTES = 1 << 60


@dataclass(frozen=True, kw_only=True)
class Memory:
    """Memory at one moment; None for values that the system does not report.

    Attributes:
        kills: Out-of-memory kills of this machine's kernel since it started.
        group_kills: Those in this process's control group.
        group_limit_bytes: What the control group may use.
        group_peak_bytes: The most that it has used since it was made.
        free_bytes: What programs can still have without swapping.
    """

    kills: int | None
    group_kills: int | None
    group_limit_bytes: int | None
    group_peak_bytes: int | None
    free_bytes: int | None

    def has_killed_since(self, before: Memory) -> bool:
        """Return whether the kernel has killed for want of memory between the two moments.

        On a shared node that kill may have hit a neighbour in the same seconds.
        """
        return any(
            then is not None and now is not None and now > then
            for then, now in ((before.kills, self.kills), (before.group_kills, self.group_kills))
        )

    def describe_since(self, before: Memory) -> str:
        """Describe a kill between two moments, as parts of a sentence."""
        return "; ".join(self._facts(before)) or "this system reports no memory counters"

    def _facts(self, before: Memory) -> Iterator[str]:
        counts = (
            ("control group", before.group_kills, self.group_kills),
            (("kernel", before.kills, self.kills)),
        )
        for whose, then, now in counts:
            if then is not None and now is not None:
                yield f"oom_kill count of the {whose}: {then} before, {now} now"
        if self.group_limit_bytes is not None:
            yield f"memory limit of the control group: {size(self.group_limit_bytes)}"
        if self.group_peak_bytes is not None:
            yield f"peak memory of the control group: {size(self.group_peak_bytes)}"
        if self.free_bytes is not None:
            yield f"free memory now: {size(self.free_bytes)}"


def read(root: Path = _ROOT) -> Memory:
    """Read the current memory.

    Args:
        root: Above `proc` and `sys`.
    """
    group = _find_group(root)
    return Memory(
        kills=_read_field(root / "proc/vmstat", "oom_kill"),
        group_kills=group and _read_field(group.folder / group.files.kills, "oom_kill"),
        group_limit_bytes=group and _read_limit(group.folder / group.files.limit),
        group_peak_bytes=group and _read_number(group.folder / group.files.peak),
        free_bytes=_read_free(root / "proc/meminfo"),
    )


def describe_excess(used_bytes: int, most_bytes: int) -> str:
    """Describe a process start that used more memory than allowed."""
    return (
        f"used {size(used_bytes)} of memory, more than the {size(most_bytes)} that --memory allows"
        " (sum of all processes, read once a second)"
    )


def _find_group(root: Path) -> _Group | None:
    """Return the control group of this process that counts memory."""
    lines = [line.split(":", 2) for line in _read_lines(root / "proc/self/cgroup")]
    for _, controllers, path in filter(lambda parts: len(parts) == 3, lines):
        if "memory" in controllers.split(","):
            return _existing(root / "sys/fs/cgroup/memory", path, _FIRST)
    paths = [parts[2] for parts in lines if parts[:2] == ["0", ""]]
    return _existing(root / "sys/fs/cgroup", paths[0], _SECOND) if paths else None


def _existing(top: Path, path: str, files: _Files) -> _Group | None:
    """Return a group that is there; in a container it is the top, whatever path the kernel
    tells.
    """
    places = (top / path.lstrip("/"), top)
    return next((_Group(place, files) for place in places if (place / files.kills).is_file()), None)


def _read_limit(path: Path) -> int | None:
    limit = _read_number(path)
    return limit if limit is not None and limit < _NO_LIMIT_BYTES else None


def _read_free(path: Path) -> int | None:
    kilobytes = _read_field(path, "MemAvailable:")
    return None if kilobytes is None else kilobytes << 10


def _read_field(path: Path, name: str) -> int | None:
    for line in _read_lines(path):
        word, _, rest = line.partition(" ")
        if word == name and rest.split():
            return int(rest.split()[0])
    return None


def _read_number(path: Path) -> int | None:
    lines = _read_lines(path)
    return int(lines[0]) if lines and lines[0].isdecimal() else None


def _read_lines(path: Path) -> list[str]:
    try:
        return path.read_text().splitlines()
    except (OSError, UnicodeDecodeError):
        return []
