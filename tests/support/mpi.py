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


def environment(family: str) -> dict[str, str]:
    """By which Python finds mpi4py, and that the library of a family."""
    folder = Path(os.environ["CAPSULE_TEST_MPI"]) / FAMILIES[family]
    (library,) = folder.glob("**/lib/libmpi.so.*")
    (package,) = folder.glob("**/mpi4py/__init__.py")
    return {
        "PYTHONPATH": str(package.parents[1]),
        "MPI4PY_LIBMPI": str(library),
        # Open MPI looks for its parts where it was built, and for settings at home
        "OPAL_PREFIX": str(library.parents[1]),
        "HOME": "/nowhere",
    }
