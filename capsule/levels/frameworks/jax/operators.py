"""Level 0 in JAX: for each operator a function, as JAX's users write it."""

from __future__ import annotations

from functools import partial, reduce
from typing import Any

import jax
from jax import numpy as jnp

from ...operators import Operator
from ..base import Call, NativeTensor, look_up
from . import convolution, modern, normalization
from .operations import Chooser, Function, Sizes, add_bias, always, compile_for, widen


class JaxOperators:
    """Functions of JAX, compiled."""

    def __init__(self) -> None:
        # of what was asked for last: other values of it are not compiled again
        self._last: tuple[Any, tuple[Any, ...]] | None = None

    def operation(
        self, operator: Operator, sizes: Sizes, tensors: tuple[NativeTensor, ...]
    ) -> Call:
        """Return the function, compiled."""
        subject = operator.name, dict(sizes), None
        if self._last is None or self._last[0] != subject:
            self._last = subject, (jax.jit(look_up(OPERATIONS, operator, "jax")(sizes)),)
        (function,) = self._last[1]
        return compile_for(function, tensors), tensors

    def gradient(
        self,
        operator: Operator,
        sizes: Sizes,
        tensors: tuple[NativeTensor, ...],
        wrt: tuple[int, ...],
        upstream: tuple[NativeTensor, ...],
    ) -> Call:
        """Return the second half of `jax.vjp`, compiled; it takes what one forward run has kept."""
        subject = operator.name, dict(sizes), wrt
        if self._last is None or self._last[0] != subject:
            forward = _differentiate(look_up(OPERATIONS, operator, "jax")(sizes), wrt)
            self._last = subject, (jax.jit(forward), jax.jit(_pull))
        forward, backward = self._last[1]
        operands = forward(*tensors), upstream if len(upstream) > 1 else upstream[0]
        return compile_for(backward, operands), operands


def _differentiate(function: Function, wrt: tuple[int, ...]) -> Function:
    """Return the function that computes gradients by the operands at some places."""

    def forward(*operands: NativeTensor) -> Any:
        def of_sources(*sources: NativeTensor) -> Any:
            named = dict(zip(wrt, sources))
            return function(*(named.get(place, one) for place, one in enumerate(operands)))

        _, back = jax.vjp(of_sources, *(operands[place] for place in wrt))
        return back

    return forward


def _pull(back: Any, arriving: Any) -> Any:
    return back(arriving)


def _gemm(sizes: Sizes) -> Function:
    def product(a: NativeTensor, b: NativeTensor, *bias: NativeTensor) -> NativeTensor:
        result = (a.T if sizes["ta"] else a) @ (b.T if sizes["tb"] else b)
        return add_bias(result, *bias) if bias else result

    return product


def _leaky_relu(sizes: Sizes) -> Function:
    # at 0 jax.nn.leaky_relu gives the whole gradient, where the operator means its share
    slope = sizes["percent"] / 100
    return lambda x: jnp.where(x > 0, x, x * slope)


def _gelu(sizes: Sizes) -> Function:
    return partial(jax.nn.gelu, approximate=bool(sizes["approximate"]))


def _attention(sizes: Sizes) -> Function:
    return partial(modern.attend, causal=bool(sizes["causal"]))


def _dropout(sizes: Sizes) -> Function:
    scale = 100 / (100 - sizes["percent"])
    return lambda x, mask: x * mask * scale


def _reshape(sizes: Sizes) -> Function:
    return lambda x: x.reshape(sizes["n"], -1)


def _cross_entropy(p: NativeTensor, labels: NativeTensor) -> NativeTensor:
    return -jnp.mean(jnp.log(jnp.take_along_axis(p, labels[:, None], 1)))


def _softmax_cross_entropy(
    x: NativeTensor, labels: NativeTensor, *weights: NativeTensor
) -> NativeTensor:
    # logits of 16 bits in float32, as models are trained with
    wide, *wide_weights = widen(x, *weights)
    logs = jnp.take_along_axis(jax.nn.log_softmax(wide), labels[:, None], 1)[:, 0]
    for of_labels in wide_weights:
        logs = logs * of_labels[labels]
    return -jnp.mean(logs).astype(x.dtype)


def _sigmoid_cross_entropy(x: NativeTensor, y: NativeTensor) -> NativeTensor:
    return -jnp.mean(y * jax.nn.log_sigmoid(x) + (1 - y) * jax.nn.log_sigmoid(-x))


def _lstm_cell(
    x: NativeTensor,
    h: NativeTensor,
    c: NativeTensor,
    wx: NativeTensor,
    wh: NativeTensor,
    bx: NativeTensor,
    bh: NativeTensor,
) -> tuple[NativeTensor, NativeTensor]:
    i, f, g, o = jnp.split((x @ wx.T + bx) + (h @ wh.T + bh), 4, 1)
    cell = jax.nn.sigmoid(f) * c + jax.nn.sigmoid(i) * jnp.tanh(g)
    return jax.nn.sigmoid(o) * jnp.tanh(cell), cell


OPERATIONS: dict[str, Chooser] = {
    "gemm": _gemm,
    "matmul": always(jnp.matmul),
    **{f"conv{rank}d": convolution.make_plain(rank) for rank in (1, 2, 3)},
    **{f"conv_transpose{rank}d": convolution.make_transpose(rank) for rank in (1, 2, 3)},
    **{f"max_pool{rank}d": convolution.make_maximum(rank) for rank in (2, 3)},
    "average_pool2d": convolution.average,
    "global_average_pool": always(lambda x: jnp.mean(x, (2, 3), keepdims=True)),
    "batch_norm": always(normalization.batch),
    "batch_norm_inference": always(normalization.batch_inference),
    "layer_norm": always(normalization.layer),
    "group_norm": normalization.group,
    "relu": always(jax.nn.relu),
    "leaky_relu": _leaky_relu,
    "sigmoid": always(jax.nn.sigmoid),
    "tanh": always(jnp.tanh),
    "gelu": _gelu,
    "softmax": always(jax.nn.softmax),
    "cross_entropy": always(_cross_entropy),
    "softmax_cross_entropy": always(_softmax_cross_entropy),
    "sigmoid_cross_entropy": always(_sigmoid_cross_entropy),
    "mean_squared_error": always(lambda a, b: jnp.mean(jnp.square(a - b))),
    "attention": _attention,
    "embedding": always(lambda table, index: jnp.take(table, index, 0)),
    "lstm_cell": always(_lstm_cell),
    "sum": always(lambda *terms: reduce(jnp.add, terms)),
    "add": always(add_bias),
    "dropout": _dropout,
    "reduce_sum": always(lambda x: jnp.sum(x, 1)),
    "reduce_mean": always(lambda x: jnp.mean(x, 1)),
    "reduce_max": always(lambda x: jnp.max(x, 1)),
    "reshape": _reshape,
    "squeeze": always(lambda x: jnp.squeeze(x, 1)),
    "unsqueeze": always(lambda x: jnp.expand_dims(x, 1)),
    **modern.OPERATIONS,
}
