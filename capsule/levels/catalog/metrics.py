"""Metrics of Levels 0 and 1: unit, direction, kind and meaning, as plain data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Per = Literal["call", "trial", "node", "block", "step", "rank"]


@dataclass(frozen=True)
class MetricFacts:
    """Meaning of one metric of an operator or a network.

    Attributes:
        name: Last segment of the metric path.
        unit: UCUM-like, `1` for a pure number.
        direction: Which way is better.
        kind: `portable` numbers should agree between machines, `machine` ones belong to one.
        resolution: Smallest step the number can make, in its unit; 0 when it has none.
        per: What a trial has one value of it for: each timed `call`, each `node` of a network, each
            `block` of a heat map or class of the data, each `step` of a training, each `rank`;
            `trial` for a single one.
        needs: `gradient` for a framework that differentiates, `flops` for an operator that
            computes, `memory` where the memory in use can be seen, `nodes` for a framework that
            differentiates and does not compile networks as a whole; None for every trial.
        device: The only device that it is measured on; None for every device.
    """

    name: str
    unit: str
    direction: Literal["lower", "higher", "none"]
    kind: Literal["portable", "machine"]
    resolution: float
    per: Per
    needs: Literal["gradient", "flops", "memory", "nodes"] | None = None
    device: Literal["cuda"] | None = None


def _latency(way: str, needs: Literal["gradient"] | None = None) -> MetricFacts:
    """Return the metric of single calls on a GPU; on a CPU the other times are of single calls."""
    return MetricFacts(f"{way}_latency", "s", "lower", "machine", 1e-9, "call", needs, "cuda")


_ERRORS = (
    MetricFacts("l1_error", "1", "lower", "portable", 0.0, "trial"),
    MetricFacts("l2_error", "1", "lower", "portable", 0.0, "trial"),
    MetricFacts("max_error", "1", "lower", "portable", 0.0, "trial"),
    MetricFacts("relative_error", "1", "lower", "portable", 0.0, "trial"),
    MetricFacts("l2_error_ratio", "1", "lower", "portable", 0.0, "trial"),
)
_ELEMENTS = (MetricFacts("element_error_ratio", "1", "lower", "portable", 0.0, "trial"),)
_GRADIENT_ERRORS = (
    MetricFacts("grad_l2_error_ratio", "1", "lower", "portable", 0.0, "trial", "gradient"),
    MetricFacts("gradient_check", "1", "lower", "portable", 0.0, "trial", "gradient"),
)
_GRADIENT_ELEMENTS = (
    MetricFacts("grad_element_error_ratio", "1", "lower", "portable", 0.0, "trial", "gradient"),
)

OPERATOR_METRICS = (
    MetricFacts("forward_time", "s", "lower", "machine", 1e-9, "call"),
    _latency("forward"),
    MetricFacts("peak_memory_bytes", "By", "lower", "machine", 1.0, "trial", "memory"),
    MetricFacts("compile_time", "s", "lower", "machine", 1e-9, "trial"),
    MetricFacts("forward_flops", "1", "none", "portable", 1.0, "trial", "flops"),
    MetricFacts("forward_bytes", "By", "none", "portable", 1.0, "trial"),
    MetricFacts("forward_flops_per_second", "1/s", "higher", "machine", 0.0, "call", "flops"),
    MetricFacts("forward_bytes_per_second", "By/s", "higher", "machine", 0.0, "call"),
    *_ERRORS,
    *_ELEMENTS,
    MetricFacts("error_heatmap", "1", "lower", "portable", 0.0, "block"),
    MetricFacts("repeatable", "1", "higher", "portable", 0.0, "trial"),
    MetricFacts("backward_time", "s", "lower", "machine", 1e-9, "call", "gradient"),
    _latency("backward", "gradient"),
    *_GRADIENT_ERRORS,
    *_GRADIENT_ELEMENTS,
)
"""Metrics of operators.

On a CUDA device, `forward_time` and `backward_time` are the device's own time of a call: events
around many calls, all queued before the device begins the first one, so no launch is in the time.
`forward_latency` and `backward_latency` are the time of a single call by the host's clock: launch,
kernels, and the wait for their end.
"""

ROOFLINE_METRICS = (
    MetricFacts("machine_flops_per_second", "1/s", "higher", "machine", 0.0, "call"),
    MetricFacts("machine_bytes_per_second", "By/s", "higher", "machine", 0.0, "call"),
    MetricFacts("roofline_share", "1", "higher", "machine", 0.0, "trial"),
)
"""Further metrics of operators if the machine's roofline is measured: the rate of each product of
matrices and of each copy of memory, and the shortest time that these rates allow, relative to the
operator's own.
"""

NETWORK_METRICS = (
    MetricFacts("inference_time", "s", "lower", "machine", 1e-9, "call"),
    _latency("inference"),
    MetricFacts("inference_throughput", "1/s", "higher", "machine", 0.0, "call"),
    MetricFacts("training_time", "s", "lower", "machine", 1e-9, "call", "gradient"),
    _latency("training", "gradient"),
    MetricFacts("training_throughput", "1/s", "higher", "machine", 0.0, "call", "gradient"),
    MetricFacts("peak_memory_bytes", "By", "lower", "machine", 1.0, "trial", "memory"),
    MetricFacts("compile_time", "s", "lower", "machine", 1e-9, "trial"),
    MetricFacts("layer_time", "s", "lower", "machine", 1e-9, "node"),
    MetricFacts("layer_backward_time", "s", "lower", "machine", 1e-9, "node", "nodes"),
    MetricFacts("framework_overhead", "1", "lower", "machine", 0.0, "trial"),
    MetricFacts("parameters", "1", "none", "portable", 1.0, "trial"),
    MetricFacts("forward_flops", "1", "none", "portable", 1.0, "trial"),
    MetricFacts("loss", "1", "none", "portable", 0.0, "trial", "gradient"),
    *_ERRORS,
    MetricFacts("repeatable", "1", "higher", "portable", 0.0, "trial"),
    *_GRADIENT_ERRORS,
    MetricFacts("element_error_ratio", "1", "lower", "portable", 0.0, "trial", "nodes"),
    MetricFacts("bound_share", "1", "lower", "portable", 0.0, "trial", "nodes"),
    MetricFacts("micro_batches", "1", "none", "machine", 1.0, "trial", "gradient"),
)
"""Metrics of networks: throughputs in examples, training as forward and backward.

`layer_time` has one value per node of the graph's inference, in order, `layer_backward_time` one
per node of its training that a gradient passes, in the same order. `compile_time` is the time
to the first result, of making what is called and of calling it once, forward and backward together.

On a CUDA device, `inference_time` and `training_time` are by events around calls that follow each
other without a wait: the device's work, and its waits for launches. `layer_time` and
`layer_backward_time` are the device's own time of a node, without launches, as an operator's.
`inference_latency` and `training_latency` are those of single calls, as an operator's.
"""
