"""Send queries as they come in production, and time each from its arrival to its answer."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from time import perf_counter_ns, sleep
from typing import Callable

from ..catalog.serving import Serving
from ..streams import fractions
from .calls import Series
from .spans import SPANS
from .timing import rest_collector

Query = Callable[[int], object]
"""Answers the query of a number from 0, and returns when the answer is there."""

_SPIN_NS = 2_000_000
_NS = 1e9


def serve(serving: Serving, query: Query, warmup: int, batch: int, seed: int) -> Iterator[Series]:
    """Send the queries of a scenario, one at a time and in their order.

    Args:
        serving: Which, and how many.
        query: Answers one.
        warmup: Queries before those, which nothing is kept of.
        batch: Examples of a query.
        seed: Seed of the trial, from which arrivals follow.
    """
    for number in range(warmup):
        query(number)
    count = serving.queries
    if serving.scenario == "server":
        assert serving.rate is not None
        arrivals = arrivals_ns(count, serving.rate, seed)
        with rest_collector():
            begins, ends = _send_at(query, arrivals)
        latencies = [end - due for end, due in zip(ends, arrivals)]
        waits = [begin - due for begin, due in zip(begins, arrivals)]
        yield Series("latency", _seconds(latencies))
        yield Series("queueing_time", _seconds(waits))
        busy = sum(end - begin for begin, end in zip(begins, ends))
        yield Series("busy_share", (busy / max(ends[-1], 1),))
        return
    with rest_collector():
        durations = _send_each(query, count)
    if serving.scenario == "single-stream":
        yield Series("latency", _seconds(durations))
        return
    yield Series("service_time", _seconds(durations))
    yield Series("offline_throughput", (count * batch * _NS / max(sum(durations), 1),))


def arrivals_ns(count: int, rate: float, seed: int) -> list[int]:
    """Return the arrival of each query in nanoseconds, with exponential intervals."""
    gaps = fractions(f"capsule-arrivals-1\n{seed}\n{count}\n", count, "float64")
    arrivals, now = [], 0.0
    for gap in gaps:
        now -= math.log(gap) / rate
        arrivals.append(int(now * _NS))
    return arrivals


@SPANS.measured
def _send_each(query: Query, count: int) -> list[int]:
    """Return nanoseconds of each; the clock is read once between two of them."""
    readings = [0] * (count + 1)
    readings[0] = perf_counter_ns()
    for number in range(count):
        query(number)
        readings[number + 1] = perf_counter_ns()
    return [after - before for before, after in zip(readings, readings[1:])]


@SPANS.measured
def _send_at(query: Query, arrivals: Sequence[int]) -> tuple[list[int], list[int]]:
    """Return start and end of each query's answer, from the beginning."""
    begins, ends = [0] * len(arrivals), [0] * len(arrivals)
    start = perf_counter_ns()
    for number, due in enumerate(arrivals):
        now = perf_counter_ns() - start
        while now < due:
            # the last bit awake: whoever is woken up comes late
            if due - now > _SPIN_NS:
                sleep((due - now - _SPIN_NS) / _NS)
            now = perf_counter_ns() - start
        begins[number] = now
        query(number)
        ends[number] = perf_counter_ns() - start
    return begins, ends


def _seconds(durations: Sequence[int]) -> tuple[float, ...]:
    return tuple(duration / _NS for duration in durations)
