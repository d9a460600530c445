"""The world that a launcher gives to MPI's ranks, for those that exchange by it."""

from __future__ import annotations

import os
import sys
from typing import Any

World = Any
"""mpi4py's communicator of all ranks."""


def join(rank: int, ranks: int) -> World:
    """Return the world of MPI, which is seen to be that of the job.

    Args:
        rank: Rank of this process, from 0.
        ranks: How many the job has.

    Raises:
        RuntimeError: There is no mpi4py, or no MPI for it; nothing joined these ranks, or it
            joined others.
    """
    try:
        # begins MPI, so that threads may call it at once, and ends it with the process
        from mpi4py import MPI
    except (ImportError, RuntimeError) as error:
        reason = str(error).partition("\n")[0]
        raise RuntimeError(
            f"{sys.executable} has no MPI ({reason}): install mpi4py, and an MPI of the launcher's"
            " family"
        ) from error
    world = MPI.COMM_WORLD
    place = world.Get_rank(), world.Get_size()
    if place != (rank, ranks):
        raise RuntimeError(
            f"rank {rank} of {ranks} is rank {place[0]} of {place[1]} in MPI: start ranks with the"
            " mpirun of the image's MPI, or with srun if that MPI is of MPICH's family"
        )
    return world


def leave(status: int) -> None:
    """End all ranks of MPI, this one too, where it has joined any: the others may wait for it."""
    if library := sys.modules.get("mpi4py.MPI"):
        library.COMM_WORLD.Abort(status)
        # MPICH's returns, and whoever is to end this process comes a little later
        os._exit(status)
