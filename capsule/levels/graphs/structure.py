"""Operators that networks need beside those of Level 0: they move elements, or scale them all."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from math import prod
from operator import itemgetter
from typing import Any

from .. import operators
from ..catalog import OPERATORS as LEVEL0
from ..operators.base import Operator, Tensor
from ..operators.rounding import Calculator

Sizes = Mapping[str, Any]

ONNX = "onnx"
"""Name of the operator that is an ONNX node of any other kind; it alone needs the package onnx."""

MOVING = ("view", "transpose", "concat", "expand")
"""Operators whose result has the type of what they take, whole numbers too."""


class View(Operator):
    """x as an array of another shape, elements in C order.

    Sizes: `of`, the shape of x; `shape`, that of the result.
    """

    name = "view"

    def tensors(self, sizes: Sizes) -> dict[str, Tensor]:
        """Return values x."""
        return {"x": Tensor(sizes["of"])}

    def outputs(self, sizes: Sizes) -> tuple[tuple[int, ...], ...]:
        """`shape`.

        Raises:
            ValueError: It has another number of elements.
        """
        if prod(sizes["of"]) != prod(sizes["shape"]):
            raise ValueError(
                f"the shape {sizes['of']} cannot be viewed as {sizes['shape']}: expected"
                f" {prod(sizes['of'])} elements, found {prod(sizes['shape'])}"
            )
        return (tuple(sizes["shape"]),)

    def forward(self, c: Calculator, sizes: Sizes, *inputs: Any) -> Any:
        """Return the same elements."""
        return c.select(lambda array: array.reshape(sizes["shape"]), inputs[0])

    def backward(self, c: Calculator, sizes: Sizes, upstream: Any, *inputs: Any) -> tuple[Any, ...]:  # noqa: ARG002
        """Return the upstream gradient in the old shape."""
        return (c.select(lambda array: array.reshape(sizes["of"]), upstream),)

    def flops(self, sizes: Sizes) -> int:  # noqa: ARG002
        """Return 0: the operation computes nothing."""
        return 0


class Transpose(Operator):
    """x with its axes in another order: axis i of the result is axis `axes[i]` of x.

    Sizes: `of`, the shape of x; `axes`.
    """

    name = "transpose"

    def tensors(self, sizes: Sizes) -> dict[str, Tensor]:
        """Return values x."""
        return {"x": Tensor(sizes["of"])}

    def outputs(self, sizes: Sizes) -> tuple[tuple[int, ...], ...]:
        """Return the lengths in the new order.

        Raises:
            ValueError: `axes` is no order of the axes of x.
        """
        if sorted(sizes["axes"]) != list(range(len(sizes["of"]))):
            raise ValueError(
                f"found the order of axes {sizes['axes']}, expected each axis of the shape"
                f" {sizes['of']} once"
            )
        return (tuple(sizes["of"][axis] for axis in sizes["axes"]),)

    def forward(self, c: Calculator, sizes: Sizes, *inputs: Any) -> Any:
        """Return the same elements."""
        return c.select(lambda array: array.transpose(sizes["axes"]), inputs[0])

    def backward(self, c: Calculator, sizes: Sizes, upstream: Any, *inputs: Any) -> tuple[Any, ...]:  # noqa: ARG002
        """Return the upstream gradient with its axes back in place."""
        back = sorted(range(len(sizes["axes"])), key=lambda axis: sizes["axes"][axis])
        return (c.select(lambda array: array.transpose(back), upstream),)

    def flops(self, sizes: Sizes) -> int:  # noqa: ARG002
        """Return 0: the operation computes nothing."""
        return 0


class Concat(Operator):
    """Arrays one after the other along an axis.

    Sizes: `of`, the shape of each; `axis`, counted from 0.
    """

    name = "concat"

    def tensors(self, sizes: Sizes) -> dict[str, Tensor]:
        """x0, x1, ..."""
        return {f"x{index}": Tensor(shape) for index, shape in enumerate(sizes["of"])}

    def outputs(self, sizes: Sizes) -> tuple[tuple[int, ...], ...]:
        """Return the shape of x0, but for `axis`, where lengths add up.

        Raises:
            ValueError: There is no such axis, or shapes differ elsewhere.
        """
        axis, shapes = sizes["axis"], sizes["of"]
        rests = {(*shape[:axis], *shape[axis + 1 :]) for shape in shapes}
        if len(rests) != 1 or not 0 <= axis < min(map(len, shapes)):
            raise ValueError(f"the shapes {shapes} cannot be concatenated along axis {axis}")
        (first, *_) = shapes
        return ((*first[:axis], sum(shape[axis] for shape in shapes), *first[axis + 1 :]),)

    def forward(self, c: Calculator, sizes: Sizes, *inputs: Any) -> Any:
        """Return a sum of arrays that are zero outside of their places: no calculator knows
        several.
        """
        (shape,) = self.outputs(sizes)
        parts = [
            c.select(partial(_place, shape=shape, where=where), x)
            for where, x in zip(self._places(sizes), inputs)
        ]
        return sum(parts[1:], parts[0])

    def backward(self, c: Calculator, sizes: Sizes, upstream: Any, *inputs: Any) -> tuple[Any, ...]:  # noqa: ARG002
        """Return the parts of the upstream gradient."""
        return tuple(c.select(itemgetter(where), upstream) for where in self._places(sizes))

    def flops(self, sizes: Sizes) -> int:  # noqa: ARG002
        """Return 0: the operation computes nothing."""
        return 0

    def _places(self, sizes: Sizes) -> list[Any]:
        axis, start, places = sizes["axis"], 0, []
        for shape in sizes["of"]:
            places.append((*(slice(None),) * axis, slice(start, start + shape[axis])))
            start += shape[axis]
        return places


class Expand(Operator):
    """x repeated along axes of length 1.

    Sizes: `of`, the shape of x; `shape`, that of the result.
    """

    name = "expand"

    def tensors(self, sizes: Sizes) -> dict[str, Tensor]:
        """Return values x."""
        return {"x": Tensor(sizes["of"])}

    def outputs(self, sizes: Sizes) -> tuple[tuple[int, ...], ...]:
        """`shape`.

        Raises:
            ValueError: It has other axes, or another length where that of x is not 1.
        """
        of, shape = tuple(sizes["of"]), tuple(sizes["shape"])
        if len(of) != len(shape) or any(a not in (1, b) for a, b in zip(of, shape)):
            raise ValueError(f"the shape {of} cannot be expanded to {shape}")
        return (shape,)

    def forward(self, c: Calculator, sizes: Sizes, *inputs: Any) -> Any:
        """Return the same elements, repeated."""
        import numpy

        return c.select(lambda array: numpy.broadcast_to(array, sizes["shape"]), inputs[0])

    def backward(self, c: Calculator, sizes: Sizes, upstream: Any, *inputs: Any) -> tuple[Any, ...]:  # noqa: ARG002
        """Return the sum of the upstream gradient over the repetitions."""
        pairs = enumerate(zip(sizes["of"], sizes["shape"]))
        axes = tuple(axis for axis, (before, after) in pairs if before != after)
        return (c.store(c.total(upstream, axes)),)

    def flops(self, sizes: Sizes) -> int:  # noqa: ARG002
        """Return 0: the operation computes nothing."""
        return 0


class Scale(Operator):
    """x times a constant. FLOPs: 1 per element.

    Sizes: `of`, the shape of x; `factor`.
    """

    name = "scale"

    def tensors(self, sizes: Sizes) -> dict[str, Tensor]:
        """Return values x."""
        return {"x": Tensor(sizes["of"])}

    def outputs(self, sizes: Sizes) -> tuple[tuple[int, ...], ...]:
        """Return the shape of x."""
        return (tuple(sizes["of"]),)

    def forward(self, c: Calculator, sizes: Sizes, *inputs: Any) -> Any:
        """Return the product."""
        return c.store(inputs[0] * sizes["factor"])

    def backward(self, c: Calculator, sizes: Sizes, upstream: Any, *inputs: Any) -> tuple[Any, ...]:  # noqa: ARG002
        """Return the upstream gradient times the constant."""
        return (c.store(upstream * sizes["factor"]),)

    def flops(self, sizes: Sizes) -> int:
        """See the class."""
        return prod(sizes["of"])


class Detach(Operator):
    """x, through which no gradient passes.

    Sizes: `of`, the shape of x.
    """

    name = "detach"

    def tensors(self, sizes: Sizes) -> dict[str, Tensor]:
        """Return values x."""
        return {"x": Tensor(sizes["of"], gradient=False)}

    def outputs(self, sizes: Sizes) -> tuple[tuple[int, ...], ...]:
        """`of`."""
        return (tuple(sizes["of"]),)

    def forward(self, c: Calculator, sizes: Sizes, *inputs: Any) -> Any:  # noqa: ARG002
        """Return the same elements."""
        return inputs[0]

    def backward(self, c: Calculator, sizes: Sizes, upstream: Any, *inputs: Any) -> tuple[Any, ...]:  # noqa: ARG002
        """Return nothing: whole numbers have no gradient."""
        return ()

    def flops(self, sizes: Sizes) -> int:  # noqa: ARG002
        """Return 0: the operation computes nothing."""
        return 0


def _place(array: Any, shape: tuple[int, ...], where: Any) -> Any:
    import numpy

    larger = numpy.zeros(shape, array.dtype, like=array)
    larger[where] = array
    return larger


def load(name: str) -> Operator:
    """Return an operator of this module or of Level 0, or `ONNX`.

    Raises:
        ValueError: There is none.
    """
    if name == ONNX:
        from .onnx.node import OnnxNode

        return OnnxNode()
    if name in OPERATORS:
        return OPERATORS[name]
    if name not in LEVEL0:
        raise ValueError(f"unknown operator {name!r}; known: {', '.join((*LEVEL0, *OPERATORS))}")
    return operators.load(name)


OPERATORS: dict[str, Operator] = {
    kind.name: kind for kind in (View(), Transpose(), Concat(), Expand(), Scale(), Detach())
}
