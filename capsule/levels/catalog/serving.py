"""Latency of a network as it is served: how queries come, and what trials yield.

single-stream   a query is sent as soon as the one before is answered
server          queries arrive by a Poisson process, whether or not the one before is answered; they
                wait in line, and latency counts from the arrival
offline         all queries are there at once; what counts is how long all of them take

as in MLPerf Inference (V. J. Reddi et al., ISCA 2020, section IV). A query is a batch of the case.
"""

from __future__ import annotations

from dataclasses import dataclass

from .metrics import MetricFacts

SCENARIOS = ("single-stream", "server", "offline")

PERCENTILES = {"latency_p90": 0.9, "latency_p99": 0.99}
"""Metrics that follow from the latencies of a trial, and which share of them is no larger."""


@dataclass(frozen=True)
class Serving:
    """Arrival of queries.

    Attributes:
        scenario: One of `SCENARIOS`.
        queries: How many a trial has.
        rate: Arrivals a second, of `server` alone.
    """

    scenario: str
    queries: int
    rate: float | None = None

    def to_json(self) -> dict[str, str | int | float]:
        """Return the serving as a job has it."""
        rate = {} if self.rate is None else {"rate": self.rate}
        return {"scenario": self.scenario, "queries": self.queries, **rate}


LATENCY = "latency"
_LATENCY = MetricFacts(LATENCY, "s", "lower", "machine", 1e-9, "call")
METRICS = {
    "single-stream": (_LATENCY,),
    "server": (
        _LATENCY,
        MetricFacts("queueing_time", "s", "lower", "machine", 1e-9, "call"),
        MetricFacts("busy_share", "1", "lower", "machine", 0.0, "trial"),
    ),
    "offline": (
        MetricFacts("service_time", "s", "lower", "machine", 1e-9, "call"),
        MetricFacts("offline_throughput", "1/s", "higher", "machine", 0.0, "trial"),
    ),
}
"""Further metrics of trials by scenario: throughput in examples; `queueing_time`, the part of a
latency before its query's turn; `busy_share`, the share of time spent on queries. Near 1, queries
arrive faster than they are answered, and latencies grow with their number."""
