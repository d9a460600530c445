"""Level 0 in JAX: what today's models are made of, beside the layers of `operators`."""

from __future__ import annotations

from functools import partial

import jax
from jax import lax
from jax import numpy as jnp

from ...operators.gemm import Einsum
from ..base import NativeTensor
from . import normalization
from .operations import Chooser, Function, Sizes, always, widen


def attend(
    q: NativeTensor,
    k: NativeTensor,
    v: NativeTensor,
    mask: NativeTensor | None = None,
    *,
    causal: bool = False,
) -> NativeTensor:
    """`jax.nn.dot_product_attention`, which wants positions before heads.

    It asks for products of float16 summed in float32, which XLA has for CPUs of bfloat16 alone: in
    float16 it gets float32.
    """
    dtype = q.dtype
    if dtype == jnp.float16:
        q, k, v = widen(q, k, v)
    q, k, v = (tensor.swapaxes(1, 2) for tensor in (q, k, v))
    mean = jax.nn.dot_product_attention(q, k, v, mask=mask, is_causal=causal)
    return mean.swapaxes(1, 2).astype(dtype)


def _grouped_attention(sizes: Sizes) -> Function:
    length, keys, causal = sizes["m"], sizes["k"], bool(sizes["causal"])
    hides = sizes["lengths"] or sizes["mask"] or sizes["window"]
    # JAX's own causal mask starts with the first key, also where there is a cache
    if not hides and (not causal or length == keys):
        return partial(attend, causal=causal)

    def see(*hiding: NativeTensor) -> NativeTensor:
        key = jnp.arange(keys)
        ends = hiding[0][:, None, None] if sizes["lengths"] else jnp.full((1, 1, 1), keys)
        limits = ends + jnp.arange(1 - length, 1)[:, None]
        seen = key < jnp.broadcast_to(limits if causal else ends, limits.shape)
        if sizes["window"]:
            seen = seen & (key >= limits - sizes["window"])
        if sizes["mask"]:
            seen = seen & hiding[-1]
        return seen[:, None]

    return lambda q, k, v, *hiding: attend(q, k, v, see(*hiding))


def _rotary(sizes: Sizes) -> Function:
    def halves(x: NativeTensor, cos: NativeTensor, sin: NativeTensor) -> NativeTensor:
        a, b = jnp.split(x, 2, -1)
        return jnp.concatenate((a * cos - b * sin, b * cos + a * sin), -1)

    def neighbours(x: NativeTensor, cos: NativeTensor, sin: NativeTensor) -> NativeTensor:
        a, b = x[..., 0::2], x[..., 1::2]
        return jnp.stack((a * cos - b * sin, b * cos + a * sin), -1).reshape(x.shape)

    return neighbours if sizes["interleaved"] else halves


def _swiglu(x: NativeTensor, g: NativeTensor, u: NativeTensor) -> NativeTensor:
    return jax.nn.silu(x @ g.T) * (x @ u.T)


def _top_k(sizes: Sizes) -> Function:
    return lambda x: lax.top_k(x, sizes["k"])[0]


def _scatter_add(x: NativeTensor, index: NativeTensor, source: NativeTensor) -> NativeTensor:
    return x.at[jnp.arange(len(x))[:, None], index].add(source)


def _rfft(x: NativeTensor) -> NativeTensor:
    y = jnp.fft.rfft(x)
    return jnp.stack((y.real, y.imag), -1)


def _int8_matmul(
    a: NativeTensor, b: NativeTensor, row: NativeTensor, column: NativeTensor
) -> NativeTensor:
    # int32, of which 16 bits would hold only the small ones
    return _scale(jnp.matmul(a, b, preferred_element_type=jnp.int32), row, column)


def _fp8_matmul(
    a: NativeTensor, b: NativeTensor, row: NativeTensor, column: NativeTensor
) -> NativeTensor:
    a, b = (lax.bitcast_convert_type(codes, jnp.float8_e4m3fn) for codes in (a, b))
    return _scale(jnp.matmul(a, b, preferred_element_type=jnp.float32), row, column)


def _scale(product: NativeTensor, row: NativeTensor, column: NativeTensor) -> NativeTensor:
    wide, wide_column = widen(row, column)
    return (product.astype(wide.dtype) * wide[:, None] * wide_column).astype(row.dtype)


OPERATIONS: dict[str, Chooser] = {
    "grouped_attention": _grouped_attention,
    "rotary": _rotary,
    "rms_norm": always(normalization.root_mean_square),
    "swiglu": always(_swiglu),
    "top_k": _top_k,
    "gather": always(lambda x, index: jnp.take_along_axis(x, index, 1)),
    "scatter_add": always(_scatter_add),
    "einsum": always(partial(jnp.einsum, Einsum.equation)),
    "rfft": always(_rfft),
    "int8_matmul": always(_int8_matmul),
    "fp8_matmul": always(_fp8_matmul),
}
