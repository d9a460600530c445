"""numpy, on CPUs."""

from __future__ import annotations

import random
from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import numpy

from ...graphs.graph import Graph
from .. import blas
from ..base import Call, FrameworkError
from . import networks, operators


class Numpy:
    """numpy arrays as they are; its BLAS takes its thread count from variables set before start."""

    name = "numpy"
    synchronize = None
    memory = None
    alone = None

    def from_numpy(self, array: Any, dtype: str | None = None) -> Any:
        """The array itself, if it has or needs no other dtype."""
        return array.astype(dtype, copy=False) if dtype and array.dtype.kind == "f" else array

    def to_numpy(self, tensor: Any) -> Any:
        """The array itself."""
        return tensor

    def dtype_of(self, tensor: Any) -> str:
        """numpy's own name."""  # noqa: D403
        return str(tensor.dtype)

    def arithmetic(self, dtype: str) -> AbstractContextManager[None]:  # noqa: ARG002
        """Nothing to switch."""
        return nullcontext()

    def operation(self, name: str, sizes: Mapping[str, int], tensors: tuple[Any, ...]) -> Call:
        """numpy's function for an operator, or the formula in the tensors' dtype."""  # noqa: D403
        return operators.operation(name, sizes, tensors)

    def gradient(
        self,
        name: str,
        sizes: Mapping[str, int],
        tensors: tuple[Any, ...],
        wrt: tuple[int, ...],  # noqa: ARG002  (the formula yields those of `Operator.wrt`)
        upstream: tuple[Any, ...],
    ) -> Call:
        """The derivative's formula in the tensors' dtype: numpy differentiates nothing itself."""
        return operators.gradient(name, sizes, tensors, upstream)

    def inference(self, graph: Graph, values: Mapping[str, Any]) -> Call:
        """The formulas in the arrays' dtype."""
        return networks.inference(graph, values)

    def training(self, graph: Graph, values: Mapping[str, Any]) -> Call:
        """The formulas and their derivatives in the arrays' dtype."""
        return networks.training(graph, values)

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
