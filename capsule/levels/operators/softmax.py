"""Softmax along the rows of a matrix."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .base import Operator, Sizes, Tensor, round_to
from .rounding import Calculator

if TYPE_CHECKING:
    from .base import Arrays

FAR = 1000.0
"""No dtype holds exp(1000), nor any but float64 exp(100)."""


class Softmax(Operator):
    """y = exp(x - max) / sum, along axis 1 of a (rows, columns) matrix.

    Inputs lie in (-8, 8), so the largest element of a row is up to exp(16) times the least. Its
    gradient uses the result as stored. FLOPs: 5 per element (maximum, subtraction, exponential,
    addition, division).
    """

    name = "softmax"

    def tensors(self, sizes: Sizes) -> dict[str, Tensor]:
        """Return one matrix of shape (rows, columns)."""
        return {"x": Tensor((sizes["rows"], sizes["columns"]), -8.0, 16.0)}

    def hard_inputs(self, sizes: Sizes, dtype: str, seed: int) -> Arrays:
        """Draw first and last rows far from 0, where no exponential is finite."""
        (x,) = super().hard_inputs(sizes, dtype, seed)
        x[0] = round_to(x[0] + FAR, dtype)
        x[1:][-1:] = round_to(x[1:][-1:] - FAR, dtype)
        return (x,)

    def outputs(self, sizes: Sizes) -> tuple[tuple[int, ...], ...]:
        """Return the same shape."""
        return ((sizes["rows"], sizes["columns"]),)

    def forward(self, c: Calculator, sizes: Sizes, *inputs: Any) -> Any:  # noqa: ARG002
        """Return the shifted formula (Blanchard, Higham and Higham, IMA J. Numer. Anal. 41,
        2021).
        """
        (x,) = inputs
        e = c.exp(x - c.value(x).max(axis=1, keepdims=True))
        return c.store(e / c.total(e, 1))

    def backward(self, c: Calculator, sizes: Sizes, upstream: Any, *inputs: Any) -> tuple[Any, ...]:
        """Return the product y (G - sum of G y)."""
        y = self.forward(c, sizes, *inputs)
        return (c.store(y * (upstream - c.total(upstream * y, 1))),)

    def flops(self, sizes: Sizes) -> int:
        """See the class."""
        return 5 * sizes["rows"] * sizes["columns"]


OPERATORS = {"softmax": Softmax()}
