"""PyTorch, on CPUs and CUDA devices."""

from __future__ import annotations

import random
from typing import Any, Callable

import numpy
import torch

from . import blas
from .base import FrameworkError

_SETTINGS: dict[str, Callable[[], Any]] = {
    "threads": torch.get_num_threads,
    "interop_threads": torch.get_num_interop_threads,
    "deterministic_algorithms": torch.are_deterministic_algorithms_enabled,
    "float32_matmul_precision": torch.get_float32_matmul_precision,
    "cuda_matmul_allow_tf32": lambda: torch.backends.cuda.matmul.allow_tf32,
    "cuda_matmul_allow_fp16_reduced_precision_reduction": (
        lambda: torch.backends.cuda.matmul.allow_fp16_reduced_precision_reduction
    ),
    "cudnn_enabled": lambda: torch.backends.cudnn.enabled,
    "cudnn_benchmark": lambda: torch.backends.cudnn.benchmark,
    "cudnn_deterministic": lambda: torch.backends.cudnn.deterministic,
    "cudnn_allow_tf32": lambda: torch.backends.cudnn.allow_tf32,
    "onednn_enabled": lambda: torch.backends.mkldnn.enabled,
    "cpu_capability": lambda: torch.backends.cpu.get_cpu_capability(),  # noqa: PLW0108 (absent in old torch)
    "blas": blas.loaded,
}


class Torch:
    """torch tensors on one device.

    TF32 stays as torch ships it (off for products, on for cuDNN convolutions) and is recorded;
    `strict` turns it off.
    """

    name = "torch"

    def __init__(self, device: str) -> None:
        self._device = torch.device(device)
        self.synchronize = torch.cuda.synchronize if self._device.type == "cuda" else None

    def from_numpy(self, array: Any) -> Any:
        """A copy of the array on the device."""
        return torch.from_numpy(array).to(self._device)

    def to_numpy(self, tensor: Any) -> Any:
        """A copy of the tensor in the host's memory."""
        return tensor.detach().cpu().numpy()

    def seed(self, seed: int) -> None:
        """Seed Python's, numpy's and torch's generators, those of every device included."""
        random.seed(seed)
        numpy.random.seed(seed)
        torch.manual_seed(seed)

    def settings(self) -> dict[str, Any]:
        """Threads, determinism, precision and library switches."""
        found: dict[str, Any] = {"device": str(self._device)}
        missing: dict[str, str] = {}
        for name, read in _SETTINGS.items():
            try:
                found[name] = read()
            except Exception as error:
                found[name] = None
                missing[name] = f"{type(error).__name__}: {error}"
        if self._device.type == "cuda":
            found["device_name"] = torch.cuda.get_device_name(self._device)
        return {**found, "missing": missing}


def create(device: str, threads: int | None, determinism: str) -> Torch:
    """Torch on a device, with a thread count and either its own or deterministic algorithms.

    Raises:
        FrameworkError: This torch sees no such device.
    """
    if device != "cpu" and not (device == "cuda" and torch.cuda.is_available()):
        raise FrameworkError(f"torch {torch.__version__} sees no device {device!r} here")
    if threads is not None:
        torch.set_num_threads(threads)
    if determinism == "strict":
        torch.use_deterministic_algorithms(True)
        torch.backends.cudnn.benchmark = False
        torch.backends.cudnn.deterministic = True
        torch.backends.cudnn.allow_tf32 = False
        torch.backends.cuda.matmul.allow_tf32 = False
    return Torch(device)
