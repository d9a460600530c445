"""JAX on CPUs: XLA compiles each operator, and each network as a whole."""

from __future__ import annotations

import os
import random
from contextlib import AbstractContextManager, nullcontext
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Callable

import jax
import numpy
from jax import numpy as jnp

from .. import settings
from ..base import DeviceClock, FrameworkError, Memory, NativeTensor, Networks, Operators, Transfer
from .networks import JaxNetworks
from .operators import JaxOperators

if TYPE_CHECKING:
    from numpy.typing import NDArray

_WORKER = "tf_XLAEigen"
"""Name that Linux gives to a thread of the pool inside an operation."""


class Jax:
    """JAX's arrays on the CPU, functions of them compiled before they are called."""

    name = "jax"
    synchronize: Callable[[], None] | None = None
    memory: Memory | None = None
    device_clock: DeviceClock | None = None
    transfer: Callable[[], Transfer] | None = None
    fill: Callable[[NativeTensor, NDArray[Any]], None] | None = None

    def __init__(self, threads: int, determinism: str) -> None:
        self.operators: Operators = JaxOperators()
        self.networks: Networks = JaxNetworks()
        self._settings: dict[str, Callable[[], Any]] = {
            "device": lambda: jax.devices()[0].platform,
            "threads": lambda: threads,
            "deterministic_algorithms": lambda: determinism == "strict",
            "compiler": lambda: "XLA",
            "asynchronous_dispatch": lambda: jax.config.read("jax_cpu_enable_async_dispatch"),
            "matmul_precision": lambda: jax.config.jax_default_matmul_precision or "default",
            "x64": lambda: jax.config.jax_enable_x64,
        }

    def from_numpy(self, array: NDArray[Any], dtype: str | None = None) -> NativeTensor:
        """Return a copy of the array, whole numbers as they are."""
        cast = dtype is not None and array.dtype.kind == "f"
        # JAX may share the memory of an array that lies as it likes, also where told to copy
        return jnp.asarray(numpy.array(array), dtype if cast else None)

    def to_numpy(self, tensor: NativeTensor) -> NDArray[Any]:
        """Return a copy of the tensor in the host's memory, bfloat16 as float32."""
        return numpy.array(tensor, "float32" if tensor.dtype == jnp.bfloat16 else None)

    def dtype_of(self, tensor: NativeTensor) -> str:
        """Return the dtype's word in `operators.ARITHMETIC`."""
        name: str = tensor.dtype.name
        return name

    def arithmetic(self, dtype: str) -> AbstractContextManager[None]:  # noqa: ARG002
        """Do nothing: CPUs have no TF32."""
        return nullcontext()

    def seed(self, seed: int) -> None:
        """Seed Python's and numpy's global generators; JAX has none, and is given keys."""
        random.seed(seed)
        numpy.random.seed(seed)

    def settings(self) -> dict[str, Any]:
        """Return threads as counted, determinism, precision and compiler switches."""
        return settings.read(self._settings)


def create(device: str, threads: int | None, determinism: str) -> Jax:
    """JAX on the CPU, with 64 bits where they are asked for, and calls that return when done.

    XLA's kernels for CPUs are deterministic: there is no switch to turn.

    Args:
        device: `cpu`.
        threads: Threads inside one operation; None leaves JAX's own choice.
        determinism: See `frameworks.load`.

    Raises:
        FrameworkError: `device` is another one, or JAX has started with other settings.
    """
    if device != "cpu":
        raise FrameworkError(f"jax has no device {device!r}: capsule runs jax on CPUs only")
    return Jax(_start(threads), determinism)


@cache
def _start(threads: int | None) -> int:
    """Start the one backend that a process has; how many threads compute inside an operation.

    Raises:
        FrameworkError: There is one already.
    """
    jax.config.update("jax_platforms", "cpu")
    jax.config.update("jax_enable_x64", True)
    jax.config.update("jax_cpu_enable_async_dispatch", False)
    if threads is not None:
        os.environ["NPROC"] = str(threads)  # read by XLA for the size of its pools
    before = _list_workers()
    jax.devices()
    started = len(_list_workers() - before)
    if started != (threads or started) or not started:
        raise FrameworkError(
            f"jax started {started} worker threads, expected {threads or 'at least 1'}: jax may"
            " have started before in this process"
        )
    return started


def _list_workers() -> set[str]:
    tasks = list(Path("/proc/self/task").iterdir())
    return {task.name for task in tasks if (task / "comm").read_text().strip() == _WORKER}
