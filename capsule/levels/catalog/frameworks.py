"""What is known of each framework, in one place: plain data, from which all else follows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class FrameworkFacts:
    """What one framework can do.

    Attributes:
        dtypes: Words of `types.DTYPES` on a CPU.
        differentiates: Whether it yields gradients, and so the metrics that need them.
        lacks: Operators that it does not have; networks do not go by this.
        cuda: Dtypes that it has on a CUDA device in addition; None where it has no such device.
        package: Python package that it is found by; None where that is its own name.
        inexact: For a dtype, operators that it has no kernel for, or one that does not keep the
            dtype's precision; networks too.
        operators: Whether it runs single operators.
        networks: Whether it runs networks.
        keeps_memory: Whether it keeps host memory that it is done with, so that nothing tells how
            much a trial needed.
    """

    dtypes: tuple[str, ...]
    differentiates: bool = True
    lacks: tuple[str, ...] = ()
    cuda: tuple[str, ...] | None = None
    package: str | None = None
    inexact: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    operators: bool = True
    networks: bool = True
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
        operators=False,
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
