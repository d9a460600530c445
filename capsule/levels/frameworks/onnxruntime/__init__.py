"""ONNX Runtime on CPUs: it infers, and does not differentiate."""

from __future__ import annotations

import random
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any, Callable

import numpy
import onnxruntime

from ..base import DeviceClock, FrameworkError, Memory, Networks, Operators, Transfer
from .networks import OnnxRuntimeNetworks
from .operators import OnnxRuntimeOperators
from .sessions import Sessions

if TYPE_CHECKING:
    from numpy.typing import NDArray


class OnnxRuntime:
    """numpy arrays as they are: a session reads and returns them without a copy."""

    name = "onnxruntime"
    synchronize: Callable[[], None] | None = None
    memory: Memory | None = None
    device_clock: DeviceClock | None = None
    transfer: Callable[[], Transfer] | None = None

    def __init__(self, threads: int | None, determinism: str) -> None:
        self._sessions = Sessions(threads or 0, determinism == "strict")
        self.operators: Operators = OnnxRuntimeOperators(self._sessions.start)
        self.networks: Networks = OnnxRuntimeNetworks(self._sessions.start)

    def from_numpy(self, array: NDArray[Any], dtype: str | None = None) -> NDArray[Any]:  # noqa: ARG002
        """Return the array itself: numpy has every dtype that ONNX Runtime has on CPUs."""
        return array

    def fill(self, tensor: NDArray[Any], array: NDArray[Any]) -> None:
        """Fill an array in place."""
        tensor[...] = array

    def to_numpy(self, tensor: NDArray[Any]) -> NDArray[Any]:
        """Return the array itself."""
        return tensor

    def dtype_of(self, tensor: NDArray[Any]) -> str:
        """numpy's name."""  # noqa: D403
        return tensor.dtype.name

    def arithmetic(self, dtype: str) -> AbstractContextManager[None]:  # noqa: ARG002
        """Do nothing: CPUs have no TF32, and 16-bit operations run in float32."""
        return nullcontext()

    def seed(self, seed: int) -> None:
        """Seed Python's, numpy's and ONNX Runtime's global generators."""
        random.seed(seed)
        numpy.random.seed(seed)
        onnxruntime.set_seed(seed)

    def settings(self) -> dict[str, Any]:
        """Return threads as counted, determinism, and what sessions are made with."""
        return {"device": "cpu", **self._sessions.describe(), "missing": {}}


def create(device: str, threads: int | None, determinism: str) -> OnnxRuntime:
    """ONNX Runtime on the CPU, with a thread count and either its own or deterministic kernels.

    Raises:
        FrameworkError: `device` is another one.
    """
    if device != "cpu":
        raise FrameworkError(
            f"onnxruntime has no device {device!r}: capsule runs onnxruntime on CPUs only"
        )
    return OnnxRuntime(threads, determinism)
