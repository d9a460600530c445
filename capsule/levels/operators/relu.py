"""Rectifier max(x, 0), element by element."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .base import Call, Operator


class Relu(Operator):
    """Inputs lie in (-1, 1)."""

    name = "relu"
    scale = 2.0
    offset = -1.0

    def shapes(self, sizes: Mapping[str, int]) -> dict[str, tuple[int, ...]]:
        """One vector of n elements."""
        return {"x": (sizes["n"],)}

    def native(self, framework: str, tensors: tuple[Any, ...]) -> Call:
        """`torch.relu`, or `numpy.maximum` with a zero of the same dtype."""
        (x,) = tensors
        if framework == "torch":
            import torch

            return torch.relu, (x,)
        import numpy

        return numpy.maximum, (x, x.dtype.type(0))

    def reference(self, *inputs: Any) -> Any:
        """The same selection."""
        (x,) = inputs
        return x * (x > 0)

    def bound(self, reference: Any, roundoff: float, *inputs: Any) -> float:  # noqa: ARG002
        """u ||x||_2: the operation is exact, so a right result has error and ratio 0."""  # noqa: D403
        import numpy

        (x,) = inputs
        return roundoff * float(numpy.linalg.norm(x))


OPERATOR = Relu()
