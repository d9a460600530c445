"""The Slurm that the tests stand on: two virtual nodes of this machine, for an ordinary user."""

import os
from pathlib import Path

import pytest

from tests.support.engines import as_user

pytestmark = pytest.mark.engines

# The nodes of `srun WORDS...`, a line a task.
SRUN = "import subprocess, sys; subprocess.run(['srun', *sys.argv[1:]], check=True)"
NODE = ("sh", "-c", "echo $SLURMD_NODENAME")


@pytest.mark.parametrize(
    ("shape", "nodes"),
    [
        (("-N2", "-n4", "--ntasks-per-node=2", "-c2"), ["n1", "n1", "n2", "n2"]),
        (("-N1", "-n4", "-c2", "-wn2"), ["n2"] * 4),
    ],
    ids=["2 nodes of 2 tasks", "1 node of 4 tasks"],
)
def test_both_nodes_answer_an_ordinary_user(shape: tuple[str, ...], nodes: list[str]) -> None:
    assert sorted(as_user(SRUN, *shape, *NODE).split()) == nodes


def test_root_and_the_ordinary_user_write_into_the_shared_folder() -> None:
    shared = Path(os.environ["CAPSULE_TEST_SHARED"])
    name = as_user(
        "import sys, tempfile; print(tempfile.mkdtemp(dir=sys.argv[1]))", str(shared)
    ).strip()
    folder = Path(name)
    assert folder.owner() == os.environ["CAPSULE_TEST_USER"]
    (folder / "of-root").touch()
    (folder / "of-root").unlink()
    folder.rmdir()
