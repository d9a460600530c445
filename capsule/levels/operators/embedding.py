"""Embedding: rows of a table by their numbers."""

from __future__ import annotations

from typing import Any

from .base import Operator, Sizes, Tensor
from .rounding import ARITHMETIC, Calculator


class Embedding(Operator):
    """y[i] = table[index[i]]: a (rows, width) table, `count` indices. Exact; no FLOPs.

    In the gradient, rows that were taken several times add up, in memory of the dtype.
    """

    name = "embedding"

    def tensors(self, sizes: Sizes) -> dict[str, Tensor]:
        """Return the table and the indices, each below `rows`."""
        return {
            "table": Tensor((sizes["rows"], sizes["width"])),
            "index": Tensor((sizes["count"],), below=sizes["rows"], real=False, gradient=False),
        }

    def outputs(self, sizes: Sizes) -> tuple[tuple[int, ...], ...]:
        """(count, width)."""
        return ((sizes["count"], sizes["width"]),)

    def forward(self, c: Calculator, sizes: Sizes, *inputs: Any) -> Any:  # noqa: ARG002
        """Return the rows."""
        table, index = inputs
        return c.store(c.select(lambda array: array[index], table))

    def backward(self, c: Calculator, sizes: Sizes, upstream: Any, *inputs: Any) -> tuple[Any, ...]:  # noqa: ARG002
        """Return sums over the places where a row went."""
        import numpy

        table, index = inputs
        most = int(numpy.bincount(index).max())
        shape = table.shape

        def add_up(array: Any) -> Any:
            rows = numpy.zeros(shape, array.dtype, like=array)
            numpy.add.at(rows, index, array)
            return rows

        return (c.store(c.linear(add_up, upstream, most, most)),)

    def flops(self, sizes: Sizes) -> int:  # noqa: ARG002
        """Return 0: the operation computes nothing."""
        return 0

    def bytes(self, sizes: Sizes, dtype: str) -> int:
        """Only the rows that are taken are read."""
        return sizes["count"] * (2 * sizes["width"] * ARITHMETIC[dtype].bytes + 8)


OPERATORS = {"embedding": Embedding()}
