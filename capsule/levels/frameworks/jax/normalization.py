"""Batch, layer, group and root-mean-square normalization, from moments, as Flax's layers are.

Elements of 16 bits are normalized in float32 and rounded once at the end.
"""

from __future__ import annotations

from jax import lax
from jax import numpy as jnp

from ...operators.normalization import EPSILON
from ..base import NativeTensor
from .operations import Function, Sizes, widen

_IMAGE = (-1, 1, 1)


def batch(x: NativeTensor, w: NativeTensor, b: NativeTensor) -> NativeTensor:
    """Return moments of each channel."""
    return _normalize(x, (0, 2, 3), w.reshape(_IMAGE), b.reshape(_IMAGE))


def batch_inference(
    x: NativeTensor, w: NativeTensor, b: NativeTensor, mean: NativeTensor, variance: NativeTensor
) -> NativeTensor:
    """Return the same with a given mean and variance."""
    wide, *channels = widen(x, w, b, mean, variance)
    w, b, mean, variance = (channel.reshape(_IMAGE) for channel in channels)
    return ((wide - mean) * (lax.rsqrt(variance + EPSILON) * w) + b).astype(x.dtype)


def layer(x: NativeTensor, w: NativeTensor, b: NativeTensor) -> NativeTensor:
    """Return moments of each row."""
    return _normalize(x, (1,), w, b)


def group(sizes: Sizes) -> Function:
    """Return moments of each group of channels."""
    groups = sizes["groups"]

    def function(x: NativeTensor, w: NativeTensor, b: NativeTensor) -> NativeTensor:
        n, c, *image = x.shape
        apart = x.reshape(n, groups, c // groups, *image)
        w, b = (channel.reshape(groups, -1, 1, 1) for channel in (w, b))
        return _normalize(apart, (2, 3, 4), w, b).reshape(x.shape)

    return function


def root_mean_square(x: NativeTensor, w: NativeTensor) -> NativeTensor:
    """Return the root mean square of each row."""
    wide, w = widen(x, w)
    mean = jnp.mean(jnp.square(wide), 1, keepdims=True)
    return (wide * (lax.rsqrt(mean + EPSILON) * w)).astype(x.dtype)


def _normalize(
    x: NativeTensor, axes: tuple[int, ...], w: NativeTensor, b: NativeTensor
) -> NativeTensor:
    wide, w, b = widen(x, w, b)
    mean = jnp.mean(wide, axes, keepdims=True)
    variance = jnp.var(wide, axes, keepdims=True)
    return ((wide - mean) * (lax.rsqrt(variance + EPSILON) * w) + b).astype(x.dtype)
