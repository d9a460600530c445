"""Exchanges between ranks, counted at the call by a rule that is the same on every machine.

An operation counts the bytes of the array that a rank contributes as sent, and those of the array
that it obtains from others as received, however many parts and ways a library makes of them:

    all_reduce      every rank sends its array and receives the result
    reduce          every rank but the root sends its array; the root receives one of each
    broadcast       the root sends its array once; every other rank receives it
    swap            a rank sends its array to each peer, and receives one of each
    gather          every rank sends its array once, and receives one of each other
    join            likewise, into one array
    scatter         every rank sends its array and receives its part of the result
    send, receive   one array from a rank to another
    trade           a rank sends some ranks an array each, and receives others from some

A rank that is alone exchanges nothing, and counts none.
"""

from __future__ import annotations

import gc
import traceback
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from time import perf_counter
from typing import Any, Callable

import torch
import torch.distributed as dist
from torch.distributed.rendezvous import rendezvous as meet

Flat = Any
"""A tensor of one axis, on the CPU."""

_PARTED = {
    "all-gather": ("all_gather_single", "all_gather_into_tensor"),
    "reduce-scatter": ("reduce_scatter_single", "reduce_scatter_tensor"),
    "all-to-all": ("all_to_all_single",),
}


def find_operation(name: str) -> Callable[[Flat, Flat], Any]:
    """Return torch's operation on a result and one array: torch 2.13 renamed two of them."""
    operation: Callable[[Flat, Flat], Any] = next(
        getattr(dist, one) for one in _PARTED[name] if hasattr(dist, one)
    )
    return operation


@dataclass
class Traffic:
    """Traffic of a rank.

    Attributes:
        sent: Bytes.
        received: Bytes.
        messages: Operations; of `swap` and `trade` one for each peer.
        seconds: While an operation was under way, waiting for others included.
        waited: Of these, while the rank did nothing else.
    """

    sent: int = 0
    received: int = 0
    messages: int = 0
    seconds: float = 0.0
    waited: float = 0.0

    def add(self, other: Traffic) -> None:
        """Count what another has too."""
        self.sent += other.sent
        self.received += other.received
        self.messages += other.messages
        self.seconds += other.seconds
        self.waited += other.waited


@dataclass
class UnderWay:
    """An operation that goes on beside what a rank does.

    Attributes:
        work: Torch's.
        began: A moment of `perf_counter`.
        ended: Likewise, in a list once it is over.
    """

    work: Any
    began: float
    ended: list[float]


class Communicator:
    """Operations among all ranks of torch's default process group, in place where they can be."""

    def __init__(self) -> None:
        """Create a counter at zero."""
        self.rank, self.ranks = int(dist.get_rank()), int(dist.get_world_size())
        self._traffic = Traffic()

    def renew(self) -> Communicator:
        """Return another one of the same ranks, for a thread of its own, with nothing counted
        yet.
        """
        return type(self)()

    def take_traffic(self) -> Traffic:
        """Return the traffic since the last call."""
        taken, self._traffic = self._traffic, Traffic()
        return taken

    def all_reduce(self, flat: Flat, *, largest: bool = False) -> None:
        """Put the sums of all ranks' elements into the array, or the largest ones."""
        with self._count(flat, sends=1, receives=1):
            dist.all_reduce(flat, dist.ReduceOp.MAX if largest else dist.ReduceOp.SUM)

    def begin_all_reduce(self, flat: Flat) -> UnderWay:
        """`all_reduce` that goes on while the rank does something else: to be finished."""
        began, ended = perf_counter(), list[float]()
        # what `dist.all_reduce` does besides takes longer than this
        work = dist.group.WORLD.allreduce(flat, dist.ReduceOp.SUM)
        work.get_future().add_done_callback(lambda _: ended.append(perf_counter()))
        self._add(flat, sends=1, receives=1)
        return UnderWay(work, began, ended)

    def finish(self, under_way: Sequence[UnderWay]) -> None:
        """Wait for operations that were begun, in their order."""
        began, until = perf_counter(), 0.0
        for one in under_way:
            one.work.wait()
        waited, now = perf_counter() - began, perf_counter()
        if self.ranks == 1:
            return
        for one in under_way:
            # the callback of the last one may be on its way yet
            end = one.ended[0] if one.ended else now
            self._traffic.seconds += max(0.0, end - max(one.began, until))
            until = max(until, end)
        self._traffic.waited += waited

    def gather(self, flat: Flat) -> list[Flat]:
        """Return the arrays of all ranks, which are of one size, in their order."""
        obtained = [torch.empty_like(flat) for _ in range(self.ranks)]
        with self._count(flat, sends=1, receives=self.ranks - 1):
            dist.all_gather(obtained, flat)
        return obtained

    def join(self, whole: Flat, part: Flat) -> None:
        """Put the parts of all ranks, which are of one size, into an array in their order."""
        with self._count(part, sends=1, receives=self.ranks - 1):
            find_operation("all-gather")(whole, part)

    def scatter(self, part: Flat, whole: Flat) -> None:
        """Put the rank's part of the sums of all ranks' arrays into an array."""
        with self._count(part, sends=self.ranks, receives=1):
            find_operation("reduce-scatter")(part, whole)

    def send(self, flat: Flat, peer: int) -> None:
        """Give the array to a rank that receives it."""
        with self._count(flat, sends=1, receives=0):
            dist.send(flat, peer)

    def receive(self, flat: Flat, peer: int) -> None:
        """Put what a rank sends into the array."""
        with self._count(flat, sends=0, receives=1):
            dist.recv(flat, peer)

    @contextmanager
    def wait(self) -> Iterator[None]:
        """Count the time that a rank waits for others elsewhere."""
        began = perf_counter()
        yield
        self.count_wait(perf_counter() - began)

    def reduce(self, flat: Flat) -> None:
        """Put the sums into the array of rank 0; those of others are of no use then."""
        is_root = self.rank == 0
        with self._count(flat, sends=not is_root, receives=(self.ranks - 1) * is_root):
            dist.reduce(flat, 0)

    def broadcast(self, flat: Flat) -> None:
        """Put what rank 0 has into the array."""
        with self._count(flat, sends=self.rank == 0, receives=self.rank != 0):
            dist.broadcast(flat, 0)

    def swap(self, flat: Flat, peers: Sequence[int]) -> list[Flat]:
        """Send the array to each of some other ranks, which do the same, and return theirs."""
        obtained = [torch.empty_like(flat) for _ in peers]
        with self._count(flat, sends=len(peers), receives=len(peers), messages=len(peers)):
            under_way = [dist.irecv(one, peer) for one, peer in zip(obtained, peers)]
            under_way += [dist.isend(flat, peer) for peer in peers]
            for one in under_way:
                one.wait()
        return obtained

    def trade(self, outgoing: Mapping[int, Flat], incoming: Mapping[int, Flat]) -> None:
        """Send an array to each of some ranks, and put what others send into arrays.

        Args:
            outgoing: What is sent, by rank; of any shape, in C order.
            incoming: Where it is put, by rank; likewise.
        """
        began = perf_counter()
        under_way = [dist.irecv(one, peer) for peer, one in incoming.items()]
        under_way += [dist.isend(one, peer) for peer, one in outgoing.items()]
        for one in under_way:
            one.wait()
        self.count_wait(perf_counter() - began)
        self.count(outgoing.values(), incoming.values(), messages=len({*outgoing, *incoming}))

    def count(
        self, outgoing: Collection[Flat], incoming: Collection[Flat], messages: int | None = None
    ) -> None:
        """Count arrays that are sent and received elsewhere, one message each if not so many."""
        sent, received = (sum(map(_measure, arrays)) for arrays in (outgoing, incoming))
        if messages is None:
            messages = len(outgoing) + len(incoming)
        self._traffic.add(Traffic(sent, received, messages))

    def count_wait(self, seconds: float) -> None:
        """Count time in which the rank did nothing but exchange with others elsewhere."""
        if self.ranks > 1:
            self._traffic.add(Traffic(seconds=seconds, waited=seconds))

    @contextmanager
    def _count(self, flat: Flat, sends: int, receives: int, messages: int = 1) -> Iterator[None]:
        began = perf_counter()
        yield
        self.count_wait(perf_counter() - began)
        self._add(flat, sends, receives, messages)

    def _add(self, flat: Flat, sends: int, receives: int, messages: int = 1) -> None:
        if self.ranks > 1:
            size = _measure(flat)
            self._traffic.sent += size * sends
            self._traffic.received += size * receives
            self._traffic.messages += messages


def _measure(flat: Flat) -> int:
    """Return the size of an array in bytes."""
    size: int = flat.numel() * flat.element_size()
    return size


@contextmanager
def connect(
    rank: int, ranks: int, rendezvous: str | None, name: str, *, device: str = "cpu"
) -> Iterator[None]:
    """Make torch's default process group, of gloo or NCCL, for the time of a trial.

    A rank that leaves with an error closes its connections, so that the others end with one too.

    Args:
        rank: From 0.
        ranks: How many come.
        rendezvous: Where they meet: a URL that torch takes, of which a file is not there yet; None
            for a rank that is alone.
        name: Name of the trial; ranks meet by it.
        device: `cpu` for gloo, `cuda` for NCCL.

    Raises:
        RuntimeError: Not all of them came, or one has left.
    """
    # what held connections of a trial that ended with an error may be let go of only now
    gc.collect()
    store = dist.PrefixStore(f"capsule/{name}", _find_store(rank, ranks, rendezvous))
    backend = "nccl" if device == "cuda" else "gloo"
    # a rank sees its own device only; without it NCCL guesses one from the rank
    own = torch.device("cuda", 0) if device == "cuda" else None
    dist.init_process_group(backend, store=store, rank=rank, world_size=ranks, device_id=own)
    try:
        yield
        # whoever leaves first closes connections that others still read from
        dist.barrier()
    except BaseException as error:
        # a thread that waits for another rank would keep the connection to it open
        dist.group.WORLD.abort()
        # and so would what the error's frames hold, as `fully_shard` does
        traceback.clear_frames(error.__traceback__)
        raise
    finally:
        dist.destroy_process_group()
        # connections are closed with the last reference
        gc.collect()


@cache
def _find_store(rank: int, ranks: int, rendezvous: str | None) -> Any:
    """Return the store of all trials of a process; a second one would split the world."""
    if rendezvous is None:
        return dist.HashStore()
    store, _, _ = next(meet(rendezvous, rank, ranks))
    return store
