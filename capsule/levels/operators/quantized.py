"""Products of matrices stored in 8 bits, with a scale for each row and each column."""

from __future__ import annotations

from typing import Any

from .base import Operator, Sizes, Tensor
from .rounding import Calculator


class _Scaled(Operator):
    """y = (A B) * row * column of an m x k and a k x n matrix in 8 bits.

    row is (m,), column (n,), in the dtype; not differentiated by A and B. FLOPs: 2 m n k + 2 m n.
    """

    typed = False
    stored: str
    scale: float

    def tensors(self, sizes: Sizes) -> dict[str, Tensor]:
        """Return a, B and the scales."""
        m, n, k = sizes["m"], sizes["n"], sizes["k"]
        return {
            "a": self._eight_bits(m, k),
            "b": self._eight_bits(k, n),
            "row": Tensor((m,), 0.0, self.scale),
            "column": Tensor((n,), 0.0, self.scale),
        }

    def outputs(self, sizes: Sizes) -> tuple[tuple[int, ...], ...]:
        """(m, n)."""
        return ((sizes["m"], sizes["n"]),)

    def forward(self, c: Calculator, sizes: Sizes, *inputs: Any) -> Any:
        """Return the product, scaled."""
        a, b, row, column = inputs
        return c.store(self._product(c, sizes, a, b, row) * _stand(c, row) * column)

    def backward(self, c: Calculator, sizes: Sizes, upstream: Any, *inputs: Any) -> tuple[Any, ...]:
        """Compute the gradients by the scales."""
        a, b, row, column = inputs
        slope = upstream * self._product(c, sizes, a, b, row)
        by_row = c.linear(lambda array: array.sum(axis=1), slope * column, sizes["n"])
        by_column = c.linear(lambda array: array.sum(axis=0), slope * _stand(c, row), sizes["m"])
        return c.store(by_row), c.store(by_column)

    def flops(self, sizes: Sizes) -> int:
        """See the class."""
        return 2 * sizes["m"] * sizes["n"] * (sizes["k"] + 1)

    def _eight_bits(self, *shape: int) -> Tensor:
        return Tensor(shape, below=256, real=False, gradient=False, stored=self.stored)

    def _product(self, c: Calculator, sizes: Sizes, a: Any, b: Any, like: Any) -> Any:
        """Return a B, in the dtype of a scale's values."""
        raise NotImplementedError


class Int8Matmul(_Scaled):
    """Product of whole numbers from -128 to 127, which is exact."""

    name = "int8_matmul"
    stored = "int8"
    scale = 2.0**-6

    def _product(self, c: Calculator, sizes: Sizes, a: Any, b: Any, like: Any) -> Any:  # noqa: ARG002
        return (a.astype("int64") @ b.astype("int64")).astype(c.value(like).dtype)


class Fp8Matmul(_Scaled):
    """Product in float8_e4m3fn: 4 bits of exponent, 3 of significand, sums in float32.

    A sum on tensor cores may have fewer bits where the result has 16: 14 of them are significant.

    The tensors are uint8, the bits of numbers in (-4, 12) rounded to the nearest (Micikevicius and
    others, FP8 formats for deep learning, arXiv 2209.05433, 2022).
    """

    name = "fp8_matmul"
    stored = "uint8"
    scale = 2.0**-3

    def inputs(self, sizes: Sizes, dtype: str, seed: int) -> Any:
        """Return the bits of what 256 even steps are rounded to."""
        import numpy

        a, b, row, column = super().inputs(sizes, dtype, seed)
        numbers = decode(numpy.arange(127, dtype="uint8"))
        steps = (numpy.arange(256) + 0.5) / 16 - 4
        middles = (numbers[1:] + numbers[:-1]) / 2
        code = numpy.searchsorted(middles, abs(steps)) + 128 * (steps < 0)
        code = code.astype("uint8")
        return code[a], code[b], row, column

    def _product(self, c: Calculator, sizes: Sizes, a: Any, b: Any, like: Any) -> Any:
        left, right = (decode(array).astype(c.value(like).dtype) for array in (a, b))
        return c.bilinear(lambda x, y: x @ y, left, right, sizes["k"])


def decode(codes: Any) -> Any:
    """Return the float64 numbers that bits of float8_e4m3fn stand for; 127 and 255 are no
    numbers.
    """
    import numpy

    exponent, significand = codes.astype(int) >> 3 & 15, codes.astype(int) & 7
    size = numpy.where(
        exponent > 0,
        numpy.ldexp(8.0 + significand, exponent - 10),
        numpy.ldexp(0.0 + significand, -9),
    )
    return numpy.where(codes & 127 == 127, numpy.nan, numpy.where(codes & 128, -size, size))


def _stand(c: Calculator, row: Any) -> Any:
    return c.select(lambda array: array[:, None], row)


OPERATORS = {operator.name: operator for operator in (Int8Matmul(), Fp8Matmul())}
