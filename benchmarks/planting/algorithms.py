"""Other right algorithms than the framework's own: none of them may break a bound.

16-bit elements are widened to float32 and rounded once at the end, as is due of them. Gradients are
those of the algorithm by autograd, and so as different from the framework's own as it is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from itertools import product
from typing import Any

import numpy
import torch
from torch.nn import functional as f

from .faults import Plant
from .formulas import Formula, formula

Sizes = Mapping[str, Any]
SIXTEEN = (torch.bfloat16, torch.float16)


def widened(function: Formula) -> Plant:
    """A plant of an algorithm that is run in float32 at least."""

    def run(sizes: Sizes, *tensors: Any) -> Any:
        dtype = tensors[0].dtype
        inside = torch.float32 if dtype in SIXTEEN else dtype
        results = function(
            sizes, *(one.to(inside) if one.is_floating_point() else one for one in tensors)
        )
        if isinstance(results, tuple):
            return tuple(one.to(dtype) for one in results)
        return results.to(dtype)

    return formula(run)


def strassen(levels: int, a: Any, b: Any) -> Any:
    """Seven products for eight, of halves as long as they are even."""
    if levels == 0 or a.shape[-2] % 2 or a.shape[-1] % 2 or b.shape[-1] % 2:
        return a @ b
    (a11, a12), (a21, a22) = (rows.chunk(2, -1) for rows in a.chunk(2, -2))
    (b11, b12), (b21, b22) = (rows.chunk(2, -1) for rows in b.chunk(2, -2))
    times = partial(strassen, levels - 1)
    one, two = times(a11 + a22, b11 + b22), times(a21 + a22, b11)
    three, four = times(a11, b12 - b22), times(a22, b21 - b11)
    five, six = times(a11 + a12, b22), times(a21 - a11, b11 + b12)
    seven = times(a12 - a22, b21 + b22)
    above = torch.cat((one + four - five + seven, three + five), -1)
    below = torch.cat((two + four, one - two + three + six), -1)
    return torch.cat((above, below), -2)


def split(parts: int, a: Any, b: Any) -> Any:
    """Of parts of the common axis, one after the other."""
    pairs = zip(a.chunk(parts, -1), b.chunk(parts, -2), strict=True)
    return sum(x @ y for x, y in pairs)


def backwards(a: Any, b: Any) -> Any:
    """From the end of the common axis."""
    return a.flip(-1) @ b.flip(-2)


class Truncated(torch.autograd.Function):
    """Sums of 16 products at a time, cut to float32 and not rounded: as tensor cores do it."""

    @staticmethod
    def forward(context: Any, a: Any, b: Any) -> Any:
        context.save_for_backward(a, b)
        return _cut_product(a, b)

    @staticmethod
    def backward(context: Any, gradient: Any) -> Any:  # type: ignore[override]
        a, b = context.saved_tensors
        return _cut_product(gradient, b.t()), _cut_product(a.t(), gradient)


def _cut_product(a: Any, b: Any) -> Any:
    total = torch.zeros(a.shape[0], b.shape[1])
    for x, y in zip(a.double().split(16, 1), b.double().split(16, 0), strict=True):
        exact = total.double() + x @ y
        nearest = exact.float()
        inner = torch.nextafter(nearest, torch.zeros_like(nearest))
        total = torch.where(nearest.double().abs() > exact.abs(), inner, nearest)
    return total


def gemm(times: Callable[[Any, Any], Any]) -> Formula:
    """The operator by way of a product of matrices."""

    def run(s: Sizes, a: Any, b: Any, *bias: Any) -> Any:
        result = times(a.mT if s.get("ta") else a, b.mT if s.get("tb") else b)
        return result + bias[0] if bias else result

    return run


def windows(x: Any, window: tuple[int, ...], stride: int, dilation: int) -> Iterator[Any]:
    """For each place in a window its index, and what it meets of x, which has its frame."""
    counts = [
        (length - dilation * (size - 1) - 1) // stride + 1
        for length, size in zip(x.shape[2:], window, strict=True)
    ]
    for index in product(*map(range, window)):
        where = tuple(
            slice(dilation * place, dilation * place + stride * (count - 1) + 1, stride)
            for place, count in zip(index, counts, strict=True)
        )
        yield index, x[(slice(None), slice(None), *where)]


def _frame(x: Any, padding: int, value: float = 0.0) -> Any:
    return f.pad(x, (padding,) * (2 * (x.ndim - 2)), value=value)


def _with_bias(result: Any, bias: tuple[Any, ...]) -> Any:
    return result + bias[0].reshape(-1, *[1] * (result.ndim - 2)) if bias else result


def by_places(s: Sizes, x: Any, w: Any, *bias: Any) -> Any:
    """A product of channels for each place in the window, added up."""
    groups, total, shape = s["groups"], 0, None
    for index, met in windows(_frame(x, s["padding"]), w.shape[2:], s["stride"], s["dilation"]):
        shape = (x.shape[0], w.shape[0], *met.shape[2:])
        flat = met.reshape(x.shape[0], groups, x.shape[1] // groups, -1)
        total = total + w[(..., *index)].reshape(groups, -1, w.shape[1]) @ flat
    return _with_bias(total.reshape(shape), bias)  # type: ignore[attr-defined]


def by_columns(s: Sizes, x: Any, w: Any, *bias: Any) -> Any:
    """im2col: one product of matrices, of a copy of all windows."""
    groups = s["groups"]
    framed = _frame(x, s["padding"])
    seen = [met for _, met in windows(framed, w.shape[2:], s["stride"], s["dilation"])]
    columns = torch.stack(seen, 2).reshape(x.shape[0], groups, w[0].numel(), -1)
    result = w.reshape(groups, -1, w[0].numel()) @ columns
    return _with_bias(result.reshape(x.shape[0], w.shape[0], *seen[0].shape[2:]), bias)


def by_fourier(s: Sizes, x: Any, w: Any, *bias: Any) -> Any:
    """A product of spectra, which wraps around where no result is taken."""
    x, groups, dilation = _frame(x, s["padding"]), s["groups"], s["dilation"]
    axes = tuple(range(2, x.ndim))
    reach = [dilation * (size - 1) + 1 for size in w.shape[2:]]
    kernel = x.new_zeros(*w.shape[:2], *reach)
    kernel[(..., *[slice(None, None, dilation)] * len(axes))] = w
    of_x = torch.fft.rfftn(x, dim=axes)
    of_w = torch.fft.rfftn(kernel, s=x.shape[2:], dim=axes).conj()
    spectrum = torch.einsum(
        "ngcp,gkcp->ngkp",
        of_x.reshape(x.shape[0], groups, x.shape[1] // groups, -1),
        of_w.reshape(groups, w.shape[0] // groups, w.shape[1], -1),
    ).reshape(x.shape[0], w.shape[0], *of_x.shape[2:])
    whole = torch.fft.irfftn(spectrum, s=x.shape[2:], dim=axes)
    ends = [length - size + 1 for length, size in zip(x.shape[2:], reach, strict=True)]
    return _with_bias(whole[(..., *[slice(0, end, s["stride"]) for end in ends])], bias)


WINOGRAD = {
    2: (
        [[1, 0, -1, 0], [0, 1, 1, 0], [0, -1, 1, 0], [0, 1, 0, -1]],
        [[1, 0, 0], [1 / 2, 1 / 2, 1 / 2], [1 / 2, -1 / 2, 1 / 2], [0, 0, 1]],
        [[1, 1, 1, 0], [0, 1, -1, -1]],
    ),
    4: (
        [
            [4, 0, -5, 0, 1, 0],
            [0, -4, -4, 1, 1, 0],
            [0, 4, -4, -1, 1, 0],
            [0, -2, -1, 2, 1, 0],
            [0, 2, -1, -2, 1, 0],
            [0, 4, 0, -5, 0, 1],
        ],
        [
            [1 / 4, 0, 0],
            [-1 / 6, -1 / 6, -1 / 6],
            [-1 / 6, 1 / 6, -1 / 6],
            [1 / 24, 1 / 12, 1 / 6],
            [1 / 24, -1 / 12, 1 / 6],
            [0, 0, 1],
        ],
        [[1, 1, 1, 1, 1, 0], [0, 1, -1, 2, -2, 0], [0, 1, 1, 4, 4, 0], [0, 1, -1, 8, -8, 1]],
    ),
}
"""By outputs of a tile along each axis: transforms of inputs, kernels and results (Lavin and Gray,
CVPR 2016)."""


def winograd(tile: int, s: Sizes, x: Any, w: Any, *bias: Any) -> Any:
    """Kernels of 3 x 3 that move by one; others as the framework does them."""
    if w.shape[2:] != (3, 3) or (s["stride"], s["dilation"], s["groups"]) != (1, 1, 1):
        how = (s["stride"], s["padding"], s["dilation"], s["groups"])
        return f.conv2d(x, w, bias[0] if bias else None, *how)
    of_x, of_w, of_y = (torch.tensor(one, dtype=x.dtype) for one in WINOGRAD[tile])
    x = _frame(x, s["padding"])
    height, width = x.shape[2] - 2, x.shape[3] - 2
    x = f.pad(x, (0, -width % tile, 0, -height % tile))
    patches = x.unfold(2, tile + 2, tile).unfold(3, tile + 2, tile)
    moved = torch.einsum("ncijuv,kcuv->nkijuv", of_x @ patches @ of_x.T, of_w @ w @ of_w.T)
    result = (of_y @ moved @ of_y.T).transpose(3, 4)
    result = result.reshape(*result.shape[:2], x.shape[2] - 2, x.shape[3] - 2)
    return _with_bias(result[..., :height, :width], bias)


def transposed(correlate: Formula) -> Formula:
    """A transposed convolution as the convolution of an input with zeros between its elements."""

    def run(s: Sizes, x: Any, w: Any, *bias: Any) -> Any:
        rank, groups, stride = x.ndim - 2, s["groups"], s["stride"]
        lengths = [(length - 1) * stride + 1 for length in x.shape[2:]]
        spread = x.new_zeros(*x.shape[:2], *lengths)
        spread[(..., *[slice(None, None, stride)] * rank)] = x
        edges = [s["dilation"] * (size - 1) - s["padding"] for size in w.shape[2:]]
        more = s["output_padding"]
        spread = f.pad(spread, [one for edge in reversed(edges) for one in (edge, edge + more)])
        kernel = w.reshape(groups, -1, *w.shape[1:]).transpose(1, 2)
        kernel = kernel.reshape(-1, x.shape[1] // groups, *w.shape[2:]).flip(*range(2, w.ndim))
        how = {"stride": 1, "padding": 0, "dilation": s["dilation"], "groups": groups}
        return correlate(how, spread, kernel, *bias)

    return run


def max_by_windows(s: Sizes, x: Any) -> Any:
    """The largest of a stack of what each place of the window meets."""
    framed = _frame(x, s["padding"], -torch.inf)
    seen = [met for _, met in windows(framed, _window(s), s["stride"], 1)]
    return torch.stack(seen).max(0).values


def mean_by_windows(s: Sizes, x: Any) -> Any:
    """Sums from the last place to the first, times the reciprocal of how many they are of."""

    def add_up(array: Any) -> Any:
        seen = windows(_frame(array, s["padding"]), _window(s), s["stride"], 1)
        return sum(met for _, met in reversed(list(seen)))

    return add_up(x) * (1 / add_up(torch.ones_like(x)))


def _window(s: Sizes) -> tuple[int, ...]:
    return tuple(s[name] for name in ("q", "r", "s") if name in s)


class Serial(torch.autograd.Function):
    """The sum of each row, one element after the other."""

    @staticmethod
    def forward(context: Any, x: Any) -> Any:
        context.shape = x.shape
        return torch.from_numpy(numpy.add.accumulate(x.detach().numpy(), axis=1)[:, -1].copy())

    @staticmethod
    def backward(context: Any, gradient: Any) -> Any:  # type: ignore[override]
        return gradient[:, None].expand(context.shape)


def serial(x: Any) -> Any:
    """Of rows, naively."""
    return Serial.apply(x)


def pairwise(x: Any) -> Any:
    """Of rows, neighbour by neighbour."""
    while x.shape[1] > 1:
        x = f.pad(x, (0, x.shape[1] % 2))
        x = x[:, ::2] + x[:, 1::2]
    return x[:, 0]


def by_ones(x: Any) -> Any:
    """Of rows, as a product with ones."""
    return x @ torch.ones(x.shape[1], dtype=x.dtype)
