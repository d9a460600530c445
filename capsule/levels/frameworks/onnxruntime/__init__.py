"""ONNX Runtime on CPUs, and ONNX files for every framework (`exchange`)."""

from __future__ import annotations

from ..base import Framework, FrameworkError


def create(device: str, threads: int | None, determinism: str) -> Framework:
    """ONNX Runtime on the CPU, with a thread count and either its own or deterministic kernels.

    Raises:
        FrameworkError: `device` is another one.
    """
    if device != "cpu":
        raise FrameworkError(
            f"onnxruntime has no device {device!r} here: capsule runs it on CPUs alone"
        )
    # here: `exchange` also serves images that have onnx, and no ONNX Runtime
    from .sessions import OnnxRuntime

    return OnnxRuntime(threads, determinism)
