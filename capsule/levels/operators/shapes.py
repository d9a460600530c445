"""Changes of shape, which move or copy elements and compute nothing."""

from __future__ import annotations

from typing import Any

from .base import Operator, Sizes, Tensor
from .rounding import Calculator


class _Change(Operator):
    """Exact, without FLOPs. A framework may return a view: its time is then that of no copy."""

    def forward(self, c: Calculator, sizes: Sizes, *inputs: Any) -> Any:
        """Return the same elements in the new shape."""
        (shape,) = self.outputs(sizes)
        return c.store(c.select(lambda array: array.reshape(shape), inputs[0]))

    def backward(self, c: Calculator, sizes: Sizes, upstream: Any, *inputs: Any) -> tuple[Any, ...]:  # noqa: ARG002
        """Return the upstream gradient in the old shape."""
        shape = self.tensors(sizes)["x"].shape
        return (c.store(c.select(lambda array: array.reshape(shape), upstream)),)

    def flops(self, sizes: Sizes) -> int:  # noqa: ARG002
        """Return 0: the operation computes nothing."""
        return 0


class Reshape(_Change):
    """(n, c, h, w) as (n, c h w)."""

    name = "reshape"

    def tensors(self, sizes: Sizes) -> dict[str, Tensor]:
        """Return values x of shape (n, c, h, w)."""
        return {"x": Tensor(tuple(sizes[name] for name in ("n", "c", "h", "w")))}

    def outputs(self, sizes: Sizes) -> tuple[tuple[int, ...], ...]:
        """(n, c h w)."""
        return ((sizes["n"], sizes["c"] * sizes["h"] * sizes["w"]),)


class Squeeze(_Change):
    """(rows, 1, columns) as (rows, columns)."""

    name = "squeeze"

    def tensors(self, sizes: Sizes) -> dict[str, Tensor]:
        """Return values x of shape (rows, 1, columns)."""
        return {"x": Tensor((sizes["rows"], 1, sizes["columns"]))}

    def outputs(self, sizes: Sizes) -> tuple[tuple[int, ...], ...]:
        """(rows, columns)."""
        return ((sizes["rows"], sizes["columns"]),)


class Unsqueeze(_Change):
    """(rows, columns) as (rows, 1, columns)."""

    name = "unsqueeze"

    def tensors(self, sizes: Sizes) -> dict[str, Tensor]:
        """Return values x of shape (rows, columns)."""
        return {"x": Tensor((sizes["rows"], sizes["columns"]))}

    def outputs(self, sizes: Sizes) -> tuple[tuple[int, ...], ...]:
        """(rows, 1, columns)."""
        return ((sizes["rows"], 1, sizes["columns"]),)


OPERATORS = {operator.name: operator for operator in (Reshape(), Squeeze(), Unsqueeze())}
