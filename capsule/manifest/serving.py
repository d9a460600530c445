"""Serving of Level 1 entries, and percentiles of latencies, which are derived from samples."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from capsule.levels.catalog.serving import LATENCY, METRICS, PERCENTILES, SCENARIOS, Serving
from capsule.manifest.kinds import Network
from capsule.manifest.model import Benchmark, Metric
from capsule.manifest.problems import Problems, instead, quote

Raw = Mapping[str, Any]

LEVEL = 0.95
"""Confidence of the interval that a percentile has to have."""

QUERIES = 1000
"""Default number of queries of a trial."""


def fewest(share: float) -> int:
    """Return the fewest values that give a percentile an interval with two ends at `LEVEL`.

    The interval has the smallest and the largest value for its ends, beyond which the percentile
    lies with a probability of at most half of what is left, on either side: share ** n is the
    larger of the two.

    >>> fewest(0.5), fewest(0.9), fewest(0.99)
    (6, 36, 368)
    """
    tail = max(share, 1 - share)
    return math.ceil(math.log((1 - LEVEL) / 2) / math.log(tail))


def check(raw: Raw, here: str, problems: Problems) -> None:
    """Note what is wrong with how an entry that fits the schema is served.

    Args:
        raw: The entry.
        here: Its JSON pointer.
        problems: Collects what is wrong.
    """
    chosen = raw.get("serving")
    if chosen is None:
        return
    where, scenario = f"{here}/serving", chosen["scenario"]
    if scenario not in SCENARIOS:
        message = f"no scenario {quote(scenario)}; {instead(scenario, SCENARIOS)}"
        problems.add(f"{where}/scenario", message)
    elif scenario == "server" and "rate" not in chosen:
        message = 'scenario "server" needs a rate in queries per second, for example "rate": 20'
        problems.add(where, message)
    elif scenario != "server" and "rate" in chosen:
        message = f'scenario "{scenario}" has no rate: remove "rate", or use scenario "server"'
        problems.add(f"{where}/rate", message)


def read(raw: Raw) -> Serving | None:
    """Return the serving of a checked entry, or None."""
    chosen = raw.get("serving")
    if chosen is None:
        return None
    rate = float(chosen["rate"]) if "rate" in chosen else None
    return Serving(chosen["scenario"], int(chosen.get("queries", QUERIES)), rate)


def of(benchmark: Benchmark) -> Serving | None:
    """Return the serving of a benchmark, or None."""
    match benchmark.subject:
        case Network(serving=serving):
            return serving
        case _:
            return None


def values(serving: Serving | None, metric: str) -> int | None:
    """Return the number of values of a metric in a trial, one for each query; None for others."""
    if serving is None:
        return None
    names = [facts.name for facts in METRICS[serving.scenario] if facts.per == "call"]
    return serving.queries if metric in names else None


def metrics(benchmark: Benchmark) -> tuple[Metric, ...]:
    """Return the percentiles that its latencies are enough for."""
    serving = of(benchmark)
    if serving is None or LATENCY not in [facts.name for facts in METRICS[serving.scenario]]:
        return ()
    return tuple(
        Metric(name=name, unit="s", direction="lower", kind="machine", resolution=1e-9, per="trial")
        for name, share in PERCENTILES.items()
        if serving.queries >= fewest(share)
    )


def refuse(benchmark: Benchmark, metric: str) -> str | None:
    """Return why a benchmark that is served has not this percentile; None where that is not the
    matter.
    """
    serving = of(benchmark)
    if serving is None or metric not in PERCENTILES:
        return None
    if serving.scenario == "offline":
        return 'scenario "offline" has no latencies: claim a throughput'
    if serving.queries >= fewest(PERCENTILES[metric]):
        return None
    share = PERCENTILES[metric]
    return (
        f"{serving.queries} queries are too few for a {100 * LEVEL:g} % interval of the"
        f" {100 * share:g}th percentile: use at least {fewest(share)}"
    )
