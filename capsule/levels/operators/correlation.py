"""The three bilinear maps behind convolutions, in numpy, for any number of spatial axes.

x is (N, C, spatial...), a kernel w is (K, C / groups, window...), a result is (N, K, ...). Each
multiplies the kernel, which lies as it is, with columns: what the window meets at each of its
positions. Of these some `_AT_ONCE` numbers are there at once, for as many samples, or places along
the first axis, as that is.
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
    """Movement of a kernel, equal along each spatial axis."""

    stride: int
    padding: int
    dilation: int
    groups: int

    def length(self, size: int, window: int) -> int:
        """Return positions along an axis of `size`, floor((size + 2 p - d (window - 1) - 1) / s) +
        1.
        """
        return (size + 2 * self.padding - self.dilation * (window - 1) - 1) // self.stride + 1

    def slices(self, window: tuple[int, ...], counts: tuple[int, ...]) -> Iterator[Any]:
        """Yield each position in the window with its index and the padded input's elements.

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


_AT_ONCE = 2**20
"""Numbers of columns that are copied before they are multiplied: of float64 8 MiB."""

_ON_DEVICE = 2**26
"""The same on a device, where a call takes longer than its work on 8 MiB: 512 MiB."""


def correlate(x: Array, w: Array, how: Window) -> Array:
    """Return a convolution in deep learning's sense: y[n, k, p] = sum of x[n, c, s p + d r] w[k,
    c, r].
    """
    import numpy

    window = w.shape[2:]
    counts = tuple(map(how.length, x.shape[2:], window))
    padded, kernel = pad(x, how.padding), _group_kernel(w, how.groups)
    result = numpy.empty((x.shape[0], w.shape[0], *counts), numpy.result_type(x, w), like=padded)
    for samples, places in _parts(padded, x.shape[1] * prod(window), counts):
        met = _meet(padded[samples], how, window, places, counts)
        columns = met.reshape(len(met), how.groups, kernel.shape[2], -1)
        here = result[samples, :, places]
        here[...] = (kernel @ columns).reshape(here.shape)
    return result


def scatter(g: Array, w: Array, how: Window, spatial: tuple[int, ...]) -> Array:
    """Return the transpose of `correlate` in x: from (N, K, ...) back to (N, C, *spatial)."""
    import numpy

    window, counts = w.shape[2:], g.shape[2:]
    channels, kernel = w.shape[1] * how.groups, _group_kernel(w, how.groups).swapaxes(1, 2)
    lengths = tuple(size + 2 * how.padding for size in spatial)
    padded = numpy.zeros((g.shape[0], channels, *lengths), g.dtype, like=g)
    for samples, places in _parts(padded, channels * prod(window), counts):
        grad = g[samples, :, places]
        columns = kernel @ _group(grad, how.groups)
        shares = columns.reshape(len(grad), channels, *window, *grad.shape[2:])
        there = padded[samples, :, places.start * how.stride :]
        for index, where in how.slices(window, grad.shape[2:]):
            everywhere = (slice(None), slice(None))
            there[(*everywhere, *where)] += shares[(*everywhere, *index)]
    inside = tuple(slice(how.padding, how.padding + size) for size in spatial)
    return padded[(slice(None), slice(None), *inside)]


def weigh(x: Array, g: Array, how: Window, window: tuple[int, ...]) -> Array:
    """Return the transpose of `correlate` in w: from x and (N, K, ...) to (K, C / groups,
    *window).
    """
    import numpy

    kernels, channels, counts = g.shape[1], x.shape[1] // how.groups, g.shape[2:]
    padded, shape = pad(x, how.padding), (how.groups, kernels // how.groups, -1)
    result = numpy.zeros((*shape[:2], channels * prod(window)), g.dtype, like=g)
    for samples, places in _parts(padded, x.shape[1] * prod(window), counts):
        met = _meet(padded[samples], how, window, places, counts)
        # over all positions of all samples
        columns = numpy.moveaxis(met, 0, 1 + len(window)).reshape(*result.shape[::2], -1)
        grad = numpy.moveaxis(g[samples, :, places], 0, 1).reshape(shape)
        result += grad @ columns.swapaxes(1, 2)
    return result.reshape(kernels, channels, *window)


def _parts(padded: Array, height: int, counts: tuple[int, ...]) -> Iterator[tuple[slice, slice]]:
    """Yield samples and places along the first axis, some at once; all places where a sample fits.

    Args:
        padded: The samples.
        height: Numbers of one column.
        counts: Positions of the window along each spatial axis.
    """
    import numpy

    row = height * prod(counts[1:])
    most = _AT_ONCE if isinstance(padded, numpy.ndarray) else _ON_DEVICE
    together = max(1, most // max(1, row * counts[0]))
    places = max(1, most // max(1, row))
    for sample in range(0, len(padded), together):
        for place in range(0, counts[0], places):
            yield (
                slice(sample, sample + together),
                slice(place, min(place + places, counts[0])),
            )


def _meet(
    padded: Array, how: Window, window: tuple[int, ...], places: slice, counts: tuple[int, ...]
) -> Array:
    """Return a view of what each place of the window meets: (N, C, *window, *positions)."""
    from numpy.lib.stride_tricks import sliding_window_view

    padded = padded[:, :, places.start * how.stride :]
    lengths = (places.stop - places.start, *counts[1:])
    axes = tuple(range(2, padded.ndim))
    spans = tuple(how.dilation * (length - 1) + 1 for length in window)
    met = sliding_window_view(padded, spans, axes)
    begins = (slice(0, how.stride * (length - 1) + 1, how.stride) for length in lengths)
    within = (slice(None, None, how.dilation) for _ in window)
    met = met[(slice(None), slice(None), *begins, *within)]
    return met.transpose(0, 1, *range(padded.ndim, met.ndim), *axes)


def pad(x: Array, padding: int, value: float = 0.0) -> Array:
    """Return the array with a frame around its spatial axes."""
    import numpy

    if not padding:
        return x
    frame = [(0, 0), (0, 0), *[(padding, padding)] * (x.ndim - 2)]
    return numpy.pad(x, frame, constant_values=value)


def _group(x: Array, groups: int) -> Array:
    return x.reshape(x.shape[0], groups, x.shape[1] // groups, prod(x.shape[2:]))


def _group_kernel(w: Array, groups: int) -> Array:
    return w.reshape(groups, w.shape[0] // groups, prod(w.shape[1:]))
