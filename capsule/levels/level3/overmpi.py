"""Arrays of numpy that ranks exchange over MPI."""

from __future__ import annotations

from functools import partial
from typing import Any

from .. import mpi
from .collectives import Array, Call, Native


class OverMpi:
    """See `collectives.Library`: the library exchanges the arrays themselves."""

    def __init__(self, rank: int, ranks: int) -> None:
        """Join the world of MPI; see `mpi.join`."""
        self._world = mpi.join(rank, ranks)
        self.barrier = self._world.Barrier
        self._calls: dict[str, Any] = {
            "all-gather": self._world.Allgather,
            "reduce-scatter": self._world.Reduce_scatter_block,
            "all-to-all": self._world.Alltoall,
        }

    def place(self, array: Array) -> Native:
        """Return the array, and what it holds."""
        from mpi4py import MPI

        return [array, MPI.FLOAT]

    def put(self, array: Array, native: Native) -> None:
        """Return the array: both share memory."""

    def get(self, native: Native, array: Array) -> None:
        """Return the array: both share memory."""

    def prepare(self, name: str, own: Native, obtained: Native) -> Call:
        """Return one of MPI's operations."""
        from mpi4py import MPI

        if name == "all-reduce":
            return partial(self._world.Allreduce, MPI.IN_PLACE, own)
        if name == "broadcast":
            return partial(self._world.Bcast, own)
        return partial(self._calls[name], own, obtained)

    def prepare_send(self, own: Native, peer: int) -> Call:
        """Return a blocking one."""
        return partial(self._world.Send, own, peer)

    def prepare_receive(self, obtained: Native, peer: int) -> Call:
        """Return a blocking one."""
        return partial(self._world.Recv, obtained, peer)
