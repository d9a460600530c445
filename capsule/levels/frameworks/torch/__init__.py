"""PyTorch, on CPUs and CUDA devices."""

from __future__ import annotations

import gc
import random
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Callable

import numpy
import torch

from ...graphs.graph import Graph
from .. import blas
from ..base import Call, Framework, FrameworkError
from . import networks, operators

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

_DTYPES = {
    "float64": torch.float64,
    "float32": torch.float32,
    "tf32": torch.float32,
    "bfloat16": torch.bfloat16,
    "float16": torch.float16,
}
_SWITCHES = (
    (torch.backends.cuda.matmul, "allow_tf32"),
    (torch.backends.cudnn, "allow_tf32"),
    (torch.backends.cuda.matmul, "allow_fp16_reduced_precision_reduction"),
    (torch.backends.cuda.matmul, "allow_bf16_reduced_precision_reduction"),
)


class Torch:
    """torch tensors on one device.

    Outside of `arithmetic`, TF32 stays as torch ships it (off for products, on for cuDNN
    convolutions) and is recorded; `strict` turns it off.
    """

    name = "torch"
    alone: Framework | None = None

    def __init__(self, device: str) -> None:
        self._device = torch.device(device)
        cuda = self._device.type == "cuda"
        self.synchronize = torch.cuda.synchronize if cuda else None
        self.memory = _CudaMemory(self._device) if cuda else None

    def from_numpy(self, array: Any, dtype: str | None = None) -> Any:
        """A copy of the array on the device."""
        tensor = torch.from_numpy(array).to(self._device)
        if dtype is None or not tensor.is_floating_point():
            return tensor
        return tensor.to(_DTYPES[dtype])

    def to_numpy(self, tensor: Any) -> Any:
        """A copy of the tensor in the host's memory; bfloat16 becomes float32, which is exact."""
        tensor = tensor.detach().cpu()
        return (tensor.float() if tensor.dtype == torch.bfloat16 else tensor).numpy()

    def dtype_of(self, tensor: Any) -> str:
        """torch's own name."""  # noqa: D403
        return str(tensor.dtype).rpartition(".")[2]

    @contextmanager
    def arithmetic(self, dtype: str) -> Iterator[None]:
        """TF32 on for `tf32` alone; 16-bit products summed in float32 to the end."""
        before = [getattr(owner, name) for owner, name in _SWITCHES]
        wanted = (dtype == "tf32", dtype == "tf32", False, False)
        try:
            for (owner, name), value in zip(_SWITCHES, wanted):
                setattr(owner, name, value)
            yield
        finally:
            for (owner, name), value in zip(_SWITCHES, before):
                setattr(owner, name, value)

    def operation(self, name: str, sizes: Mapping[str, int], tensors: tuple[Any, ...]) -> Call:
        """torch's own function and its operands."""  # noqa: D403
        return operators.OPERATIONS[name](sizes, *tensors)

    def gradient(
        self,
        name: str,
        sizes: Mapping[str, int],
        tensors: tuple[Any, ...],
        wrt: tuple[int, ...],
        upstream: tuple[Any, ...],
    ) -> Call:
        """`torch.autograd.grad` over the graph of one forward run."""
        leaves = [
            tensor.detach().clone().requires_grad_(index in wrt)
            for index, tensor in enumerate(tensors)
        ]
        function, arguments = operators.OPERATIONS[name](sizes, *leaves)
        results = function(*arguments)
        results = results if isinstance(results, tuple) else (results,)
        by = [leaves[index] for index in wrt]

        def backward() -> tuple[Any, ...]:
            return torch.autograd.grad(results, by, upstream, retain_graph=True)

        return backward, ()

    def inference(self, graph: Graph, values: Mapping[str, Any]) -> Call:
        """torch's own functions one after the other."""  # noqa: D403
        return networks.inference(graph, values)

    def training(self, graph: Graph, values: Mapping[str, Any]) -> Call:
        """The same, and `torch.autograd.grad`."""
        return networks.training(graph, values)

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


class _CudaMemory:
    """torch's caching allocator on one device."""

    def __init__(self, device: torch.device) -> None:
        self._device = device

    def free(self) -> int:
        """What the driver has left and what the cache holds unused."""
        left, _ = torch.cuda.mem_get_info(self._device)
        reserved = torch.cuda.memory_reserved(self._device)
        return int(left + reserved - torch.cuda.memory_allocated(self._device))

    def reset_peak(self) -> None:
        """Start to watch the peak; tensors in garbage would be in it."""
        gc.collect()
        torch.cuda.reset_peak_memory_stats(self._device)

    def peak(self) -> int:
        """Most bytes in tensors at once."""
        return int(torch.cuda.max_memory_allocated(self._device))


def create(device: str, threads: int | None, determinism: str) -> Torch:
    """Torch on a device, with a thread count and either its own or deterministic algorithms.

    Raises:
        FrameworkError: This torch sees no such device.
    """
    prepare(device, threads, determinism)
    return Torch(device)


def prepare(device: str, threads: int | None, determinism: str) -> None:
    """Bring torch into the state that `create` promises.

    Raises:
        FrameworkError: See there.
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
