"""Convolutions, transposed ones and pools, with channels second, as the operators have them."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy
from jax import lax
from jax import numpy as jnp

from ...operators.convolution import WINDOWS
from ..base import NativeTensor
from .operations import Chooser, Function, Sizes, add_bias, widen


def make_plain(rank: int) -> Chooser:
    """`jax.lax.conv_general_dilated`."""

    def choose(sizes: Sizes) -> Function:
        convolve = partial(
            lax.conv_general_dilated,
            window_strides=(sizes["stride"],) * rank,
            padding=((sizes["padding"],) * 2,) * rank,
            rhs_dilation=(sizes["dilation"],) * rank,
            feature_group_count=sizes["groups"],
        )
        return lambda x, w, *bias: _add_bias(convolve(x, w), bias)

    return choose


def make_transpose(rank: int) -> Chooser:
    """Return the same over an input that is spread with zeros, by weights turned round.

    `jax.lax.conv_transpose` does this too, but knows no groups.
    """

    def choose(sizes: Sizes) -> Function:
        groups, dilation = sizes["groups"], sizes["dilation"]

        def function(x: NativeTensor, w: NativeTensor, *bias: NativeTensor) -> NativeTensor:
            window = w.shape[2:]
            edges = [dilation * (length - 1) - sizes["padding"] for length in window]
            apart = w.reshape(groups, -1, *w.shape[1:]).swapaxes(1, 2)
            turned = jnp.flip(apart.reshape(-1, w.shape[0] // groups, *window), range(2, rank + 2))
            result = lax.conv_general_dilated(
                x,
                turned,
                window_strides=(1,) * rank,
                padding=[(edge, edge + sizes["output_padding"]) for edge in edges],
                lhs_dilation=(sizes["stride"],) * rank,
                rhs_dilation=(dilation,) * rank,
                feature_group_count=groups,
            )
            return _add_bias(result, bias)

        return function

    return choose


def make_maximum(rank: int) -> Chooser:
    """`jax.lax.reduce_window` with a maximum."""

    def choose(sizes: Sizes) -> Function:
        how = _how(sizes, rank)
        return lambda x: lax.reduce_window(x, numpy.array(-numpy.inf, x.dtype), lax.max, *how)

    return choose


def average(sizes: Sizes) -> Function:
    """`jax.lax.reduce_window` with a sum, over how many elements of the input there are."""
    how = _how(sizes, 2)

    def function(x: NativeTensor) -> NativeTensor:
        (wide,) = widen(x)
        zero: Any = numpy.array(0, wide.dtype)
        ones = jnp.ones((1, 1, *x.shape[2:]), wide.dtype)
        sums, counts = (lax.reduce_window(one, zero, lax.add, *how) for one in (wide, ones))
        return (sums / counts).astype(x.dtype)

    return function


def _how(sizes: Sizes, rank: int) -> tuple[Any, ...]:
    window = tuple(sizes[axis] for axis in WINDOWS[rank])
    edges = ((sizes["padding"],) * 2,) * rank
    return (1, 1, *window), (1, 1, *(sizes["stride"],) * rank), ((0, 0), (0, 0), *edges)


def _add_bias(result: NativeTensor, bias: tuple[NativeTensor, ...]) -> NativeTensor:
    tail = (1,) * (result.ndim - 2)
    return add_bias(result, bias[0].reshape(-1, *tail)) if bias else result
