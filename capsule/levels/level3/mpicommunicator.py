"""Exchanges of a scheme over MPI, counted as in `communicators`.

The process group of torch exists beside it; ranks use it for reports and checks.
"""

from __future__ import annotations

from collections.abc import Sequence
from time import perf_counter
from typing import Any

import torch

from .. import mpi
from ..communicators import Communicator, Flat, UnderWay


class MpiCommunicator(Communicator):
    """Operations among all ranks of MPI's world, on the memory of torch's tensors."""

    def __init__(self) -> None:
        """Join the world, with nothing counted yet; see `mpi.join`.

        Raises:
            RuntimeError: See `mpi.join`; or threads may not call this MPI at once.
        """
        super().__init__()
        self._world = mpi.join(self.rank, self.ranks)
        from mpi4py import MPI

        self._mpi = MPI
        if MPI.Query_thread() != MPI.THREAD_MULTIPLE:
            # an asynchronous server has a thread for each rank
            library = MPI.Get_library_version().partition("\n")[0][:80]
            raise RuntimeError(
                f"the MPI library ({library}) lacks MPI_THREAD_MULTIPLE: use an MPI library that"
                " has MPI_THREAD_MULTIPLE"
            )

    def all_reduce(self, flat: Flat, *, largest: bool = False) -> None:
        """See `Communicator`."""
        with self._count(flat, sends=1, receives=1):
            how = self._mpi.MAX if largest else self._mpi.SUM
            self._world.Allreduce(self._mpi.IN_PLACE, flat.numpy(), how)

    def begin_all_reduce(self, flat: Flat) -> UnderWay:
        """See `Communicator`; MPI tells nobody when it has ended but whoever waits for it."""
        began, ended = perf_counter(), list[float]()
        request = self._world.Iallreduce(self._mpi.IN_PLACE, flat.numpy())
        self._add(flat, sends=1, receives=1)
        return UnderWay(_Request(request, ended), began, ended)

    def gather(self, flat: Flat) -> list[Flat]:
        """See `Communicator`."""
        obtained = torch.empty((self.ranks, len(flat)), dtype=flat.dtype)
        with self._count(flat, sends=1, receives=self.ranks - 1):
            self._world.Allgather(flat.numpy(), obtained.numpy())
        return list(obtained)

    def send(self, flat: Flat, peer: int) -> None:
        """See `Communicator`."""
        with self._count(flat, sends=1, receives=0):
            self._world.Send(flat.numpy(), peer)

    def receive(self, flat: Flat, peer: int) -> None:
        """See `Communicator`."""
        with self._count(flat, sends=0, receives=1):
            self._world.Recv(flat.numpy(), peer)

    def reduce(self, flat: Flat) -> None:
        """See `Communicator`."""
        is_root, array = self.rank == 0, flat.numpy()
        with self._count(flat, sends=not is_root, receives=(self.ranks - 1) * is_root):
            if is_root:
                self._world.Reduce(self._mpi.IN_PLACE, array)
            else:
                self._world.Reduce(array, None)

    def broadcast(self, flat: Flat) -> None:
        """See `Communicator`."""
        with self._count(flat, sends=self.rank == 0, receives=self.rank != 0):
            self._world.Bcast(flat.numpy())

    def swap(self, flat: Flat, peers: Sequence[int]) -> list[Flat]:
        """See `Communicator`."""
        obtained = [torch.empty_like(flat) for _ in peers]
        with self._count(flat, sends=len(peers), receives=len(peers), messages=len(peers)):
            pairs = zip(obtained, peers)
            requests = [self._world.Irecv(one.numpy(), peer) for one, peer in pairs]
            requests += [self._world.Isend(flat.numpy(), peer) for peer in peers]
            self._mpi.Request.Waitall(requests)
        return obtained


class _Request:
    """An operation of MPI's that is under way, as torch has them."""

    def __init__(self, request: Any, ended: list[float]) -> None:
        self._request, self._ended = request, ended

    def wait(self) -> None:
        """Until it has ended, which is noted."""
        self._request.Wait()
        self._ended.append(perf_counter())
