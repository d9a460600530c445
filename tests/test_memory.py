"""What is known of memory before and after a kill, under both versions of control groups."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from capsule import memory

V2 = {
    "proc/self/cgroup": "0::/user.slice/job\n",
    "proc/vmstat": "pgfault 3\noom_kill 4\n",
    "proc/meminfo": "MemTotal: 8 kB\nMemAvailable:    2048 kB\n",
    "sys/fs/cgroup/user.slice/job/memory.events": "oom 1\noom_kill 1\n",
    "sys/fs/cgroup/user.slice/job/memory.max": "max\n",
    "sys/fs/cgroup/user.slice/job/memory.peak": "1073741824\n",
}
V1 = {
    "proc/self/cgroup": "5:cpu,cpuacct:/\n4:memory:/slurm/job_1\n0::/\n",
    "proc/vmstat": "pgfault 3\n",
    "sys/fs/cgroup/memory/slurm/job_1/memory.oom_control": "under_oom 0\noom_kill 2\n",
    "sys/fs/cgroup/memory/slurm/job_1/memory.limit_in_bytes": "2147483648\n",
    "sys/fs/cgroup/memory/slurm/job_1/memory.max_usage_in_bytes": "5\n",
}
# what the kernel tells of a path outside of a container's own
INSIDE = {
    "proc/self/cgroup": "0::/../../else\n",
    "sys/fs/cgroup/memory.events": "oom_kill 0\n",
    "sys/fs/cgroup/memory.max": "100\n",
}


def lay_out(root: Path, files: Mapping[str, str]) -> Path:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


@pytest.mark.parametrize(
    ("files", "kills", "group_kills", "limit", "peak", "free"),
    [
        (V2, 4, 1, None, 1 << 30, 2 << 20),
        (V1, None, 2, 2 << 30, 5, None),
        (INSIDE, None, 0, 100, None, None),
        ({}, None, None, None, None, None),
        ({"proc/self/cgroup": "nonsense\n", "proc/vmstat": "oom_kill\n"}, *[None] * 5),
    ],
    ids=["version 2", "version 1", "inside a container", "nothing", "nonsense"],
)
def test_each_system_tells_what_it_knows(
    tmp_path: Path,
    files: Mapping[str, str],
    kills: int | None,
    group_kills: int | None,
    limit: int | None,
    peak: int | None,
    free: int | None,
) -> None:
    assert memory.read(lay_out(tmp_path, files)) == memory.Memory(
        kills=kills,
        group_kills=group_kills,
        group_limit_bytes=limit,
        group_peak_bytes=peak,
        free_bytes=free,
    )


@pytest.mark.parametrize("name", ["proc/vmstat", "sys/fs/cgroup/user.slice/job/memory.events"])
def test_a_kill_that_either_counter_shows_is_seen(tmp_path: Path, name: str) -> None:
    before = memory.read(lay_out(tmp_path, V2))
    assert not memory.read(tmp_path).has_killed_since(before)
    (tmp_path / name).write_text("oom_kill 9\n")
    now = memory.read(tmp_path)
    assert now.has_killed_since(before)
    assert "9 now" in now.describe_since(before)
    assert "free memory now: 2.0 MiB" in now.describe_since(before)
