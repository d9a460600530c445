"""Elements by their size or by their numbers: top_k, gather, scatter_add."""

from __future__ import annotations

from typing import Any

from ..streams import words
from .base import Operator, Sizes, Tensor
from .rounding import ARITHMETIC, Calculator

_STEPS = 128
"""Numbers from one power of two to the next that every dtype holds."""
_POWERS = 15
"""Powers of two, from 1 on, that every dtype holds."""


class TopK(Operator):
    """The k largest elements of each row of a (rows, columns) matrix, the largest first.

    Exact; comparisons are no FLOPs. Where they stood is no result of its own: it shows in the
    gradient, which goes there. They are distinct and above 1, at random places, and the others
    below 3/4, so that there is one right answer in every dtype.
    """

    name = "top_k"
    smooth = False

    def tensors(self, sizes: Sizes) -> dict[str, Tensor]:
        """Return one matrix."""
        if sizes["k"] > sizes["columns"]:
            raise ValueError(
                f"k is {sizes['k']}, expected at most {sizes['columns']}, the number of columns"
            )
        if sizes["k"] > _STEPS * _POWERS:
            raise ValueError(
                f"k is {sizes['k']}, expected at most {_STEPS * _POWERS}, so that 16 bits can"
                " represent k distinct numbers"
            )
        return {"x": Tensor((sizes["rows"], sizes["columns"]))}

    def inputs(self, sizes: Sizes, dtype: str, seed: int) -> Any:
        """Return a matrix with k distinct numbers above 1 in each row."""
        import numpy

        (x,) = super().inputs(sizes, dtype, seed)
        label = f"capsule-input-1\n{self.name}\nplaces\n{x.shape}\n{seed}\n"
        places = numpy.argsort(words(label, x.size).reshape(x.shape), axis=1)[:, : sizes["k"]]
        rank = numpy.arange(sizes["k"])
        largest = numpy.ldexp(1 + rank % _STEPS / _STEPS, rank // _STEPS)
        numpy.put_along_axis(x, places, largest[None].astype(x.dtype), axis=1)
        return (x,)

    def outputs(self, sizes: Sizes) -> tuple[tuple[int, ...], ...]:
        """(rows, k)."""
        return ((sizes["rows"], sizes["k"]),)

    def forward(self, c: Calculator, sizes: Sizes, *inputs: Any) -> Any:
        """Taken from where they are."""
        import numpy

        places = self._places(c, sizes, inputs[0])
        return c.store(
            c.select(lambda array: numpy.take_along_axis(array, places, axis=1), inputs[0])
        )

    def backward(self, c: Calculator, sizes: Sizes, upstream: Any, *inputs: Any) -> tuple[Any, ...]:
        """Put back to where they were."""
        import numpy

        places = self._places(c, sizes, inputs[0])

        def spread(array: Any) -> Any:
            matrix = numpy.zeros((sizes["rows"], sizes["columns"]), array.dtype, like=array)
            numpy.put_along_axis(matrix, places, array, axis=1)
            return matrix

        return (c.store(c.select(spread, upstream)),)

    def flops(self, sizes: Sizes) -> int:  # noqa: ARG002
        """Return 0: the operation computes nothing."""
        return 0

    def _places(self, c: Calculator, sizes: Sizes, x: Any) -> Any:
        return c.value(x).argsort(axis=1)[:, ::-1][:, : sizes["k"]]


class _Indexed(Operator):
    """An index (rows, count) into the columns of a matrix.

    The first and the last column are taken twice, where there are so many indices.
    """

    def inputs(self, sizes: Sizes, dtype: str, seed: int) -> Any:
        """Draw inputs with the first and last column."""
        arrays = super().inputs(sizes, dtype, seed)
        if sizes["count"] >= 4:
            index = arrays[list(self.tensors(sizes)).index("index")]
            index[:, :2], index[:, -2:] = 0, sizes["columns"] - 1
        return arrays


def _index(sizes: Sizes) -> Tensor:
    shape = (sizes["rows"], sizes["count"])
    return Tensor(shape, below=sizes["columns"], real=False, gradient=False)


class Gather(_Indexed):
    """y[r, i] = x[r, index[r, i]]: x is (rows, columns). Exact; no FLOPs.

    In the gradient, elements that were taken several times add up, in memory of the dtype.
    """

    name = "gather"

    def tensors(self, sizes: Sizes) -> dict[str, Tensor]:
        """Return the matrix and the indices."""
        return {"x": Tensor((sizes["rows"], sizes["columns"])), "index": _index(sizes)}

    def outputs(self, sizes: Sizes) -> tuple[tuple[int, ...], ...]:
        """(rows, count)."""
        return ((sizes["rows"], sizes["count"]),)

    def forward(self, c: Calculator, sizes: Sizes, *inputs: Any) -> Any:  # noqa: ARG002
        """Return the elements."""
        x, index = inputs
        return c.store(_take(c, x, index))

    def backward(self, c: Calculator, sizes: Sizes, upstream: Any, *inputs: Any) -> tuple[Any, ...]:
        """Return sums over the places where an element went."""
        _, index = inputs
        return (c.store(_add_up(c, upstream, index, sizes["columns"])),)

    def flops(self, sizes: Sizes) -> int:  # noqa: ARG002
        """Return 0: the operation computes nothing."""
        return 0

    def bytes(self, sizes: Sizes, dtype: str) -> int:
        """Only the elements that are taken are read."""
        return sizes["rows"] * sizes["count"] * (2 * ARITHMETIC[dtype].bytes + 8)


class ScatterAdd(_Indexed):
    """y = x, and each y[r, index[r, i]] has source[r, i] added, as often as it is named.

    x is (rows, columns), index and source are (rows, count). Additions may go through memory of the
    dtype, in any order. FLOPs: 1 per element of the source.
    """

    name = "scatter_add"

    def tensors(self, sizes: Sizes) -> dict[str, Tensor]:
        """Return the matrix, the indices, what is added."""
        return {
            "x": Tensor((sizes["rows"], sizes["columns"])),
            "index": _index(sizes),
            "source": Tensor((sizes["rows"], sizes["count"])),
        }

    def outputs(self, sizes: Sizes) -> tuple[tuple[int, ...], ...]:
        """(rows, columns)."""
        return ((sizes["rows"], sizes["columns"]),)

    def forward(self, c: Calculator, sizes: Sizes, *inputs: Any) -> Any:
        """Return sums of an element and what is added to it."""
        import numpy

        x, index, source = inputs
        columns, count = sizes["columns"], sizes["count"]
        # side by side, as terms of one sum: partial sums have the size of both
        before = c.select(lambda array: numpy.pad(array, ((0, 0), (0, count))), x)
        after = c.select(lambda array: numpy.pad(array, ((0, 0), (columns, 0))), source)
        own = numpy.broadcast_to(numpy.arange(columns), (sizes["rows"], columns))
        places = numpy.concatenate((own, index), axis=1)
        return c.store(_add_up(c, before + after, places, columns))

    def backward(self, c: Calculator, sizes: Sizes, upstream: Any, *inputs: Any) -> tuple[Any, ...]:  # noqa: ARG002
        """Compute the gradients by x unchanged, by the source gathered."""
        return c.store(c.select(lambda array: array, upstream)), c.store(
            _take(c, upstream, inputs[1])
        )

    def flops(self, sizes: Sizes) -> int:
        """See the class."""
        return sizes["rows"] * sizes["count"]


def _take(c: Calculator, x: Any, index: Any) -> Any:
    import numpy

    return c.select(lambda array: numpy.take_along_axis(array, index, axis=1), x)


def _add_up(c: Calculator, x: Any, index: Any, columns: int) -> Any:
    """Return sums of those elements of each row that have the same index."""
    import numpy

    def add_up(array: Any) -> Any:
        sums = numpy.zeros((len(array), columns), array.dtype, like=array)
        numpy.add.at(sums, (numpy.arange(len(array))[:, None], index), array)
        return sums

    most = int(add_up(numpy.ones(index.shape)).max())
    return c.linear(add_up, x, most, most)


OPERATORS = {operator.name: operator for operator in (TopK(), Gather(), ScatterAdd())}
