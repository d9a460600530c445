"""Operations of TensorFlow: the call, and the layouts of its tensors."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Callable, Optional

import tensorflow

from ..base import NativeTensor

Sizes = Mapping[str, int]
Axes = Optional["tuple[int, ...]"]


@dataclass(frozen=True)
class Case:
    """Parameters by which an operation is chosen.

    Attributes:
        sizes: Parameters and options of the case.
        compiled: True if XLA compiles it; XLA knows forms that the kernels for CPUs lack.
        differentiated: True if its gradient is wanted.
    """

    sizes: Sizes
    compiled: bool
    differentiated: bool


@dataclass(frozen=True)
class Operation:
    """An operation of TensorFlow's own.

    Attributes:
        function: Takes tensors in the order of the operator's inputs, returns one or a tuple.
        inputs: For each input the order of axes in which TensorFlow's users hold it, None for the
            operator's own; transposed before the clock starts. None altogether for all as given.
        output: The order of axes in which the first result is to be read.
    """

    function: Callable[..., Any]
    inputs: tuple[Axes, ...] | None = None
    output: Axes = None

    def lay_out(self, tensors: tuple[NativeTensor, ...]) -> tuple[NativeTensor, ...]:
        """Return the operands: tensors in the layouts of `inputs`."""
        return tuple(
            tensor if axes is None else tensorflow.transpose(tensor, axes)
            for tensor, axes in zip(tensors, self.layouts(range(len(tensors))))
        )

    def layouts(self, places: Iterable[int]) -> tuple[Axes, ...]:
        """Return the layouts of the inputs at these places."""
        return tuple(self.inputs[place] if self.inputs else None for place in places)

    def lay_out_gradients(self, upstream: tuple[NativeTensor, ...]) -> Any:
        """Return the gradients of the results, the first in the layout of `output`."""
        if self.output is not None:
            first = tensorflow.transpose(upstream[0], inverse(self.output))
            upstream = (first, *upstream[1:])
        return upstream if len(upstream) > 1 else upstream[0]


class Transposed:
    """A result whose axes are put in the operator's order once the clock has stopped.

    It can be scaled, and added to one of the same axes, as gradients of micro-batches are.
    """

    __slots__ = ("axes", "tensor")

    def __init__(self, tensor: Any, axes: tuple[int, ...]) -> None:
        self.tensor = tensor
        self.axes = axes

    @property
    def shape(self) -> tuple[int, ...]:
        """Return the axes in the operator's order."""
        return tuple(self.tensor.shape[axis] for axis in self.axes)

    def __mul__(self, scale: Any) -> Transposed:
        return Transposed(self.tensor * scale, self.axes)

    def __add__(self, other: Transposed) -> Transposed:
        if other.axes != self.axes:
            raise ValueError(f"cannot add values with axes {self.axes} and {other.axes}")
        return Transposed(self.tensor + other.tensor, self.axes)


def channels_last(rank: int) -> tuple[int, ...]:
    """Order of axes that takes channels from the second place to the last."""
    return (0, *range(2, rank + 2), 1)


def channels_second(rank: int) -> tuple[int, ...]:
    """Return the way back from `channels_last`."""
    return (0, rank + 1, *range(1, rank + 1))


def window_first(rank: int) -> tuple[int, ...]:
    """Return axes of weights whose window comes first, followed by the two channel axes,
    swapped.
    """
    return (*range(2, rank + 2), 1, 0)


def inverse(axes: tuple[int, ...]) -> tuple[int, ...]:
    """Return the permutation that undoes another one."""
    return tuple(axes.index(place) for place in range(len(axes)))
