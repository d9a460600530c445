"""Convolutions and transposed ones, with channels last, as TensorFlow's CPU kernels want it.

Eager kernels for CPUs lack some forms: gradients of grouped and of dilated convolutions, groups and
dilation in three dimensions, groups and dilation in all transposed ones. There, groups are run one
by one, and a window is spread with zeros, inside the timed call. XLA has all but the groups of
transposed ones.
"""

from __future__ import annotations

from typing import Any, Callable

import tensorflow

from .operations import Case, Operation, channels_last, channels_second, window_first

_CONV = {1: tensorflow.nn.conv1d, 2: tensorflow.nn.conv2d, 3: tensorflow.nn.conv3d}
_TRANSPOSE = {
    1: tensorflow.nn.conv1d_transpose,
    2: tensorflow.nn.conv2d_transpose,
    3: tensorflow.nn.conv3d_transpose,
}


def make_plain(rank: int) -> Callable[[Case], Operation]:
    """`tensorflow.nn.conv1d`, `conv2d` or `conv3d`."""

    def native(case: Case) -> Operation:
        sizes = case.sizes
        kernel = case.compiled or (rank < 3 and not case.differentiated)
        one = _convolve(rank, sizes["stride"], sizes["dilation"], kernel)
        groups = 1 if kernel else sizes["groups"]
        padding = sizes["padding"]

        def function(x: Any, w: Any, *bias: Any) -> Any:
            if padding:
                x = tensorflow.pad(x, [[0, 0], *[[padding, padding]] * rank, [0, 0]])
            if groups == 1:
                result = one(x, w)
            else:
                pairs = zip(tensorflow.split(x, groups, -1), tensorflow.split(w, groups, -1))
                result = tensorflow.concat([one(*pair) for pair in pairs], -1)
            return tensorflow.nn.bias_add(result, bias[0]) if bias else result

        return _lay_out(rank, sizes["bias"], function)

    return native


def make_transpose(rank: int) -> Callable[[Case], Operation]:
    """`tensorflow.nn.conv1d_transpose`, `conv2d_transpose` or `conv3d_transpose`.

    They are run without padding; what padding cuts off is cut off afterwards, and what is left out
    at the end added.
    """

    def native(case: Case) -> Operation:
        sizes = case.sizes
        one = _spread(rank, sizes["stride"], sizes["dilation"], case.compiled)
        groups, start = sizes["groups"], sizes["padding"]
        surplus = start - sizes["output_padding"]
        inner = (slice(None), *[slice(start, -surplus if surplus > 0 else None)] * rank)
        behind = [[0, 0], *[[0, -surplus]] * rank, [0, 0]]

        def function(x: Any, w: Any, *bias: Any) -> Any:
            pairs = zip(tensorflow.split(x, groups, -1), tensorflow.split(w, groups, -1))
            parts = [one(*pair) for pair in pairs] if groups > 1 else [one(x, w)]
            result = tensorflow.concat(parts, -1) if groups > 1 else parts[0]
            if start:
                result = result[inner]
            if surplus < 0:
                result = tensorflow.pad(result, behind)
            return tensorflow.nn.bias_add(result, bias[0]) if bias else result

        return _lay_out(rank, sizes["bias"], function)

    return native


def _lay_out(rank: int, bias: int, function: Callable[..., Any]) -> Operation:
    inputs = (channels_last(rank), window_first(rank), *[None] * bias)
    return Operation(function, inputs, channels_second(rank))


def _convolve(rank: int, stride: int, dilation: int, kernel: bool) -> Callable[[Any, Any], Any]:
    conv, strides, dilations = _CONV[rank], _along_axes(rank, stride), _along_axes(rank, dilation)
    if kernel or dilation == 1:
        return lambda x, w: conv(x, w, strides, "VALID", dilations=dilations)
    return lambda x, w: conv(x, _with_zeros(w, rank, dilation), strides, "VALID")


def _spread(rank: int, stride: int, dilation: int, kernel: bool) -> Callable[[Any, Any], Any]:
    conv, strides, dilations = (
        _TRANSPOSE[rank],
        _along_axes(rank, stride),
        _along_axes(rank, dilation),
    )

    def shape(x: Any, w: Any) -> list[int]:
        spatial = zip(x.shape[1:-1], w.shape[:-2])
        lengths = [(long - 1) * stride + dilation * (short - 1) + 1 for long, short in spatial]
        return [x.shape[0], *lengths, w.shape[-2]]

    if kernel or dilation == 1:
        return lambda x, w: conv(x, w, shape(x, w), strides, "VALID", dilations=dilations)
    return lambda x, w: conv(x, _with_zeros(w, rank, dilation), shape(x, w), strides, "VALID")


def _along_axes(rank: int, step: int) -> Any:
    return step if rank == 1 else (1, *[step] * rank, 1)


def _with_zeros(w: Any, rank: int, dilation: int) -> Any:
    """Return weights with `dilation - 1` zeros between neighbours along each axis of the window."""
    for axis in range(rank):
        apart = tensorflow.expand_dims(w, axis + 1)
        pads = [[0, 0] for _ in apart.shape]
        pads[axis + 1][1] = dilation - 1
        length = w.shape[axis] * dilation
        shape = [*w.shape[:axis], length, *w.shape[axis + 1 :]]
        w = tensorflow.reshape(tensorflow.pad(apart, pads), shape)
        w = w[(slice(None),) * axis + (slice(0, length - dilation + 1),)]
    return w
