"""Maximum pooling of images and volumes; average and global average pooling of (n, c, h, w)."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any

from ..streams import words
from .base import Operator, Sizes, Tensor
from .convolution import AXES, WINDOWS
from .correlation import Window, pad
from .rounding import ARITHMETIC, Calculator

if TYPE_CHECKING:
    from .base import Arrays


class _Pool(Operator):
    """Windows of [q x] r x s, moved by `stride`, over a frame of `padding` that counts for nothing.

    FLOPs: 1 per element of a window, frame included.
    """

    def __init__(self, rank: int) -> None:
        self._rank = rank

    def tensors(self, sizes: Sizes) -> dict[str, Tensor]:
        """Return values x of shape (n, c, [d,] h, w)."""
        return {"x": Tensor((sizes["n"], sizes["c"], *self._spatial(sizes)))}

    def outputs(self, sizes: Sizes) -> tuple[tuple[int, ...], ...]:
        """(n, c, positions...).

        Raises:
            ValueError: The padding is more than half a window (whole windows would be frame), or
                no window fits.
        """
        window = self._window(sizes)
        positions = tuple(map(_how(sizes).length, self._spatial(sizes), window))
        if 2 * sizes["padding"] > min(window):
            raise ValueError(
                f"padding is {sizes['padding']}, expected at most {min(window) // 2}, half a window"
            )
        if min(positions) < 1:
            raise ValueError(
                f"the window {tuple(window)} does not fit into {tuple(self._spatial(sizes))} with"
                f" padding {sizes['padding']}"
            )
        return ((sizes["n"], sizes["c"], *positions),)

    def flops(self, sizes: Sizes) -> int:
        """See the class."""
        return prod(self.outputs(sizes)[0]) * prod(self._window(sizes))

    def _spatial(self, sizes: Sizes) -> tuple[int, ...]:
        return tuple(sizes[name] for name in AXES[self._rank])

    def _window(self, sizes: Sizes) -> tuple[int, ...]:
        return tuple(sizes[name] for name in WINDOWS[self._rank])

    def _slices(self, sizes: Sizes) -> list[Any]:
        """Yield the elements of the padded input at each position of the window."""
        positions = self.outputs(sizes)[0][2:]
        everything = (slice(None), slice(None))
        slices = _how(sizes).slices(self._window(sizes), positions)
        return [(*everything, *where) for _, where in slices]

    def _cut(self, sizes: Sizes, padded: Any) -> Any:
        edge = sizes["padding"]
        return padded[(..., *(slice(edge, edge + length) for length in self._spatial(sizes)))]

    def _frame(self, sizes: Sizes, like: Any) -> Any:
        import numpy

        edge = 2 * sizes["padding"]
        lengths = (length + edge for length in self._spatial(sizes))
        return numpy.zeros((sizes["n"], sizes["c"], *lengths), like.dtype, like=like)


class MaxPool(_Pool):
    """The largest element of each window, whose place gets the whole gradient.

    No two elements that a window can see are equal, for frameworks differ in which one they take:
    an input's level is a random one among those that belong to its place modulo the window.
    """

    smooth = False

    def __init__(self, rank: int) -> None:
        super().__init__(rank)
        self.name = f"max_pool{rank}d"

    def inputs(self, sizes: Sizes, dtype: str, seed: int) -> tuple[Any, ...]:
        """Return values x in (-1/4, 3/4), without ties.

        Raises:
            ValueError: The window has more elements than the dtype has levels for.
        """
        import numpy

        arithmetic = ARITHMETIC[dtype]
        shape = self.tensors(sizes)["x"].shape
        lengths = self._window(sizes)
        window = prod(lengths)
        levels = 2 ** (arithmetic.bits - 1) // window
        if levels < 1:
            raise ValueError(
                f"a window of {window} elements exceeds the {2 ** (arithmetic.bits - 1)} levels of"
                f" {dtype}: use a smaller window, or a dtype with more bits"
            )
        label = f"capsule-input-1\n{self.name}\nx\n{shape}\n{dtype}\n{seed}\n"
        drawn = ((words(label, prod(shape)) >> 11) % levels).reshape(shape)
        along = [index % length for index, length in zip(numpy.indices(shape[2:]), lengths)]
        place = numpy.ravel_multi_index(along, lengths)
        odd = 2 * (drawn * window + place.astype(drawn.dtype)) + 1
        values = odd.astype(numpy.float64) * 2.0**-arithmetic.bits - 0.25
        return (values.astype(arithmetic.stored),)

    def hard_inputs(self, sizes: Sizes, dtype: str, seed: int) -> Arrays:
        """Return all below 0, which the frame must not win against."""
        (x,) = self.inputs(sizes, dtype, seed)
        return (x - x.dtype.type(0.75),)

    def forward(self, c: Calculator, sizes: Sizes, *inputs: Any) -> Any:
        """Gather from where the maximum is."""
        winner, slices = self._winner(c, sizes, inputs[0]), self._slices(sizes)

        def gather(array: Any) -> Any:
            padded = pad(array, sizes["padding"])
            return sum((winner == index) * padded[where] for index, where in enumerate(slices))

        return c.store(c.select(gather, inputs[0]))

    def backward(self, c: Calculator, sizes: Sizes, upstream: Any, *inputs: Any) -> tuple[Any, ...]:
        """Scatter to where the maximum was; windows that overlap add up."""
        winner, slices = self._winner(c, sizes, inputs[0]), self._slices(sizes)

        def spread(array: Any) -> Any:
            padded = self._frame(sizes, array)
            for index, where in enumerate(slices):
                padded[where] += (winner == index) * array
            return self._cut(sizes, padded)

        return (c.store(c.linear(spread, upstream, len(slices), len(slices))),)

    def _winner(self, c: Calculator, sizes: Sizes, x: Any) -> Any:
        import numpy

        padded = pad(c.value(x), sizes["padding"], -numpy.inf)
        slices = self._slices(sizes)
        best = padded[slices[0]].copy()
        winner = numpy.zeros(best.shape, numpy.int64, like=best)
        for index, where in enumerate(slices[1:], 1):
            higher = padded[where] > best
            winner[higher] = index
            best = numpy.maximum(best, padded[where])
        return winner


class AveragePool(_Pool):
    """The mean of each window's elements, the frame not counted."""

    name = "average_pool2d"

    def forward(self, c: Calculator, sizes: Sizes, *inputs: Any) -> Any:
        """Return sums over windows divided by how many elements each has."""
        slices = self._slices(sizes)

        def add_up(array: Any) -> Any:
            padded = pad(array, sizes["padding"])
            return sum(padded[where] for where in slices)

        counts = add_up(c.value(inputs[0]) * 0 + 1)
        return c.store(c.linear(add_up, inputs[0], len(slices)) / counts)

    def backward(self, c: Calculator, sizes: Sizes, upstream: Any, *inputs: Any) -> tuple[Any, ...]:
        """Return each window's share to each of its elements; windows that overlap add up."""
        slices = self._slices(sizes)
        padded = pad(c.value(inputs[0]) * 0 + 1, sizes["padding"])
        counts = sum(padded[where] for where in slices)

        def spread(array: Any) -> Any:
            frame = self._frame(sizes, array)
            for where in slices:
                frame[where] += array
            return self._cut(sizes, frame)

        shares = c.store(upstream / counts)
        return (c.store(c.linear(spread, shares, len(slices), len(slices))),)


class GlobalAveragePool(Operator):
    """The mean over h and w of (n, c, h, w), as (n, c, 1, 1). FLOPs: 1 per element."""

    name = "global_average_pool"

    def tensors(self, sizes: Sizes) -> dict[str, Tensor]:
        """Return values x of shape (n, c, h, w)."""
        return {"x": Tensor(tuple(sizes[name] for name in ("n", "c", "h", "w")))}

    def outputs(self, sizes: Sizes) -> tuple[tuple[int, ...], ...]:
        """(n, c, 1, 1)."""
        return ((sizes["n"], sizes["c"], 1, 1),)

    def forward(self, c: Calculator, sizes: Sizes, *inputs: Any) -> Any:
        """Return the mean."""
        return c.store(c.total(inputs[0], (2, 3)) / (sizes["h"] * sizes["w"]))

    def backward(self, c: Calculator, sizes: Sizes, upstream: Any, *inputs: Any) -> tuple[Any, ...]:
        """G / (h w) everywhere."""
        import numpy

        share = upstream / (sizes["h"] * sizes["w"])
        shape = inputs[0].shape
        return (c.store(c.select(lambda array: numpy.broadcast_to(array, shape), share)),)

    def flops(self, sizes: Sizes) -> int:
        """See the class."""
        return sizes["n"] * sizes["c"] * sizes["h"] * sizes["w"]


def _how(sizes: Sizes) -> Window:
    return Window(sizes["stride"], sizes["padding"], 1, 1)


OPERATORS = {
    operator.name: operator
    for operator in (MaxPool(2), MaxPool(3), AveragePool(2), GlobalAveragePool())
}
