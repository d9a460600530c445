"""TensorFlow on CPUs, call by call or compiled by XLA."""

from __future__ import annotations

import os
import random
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any, Callable

import numpy
import tensorflow

from .. import settings
from ..base import DeviceClock, FrameworkError, Memory, NativeTensor, Networks, Operators, Transfer
from .compiler import Compiler
from .networks import TensorFlowNetworks
from .operations import Transposed
from .operators import TensorFlowOperators

if TYPE_CHECKING:
    from numpy.typing import NDArray

_threading = tensorflow.config.threading
_experimental = tensorflow.config.experimental

_SETTINGS: dict[str, Callable[[], Any]] = {
    "threads": lambda: _effective(_threading.get_intra_op_parallelism_threads()),
    "interop_threads": lambda: _effective(_threading.get_inter_op_parallelism_threads()),
    "synchronous_execution": _experimental.get_synchronous_execution,
    "optimizer": tensorflow.config.optimizer.get_experimental_options,
}


class TensorFlow:
    """TensorFlow tensors on the CPU, operations run call by call or compiled by XLA."""

    synchronize: Callable[[], None] | None = None
    memory: Memory | None = None
    device_clock: DeviceClock | None = None
    transfer: Callable[[], Transfer] | None = None
    fill: Callable[[NativeTensor, NDArray[Any]], None] | None = None

    def __init__(self, name: str, determinism: str, compiled: bool = False) -> None:
        compiler = Compiler(compiled)
        self.name = name
        self.operators: Operators = TensorFlowOperators(name, compiler)
        self.networks: Networks = TensorFlowNetworks(name, compiler)
        self._settings: dict[str, Callable[[], Any]] = {
            "device": lambda: "cpu",
            "deterministic_algorithms": lambda: determinism == "strict",
            "compiler": lambda: "XLA" if compiled else None,
            **_SETTINGS,
        }

    def from_numpy(self, array: NDArray[Any], dtype: str | None = None) -> NativeTensor:
        """Return a copy of the array, whole numbers as they are."""
        # a constant may share the memory of the array
        tensor = tensorflow.identity(tensorflow.constant(array))
        if dtype is None or not tensor.dtype.is_floating:
            return tensor
        return tensorflow.cast(tensor, dtype)

    def to_numpy(self, tensor: NativeTensor) -> NDArray[Any]:
        """Return a copy of the tensor in the host's memory, bfloat16 as float32."""
        if isinstance(tensor, Transposed):
            return numpy.ascontiguousarray(self.to_numpy(tensor.tensor).transpose(tensor.axes))
        if tensor.dtype == tensorflow.bfloat16:
            tensor = tensorflow.cast(tensor, "float32")
        return numpy.array(tensor)

    def dtype_of(self, tensor: NativeTensor) -> str:
        """Return the dtype's word in `operators.ARITHMETIC`."""
        tensor = tensor.tensor if isinstance(tensor, Transposed) else tensor
        name: str = tensor.dtype.name
        return name

    def arithmetic(self, dtype: str) -> AbstractContextManager[None]:  # noqa: ARG002
        """Do nothing: CPUs have no TF32."""
        return nullcontext()

    def seed(self, seed: int) -> None:
        """Seed Python's, numpy's and TensorFlow's global generators."""
        random.seed(seed)
        numpy.random.seed(seed)
        tensorflow.random.set_seed(seed)

    def settings(self) -> dict[str, Any]:
        """Return threads, determinism, precision and compiler switches."""
        return settings.read(self._settings)


def create(
    device: str,
    threads: int | None,
    determinism: str,
    name: str = "tensorflow",
    compiled: bool = False,
) -> TensorFlow:
    """TensorFlow on the CPU.

    A thread count is that of the pool inside operations; with one given, operations run one after
    the other, so that it bounds them all together.

    Args:
        device: `cpu`.
        threads: Threads inside one operation; None leaves TensorFlow's own choice.
        determinism: `strict` turns nondeterministic kernels into errors.
        name: That of a variant.
        compiled: True if XLA compiles each operation.

    Raises:
        FrameworkError: `device` is another one, or TensorFlow has started with other settings.
    """
    if device != "cpu":
        raise FrameworkError(f"{name} has no device {device!r}: capsule runs {name} on CPUs only")
    try:
        # or it would place operations, and their operands, on a device that was not asked for
        tensorflow.config.set_visible_devices([], "GPU")
        if threads is not None:
            _threading.set_intra_op_parallelism_threads(threads)
            _threading.set_inter_op_parallelism_threads(1)
    except RuntimeError as error:
        raise FrameworkError(
            f"cannot set the devices and threads of {name}, because {name} has already started:"
            f" {error}"
        ) from error
    if determinism == "strict":
        _experimental.enable_op_determinism()
    return TensorFlow(name, determinism, compiled)


def _effective(configured: int) -> int:
    """Return threads of a pool: 0 stands for one for each CPU that this process may use."""
    return configured or len(os.sched_getaffinity(0))
