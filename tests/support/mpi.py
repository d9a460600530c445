"""The two families of MPI that `tests/engines` installs beside each other."""

from __future__ import annotations

import os
from pathlib import Path

FAMILIES = {"MPICH": "mpich", "Open MPI": "openmpi"}


def programs(family: str) -> str:
    """A PATH on which the `mpirun` of a family comes first."""
    folder = Path(os.environ["CAPSULE_TEST_MPI"]) / FAMILIES[family]
    # where pip puts programs below a prefix is Debian's affair
    (program,) = folder.glob("**/bin/mpirun")
    return f"{program.parent}{os.pathsep}{os.environ['PATH']}"


def library(family: str) -> Path:
    """The folder of its shared libraries."""
    (path,) = (Path(os.environ["CAPSULE_TEST_MPI"]) / FAMILIES[family]).glob("**/lib/libmpi.so")
    return path.parent
