"""Sum, mean and maximum along the rows of a matrix."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..streams import words
from .base import Operator, Sizes, Tensor, round_to
from .rounding import Calculator

if TYPE_CHECKING:
    from .base import Arrays


class _Reduction(Operator):
    """A (rows, columns) matrix to a vector of `rows` elements. FLOPs: 1 per element."""

    def tensors(self, sizes: Sizes) -> dict[str, Tensor]:
        """Return one matrix."""
        return {"x": Tensor((sizes["rows"], sizes["columns"]))}

    def hard_inputs(self, sizes: Sizes, dtype: str, seed: int) -> Arrays:
        """Draw large numbers first and last in the first row, which cancel."""
        (x,) = super().hard_inputs(sizes, dtype, seed)
        if x.shape[1] > 1:
            x[0, 0], x[0, -1] = 1024, -1024
        return (x,)

    def outputs(self, sizes: Sizes) -> tuple[tuple[int, ...], ...]:
        """Return one vector."""
        return ((sizes["rows"],),)

    def flops(self, sizes: Sizes) -> int:
        """See the class."""
        return sizes["rows"] * sizes["columns"]


class ReduceSum(_Reduction):
    """Sum of each row."""

    name = "reduce_sum"

    def forward(self, c: Calculator, sizes: Sizes, *inputs: Any) -> Any:
        """Return the sums."""
        return c.store(c.linear(lambda x: x.sum(axis=1), inputs[0], sizes["columns"]))

    def backward(self, c: Calculator, sizes: Sizes, upstream: Any, *inputs: Any) -> tuple[Any, ...]:  # noqa: ARG002
        """G along each row."""
        return (c.store(_along_rows(c, sizes, upstream)),)


class ReduceMean(_Reduction):
    """Mean of each row."""

    name = "reduce_mean"

    def forward(self, c: Calculator, sizes: Sizes, *inputs: Any) -> Any:
        """Return the sums over the number of columns."""
        columns = sizes["columns"]
        return c.store(c.linear(lambda x: x.sum(axis=1), inputs[0], columns) / columns)

    def backward(self, c: Calculator, sizes: Sizes, upstream: Any, *inputs: Any) -> tuple[Any, ...]:  # noqa: ARG002
        """G / columns along each row."""
        return (c.store(_along_rows(c, sizes, upstream / sizes["columns"])),)


class ReduceMax(_Reduction):
    """Largest element of each row, which gets the whole gradient.

    One element of each row, at a random place, is 1 and the others lie below 3/4: frameworks
    differ in how they share a gradient among equals. Exact.
    """

    name = "reduce_max"
    smooth = False

    def inputs(self, sizes: Sizes, dtype: str, seed: int) -> tuple[Any, ...]:
        """Return a matrix with one 1 in each row."""
        (x,) = super().inputs(sizes, dtype, seed)
        label = f"capsule-input-1\n{self.name}\nplaces\n{x.shape}\n{seed}\n"
        places = (words(label, sizes["rows"]) >> 11) % sizes["columns"]
        x[range(sizes["rows"]), places.astype("int64")] = 1
        return (x,)

    def hard_inputs(self, sizes: Sizes, dtype: str, seed: int) -> Arrays:
        """Return all below 0, with a maximum in the first column and one in the last."""
        (x,) = self.inputs(sizes, dtype, seed)
        for row, column in ((0, 0), (-1, -1))[: len(x)]:
            x[row, x[row].argmax()] = 0
            x[row, column] = 1
        return (round_to(x - 2, dtype),)

    def forward(self, c: Calculator, sizes: Sizes, *inputs: Any) -> Any:
        """Gather from where the maximum is."""
        places = c.value(inputs[0]).argmax(axis=1)
        rows = range(sizes["rows"])
        return c.store(c.select(lambda array: array[rows, places], inputs[0]))

    def backward(self, c: Calculator, sizes: Sizes, upstream: Any, *inputs: Any) -> tuple[Any, ...]:
        """Scatter to where the maximum was."""
        import numpy

        x = c.value(inputs[0])
        places, rows = x.argmax(axis=1), range(sizes["rows"])

        def spread(array: Any) -> Any:
            matrix = numpy.zeros(x.shape, array.dtype, like=array)
            matrix[rows, places] = array
            return matrix

        return (c.store(c.select(spread, upstream)),)


def _along_rows(c: Calculator, sizes: Sizes, x: Any) -> Any:
    import numpy

    shape = (sizes["rows"], sizes["columns"])
    return c.select(lambda array: numpy.broadcast_to(array[:, None], shape), x)


OPERATORS = {operator.name: operator for operator in (ReduceSum(), ReduceMean(), ReduceMax())}
