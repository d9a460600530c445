"""numpy, on CPUs."""

from __future__ import annotations

import random
from typing import Any

import numpy

from . import blas
from .base import FrameworkError


class Numpy:
    """numpy arrays as they are; its BLAS takes its thread count from variables set before start."""

    name = "numpy"
    synchronize = None

    def from_numpy(self, array: Any) -> Any:
        """The array itself."""
        return array

    def to_numpy(self, tensor: Any) -> Any:
        """The array itself."""
        return tensor

    def seed(self, seed: int) -> None:
        """Seed Python's and numpy's global generators."""
        random.seed(seed)
        numpy.random.seed(seed)

    def settings(self) -> dict[str, Any]:
        """The BLAS libraries that are loaded, with their thread counts."""
        return {"device": "cpu", "blas": blas.loaded(), "missing": {}}


def create(device: str, threads: int | None, determinism: str) -> Numpy:  # noqa: ARG001
    """Numpy on the CPU; it has no switches for threads nor determinism.

    Raises:
        FrameworkError: `device` is another one.
    """
    if device != "cpu":
        raise FrameworkError(f"numpy has no device {device!r}")
    return Numpy()
