"""Pooling, with channels last."""

from __future__ import annotations

from typing import Any, Callable

import tensorflow

from ...operators.convolution import WINDOWS
from .operations import Case, Operation, channels_last, channels_second

_LAYOUTS = (channels_last(2),)
_MAXIMUM = {2: tensorflow.nn.max_pool2d, 3: tensorflow.nn.max_pool3d}


def make_maximum(rank: int) -> Callable[[Case], Operation]:
    """`tensorflow.nn.max_pool2d` or `max_pool3d`.

    The gradient of `max_pool3d` on CPUs gives all that arrives to each element within 1e-5 of the
    largest (docs/evidence/operator-faults.md): what is differentiated is `max_pool2d` twice.
    """

    def native(case: Case) -> Operation:
        window = tuple(case.sizes[axis] for axis in WINDOWS[rank])
        stride, edge = case.sizes["stride"], case.sizes["padding"]
        padding: Any = [[0, 0], *[[edge, edge]] * rank, [0, 0]]
        # XLA compiles no explicit padding, and three axes have none; no padding is VALID
        lowest = edge > 0 and (case.compiled or rank == 3)

        def function(x: Any) -> Any:
            if lowest:
                x = tensorflow.pad(x, padding, constant_values=x.dtype.min)
            if rank == 3 and case.differentiated and not case.compiled:
                return _pool_twice(x, window, stride)
            how = padding if edge and not lowest else "VALID"
            return _MAXIMUM[rank](x, window, stride, how)

        return Operation(function, (channels_last(rank),), channels_second(rank))

    return native


def _pool_twice(x: Any, window: tuple[int, ...], stride: int) -> Any:
    """Return maxima over height and width, and of these over depth: (N, D, H, W, C) without
    padding.
    """
    count, depth, height, width, channels = x.shape
    flat = tensorflow.reshape(x, (count * depth, height, width, channels))
    flat = tensorflow.nn.max_pool2d(flat, window[1:], stride, "VALID")
    _, height, width, _ = flat.shape
    planes = tensorflow.reshape(flat, (count, depth, height * width, channels))
    planes = tensorflow.nn.max_pool2d(planes, (window[0], 1), (stride, 1), "VALID")
    return tensorflow.reshape(planes, (count, -1, height, width, channels))


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
    """Return whether TensorFlow's `SAME` puts `edge` places on either side, and nothing else."""
    positions = -(-length // stride)
    frame = max((positions - 1) * stride + window - length, 0)
    return frame == 2 * edge and positions == (length + 2 * edge - window) // stride + 1
