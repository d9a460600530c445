"""Shared memory of ranks that were killed: nothing of it stays, and nobody else's goes."""

from __future__ import annotations

import mmap
import os
import secrets
import signal
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from capsule import process, segments
from capsule.launch.mpirun import Mpirun
from capsule.runtimes.base import Prepared
from capsule.runtimes.host import Host
from tests.support.launches import label, ranks
from tests.support.mpi import FAMILIES, environment, programs
from tests.support.patience import read_lines

MEMORY = Path("/dev/shm")
MAPS = """
import mmap, sys, time
for name in sys.argv[2:]:
    with open(name, "r+b") as file:
        globals()[name] = mmap.mmap(file.fileno(), 0)
open(sys.argv[1], "w").write("there\\n")
time.sleep(600)
"""
# ranks that talk to each other for ever, by whatever their library takes for one node
TALKS = """
import array, os
from mpi4py import MPI
numbers = array.array("d", bytes(1 << 16))
for turn in range(10**9):
    MPI.COMM_WORLD.Allreduce(MPI.IN_PLACE, numbers)
    if turn == 9:
        with open("there", "a") as file:
            file.write(f"{MPI.COMM_WORLD.rank} {os.getpid()}\\n")
"""


@pytest.fixture
def names() -> Iterator[list[Path]]:
    """Three segments of this user's."""
    paths = [MEMORY / f"capsule-test-{secrets.token_hex(8)}" for _ in range(3)]
    for path in paths:
        path.write_bytes(bytes(mmap.PAGESIZE))
    yield paths
    for path in paths:
        path.unlink(missing_ok=True)


def test_what_nobody_else_has_mapped_goes_with_its_processes(
    tmp_path: Path, names: list[Path]
) -> None:
    _own, shared, renewed = names
    with shared.open("r+b") as file:
        kept = mmap.mmap(file.fileno(), 0)
    running = process.start(
        [sys.executable, "-c", MAPS, str(tmp_path / "there"), *map(str, names)],
        env={},
        cwd=tmp_path,
        stdout=tmp_path / "out",
        stderr=tmp_path / "err",
    )
    read_lines(tmp_path / "there")
    renewed.unlink()
    renewed.write_bytes(b"another one of that name")
    running.stop()
    assert [path.exists() for path in names] == [False, True, True]
    kept.close()


@pytest.mark.engines
@pytest.mark.parametrize("family", FAMILIES)
def test_killed_ranks_of_mpi_leave_no_shared_memory(
    family: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", programs(family))
    both = [
        replace(
            one,
            command=(f"{sys.base_prefix}/bin/python3", "-c", TALKS),
            environment={**one.environment, **environment(family)},
        )
        for one in ranks(tmp_path, "", "")
    ]
    launched = Mpirun().start(Host(), Prepared(handle=""), both)
    try:
        pids = dict(map(str.split, read_lines(tmp_path / "there", 2)))
        made = segments.find(map(int, pids.values()))
        # as where somebody kills all of it, capsule's own processes too, and does not see one
        for pid in process.find_marked(label(tmp_path)):
            if pid != int(pids["0"]):
                os.kill(pid, signal.SIGKILL)
    finally:
        launched.stop()
    assert not process.find_marked(label(tmp_path))
    assert made
    assert not [one for one in made if Path(os.fsdecode(one.path)).exists()]
