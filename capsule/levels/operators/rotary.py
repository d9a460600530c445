"""Rotary embedding: pairs of elements turned by an angle of their position."""

from __future__ import annotations

from math import prod
from typing import Any

from .base import Operator, Sizes, Tensor
from .rounding import ARITHMETIC, Calculator


class Rotary(Operator):
    """(a cos - b sin, b cos + a sin) for pairs a, b of each of batch x heads x length vectors.

    x is (batch, heads, length, 2 pairs); cos and sin are (length, pairs). A pair is an element of
    the first half and the one at its place in the second, with `interleaved` 1 two neighbours. Each
    position and pair has any angle, up to 126 degrees: made by additions and divisions alone, its
    cosine and sine are the same on every machine. Not differentiated by them. FLOPs: 3 per element.
    """

    name = "rotary"

    def tensors(self, sizes: Sizes) -> dict[str, Tensor]:
        """Return vectors x and the two tables."""
        table = Tensor((sizes["length"], sizes["pairs"]), -2.0, 4.0, gradient=False)
        return {"x": Tensor(self.outputs(sizes)[0]), "cos": table, "sin": table}

    def inputs(self, sizes: Sizes, dtype: str, seed: int) -> Any:
        """Return the tables from tangents of half the angles, rounded to the dtype."""
        x, tangent, _ = super().inputs(sizes, dtype, seed)
        tangent = tangent.astype("float64")
        square = tangent * tangent
        tables = ((1 - square) / (1 + square), 2 * tangent / (1 + square))
        return (x, *(_round(table, dtype) for table in tables))

    def outputs(self, sizes: Sizes) -> tuple[tuple[int, ...], ...]:
        """Return the shape of x."""
        batch, heads, length, pairs = (
            sizes[name] for name in ("batch", "heads", "length", "pairs")
        )
        return ((batch, heads, length, 2 * pairs),)

    def forward(self, c: Calculator, sizes: Sizes, *inputs: Any) -> Any:
        """Return the turned pairs."""
        x, cos, sin = inputs
        return self._turn(c, sizes, x, cos, sin)

    def backward(self, c: Calculator, sizes: Sizes, upstream: Any, *inputs: Any) -> tuple[Any, ...]:
        """Turned back."""
        _, cos, sin = inputs
        return (self._turn(c, sizes, upstream, cos, -sin),)

    def flops(self, sizes: Sizes) -> int:
        """See the class."""
        return 3 * prod(self.outputs(sizes)[0])

    def _turn(self, c: Calculator, sizes: Sizes, x: Any, cos: Any, sin: Any) -> Any:
        pairs = sizes["pairs"]
        firsts = slice(0, None, 2) if sizes["interleaved"] else slice(0, pairs)
        seconds = slice(1, None, 2) if sizes["interleaved"] else slice(pairs, None)
        a = c.select(lambda array: array[..., firsts], x)
        b = c.select(lambda array: array[..., seconds], x)
        turned_a = c.between(a * cos) - c.between(b * sin)
        turned_b = c.between(b * cos) + c.between(a * sin)

        def put(array: Any, at: slice) -> Any:
            import numpy

            whole = numpy.zeros((*array.shape[:-1], 2 * pairs), array.dtype, like=array)
            whole[..., at] = array
            return whole

        return c.store(
            c.select(lambda array: put(array, firsts), turned_a)
            + c.select(lambda array: put(array, seconds), turned_b)
        )


def _round(array: Any, dtype: str) -> Any:
    """Round to the bits of the dtype's inputs."""
    import numpy

    arithmetic = ARITHMETIC[dtype]
    significand, exponent = numpy.frexp(array)
    whole = numpy.rint(numpy.ldexp(significand, arithmetic.bits))
    return numpy.ldexp(whole, exponent - arithmetic.bits).astype(arithmetic.stored)


OPERATORS = {"rotary": Rotary()}
