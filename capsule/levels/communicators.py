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

Arrays in the host's memory go by gloo, those on a CUDA device by NCCL. An operation of NCCL is only
in the device's queue when its call returns. So exchanges are timed between marks of a clock, which
on a device are places in that queue: see `base.DeviceClock`.
"""

from __future__ import annotations

import gc
import traceback
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from threading import Event, Thread
from time import perf_counter
from typing import Any, Callable, Protocol

import torch
import torch.distributed as dist
from torch.distributed.rendezvous import rendezvous as meet

from .catalog import failures
from .frameworks.base import Mark

Flat = Any
"""A tensor of one axis."""

Span = tuple[Mark, Mark]
"""Begin and end by a clock."""

_PARTED = {
    "all-gather": ("all_gather_single", "all_gather_into_tensor"),
    "reduce-scatter": ("reduce_scatter_single", "reduce_scatter_tensor"),
    "all-to-all": ("all_to_all_single",),
}
_BOTH = "cpu:gloo,cuda:nccl"
_LEFT = "left"
_LOOK_SECONDS = 0.5


class RankLeftError(Exception):
    """Another rank has left a trial; the message names it, and says why."""


def find_operation(name: str) -> Callable[[Flat, Flat], Any]:
    """Return torch's operation on a result and one array: torch 2.13 renamed two of them."""
    operation: Callable[[Flat, Flat], Any] = next(
        getattr(dist, one) for one in _PARTED[name] if hasattr(dist, one)
    )
    return operation


class Clock(Protocol):
    """Clock that times exchanges: that of the host, or a part of `base.DeviceClock`."""

    def mark(self) -> Mark:
        """Return the present moment, or put a mark at the end of a device's queue."""

    def has_passed(self, mark: Mark) -> bool:
        """Return whether a mark has its time; waits for nothing."""

    def seconds(self, begin: Mark, end: Mark) -> float:
        """Return the seconds from a mark to another, once both have their time."""


class HostClock:
    """Clock of exchanges that have ended when their calls return: a mark is a moment."""

    def mark(self) -> float:
        """`perf_counter`."""
        return perf_counter()

    def has_passed(self, mark: float) -> bool:
        """Return True: a moment has its time at once."""
        del mark
        return True

    def seconds(self, begin: float, end: float) -> float:
        """Return the difference."""
        return end - begin


HOST = HostClock()


@dataclass
class Traffic:
    """Traffic of a rank.

    Attributes:
        sent: Bytes.
        received: Bytes.
        messages: Operations; of `swap` and `trade` one for each peer.
        exchanges: Spans in which an operation was under way, waiting for others included, in the
            order in which they were finished.
        waits: Those in which the rank did nothing else.
    """

    sent: int = 0
    received: int = 0
    messages: int = 0
    exchanges: list[Span] = field(default_factory=list)
    waits: list[Span] = field(default_factory=list)

    def add(self, other: Traffic) -> None:
        """Count what another has too."""
        self.sent += other.sent
        self.received += other.received
        self.messages += other.messages
        self.exchanges += other.exchanges
        self.waits += other.waits


@dataclass
class UnderWay:
    """An operation that goes on beside what a rank does.

    Attributes:
        work: Torch's.
        began: A mark.
        ended: Likewise, in a list once it is over.
    """

    work: Any
    began: Mark
    ended: list[Mark]


class Communicator:
    """Operations among all ranks of torch's default process group, in place where they can be."""

    def __init__(self, clock: Clock = HOST) -> None:
        """Create a counter at zero.

        Args:
            clock: That of the device on which the arrays are.
        """
        self.rank, self.ranks = int(dist.get_rank()), int(dist.get_world_size())
        self._clock = clock
        self._traffic = Traffic()

    def renew(self) -> Communicator:
        """Return another one of the same ranks, for a thread of its own and arrays in the host's
        memory, with nothing counted yet.
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
        clock = self._clock
        began, ended = clock.mark(), list[Mark]()
        # what `dist.all_reduce` does besides takes longer than this
        work = dist.group.WORLD.allreduce(flat, dist.ReduceOp.SUM)
        # of a device, torch has a callback's stream wait for the operation, and with it the mark
        work.get_future().add_done_callback(lambda _: ended.append(clock.mark()))
        self._add(flat, sends=1, receives=1)
        return UnderWay(work, began, ended)

    def finish(self, under_way: Sequence[UnderWay]) -> None:
        """Wait for operations that were begun, in their order."""
        began = self._clock.mark()
        for one in under_way:
            one.work.wait()
        now = self._clock.mark()
        if self.ranks == 1:
            return
        for one in under_way:
            # the callback of the last one may be on its way yet
            self._traffic.exchanges.append((one.began, one.ended[0] if one.ended else now))
        self._traffic.waits.append((began, now))

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
        began = self._clock.mark()
        yield
        self.count_wait(began, self._clock.mark())

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
            _pass_on([(peer, flat) for peer in peers], zip(peers, obtained))
        return obtained

    def trade(self, outgoing: Mapping[int, Flat], incoming: Mapping[int, Flat]) -> None:
        """Send an array to each of some ranks, and put what others send into arrays.

        Args:
            outgoing: What is sent, by rank; of any shape, in C order.
            incoming: Where it is put, by rank; likewise.
        """
        with self.wait():
            _pass_on(outgoing.items(), incoming.items())
        self.count(outgoing.values(), incoming.values(), messages=len({*outgoing, *incoming}))

    def count(
        self, outgoing: Collection[Flat], incoming: Collection[Flat], messages: int | None = None
    ) -> None:
        """Count arrays that are sent and received elsewhere, one message each if not so many."""
        sent, received = (sum(map(_measure, arrays)) for arrays in (outgoing, incoming))
        if messages is None:
            messages = len(outgoing) + len(incoming)
        self._traffic.add(Traffic(sent, received, messages))

    def count_wait(self, began: Mark, ended: Mark) -> None:
        """Count a span in which the rank did nothing but exchange with others elsewhere."""
        if self.ranks > 1:
            self._traffic.exchanges.append((began, ended))
            self._traffic.waits.append((began, ended))

    @contextmanager
    def _count(self, flat: Flat, sends: int, receives: int, messages: int = 1) -> Iterator[None]:
        with self.wait():
            yield
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


def _pass_on(outgoing: Iterable[tuple[int, Flat]], incoming: Iterable[tuple[int, Flat]]) -> None:
    """Send arrays to ranks and receive others, all at once.

    NCCL would do one after the other, and two ranks that both receive first wait for good.
    """
    operations = [dist.P2POp(dist.irecv, one, peer) for peer, one in incoming]
    operations += [dist.P2POp(dist.isend, one, peer) for peer, one in outgoing]
    # torch takes no empty list
    for one in dist.batch_isend_irecv(operations) if operations else ():
        one.wait()


@contextmanager
def connect(
    rank: int, ranks: int, rendezvous: str | None, name: str, *, device: str = "cpu"
) -> Iterator[None]:
    """Make torch's default process group for the time of a trial: of gloo, and of NCCL on GPUs.

    A rank that leaves with an error closes its connections, so that the others end with one too.
    NCCL does not see that. So each rank on a GPU looks for ranks that have left, and ends its own
    exchanges then.

    Args:
        rank: From 0.
        ranks: How many come.
        rendezvous: Where they meet: a URL that torch takes, of which a file is not there yet; None
            for a rank that is alone.
        name: Name of the trial; ranks meet by it.
        device: `cpu`, or `cuda` for arrays on a GPU beside those in the host's memory.

    Raises:
        RankLeftError: One has left, of ranks on GPUs.
        RuntimeError: Not all of them came, or one has left.
        ValueError: Two ranks have the same GPU.
    """
    # what held connections of a trial that ended with an error may be let go of only now
    gc.collect()
    store = dist.PrefixStore(f"capsule/{name}", _find_store(rank, ranks, rendezvous))
    where = {"store": store, "rank": rank, "world_size": ranks}
    watch: _Watch | None = None
    if device == "cuda":
        _require_own_device(store, rank, ranks)
        # a rank sees its own device only; without it NCCL guesses one from the rank
        dist.init_process_group(_BOTH, device_id=torch.device("cuda", 0), **where)
        watch = _Watch(store, rank)
    else:
        dist.init_process_group("gloo", **where)
    try:
        yield
        # whoever leaves first closes connections that others still read from
        dist.barrier()
    except BaseException as error:
        earlier = watch.leave(error) if watch else ""
        if failures.is_sticky(error):
            # calls of a lost device may hang; this process ends next, and its connections with it
            raise
        # a thread that waits for another rank would keep the connection to it open
        _abort()
        # and so would what the error's frames hold, as `fully_shard` does
        traceback.clear_frames(error.__traceback__)
        _disconnect()
        if earlier:
            raise RankLeftError(earlier) from error
        raise
    else:
        if watch:
            watch.end()
        _disconnect()


def _abort() -> None:
    """End all operations that are under way, of the device too."""
    dist.group.WORLD.abort()


def _disconnect() -> None:
    dist.destroy_process_group()
    # connections are closed with the last reference
    gc.collect()


def _require_own_device(store: Any, rank: int, ranks: int) -> None:
    """Raise unless each rank has a GPU of its own, as NCCL demands.

    Raises:
        ValueError: Names two ranks that have the same one.
    """
    # an old torch does not know it
    own = str(getattr(torch.cuda.get_device_properties(0), "uuid", "") or f"unknown {rank}")
    store.set(f"device/{rank}", own)
    owners: dict[str, int] = {}
    for other in range(ranks):
        device = store.get(f"device/{other}").decode()
        first = owners.setdefault(device, other)
        if first != other:
            raise ValueError(
                f"ranks {first} and {other} have the same GPU ({device}), but NCCL needs one for"
                " each rank: let the scheduler give each rank its own GPU"
            )


class _Watch:
    """Thread that ends the exchanges of a rank once another rank has left the trial."""

    def __init__(self, store: Any, rank: int) -> None:
        """Begin to look.

        Args:
            store: That of the trial.
            rank: This one.
        """
        self._store, self._rank = store, rank
        self._is_over = Event()
        self._thread = Thread(target=self._look, daemon=True)
        self._thread.start()

    def leave(self, error: BaseException) -> str:
        """End, and say to all ranks why this one leaves.

        Returns:
            The same of the rank that left first; empty if this one is it.
        """
        self.end()
        earlier = self._find()
        if not earlier:
            reason = f"rank {self._rank} left the trial: {failures.describe(error)}"
            self._store.set(_LEFT, reason)
        return earlier

    def end(self) -> None:
        """Look no more."""
        self._is_over.set()
        self._thread.join()

    def _look(self) -> None:
        while not self._is_over.wait(_LOOK_SECONDS):
            if self._find():
                _abort()
                return

    def _find(self) -> str:
        try:
            found: str = self._store.get(_LEFT).decode() if self._store.check([_LEFT]) else ""
        except RuntimeError:
            # its process has the store of all
            return "rank 0 left the trial: its process has ended"
        return found


@cache
def _find_store(rank: int, ranks: int, rendezvous: str | None) -> Any:
    """Return the store of all trials of a process; a second one would split the world."""
    if rendezvous is None:
        return dist.HashStore()
    store, _, _ = next(meet(rendezvous, rank, ranks))
    return store
