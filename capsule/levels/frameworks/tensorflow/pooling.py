"""Pooling, with channels last."""

from __future__ import annotations

from typing import Any

import tensorflow

from .operations import Case, Operation, channels_last, channels_second

_LAYOUTS = (channels_last(2),)


def maximum(case: Case) -> Operation:
    """`tensorflow.nn.max_pool2d`."""
    window, stride, edge = _how(case)
    padding: Any = [[0, 0], [edge, edge], [edge, edge], [0, 0]]
    # XLA compiles no explicit padding; where it is none, that is the same as VALID
    lowest = edge > 0 and case.compiled

    def function(x: Any) -> Any:
        if lowest:
            x = tensorflow.pad(x, padding, constant_values=x.dtype.min)
        how = padding if edge and not lowest else "VALID"
        return tensorflow.nn.max_pool2d(x, window, stride, how)

    return Operation(function, _LAYOUTS, channels_second(2))


def average(case: Case) -> Operation:
    """`tensorflow.nn.avg_pool2d`, which counts no padding where it is `SAME`.

    Where `SAME` is another frame than the case's, each mean is corrected for the zeros in it.
    """
    window, stride, edge = _how(case)
    spatial = (case.sizes["h"], case.sizes["w"])
    same = all(_is_same(*lengths, stride, edge) for lengths in zip(spatial, window))
    if edge == 0 or same:
        how = "SAME" if edge else "VALID"
        return Operation(
            lambda x: tensorflow.nn.avg_pool2d(x, window, stride, how), _LAYOUTS, channels_second(2)
        )
    frame = [[0, 0], [edge, edge], [edge, edge], [0, 0]]
    ones = tensorflow.pad(tensorflow.ones((1, *spatial, 1), "float64"), frame)
    share = tensorflow.nn.avg_pool2d(ones, window, stride, "VALID")

    def function(x: Any) -> Any:
        means = tensorflow.nn.avg_pool2d(tensorflow.pad(x, frame), window, stride, "VALID")
        return means / tensorflow.cast(share, x.dtype)

    return Operation(function, _LAYOUTS, channels_second(2))


def over_all(case: Case) -> Operation:  # noqa: ARG001
    """`tensorflow.reduce_mean` over height and width."""
    return Operation(
        lambda x: tensorflow.reduce_mean(x, (1, 2), keepdims=True), _LAYOUTS, channels_second(2)
    )


def _how(case: Case) -> tuple[tuple[int, int], int, int]:
    sizes = case.sizes
    return (sizes["r"], sizes["s"]), sizes["stride"], sizes["padding"]


def _is_same(length: int, window: int, stride: int, edge: int) -> bool:
    """Whether TensorFlow's `SAME` puts `edge` places on either side, and nothing else."""
    positions = -(-length // stride)
    frame = max((positions - 1) * stride + window - length, 0)
    return frame == 2 * edge and positions == (length + 2 * edge - window) // stride + 1
