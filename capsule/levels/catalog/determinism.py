"""Settings, checks and refusals of `"determinism": "strict"`, in one table.

Strict means that equal seeds on one machine give equal bits, also in another process and under
another engine. A subject that cannot promise this is refused with the reason.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from .frameworks import FRAMEWORKS


@dataclass(frozen=True)
class Variable:
    """A variable of the environment that can change which bits come out.

    Attributes:
        name: Its name.
        value: What a workload gets; None to leave it out.
        safe: Pattern of the values that it may have. It may be absent where `value` is None.
        reason: What any other value may do.
    """

    name: str
    value: str | None
    safe: str
    reason: str


_BY_TIMING = "the framework chooses kernels by timing, so two processes may sum in different orders"
_TF32 = "only the value 0 is known to keep TF32 off"

VARIABLES = (
    Variable(
        "CUBLAS_WORKSPACE_CONFIG",
        ":4096:8",
        ":4096:8|:16:8",
        "cuBLAS is deterministic only with the workspace :4096:8 or :16:8"
        " (cuBLAS manual, section 2.1.4)",
    ),
    Variable("TF_DETERMINISTIC_OPS", "1", "1|true", "TensorFlow may use nondeterministic kernels"),
    Variable(
        "NCCL_ALGO",
        "Ring",
        "(?i:ring|tree)",
        "NCCL chooses an algorithm itself, and the algorithm decides the order of sums",
    ),
    Variable(
        "MKL_CBWR",
        "AUTO",
        "(AUTO|COMPATIBLE|SSE2|SSE4_2|AVX|AVX2|AVX512|AVX512_E1)(,STRICT)?",
        "MKL sums in an order that depends on the alignment of memory",
    ),
    Variable("MKL_DYNAMIC", "FALSE", "(?i:false|0)", "MKL may use fewer threads in some calls"),
    Variable("OMP_DYNAMIC", "FALSE", "(?i:false)", "OpenMP may use fewer threads in some calls"),
    Variable(
        "KMP_DETERMINISTIC_REDUCTION",
        "1",
        "(?i:1|true)",
        "OpenMP of Intel and LLVM adds the sums of threads in the order of arrival",
    ),
    Variable(
        "OMP_SCHEDULE",
        None,
        "(?i:static)(,[0-9]+)?",
        "OpenMP divides sums among threads by the speed of each thread, which varies",
    ),
    Variable("NVIDIA_TF32_OVERRIDE", None, "0", _TF32),
    Variable("TORCH_ALLOW_TF32_CUBLAS_OVERRIDE", None, "0", _TF32),
    Variable("TF_CUDNN_USE_AUTOTUNE", None, "0", _BY_TIMING),
    Variable("TORCHINDUCTOR_MAX_AUTOTUNE", None, "0", _BY_TIMING),
    Variable("TORCHINDUCTOR_MAX_AUTOTUNE_GEMM", None, "0", _BY_TIMING),
    Variable("TORCHINDUCTOR_COORDINATE_DESCENT_TUNING", None, "0", _BY_TIMING),
    Variable(
        "XLA_FLAGS",
        None,
        r"(\s*--xla_(gpu_deterministic_ops=true|gpu_exclude_nondeterministic_ops=true"
        r"|gpu_autotune_level=0|cpu_enable_fast_math=false))*\s*",
        "some of these flags may change the order of sums",
    ),
    Variable(
        "TF_XLA_FLAGS",
        None,
        r"\s*",
        "XLA may compile operations in clusters, which changes the order of sums",
    ),
)
"""Beside these `PYTHONHASHSEED` is the seed, and thread counts are those of `resources`."""

THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMEXPR_NUM_THREADS")
"""Sums are split between as many threads as these say."""

METRIC = "repeatable"
"""Metric of operators and networks that is 1 where repeated calls give equal bits."""

SWITCHES: Mapping[str, object] = {
    "deterministic_algorithms": True,
    "cudnn_benchmark": False,
    "cudnn_deterministic": True,
    "cudnn_allow_tf32": False,
    "cuda_matmul_allow_tf32": False,
}
"""Required value of each setting of a framework when trials begin, if it has that setting."""

_OPERATORS = {"cosmoflow": ("max_pool3d",)}
"""Operators of networks, of those that `FrameworkFacts.nondeterministic` names."""


def set_variables() -> dict[str, str]:
    """Set the variables of a workload beside its seed and threads."""
    return {one.name: one.value for one in VARIABLES if one.value is not None}


def fault(name: str, value: str) -> str | None:
    """Return why a variable may not have this value; None where it may, or matters to nothing
    here.
    """
    for one in VARIABLES:
        if one.name == name and not re.fullmatch(one.safe, value):
            return f"{name} is {value[:80]!r}: {one.reason}"
    return None


def faults(variables: Mapping[str, str], threads: int, seed: int) -> Iterator[str]:
    """Return differences of a process's environment from the needs of strict determinism.

    Args:
        variables: The environment.
        threads: Threads inside one operation.
        seed: Seed of the trials.
    """
    for one in VARIABLES:
        if one.name in variables:
            reason = fault(one.name, variables[one.name])
            if reason is not None:
                yield reason
        elif one.value is not None:
            yield f"{one.name} is not set: {one.reason}"
    due = {**dict.fromkeys(THREADS, str(threads)), "PYTHONHASHSEED": str(seed)}
    for name, value in due.items():
        if variables.get(name) != value:
            yield f"{name} is {variables.get(name)!r}, but capsule set {value!r}"


def switch_faults(settings: Mapping[str, object], threads: int) -> Iterator[str]:
    """Return differences of a framework's state from the needs of strict determinism.

    Args:
        settings: What `Framework.settings` returns.
        threads: Threads inside one operation.
    """
    for name, due in {**SWITCHES, "threads": threads}.items():
        if name in settings and settings[name] != due:
            yield f"{name} is {settings[name]!r}, expected {due!r} for strict determinism"


def refusal(framework: str, device: str, name: str) -> str | None:
    """Return why an operator or a network has no deterministic path; None where one is known.

    Args:
        framework: Key of `FRAMEWORKS`.
        device: `cpu` or `cuda`.
        name: Name of an operator or a network of the catalogue, or a user's.
    """
    without = FRAMEWORKS[framework].nondeterministic if device == "cuda" else {}
    reasons = (without.get(part) for part in ("", name, *_OPERATORS.get(name, ())))
    return next((reason for reason in reasons if reason), None)


def refuse_mode(mode: str) -> str | None:
    """Return why a mode of `torch.compile` is not deterministic, None if it is.

    Args:
        mode: Key of `training.COMPILE_MODES`; empty for none.
    """
    return f"compile_mode is {mode}: {_BY_TIMING}" if mode.startswith("max-autotune") else None
