"""PyTorch, on CPUs and CUDA devices."""

from __future__ import annotations

import gc
import random
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Callable

import numpy
import torch

from .. import blas, settings
from ..base import (
    DeviceClock,
    FrameworkError,
    Memory,
    NativeTensor,
    Networks,
    Operators,
    Transfer,
)
from . import precision
from .arrays import DeviceArray, lift
from .clock import CudaClock
from .networks import TorchNetworks
from .operators import TorchOperators
from .transfer import CudaTransfer

if TYPE_CHECKING:
    from numpy.typing import NDArray

_SETTINGS: dict[str, Callable[[], Any]] = {
    "threads": torch.get_num_threads,
    "interop_threads": torch.get_num_interop_threads,
    "deterministic_algorithms": torch.are_deterministic_algorithms_enabled,
    "float32_matmul_precision": torch.get_float32_matmul_precision,
    "cudnn_enabled": lambda: torch.backends.cudnn.enabled,
    "cudnn_benchmark": lambda: torch.backends.cudnn.benchmark,
    "cudnn_deterministic": lambda: torch.backends.cudnn.deterministic,
    "onednn_enabled": lambda: torch.backends.mkldnn.enabled,
    "cpu_capability": lambda: torch.backends.cpu.get_cpu_capability(),  # noqa: PLW0108 (absent in old torch)
    "blas": blas.describe,
    **precision.SWITCHES,
}

_DTYPES = {
    "float64": torch.float64,
    "float32": torch.float32,
    "tf32": torch.float32,
    "bfloat16": torch.bfloat16,
    "float16": torch.float16,
}


class Torch:
    """torch tensors on one device.

    Outside of `arithmetic`, TF32 stays as torch ships it (off for products, on for cuDNN
    convolutions); `strict` turns it off.

    Attributes:
        switches: See `settings.KeepsSwitches`.
    """

    name = "torch"

    def __init__(self, device: str) -> None:
        self._device = torch.device(device)
        cuda = self._device.type == "cuda"
        self.synchronize: Callable[[], None] | None = torch.cuda.synchronize if cuda else None
        clock = CudaClock(self._device) if cuda else None
        self.device_clock: DeviceClock | None = clock
        self.memory: Memory | None = _CudaMemory(self._device, clock) if clock else None
        self.transfer: Callable[[], Transfer] | None = self._make_transfer if cuda else None
        self.operators: Operators = TorchOperators()
        self.networks: Networks = TorchNetworks()
        self.switches: dict[str, dict[str, Any]] = {}

    def from_numpy(self, array: NDArray[Any], dtype: str | None = None) -> NativeTensor:
        """Return a copy of the array on the device."""
        tensor = torch.from_numpy(array)
        if dtype is None or not tensor.is_floating_point():
            return tensor.to(self._device)
        return tensor.to(self._device, _DTYPES[dtype])

    def _make_transfer(self) -> Transfer:
        return CudaTransfer(self._device, _DTYPES)

    def to_doubles(self, array: NDArray[Any]) -> DeviceArray:
        """Return an array on the device, reals in float64."""
        return DeviceArray(lift(array, self._device))

    def fill(self, tensor: NativeTensor, array: NDArray[Any]) -> None:
        """`Tensor.copy_`."""
        tensor.copy_(torch.from_numpy(array))

    def to_numpy(self, tensor: NativeTensor) -> NDArray[Any]:
        """Return a copy of the tensor in the host's memory; bfloat16 becomes float32, which is
        exact.
        """
        tensor = tensor.detach().cpu()
        array: NDArray[Any] = (tensor.float() if tensor.dtype == torch.bfloat16 else tensor).numpy()
        return array

    def dtype_of(self, tensor: NativeTensor) -> str:
        """torch's own name."""  # noqa: D403
        return str(tensor.dtype).rpartition(".")[2]

    @contextmanager
    def arithmetic(self, dtype: str) -> Iterator[None]:
        """Set TF32 on for `tf32` alone, and sums of 16-bit products in float32 to the end.

        `switches` keeps the settings at the end, because a user's file may change them.
        """
        with precision.fix(tf32=dtype == "tf32"):
            try:
                yield
            finally:
                self._note_switches(dtype)

    def _note_switches(self, dtype: str) -> None:
        held, before = settings.read(precision.SWITCHES), self.switches.get(dtype, {})
        self.switches[dtype] = {name: before.get(name) or held[name] for name in precision.SWITCHES}

    def record_kernels(self, run: Callable[[], object]) -> list[str]:
        """See `kernels.RecordsKernels`; empty where torch's profiler does not work."""
        if self.synchronize is None or not _is_profiler_safe(torch.version.cuda):
            return []
        from torch.autograd import DeviceType
        from torch.profiler import ProfilerActivity, profile

        try:
            with profile(activities=[ProfilerActivity.CUDA]) as profiled:
                run()
                self.synchronize()
            events = profiled.events() or ()
        except RuntimeError:
            return []
        return [
            event.name
            for event in events
            if event.device_type == DeviceType.CUDA
            and not getattr(event, "is_user_annotation", False)
        ]

    def seed(self, seed: int) -> None:
        """Seed Python's, numpy's and torch's generators, those of every device included."""
        random.seed(seed)
        numpy.random.seed(seed)
        torch.manual_seed(seed)

    def settings(self) -> dict[str, Any]:
        """Return threads, determinism, precision and library switches."""
        device = {"device": str(self._device)}
        if self._device.type == "cuda":
            device["device_name"] = torch.cuda.get_device_name(self._device)
        return {**device, **settings.read(_SETTINGS)}


def _is_profiler_safe(cuda: str | None) -> bool:
    """Return whether the profiler can be started again and again, also beside CUDA graphs.

    With a CUDA before 12.6 that can end the process; a torch for another device has none.
    """
    major, _, rest = (cuda or "0").partition(".")
    return (int(major), int(rest.partition(".")[0] or 0)) >= (12, 6)


class _CudaMemory:
    """torch's caching allocator on one device."""

    def __init__(self, device: torch.device, clock: CudaClock) -> None:
        self._device = device
        self._clock = clock

    def free(self) -> int:
        """Return the free bytes of the driver plus the unused bytes of the cache."""
        left, _ = torch.cuda.mem_get_info(self._device)
        reserved = torch.cuda.memory_reserved(self._device)
        return int(left + reserved - torch.cuda.memory_allocated(self._device))

    def reset_peak(self) -> None:
        """Start to watch the peak; tensors in garbage would be in it."""
        gc.collect()
        torch.cuda.reset_peak_memory_stats(self._device)

    def peak(self) -> int:
        """Return the most bytes in tensors at once, without the buffer that empties the caches."""
        return int(torch.cuda.max_memory_allocated(self._device)) - self._clock.kept_bytes


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
        raise FrameworkError(f"torch {torch.__version__} finds no device {device!r}")
    if threads is not None:
        torch.set_num_threads(threads)
    if determinism == "strict":
        torch.use_deterministic_algorithms(True)
        torch.backends.cudnn.benchmark = False
        torch.backends.cudnn.deterministic = True
        precision.set_tf32(on=False)
