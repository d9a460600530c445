"""numpy, on CPUs."""

from __future__ import annotations

import random
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any, Callable

import numpy

from .. import blas
from ..base import DeviceClock, FrameworkError, Memory, Networks, Operators, Transfer
from .networks import NumpyNetworks
from .operators import NumpyOperators

if TYPE_CHECKING:
    from numpy.typing import NDArray


class Numpy:
    """numpy arrays as they are; its BLAS takes its thread count from variables set before start."""

    name = "numpy"
    synchronize: Callable[[], None] | None = None
    memory: Memory | None = None
    device_clock: DeviceClock | None = None
    transfer: Callable[[], Transfer] | None = None

    def __init__(self) -> None:
        self.operators: Operators = NumpyOperators()
        self.networks: Networks = NumpyNetworks()

    def from_numpy(self, array: NDArray[Any], dtype: str | None = None) -> NDArray[Any]:
        """Return the array itself, if it has or needs no other dtype."""
        return array.astype(dtype, copy=False) if dtype and array.dtype.kind == "f" else array

    def fill(self, tensor: NDArray[Any], array: NDArray[Any]) -> None:
        """Fill an array in place."""
        tensor[...] = array

    def to_numpy(self, tensor: NDArray[Any]) -> NDArray[Any]:
        """Return the array itself."""
        return tensor

    def dtype_of(self, tensor: NDArray[Any]) -> str:
        """numpy's own name."""  # noqa: D403
        return str(tensor.dtype)

    def arithmetic(self, dtype: str) -> AbstractContextManager[None]:  # noqa: ARG002
        """Do nothing: there is nothing to switch."""
        return nullcontext()

    def seed(self, seed: int) -> None:
        """Seed Python's and numpy's global generators."""
        random.seed(seed)
        numpy.random.seed(seed)

    def settings(self) -> dict[str, Any]:
        """Return the BLAS libraries that are loaded, with their thread counts."""
        return {"device": "cpu", "blas": blas.describe(), "missing": {}}


def create(device: str, threads: int | None, determinism: str) -> Numpy:  # noqa: ARG001
    """Numpy on the CPU; it has no switches for threads nor determinism.

    Raises:
        FrameworkError: `device` is another one.
    """
    if device != "cpu":
        raise FrameworkError(f"numpy has no device {device!r}: numpy runs on CPUs only")
    return Numpy()
