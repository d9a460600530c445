"""Batch, layer and group normalization, channels last, from moments where there is no kernel.

16-bit elements are normalized in float32 and rounded once at the end, as Keras' layers do.
"""

from __future__ import annotations

from typing import Any

import tensorflow

from ...operators.normalization import EPSILON
from .operations import Case, Operation, channels_last, channels_second

_IMAGE = channels_last(2)
_WIDER = {tensorflow.float16: tensorflow.float32, tensorflow.bfloat16: tensorflow.float32}


def batch(case: Case) -> Operation:  # noqa: ARG001
    """Return the kernel behind Keras' fused layer; moments in float64, which that kernel lacks.

    The public function around the kernel raises epsilon to 1.001e-5, so the kernel is called.
    """

    def function(x: Any, w: Any, b: Any) -> Any:
        if x.dtype == tensorflow.float64:
            mean, variance = tensorflow.nn.moments(x, (0, 1, 2))
            return tensorflow.nn.batch_normalization(x, mean, variance, b, w, EPSILON)
        return _call_kernel(x, w, b, (), (), is_training=True)

    return Operation(function, (_IMAGE, None, None), channels_second(2))


def batch_inference(case: Case) -> Operation:  # noqa: ARG001
    """Return the same with a given mean and variance; in float64 by the formula.

    `tensorflow.nn.batch_normalization` multiplies before it subtracts the mean, so the gradients by
    the weight and the variance lose what is common to all values.
    """

    def function(x: Any, w: Any, b: Any, mean: Any, variance: Any) -> Any:
        if x.dtype == tensorflow.float64:
            return (x - mean) * (tensorflow.math.rsqrt(variance + EPSILON) * w) + b
        return _call_kernel(x, w, b, mean, variance, is_training=False)

    return Operation(function, (_IMAGE, None, None, None, None), channels_second(2))


def layer(case: Case) -> Operation:  # noqa: ARG001
    """Return moments of each row, and `tensorflow.nn.batch_normalization`."""

    def function(x: Any, w: Any, b: Any) -> Any:
        wide, w, b = _widen(x, w, b)
        mean, variance = tensorflow.nn.moments(wide, (1,), keepdims=True)
        normal = tensorflow.nn.batch_normalization(wide, mean, variance, b, w, EPSILON)
        return tensorflow.cast(normal, x.dtype)

    return Operation(function)


def group(case: Case) -> Operation:
    """Return moments of each group of channels, and `tensorflow.nn.batch_normalization`."""
    n, c, h, w = (case.sizes[name] for name in ("n", "c", "h", "w"))
    groups = case.sizes["groups"]
    apart, together = (n, h, w, groups, c // groups), (n, h, w, c)

    def function(x: Any, w: Any, b: Any) -> Any:
        wide, w, b = _widen(tensorflow.reshape(x, apart), w, b)
        mean, variance = tensorflow.nn.moments(wide, (1, 2, 4), keepdims=True)
        w, b = (tensorflow.reshape(vector, apart[3:]) for vector in (w, b))
        normal = tensorflow.nn.batch_normalization(wide, mean, variance, b, w, EPSILON)
        return tensorflow.cast(tensorflow.reshape(normal, together), x.dtype)

    return Operation(function, (_IMAGE, None, None), channels_second(2))


def root_mean_square(x: Any, w: Any) -> Any:
    """Return each row over the root of its mean square, by the formula."""
    wide, w = _widen(x, w)
    mean = tensorflow.reduce_mean(tensorflow.square(wide), 1, keepdims=True)
    return tensorflow.cast(wide * tensorflow.math.rsqrt(mean + EPSILON) * w, x.dtype)


def _call_kernel(x: Any, w: Any, b: Any, mean: Any, variance: Any, *, is_training: bool) -> Any:
    parameters = [tensorflow.cast(vector, "float32") for vector in (w, b, mean, variance)]
    return tensorflow.raw_ops.FusedBatchNormV3(
        x=x,
        scale=parameters[0],
        offset=parameters[1],
        mean=parameters[2],
        variance=parameters[3],
        epsilon=EPSILON,
        is_training=is_training,
    ).y


def _widen(*tensors: Any) -> tuple[Any, ...]:
    return tuple(
        tensorflow.cast(tensor, _WIDER.get(tensor.dtype, tensor.dtype)) for tensor in tensors
    )
