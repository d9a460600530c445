"""The metric `energy`, derived from the energy counters of devices."""

from __future__ import annotations

from capsule.manifest.kinds import Command, Network, Operator, Recipe
from capsule.manifest.model import Benchmark, Metric

ENERGY = Metric(
    name="energy", unit="J", direction="lower", kind="machine", resolution=0.001, per="trial"
)
"""Energy of the whole GPUs of a trial during its timed part; without a GPU, of the whole processor
packages. A run lacks the metric if the counters do not show the energy."""


def metrics(benchmark: Benchmark) -> tuple[Metric, ...]:
    """Return the metric for subjects that have it; none if the author declares one of its name."""
    match benchmark.subject:
        case Command() | Operator() | Recipe():
            is_due = all(one.name != ENERGY.name for one in benchmark.metrics)
        case Network(serving=serving):
            is_due = serving is not None
        case _:
            is_due = False
    return (ENERGY,) if is_due else ()
