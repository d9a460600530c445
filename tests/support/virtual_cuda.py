"""torch's CUDA without a GPU: tensors stay in the host's memory, and time is virtual.

Each operation that torch's dispatcher sees and that computes something is a kernel. Its launch
takes the host `launch_ns`, and the device works through its queue, `work_ns` for each kernel.
Nothing else takes time, so each time that is measured is known exactly.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from capsule.levels import frameworks
from capsule.levels.frameworks import Framework
from capsule.levels.frameworks.torch import moves
from capsule.levels.instruments import calls, ranges, roofs, serving, timing

PEAK_BYTES = 12345


class VirtualCuda:
    """One device, and the host's clock.

    Attributes:
        framework: torch on this device.
        now: Nanoseconds of the host's clock.
        idle_at: When the queue is empty.
        event_ns: How long the device takes for an event.
        cold_ns: How long it takes for a kernel that follows the emptying of its caches.
        slow: Factor of the times of kernels that begin at a time.
        flushes: Bytes of each buffer that emptied the caches.
        holds: How often the device was kept busy.
    """

    framework: Framework

    def __init__(self, launch_ns: int, work_ns: int) -> None:
        self.launch_ns, self.work_ns = launch_ns, work_ns
        self.now = self.idle_at = 0
        self.event_ns = 0
        self.cold_ns = work_ns
        self.slow: Callable[[int], float] = lambda now: 1.0
        self.properties = SimpleNamespace(L2_cache_size=2**14)
        self.free_bytes = 2**36
        self.flushes: list[int] = []
        self.holds = 0
        self._is_cold = False
        self._buffer_bytes = 0

    def synchronize(self) -> None:
        self.now = max(self.now, self.idle_at)

    def see(self, function: Any, args: Any, kwargs: Any) -> None:
        """Put an operation into the queue, if it is a kernel."""
        name = function._schema.name.partition("::")[2]
        if name.startswith(("empty", "new_empty")):
            if kwargs.get("dtype") == torch.uint8:
                self._buffer_bytes += math.prod(args[0])
        elif _writes(function):
            is_flush = name == "zero_" and args[0].dtype == torch.uint8
            if is_flush:
                self.flushes.append(args[0].numel())
            self._put(self.cold_ns if self._is_cold and not is_flush else self.work_ns)
            self._is_cold = is_flush

    def functions(self) -> dict[str, Any]:
        """Return the replacements of names of `torch.cuda`."""
        return {
            "is_available": lambda: True,
            "synchronize": self.synchronize,
            "Event": partial(_Event, self),
            "_sleep": self._sleep,
            "get_device_properties": lambda device: self.properties,
            "get_device_name": lambda device: "Virtual",
            "mem_get_info": lambda device: (self.free_bytes, 2**36),
            "memory_reserved": lambda device: 0,
            "memory_allocated": lambda device: 0,
            "reset_peak_memory_stats": lambda device: None,
            "max_memory_allocated": lambda device: PEAK_BYTES + self._buffer_bytes,
        }

    def _sleep(self, cycles: int) -> None:
        # 2 cycles a nanosecond, whatever the load
        self.holds += 1
        self.now += self.launch_ns
        self.idle_at = max(self.now, self.idle_at) + cycles // 2

    def _put(self, work_ns: int) -> None:
        self.now += self.launch_ns
        begin = max(self.now, self.idle_at)
        self.idle_at = begin + round(work_ns * self.slow(begin))


def _writes(function: Any) -> bool:
    """Return whether an operation yields numbers of its own, and not a view or a fact."""
    yielded = [str(one.type) for one in function._schema.returns]
    return any("Tensor" in kind for kind in yielded) and not moves.is_view(function)


class _Event:
    """`torch.cuda.Event`, which refuses what CUDA refuses."""

    def __init__(self, cuda: VirtualCuda, enable_timing: bool = False) -> None:
        self._cuda, self._is_timed = cuda, enable_timing
        self._at: int | None = None

    def record(self) -> None:
        self._cuda.idle_at = max(self._cuda.now, self._cuda.idle_at) + self._cuda.event_ns
        self._at = self._cuda.idle_at

    def query(self) -> bool:
        return self._at is None or self._cuda.now >= self._at

    def synchronize(self) -> None:
        if self._at is not None:
            self._cuda.now = max(self._cuda.now, self._at)

    def elapsed_time(self, end: _Event) -> float:
        assert self._is_timed
        assert end._is_timed
        assert self._at is not None
        assert end._at is not None
        assert end.query(), "not ready"
        return (end._at - self._at) / 1e6


class _Kernels(TorchDispatchMode):
    """Shows a device what torch's dispatcher sees."""

    def __init__(self, cuda: VirtualCuda) -> None:
        super().__init__()
        self._cuda = cuda

    def __torch_dispatch__(
        self, function: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        self._cuda.see(function, args, kwargs or {})
        return function(*args, **(kwargs or {}))


@contextmanager
def virtual_cuda(launch_ns: int, work_ns: int) -> Iterator[VirtualCuda]:
    """A device, for the time of the context."""
    cuda = VirtualCuda(launch_ns, work_ns)
    with pytest.MonkeyPatch.context() as patch, _Kernels(cuda):
        for name, value in cuda.functions().items():
            patch.setattr(torch.cuda, name, value)
        for module in (timing, ranges, serving):
            patch.setattr(module, "perf_counter_ns", lambda: cuda.now)
        patch.setattr(calls, "perf_counter", lambda: cuda.now / 1e9)
        # by this clock products take no time, so each larger one would be tried
        patch.setattr(roofs, "BELIEVED", math.inf)
        framework: Any = frameworks.load("torch", "cuda", 1, "default")
        for one in (framework, framework.device_clock):
            one._device = torch.device("cpu")
        cuda.framework = framework
        yield cuda
