"""The types of the catalogue, the frameworks and the metrics of Level 0: plain data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

DTYPES = ("float64", "float32", "tf32", "bfloat16", "float16")


@dataclass(frozen=True)
class FrameworkFacts:
    """What one framework can do for Level 0.

    Attributes:
        dtypes: Words of `DTYPES` on a CPU.
        differentiates: Whether it yields gradients, and so the metrics that need them.
        lacks: Operators that it does not have.
        cuda: Dtypes that it has on a CUDA device in addition; None where it has no such device.
        package: Python package that it is found by; None where that is its own name.
        inexact: For a dtype, operators that it has no kernel for, or one that does not keep the
            dtype's precision.
    """

    dtypes: tuple[str, ...]
    differentiates: bool = True
    lacks: tuple[str, ...] = ()
    cuda: tuple[str, ...] | None = None
    package: str | None = None
    inexact: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


_NO_DOUBLES = (
    *(f"conv{way}{rank}d" for way in ("", "_transpose") for rank in (1, 2, 3)),
    *("average_pool2d", "global_average_pool", "gelu"),
    # ONNX keeps their constants, or ONNX Runtime their sums, in float32
    *("batch_norm", "batch_norm_inference", "layer_norm", "group_norm", "attention"),
)

FRAMEWORKS: dict[str, FrameworkFacts] = {
    "torch": FrameworkFacts(("float64", "float32", "bfloat16", "float16"), cuda=("tf32",)),
    "numpy": FrameworkFacts(("float64", "float32")),
    # its kernels for CPUs sum 16-bit products in 16 bits, and its gelu has constants of float32
    "tensorflow": FrameworkFacts(("float64", "float32"), inexact={"float64": ("gelu",)}),
    # the gradient of gelu is made of many operations, each rounded to 16 bits
    "tensorflow-xla": FrameworkFacts(
        ("float64", "float32", "bfloat16", "float16"),
        package="tensorflow",
        inexact=dict.fromkeys(("float64", "bfloat16", "float16"), ("gelu",)),
    ),
    "onnxruntime": FrameworkFacts(
        ("float64", "float32", "float16"),
        differentiates=False,
        inexact={"float64": _NO_DOUBLES},
    ),
}


@dataclass(frozen=True)
class MetricFacts:
    """What one number of an operator means.

    Attributes:
        name: Last segment of the metric path.
        unit: UCUM-like, `1` for a pure number.
        direction: Which way is better.
        kind: `portable` numbers should agree between machines, `machine` ones belong to one.
        resolution: Smallest step the number can make, in its unit; 0 when it has none.
        needs: `gradient` for a framework that differentiates, `flops` for an operator that
            computes; None for every trial.
    """

    name: str
    unit: str
    direction: Literal["lower", "higher", "none"]
    kind: Literal["portable", "machine"]
    resolution: float
    needs: Literal["gradient", "flops"] | None = None


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
    """A Level 0 subject.

    Attributes:
        name: As a manifest's `operator` names it.
        module: Module of `levels.operators` that defines it.
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


FORWARD_METRICS = (
    MetricFacts("forward_time", "s", "lower", "machine", 1e-9),
    MetricFacts("forward_flops", "1", "none", "portable", 1.0, "flops"),
    MetricFacts("forward_bytes", "By", "none", "portable", 1.0),
    MetricFacts("forward_flops_per_second", "1/s", "higher", "machine", 0.0, "flops"),
    MetricFacts("forward_bytes_per_second", "By/s", "higher", "machine", 0.0),
    MetricFacts("l1_error", "1", "lower", "portable", 0.0),
    MetricFacts("l2_error", "1", "lower", "portable", 0.0),
    MetricFacts("max_error", "1", "lower", "portable", 0.0),
    MetricFacts("relative_error", "1", "lower", "portable", 0.0),
    MetricFacts("l2_error_ratio", "1", "lower", "portable", 0.0),
    MetricFacts("error_heatmap", "1", "lower", "portable", 0.0),
    MetricFacts("repeatable", "1", "higher", "portable", 0.0),
    MetricFacts("backward_time", "s", "lower", "machine", 1e-9, "gradient"),
    MetricFacts("grad_l2_error_ratio", "1", "lower", "portable", 0.0, "gradient"),
    MetricFacts("gradient_check", "1", "lower", "portable", 0.0, "gradient"),
)

CUDA_METRICS = (MetricFacts("peak_memory_bytes", "By", "lower", "machine", 1.0),)
"""What trials on a CUDA device yield in addition."""
