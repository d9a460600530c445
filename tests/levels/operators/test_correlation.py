"""The maps behind convolutions: against sums that are written down, whatever is there at once."""

from itertools import product
from typing import Any

import numpy
import pytest
from numpy.typing import NDArray

from capsule.levels.operators.correlation import Window, correlate, scatter, weigh

Array = NDArray[Any]


def sum_up(x: Array, w: Array, how: Window) -> Array:
    """One place of the window after the other, by the formula."""
    frame = [(0, 0), (0, 0), *[(how.padding, how.padding)] * (x.ndim - 2)]
    padded, window = numpy.pad(x, frame), w.shape[2:]
    counts = tuple(map(how.length, x.shape[2:], window))
    result = numpy.zeros((len(x), len(w), *counts))
    kernels, channels = len(w) // how.groups, w.shape[1]
    for index in product(*map(range, window)):
        starts = [how.dilation * place for place in index]
        where = tuple(
            slice(start, start + how.stride * (count - 1) + 1, how.stride)
            for start, count in zip(starts, counts, strict=True)
        )
        met = padded[(slice(None), slice(None), *where)]
        for group in range(how.groups):
            out = slice(group * kernels, (group + 1) * kernels)
            read = met[:, group * channels : (group + 1) * channels]
            kernel: Any = (out, slice(None), *index)
            result[:, out] += numpy.einsum("nc...,kc->nk...", read, w[kernel])
    return result


@pytest.mark.parametrize(
    ("x", "w", "how"),
    [
        # columns of one sample are too many to be there at once, and parts of them unequal
        ((2, 16, 90, 101), (4, 16, 3, 3), Window(1, 1, 1, 1)),
        ((1, 8, 211, 130), (4, 4, 3, 4), Window(2, 2, 2, 2)),
        # so are those of all samples
        ((23, 6, 60, 60), (4, 6, 3, 3), Window(1, 0, 1, 1)),
        ((3, 2, 33, 30, 31), (3, 2, 3, 2, 3), Window(1, 1, 1, 1)),
        ((3, 4, 7), (6, 2, 3), Window(2, 1, 1, 2)),
        ((1, 1, 1, 1), (1, 1, 1, 1), Window(3, 0, 2, 1)),
    ],
)
def test_parts_are_the_whole(x: tuple[int, ...], w: tuple[int, ...], how: Window) -> None:
    generator = numpy.random.default_rng(5)
    values, kernel = generator.uniform(-1, 1, x), generator.uniform(-1, 1, w)
    result = correlate(values, kernel, how)
    numpy.testing.assert_allclose(result, sum_up(values, kernel, how), rtol=0, atol=1e-12)
    upstream = generator.uniform(-1, 1, result.shape)
    # both gradients are transposes of a map that is linear in each operand
    way, turn = generator.uniform(-1, 1, x), generator.uniform(-1, 1, w)
    by_values, by_kernel = (
        scatter(upstream, kernel, how, x[2:]),
        weigh(values, upstream, how, w[2:]),
    )
    assert (by_values.shape, by_kernel.shape) == (x, w)
    moved = correlate(way, kernel, how), correlate(values, turn, how)
    for gradient, one, change in ((by_values, way, moved[0]), (by_kernel, turn, moved[1])):
        scale = numpy.linalg.norm(gradient) * numpy.linalg.norm(one)
        assert abs((gradient * one).sum() - (upstream * change).sum()) < 1e-12 * scale
