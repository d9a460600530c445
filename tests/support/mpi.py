"""The two families of MPI that `tests/engines` installs beside each other."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from tests.support.documented import ROOT
from tests.support.patience import PATIENCE_SECONDS

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


def start_ranks(family: str, count: int, *words: str) -> subprocess.CompletedProcess[str]:
    """Have an `mpirun` start a program, each rank of which knows which one it is.

    Args:
        family: Key of `FAMILIES`.
        count: Of ranks.
        words: The program; `{rank}` stands for the rank in the last one.
    """
    variables = environment(family)
    last = words[-1].replace("{rank}", "$CAPSULE_RANK")
    variable = "${PMI_RANK:-$OMPI_COMM_WORLD_RANK}"
    line = f'export CAPSULE_RANK={variable}; exec "$@" {last}'
    options = ("--allow-run-as-root", "--bind-to", "none", "--map-by", ":OVERSUBSCRIBE")
    return subprocess.run(
        [
            *("mpirun", "-n", str(count), *(options if family == "Open MPI" else ())),
            *("sh", "-c", line, "sh", *words[:-1]),
        ],
        cwd=ROOT,
        env={
            **variables,
            "PATH": programs(family),
            "PYTHONPATH": f"{ROOT}{os.pathsep}{variables['PYTHONPATH']}",
            "OMP_NUM_THREADS": "1",
        },
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
        check=False,
    )
