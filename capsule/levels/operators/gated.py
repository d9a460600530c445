"""SwiGLU, the gated layer of today's language models."""

from __future__ import annotations

from typing import Any

from .base import Operator, Sizes, Tensor
from .rounding import Calculator


class Swiglu(Operator):
    """y = silu(x g') * (x u') with silu(z) = z / (1 + exp(-z)); Shazeer, arXiv 2002.05202, 2020.

    x is (rows, width), the weights g of the gate and u of what it lets through are (hidden, width),
    y is (rows, hidden). The products, the gate and their gradients may be stored in the dtype.
    FLOPs: 4 rows width hidden, and 6 per element of y.
    """

    name = "swiglu"

    def tensors(self, sizes: Sizes) -> dict[str, Tensor]:
        """Return values x, weights g and u."""
        weights = Tensor((sizes["hidden"], sizes["width"]), -0.5)
        return {"x": Tensor((sizes["rows"], sizes["width"])), "g": weights, "u": weights}

    def outputs(self, sizes: Sizes) -> tuple[tuple[int, ...], ...]:
        """(rows, hidden)."""
        return ((sizes["rows"], sizes["hidden"]),)

    def forward(self, c: Calculator, sizes: Sizes, *inputs: Any) -> Any:
        """Return the products, and the gate of the one times the other."""
        gate, through = self._products(c, sizes, *inputs)
        return c.store(c.store(gate * c.sigmoid(gate)) * through)

    def backward(self, c: Calculator, sizes: Sizes, upstream: Any, *inputs: Any) -> tuple[Any, ...]:
        """Compute the gradients by x, g and u."""
        x, g, u = inputs
        gate, through = self._products(c, sizes, *inputs)
        share = c.sigmoid(gate)
        by_through = c.store(upstream * c.store(gate * share))
        by_gate = c.store(c.store(upstream * through) * share * (gate * (1 - share) + 1))
        from_gate = c.bilinear(lambda a, b: a @ b, by_gate, g, sizes["hidden"])
        from_through = c.bilinear(lambda a, b: a @ b, by_through, u, sizes["hidden"])
        by_g, by_u = (
            c.bilinear(lambda a, b: a.swapaxes(0, 1) @ b, by, x, sizes["rows"])
            for by in (by_gate, by_through)
        )
        by_x = c.store(from_gate) + c.store(from_through)
        return c.store(by_x), c.store(by_g), c.store(by_u)

    def flops(self, sizes: Sizes) -> int:
        """See the class."""
        return sizes["rows"] * sizes["hidden"] * (4 * sizes["width"] + 6)

    def _products(self, c: Calculator, sizes: Sizes, x: Any, g: Any, u: Any) -> tuple[Any, Any]:
        first, second = (
            c.store(c.bilinear(lambda a, b: a @ b.swapaxes(0, 1), x, w, sizes["width"]))
            for w in (g, u)
        )
        return first, second


OPERATORS = {"swiglu": Swiglu()}
