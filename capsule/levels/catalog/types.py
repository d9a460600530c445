"""The types of the catalogue, the frameworks and the metrics of Levels 0 and 1: plain data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

DTYPES = ("float64", "float32", "tf32", "bfloat16", "float16")


@dataclass(frozen=True)
class FrameworkFacts:
    """What one framework can do.

    Attributes:
        dtypes: Words of `DTYPES` on a CPU.
        differentiates: Whether it yields gradients, and so the metrics that need them.
        lacks: Operators that it does not have; networks do not go by this.
        cuda: Dtypes that it has on a CUDA device in addition; None where it has no such device.
        package: Python package that it is found by; None where that is its own name.
        inexact: For a dtype, operators that it has no kernel for, or one that does not keep the
            dtype's precision; networks too.
        levels: Deep500 levels of what it can run.
        keeps_memory: Whether it keeps host memory that it is done with, so that nothing tells how
            much a trial needed.
    """

    dtypes: tuple[str, ...]
    differentiates: bool = True
    lacks: tuple[str, ...] = ()
    cuda: tuple[str, ...] | None = None
    package: str | None = None
    inexact: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    levels: tuple[int, ...] = (0, 1)
    keeps_memory: bool = False


_NO_DOUBLES = (
    *(f"conv{way}{rank}d" for way in ("", "_transpose") for rank in (1, 2, 3)),
    *("average_pool2d", "global_average_pool", "gelu"),
    # ONNX keeps their constants, or ONNX Runtime their sums, in float32
    *("batch_norm", "batch_norm_inference", "layer_norm", "group_norm", "attention"),
)

FRAMEWORKS: dict[str, FrameworkFacts] = {
    "torch": FrameworkFacts(("float64", "float32", "bfloat16", "float16"), cuda=("tf32",)),
    # one operation alone has nothing to be compiled with
    "torch-compile": FrameworkFacts(
        ("float64", "float32", "bfloat16", "float16"),
        cuda=("tf32",),
        package="torch",
        levels=(1,),
    ),
    "numpy": FrameworkFacts(("float64", "float32")),
    # its kernels for CPUs sum 16-bit products in 16 bits, and its gelu has constants of float32
    "tensorflow": FrameworkFacts(
        ("float64", "float32"), inexact={"float64": ("gelu",)}, keeps_memory=True
    ),
    # the gradient of gelu is made of many operations, each rounded to 16 bits
    "tensorflow-xla": FrameworkFacts(
        ("float64", "float32", "bfloat16", "float16"),
        package="tensorflow",
        inexact=dict.fromkeys(("float64", "bfloat16", "float16"), ("gelu",)),
        keeps_memory=True,
    ),
    "onnxruntime": FrameworkFacts(
        ("float64", "float32", "float16"),
        differentiates=False,
        inexact={"float64": _NO_DOUBLES},
    ),
}


@dataclass(frozen=True)
class MetricFacts:
    """What one number of an operator or a network means.

    Attributes:
        name: Last segment of the metric path.
        unit: UCUM-like, `1` for a pure number.
        direction: Which way is better.
        kind: `portable` numbers should agree between machines, `machine` ones belong to one.
        resolution: Smallest step the number can make, in its unit; 0 when it has none.
        needs: `gradient` for a framework that differentiates, `flops` for an operator that
            computes, `memory` where the memory in use can be seen; None for every trial.
    """

    name: str
    unit: str
    direction: Literal["lower", "higher", "none"]
    kind: Literal["portable", "machine"]
    resolution: float
    needs: Literal["gradient", "flops", "memory"] | None = None


@dataclass(frozen=True)
class Option:
    """A parameter that a case may leave out.

    Attributes:
        name: As a case writes it.
        default: Its value where a case does not name it; such a value is not in the case's name.
        least: Smallest value.
        most: Largest value, None where there is no limit.
    """

    name: str
    default: int
    least: int = 0
    most: int | None = 1


@dataclass(frozen=True)
class Operator:
    """A Level 0 subject, or with `level` 1 a network.

    Attributes:
        name: As a manifest's `operator` or `network` names it.
        module: Module of `levels.operators` or `levels.networks` that defines it.
        level: Deep500 level.
        parameters: Names of its sizes, each a whole number of at least 1, in case-name order.
        options: Further whole numbers, with defaults, in case-name order after the sizes.
        cases: Named sweeps: set name -> (case name, parameters) in the order that they run.
        metrics: What its trials yield with a framework that differentiates, on any device; `due`
            says which a given trial does.
        frameworks: Who can run it.
        dtypes: Element types of its tensors.
    """

    name: str
    module: str
    level: int
    parameters: tuple[str, ...]
    options: tuple[Option, ...]
    cases: Mapping[str, tuple[tuple[str, Mapping[str, int]], ...]]
    metrics: tuple[MetricFacts, ...]
    frameworks: tuple[str, ...]
    dtypes: tuple[str, ...] = DTYPES


_ERRORS = (
    MetricFacts("l1_error", "1", "lower", "portable", 0.0),
    MetricFacts("l2_error", "1", "lower", "portable", 0.0),
    MetricFacts("max_error", "1", "lower", "portable", 0.0),
    MetricFacts("relative_error", "1", "lower", "portable", 0.0),
    MetricFacts("l2_error_ratio", "1", "lower", "portable", 0.0),
)
_GRADIENT_ERRORS = (
    MetricFacts("grad_l2_error_ratio", "1", "lower", "portable", 0.0, "gradient"),
    MetricFacts("gradient_check", "1", "lower", "portable", 0.0, "gradient"),
)

FORWARD_METRICS = (
    MetricFacts("forward_time", "s", "lower", "machine", 1e-9),
    MetricFacts("peak_memory_bytes", "By", "lower", "machine", 1.0, "memory"),
    MetricFacts("forward_flops", "1", "none", "portable", 1.0, "flops"),
    MetricFacts("forward_bytes", "By", "none", "portable", 1.0),
    MetricFacts("forward_flops_per_second", "1/s", "higher", "machine", 0.0, "flops"),
    MetricFacts("forward_bytes_per_second", "By/s", "higher", "machine", 0.0),
    *_ERRORS,
    MetricFacts("error_heatmap", "1", "lower", "portable", 0.0),
    MetricFacts("repeatable", "1", "higher", "portable", 0.0),
    MetricFacts("backward_time", "s", "lower", "machine", 1e-9, "gradient"),
    *_GRADIENT_ERRORS,
)

NETWORK_METRICS = (
    MetricFacts("inference_time", "s", "lower", "machine", 1e-9),
    MetricFacts("inference_throughput", "1/s", "higher", "machine", 0.0),
    MetricFacts("training_time", "s", "lower", "machine", 1e-9, "gradient"),
    MetricFacts("training_throughput", "1/s", "higher", "machine", 0.0, "gradient"),
    MetricFacts("peak_memory_bytes", "By", "lower", "machine", 1.0, "memory"),
    MetricFacts("layer_time", "s", "lower", "machine", 1e-9),
    MetricFacts("framework_overhead", "1", "lower", "machine", 0.0),
    MetricFacts("parameters", "1", "none", "portable", 1.0),
    MetricFacts("forward_flops", "1", "none", "portable", 1.0),
    MetricFacts("loss", "1", "none", "portable", 0.0, "gradient"),
    *_ERRORS,
    MetricFacts("repeatable", "1", "higher", "portable", 0.0),
    *_GRADIENT_ERRORS,
    MetricFacts("micro_batches", "1", "none", "machine", 1.0, "gradient"),
)
"""What trials of networks yield: throughputs in examples, training as forward and backward.

`layer_time` has one value per node of the graph's inference, in order.
"""
