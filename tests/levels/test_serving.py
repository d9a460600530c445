"""Queries that come as in production: in which order, when, and what is timed of them."""

from itertools import pairwise
from typing import Any

import pytest

from capsule.levels.catalog.serving import Serving
from capsule.levels.instruments import serving as instrument

Values = dict[str, tuple[float, ...]]


def serve(how: Serving, numbers: list[int], warmup: int = 2, **changes: Any) -> Values:
    series = instrument.serve(how, numbers.append, warmup, **{"batch": 4, "seed": 17, **changes})
    return {one.metric: one.values for one in series}


def test_queries_come_as_the_scenario_says() -> None:
    for how, metrics in (
        (Serving("single-stream", 5), {"latency": 5}),
        (Serving("server", 5, 1e5), {"latency": 5, "queueing_time": 5, "busy_share": 1}),
        (Serving("offline", 5), {"service_time": 5, "offline_throughput": 1}),
    ):
        numbers: list[int] = []
        values = serve(how, numbers)
        assert {name: len(some) for name, some in values.items()} == metrics
        assert numbers == [0, 1, *range(5)]


def test_a_latency_counts_from_the_arrival() -> None:
    # all arrive within a nanosecond or two: each waits for those before it
    values = serve(Serving("server", 50, 1e9), [])
    latencies, waits = values["latency"], values["queueing_time"]
    assert all(before <= after for before, after in pairwise(waits))
    assert all(0 <= wait < latency for wait, latency in zip(waits, latencies, strict=True))
    assert all(after >= before for before, after in zip(latencies, waits[1:], strict=False))
    assert 0 < values["busy_share"][0] <= 1


def test_arrivals_follow_from_the_seed_by_a_poisson_process() -> None:
    arrivals = instrument.arrivals_ns(4000, 50.0, 17)
    assert arrivals == instrument.arrivals_ns(4000, 50.0, 17)
    assert arrivals != instrument.arrivals_ns(4000, 50.0, 18)
    gaps = [after - before for before, after in zip([0, *arrivals], arrivals, strict=False)]
    assert min(gaps) >= 0
    mean = sum(gaps) / len(gaps)
    assert mean == pytest.approx(1e9 / 50, rel=0.05)
    # exponential: the deviation is the mean, and so many are longer than it
    assert sum((gap - mean) ** 2 for gap in gaps) / len(gaps) == pytest.approx(mean**2, rel=0.15)
    assert sum(gap > mean for gap in gaps) / len(gaps) == pytest.approx(0.3679, abs=0.03)


def test_a_rate_is_in_examples() -> None:
    values = serve(Serving("offline", 3), [])
    total = sum(values["service_time"])
    assert values["offline_throughput"][0] == pytest.approx(3 * 4 / total)
