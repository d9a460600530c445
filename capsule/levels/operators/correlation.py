"""The three bilinear maps behind convolutions, in numpy, for any number of spatial axes.

x is (N, C, spatial...), a kernel w is (K, C / groups, window...), a result is (N, K, ...). Each
goes through the positions of the window and multiplies matrices over channels: no copy of all
patches.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from math import prod
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[Any]


@dataclass(frozen=True)
class Window:
    """How a kernel moves: the same along each spatial axis."""

    stride: int
    padding: int
    dilation: int
    groups: int

    def length(self, size: int, window: int) -> int:
        """Positions along an axis of `size`, floor((size + 2 p - d (window - 1) - 1) / s) + 1."""
        return (size + 2 * self.padding - self.dilation * (window - 1) - 1) // self.stride + 1

    def slices(self, window: tuple[int, ...], counts: tuple[int, ...]) -> Iterator[Any]:
        """For each position in the window: its index, and the padded input's elements it meets.

        Args:
            window: Lengths of the window.
            counts: Positions of the window along each spatial axis.
        """
        for index in product(*map(range, window)):
            starts = [self.dilation * place for place in index]
            yield (
                index,
                tuple(
                    slice(start, start + self.stride * (count - 1) + 1, self.stride)
                    for start, count in zip(starts, counts)
                ),
            )


def correlate(x: Array, w: Array, how: Window) -> Array:
    """A convolution in deep learning's sense: y[n, k, p] = sum of x[n, c, s p + d r] w[k, c, r]."""
    import numpy

    padded = pad(x, how.padding)
    window = w.shape[2:]
    counts = tuple(map(how.length, x.shape[2:], window))
    result = numpy.zeros((x.shape[0], how.groups, w.shape[0] // how.groups, prod(counts)), x.dtype)
    for index, where in how.slices(window, counts):
        met = _group(padded[(slice(None), slice(None), *where)], how.groups)
        result += _group_kernel(w, index, how.groups) @ met
    return result.reshape(x.shape[0], w.shape[0], *counts)


def scatter(g: Array, w: Array, how: Window, spatial: tuple[int, ...]) -> Array:
    """The transpose of `correlate` in x: from (N, K, ...) back to (N, C, *spatial)."""
    import numpy

    window = w.shape[2:]
    channels = w.shape[1] * how.groups
    lengths = tuple(size + 2 * how.padding for size in spatial)
    padded = numpy.zeros((g.shape[0], channels, *lengths), g.dtype)
    grad = _group(g, how.groups)
    for index, where in how.slices(window, g.shape[2:]):
        part = _group_kernel(w, index, how.groups).swapaxes(-1, -2) @ grad
        padded[(slice(None), slice(None), *where)] += part.reshape(
            g.shape[0], channels, *g.shape[2:]
        )
    inside = tuple(slice(how.padding, how.padding + size) for size in spatial)
    return padded[(slice(None), slice(None), *inside)]


def weigh(x: Array, g: Array, how: Window, window: tuple[int, ...]) -> Array:
    """The transpose of `correlate` in w: from x and (N, K, ...) to (K, C / groups, *window)."""
    import numpy

    padded = pad(x, how.padding)
    kernels, channels = g.shape[1], x.shape[1] // how.groups
    result = numpy.zeros((kernels, channels, *window), g.dtype)
    grad = _group(g, how.groups)
    for index, where in how.slices(window, g.shape[2:]):
        met = _group(padded[(slice(None), slice(None), *where)], how.groups)
        part = (grad @ met.swapaxes(-1, -2)).sum(axis=0)
        result[(slice(None), slice(None), *index)] = part.reshape(kernels, channels)
    return result


def pad(x: Array, padding: int, value: float = 0.0) -> Array:
    """The array with a frame around its spatial axes."""
    import numpy

    if not padding:
        return x
    frame = [(0, 0), (0, 0), *[(padding, padding)] * (x.ndim - 2)]
    return numpy.pad(x, frame, constant_values=value)


def _group(x: Array, groups: int) -> Array:
    return x.reshape(x.shape[0], groups, x.shape[1] // groups, prod(x.shape[2:]))


def _group_kernel(w: Array, index: tuple[int, ...], groups: int) -> Array:
    everywhere: tuple[Any, ...] = (slice(None), slice(None))
    weights: Array = w[(*everywhere, *index)]
    return weights.reshape(groups, w.shape[0] // groups, w.shape[1])
