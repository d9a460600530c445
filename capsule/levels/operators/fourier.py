"""The Fourier transform of real rows."""

from __future__ import annotations

from math import log2
from typing import Any

from .base import Operator, Sizes, Tensor
from .rounding import Calculator


class Rfft(Operator):
    """y[r, k] = sum of x[r, j] exp(-2 pi i j k / n) over j, for k from 0 to n // 2, not scaled.

    x is (rows, n), y (rows, n // 2 + 1, 2): real and imaginary parts. The reference is the sum
    itself, by tables; bounds grant that it is taken so, with tables rounded to the dtype. FLOPs:
    5/2 n log2(n) per row, half of what a complex transform counts, rounded up.
    """

    name = "rfft"

    def tensors(self, sizes: Sizes) -> dict[str, Tensor]:
        """Return the rows."""
        return {"x": Tensor((sizes["rows"], sizes["n"]))}

    def outputs(self, sizes: Sizes) -> tuple[tuple[int, ...], ...]:
        """(rows, n // 2 + 1, 2)."""
        return ((sizes["rows"], sizes["n"] // 2 + 1, 2),)

    def forward(self, c: Calculator, sizes: Sizes, *inputs: Any) -> Any:
        """Return products with the table."""
        (x,) = inputs
        (shape,) = self.outputs(sizes)
        y = c.bilinear(lambda a, b: a @ b, x, self._table(c, sizes, x), sizes["n"])
        return c.store(c.select(lambda array: array.reshape(shape), y))

    def backward(self, c: Calculator, sizes: Sizes, upstream: Any, *inputs: Any) -> tuple[Any, ...]:
        """Return products with the transposed table."""
        flat = c.select(lambda array: array.reshape(sizes["rows"], -1), upstream)
        table = self._table(c, sizes, inputs[0])
        terms = 2 * (sizes["n"] // 2 + 1)
        return (c.store(c.bilinear(lambda a, b: a @ b.swapaxes(0, 1), flat, table, terms)),)

    def flops(self, sizes: Sizes) -> int:
        """See the class; a transform of one element copies it, and counts 1."""
        return sizes["rows"] * max(1, -int(-2.5 * sizes["n"] * log2(sizes["n"]) // 1))

    def workspace(self, sizes: Sizes) -> int:
        """Return the table, its bound and their products'."""
        return 6 * sizes["n"] * (sizes["n"] + 2)

    def _table(self, c: Calculator, sizes: Sizes, x: Any) -> Any:
        """Return the cosines and negative sines in turn, (n, 2 (n // 2 + 1))."""
        import numpy

        n, dtype = sizes["n"], c.value(x).dtype
        turns = numpy.outer(numpy.arange(n), numpy.arange(n // 2 + 1)) % n
        # the nearest to 0 of those that are one angle, in which least is lost
        turns = numpy.where(2 * turns > n, turns - n, turns)
        precise = numpy.result_type(dtype, "float64")
        angles = turns.astype(precise) * (2 * numpy.arccos(-numpy.ones((), precise)) / n)
        table = numpy.stack((numpy.cos(angles), -numpy.sin(angles)), axis=-1)
        return c.store(numpy.asarray(table.reshape(n, -1), dtype, like=c.value(x)))


OPERATORS = {"rfft": Rfft()}
