"""Sums of tensors, and dropout with a mask that is given."""

from __future__ import annotations

from typing import Any

from .base import Operator, Sizes, Tensor
from .rounding import Calculator


class Sum(Operator):
    """x0 + x1 + ... of `count` vectors of n elements, from the left, each sum stored in the dtype.

    FLOPs: count - 1 per element.
    """

    name = "sum"

    def tensors(self, sizes: Sizes) -> dict[str, Tensor]:
        """x0, x1, ..."""
        return {f"x{index}": Tensor((sizes["n"],)) for index in range(sizes["count"])}

    def outputs(self, sizes: Sizes) -> tuple[tuple[int, ...], ...]:
        """Return one vector of n elements."""
        return ((sizes["n"],),)

    def forward(self, c: Calculator, sizes: Sizes, *inputs: Any) -> Any:  # noqa: ARG002
        """Return one addition after the other."""
        total = c.store(inputs[0])
        for term in inputs[1:]:
            total = c.store(total + term)
        return total

    def backward(self, c: Calculator, sizes: Sizes, upstream: Any, *inputs: Any) -> tuple[Any, ...]:  # noqa: ARG002
        """Return the upstream gradient, for each."""
        return (c.store(upstream),) * len(inputs)

    def flops(self, sizes: Sizes) -> int:
        """See the class."""
        return (sizes["count"] - 1) * sizes["n"]


class Add(Operator):
    """a + b of a (rows, columns) matrix and a vector of `columns`, which is added to each row.

    FLOPs: 1 per element.
    """

    name = "add"

    def tensors(self, sizes: Sizes) -> dict[str, Tensor]:
        """Return the matrix a and the vector b."""
        return {"a": Tensor((sizes["rows"], sizes["columns"])), "b": Tensor((sizes["columns"],))}

    def outputs(self, sizes: Sizes) -> tuple[tuple[int, ...], ...]:
        """(rows, columns)."""
        return ((sizes["rows"], sizes["columns"]),)

    def forward(self, c: Calculator, sizes: Sizes, *inputs: Any) -> Any:  # noqa: ARG002
        """Return the sum."""
        a, b = inputs
        return c.store(a + b)

    def backward(self, c: Calculator, sizes: Sizes, upstream: Any, *inputs: Any) -> tuple[Any, ...]:  # noqa: ARG002
        """G, and its sum over rows."""
        by_b = c.linear(lambda g: g.sum(axis=0), upstream, sizes["rows"])
        return c.store(upstream), c.store(by_b)

    def flops(self, sizes: Sizes) -> int:
        """See the class."""
        return sizes["rows"] * sizes["columns"]


class Dropout(Operator):
    """x mask / (1 - percent / 100) of n elements; the mask of zeros and ones is an input.

    The mask is even-handed whatever `percent` says. FLOPs: 2 per element.
    """

    name = "dropout"

    def tensors(self, sizes: Sizes) -> dict[str, Tensor]:
        """Return values x and the mask, in the dtype of x."""
        n = sizes["n"]
        return {"x": Tensor((n,)), "mask": Tensor((n,), below=2, gradient=False)}

    def outputs(self, sizes: Sizes) -> tuple[tuple[int, ...], ...]:
        """Return one vector of n elements."""
        return ((sizes["n"],),)

    def forward(self, c: Calculator, sizes: Sizes, *inputs: Any) -> Any:
        """Return the formula; x times the mask is exact."""
        x, mask = inputs
        return _drop(c, sizes, x, mask)

    def backward(self, c: Calculator, sizes: Sizes, upstream: Any, *inputs: Any) -> tuple[Any, ...]:
        """Return the same of the upstream gradient."""
        return (_drop(c, sizes, upstream, inputs[1]),)

    def flops(self, sizes: Sizes) -> int:
        """See the class."""
        return 2 * sizes["n"]


def _drop(c: Calculator, sizes: Sizes, x: Any, mask: Any) -> Any:
    kept = c.select(lambda array: array * c.value(mask), x)
    return c.store(kept * 100 / (100 - sizes["percent"]))


OPERATORS = {operator.name: operator for operator in (Sum(), Add(), Dropout())}
