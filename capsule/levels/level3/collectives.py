"""One Level 3 trial without a training: an operation by which ranks exchange arrays, and its time.

Before each call every rank fills its array with whole numbers of that call's own, so that sums are
exact in any order, and all meet at a barrier; after it what was obtained is held to what is due.
Neither is in the time. Before each ping-pong the two meet by one of a single element.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from time import perf_counter
from typing import Any, Callable, Protocol

import numpy

from ..catalog import collectives
from ..catalog.collectives import ITEM_BYTES
from ..frameworks import Framework
from ..job import Trial
from ..report import Report

Array = Any
"""A numpy array of one axis, float32."""

Native = Any
"""A library's replacement of an array."""

Call = Callable[[], object]
"""Exchanges, and returns once it is done."""

_PERIOD = 127
_OFFSETS = 251


class Library(Protocol):
    """Exchange of arrays between all ranks by one library."""

    def place(self, array: Array) -> Native:
        """Return the library's replacement of an array."""

    def put(self, array: Array, native: Native) -> None:
        """Let the library see what was written into an array."""

    def get(self, native: Native, array: Array) -> None:
        """See what the library wrote, in the array."""

    def barrier(self) -> None:
        """Wait for all ranks."""

    def prepare(self, name: str, own: Native, obtained: Native) -> Call:
        """Return an operation of all ranks, key of `COLLECTIVES`; of an array with no parts in
        place.
        """

    def prepare_send(self, own: Native, peer: int) -> Call:
        """Return a function that gives a rank an array."""

    def prepare_receive(self, obtained: Native, peer: int) -> Call:
        """Return a function that takes an array from a rank."""


class _Numbers:
    """Values with which ranks fill arrays of some length.

    Element i of rank r in call c is (i + c) mod 127 + 1 + r mod 251: whole numbers, whose sums over
    65,536 ranks float32 holds exactly, and none of them 0.
    """

    def __init__(self, count: int) -> None:
        self._count = count
        places = numpy.arange(count + _PERIOD) % _PERIOD + 1
        self._places = places.astype(numpy.float32)

    def of(self, rank: int, call: int) -> Array:
        """Return the values of one rank."""
        return self._shift(call) + numpy.float32(rank % _OFFSETS)

    def total(self, ranks: int, call: int) -> Array:
        """Return the sums over so many ranks."""
        offsets = sum(rank % _OFFSETS for rank in range(ranks))
        return self._shift(call) * numpy.float32(ranks) + numpy.float32(offsets)

    def _shift(self, call: int) -> Array:
        first = call % _PERIOD
        return self._places[first : first + self._count]


class _Calls:
    """Measurements of each call by one rank, in order."""

    def __init__(self, count: int) -> None:
        self.seconds: list[float] = []
        self.sent, self.received, self.messages = [0] * count, [0] * count, [0] * count

    def count(self, call: int, sent: int, received: int, messages: int = 1) -> None:
        """Add what a call has exchanged, in bytes."""
        self.sent[call] += sent
        self.received[call] += received
        self.messages[call] += messages


def measure(trial: Trial, framework: Framework, report: Report) -> None:
    """Exchange arrays, and report the metrics of `catalog.collectives`.

    Args:
        trial: One with a collective.
        framework: Whose arrays they are.
        report: Where the values go.

    Raises:
        ValueError: Ranks cannot exchange so, or one obtained other numbers than are due.
        RuntimeError: Not all ranks came, or one has left; or the image has no MPI for Python.
    """
    wanted, context = trial.collective, trial.context
    assert wanted is not None
    name, size, ranks = wanted.name, wanted.size, context.ranks
    reason = collectives.refuse(framework.name, context.device)
    if reason or (reason := collectives.refuse_size(name, size, ranks)):
        raise ValueError(reason)
    with _join(trial) as library, _rest():
        report.samples("world_size", [ranks])
        take = _bounce if name == "ping-pong" else _exchange
        calls = take(trial, library)
    # a call shorter than the clock's step is taken to last one
    rates = [size / max(one, 1e-9) for one in calls.seconds]
    columns: dict[str, Sequence[float]] = {
        "latency": calls.seconds,
        "bandwidth": rates,
        "bus_bandwidth": [collectives.bus_share(name, ranks) * one for one in rates],
        "bytes_sent": calls.sent,
        "bytes_received": calls.received,
        "messages": calls.messages,
    }
    for metric, values in columns.items():
        report.samples(metric, values, warmup=trial.warmup)


@contextmanager
def _join(trial: Trial) -> Iterator[Library]:
    """Open the library that exchanges the framework's arrays, with all ranks in it."""
    context = trial.context
    if context.framework == collectives.MPI:
        from .overmpi import OverMpi

        yield OverMpi(context.rank, context.ranks)
        return
    # with torch, which an image for MPI need not have
    from ..communicators import connect
    from .overtorch import OverTorch

    where = context.rank, context.ranks, context.rendezvous, trial.id
    with connect(*where, device=context.device):
        yield OverTorch(context.device)


@contextmanager
def _rest() -> Iterator[None]:
    """Let no garbage be collected while calls are timed."""
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def _exchange(trial: Trial, library: Library) -> _Calls:
    """Return the calls of an operation of all ranks."""
    assert trial.collective is not None
    name, rank, ranks = trial.collective.name, trial.context.rank, trial.context.ranks
    count = trial.collective.size // ITEM_BYTES
    part, numbers = count // ranks, _Numbers(count)
    own = obtained = numpy.empty(part if name == "all-gather" else count, numpy.float32)
    if collectives.COLLECTIVES[name].parted:
        obtained = numpy.empty(part if name == "reduce-scatter" else count, numpy.float32)
    natives = library.place(own), library.place(obtained)
    operate = library.prepare(name, *natives)
    calls = _Calls(trial.warmup + trial.repetitions)
    for call in range(len(calls.sent)):
        obtained.fill(0)
        library.put(obtained, natives[1])
        if name != "broadcast" or rank == 0:
            own[:] = numbers.of(rank, call)[: own.size]
            library.put(own, natives[0])
        library.barrier()
        began = perf_counter()
        operate()
        calls.seconds.append(perf_counter() - began)
        library.get(natives[1], obtained)
        _hold(trial, call, obtained, _find_due(name, numbers, part, (rank, ranks), call))
        calls.count(call, *_count_bytes(name, own, obtained, part * ITEM_BYTES, rank))
    return calls


def _find_due(name: str, numbers: _Numbers, part: int, place: tuple[int, int], call: int) -> Array:
    """Return the values that a rank must obtain.

    Args:
        name: Key of `COLLECTIVES`.
        numbers: What ranks had.
        part: Elements of an array's part.
        place: Which rank, of how many.
        call: From 0.
    """
    rank, ranks = place
    span = slice(rank * part, (rank + 1) * part)
    if name == "all-reduce":
        return numbers.total(ranks, call)
    if name == "reduce-scatter":
        return numbers.total(ranks, call)[span]
    if name == "broadcast":
        return numbers.of(0, call)
    if name == "all-gather":
        span = slice(0, part)
    return numpy.concatenate([numbers.of(one, call)[span] for one in range(ranks)])


def _count_bytes(name: str, own: Array, obtained: Array, part: int, rank: int) -> tuple[int, int]:
    """Return the bytes that a call sent and received, as `communicators` counts."""
    if name == "broadcast":
        return (0, obtained.nbytes) if rank else (own.nbytes, 0)
    if name == "all-gather":
        return own.nbytes, obtained.nbytes - part
    if name == "all-to-all":
        return own.nbytes - part, obtained.nbytes - part
    return own.nbytes, obtained.nbytes


def _bounce(trial: Trial, library: Library) -> _Calls:
    """Ping-pongs of each rank with the next one, one rank after the other."""
    rank, ranks = trial.context.rank, trial.context.ranks
    calls = _Calls(trial.warmup + trial.repetitions)
    library.barrier()
    for first in range(ranks):
        second = (first + 1) % ranks
        if rank == first:
            _play(trial, library, first, second, calls)
        elif rank == second:
            _play(trial, library, first, first, calls)
    return calls


def _play(trial: Trial, library: Library, first: int, peer: int, calls: _Calls) -> None:
    """Play ping-pong between two ranks, with the first rank's time."""
    assert trial.collective is not None
    count = trial.collective.size // ITEM_BYTES
    numbers, begins = _Numbers(count), trial.context.rank == first
    own, obtained, small = (numpy.zeros(one, numpy.float32) for one in (count, count, 1))
    natives = library.place(own), library.place(obtained), library.place(small)
    # the other gives back what it got
    send = library.prepare_send(natives[0] if begins else natives[1], peer)
    receive = library.prepare_receive(natives[1], peer)
    greet, hear = (
        make(natives[2], peer) for make in (library.prepare_send, library.prepare_receive)
    )
    for call in range(len(calls.sent)):
        own[:] = numbers.of(first, call)
        obtained.fill(0)
        library.put(own, natives[0])
        library.put(obtained, natives[1])
        if begins:
            greet()
            hear()
            began = perf_counter()
            send()
            receive()
            calls.seconds.append((perf_counter() - began) / 2)
        else:
            hear()
            greet()
            receive()
            send()
        library.get(natives[1], obtained)
        _hold(trial, call, obtained, own)
        calls.count(call, own.nbytes, obtained.nbytes, 2)


def _hold(trial: Trial, call: int, obtained: Array, due: Array) -> None:
    """Hold what a rank obtained to what is due.

    Raises:
        ValueError: It is something else.
    """
    assert trial.collective is not None
    wrong = numpy.flatnonzero(obtained != due)
    if wrong.size:
        place = wrong[0]
        raise ValueError(
            f"{trial.collective.name} of {trial.collective.size} bytes gave {obtained[place]:g} at"
            f" index {place} in call {call}, expected {due[place]:g}; {wrong.size} of {due.size}"
            " elements are wrong"
        )
