"""Level 0 in TensorFlow: what today's models are made of, beside the layers of `operators`."""

from __future__ import annotations

from typing import Any, Callable

import tensorflow

from ...operators.gemm import Einsum
from . import normalization
from .operations import Case, Operation


def _plain(function: Callable[..., Any]) -> Callable[[Case], Operation]:
    return lambda case: Operation(function)  # noqa: ARG005


def _grouped_attention(case: Case) -> Operation:
    sizes = case.sizes
    batch, heads, groups, length = (sizes[name] for name in ("n", "h", "g", "m"))
    keys, width = sizes["k"], sizes["w"]
    limits = tensorflow.range(1 - length, 1, dtype="int64")[:, None]
    key = tensorflow.range(keys, dtype="int64")

    def see(*hiding: Any) -> Any:
        ends = hiding[0][:, None, None] if sizes["lengths"] else tensorflow.constant(keys, "int64")
        limit = ends + limits
        seen = key < (limit if sizes["causal"] else ends)
        if sizes["window"]:
            seen = seen & (key >= limit - sizes["window"])
        if sizes["mask"]:
            seen = seen & hiding[-1]
        return seen[:, None, None] if len(seen.shape) == 3 else seen

    def attention(q: Any, k: Any, v: Any, *hiding: Any) -> Any:
        together = tensorflow.reshape(q, (batch, groups, heads // groups, length, width))
        scores = tensorflow.matmul(together, k[:, :, None], transpose_b=True) / width**0.5
        hidden = tensorflow.where(see(*hiding), scores, scores.dtype.min)
        mean = tensorflow.matmul(tensorflow.nn.softmax(hidden), v[:, :, None])
        return tensorflow.reshape(mean, (batch, heads, length, width))

    return Operation(attention)


def _rotary(case: Case) -> Operation:
    def halves(x: Any, cos: Any, sin: Any) -> Any:
        a, b = tensorflow.split(x, 2, -1)
        return tensorflow.concat((a * cos - b * sin, b * cos + a * sin), -1)

    def neighbours(x: Any, cos: Any, sin: Any) -> Any:
        a, b = x[..., 0::2], x[..., 1::2]
        turned = tensorflow.stack((a * cos - b * sin, b * cos + a * sin), -1)
        return tensorflow.reshape(turned, x.shape)

    return Operation(neighbours if case.sizes["interleaved"] else halves)


def _swiglu(x: Any, g: Any, u: Any) -> Any:
    gate = tensorflow.nn.silu(tensorflow.matmul(x, g, transpose_b=True))
    return gate * tensorflow.matmul(x, u, transpose_b=True)


def _top_k(case: Case) -> Operation:
    return Operation(lambda x: tensorflow.math.top_k(x, case.sizes["k"])[0])


def _gather(x: Any, index: Any) -> Any:
    return tensorflow.gather(x, index, axis=1, batch_dims=1)


def _scatter_add(case: Case) -> Operation:
    shape = (case.sizes["rows"], case.sizes["count"])
    rows = tensorflow.broadcast_to(tensorflow.range(shape[0], dtype="int64")[:, None], shape)

    def scatter(x: Any, index: Any, source: Any) -> Any:
        places = tensorflow.stack((rows, index), -1)
        return tensorflow.tensor_scatter_nd_add(x, places, source)

    return Operation(scatter)


def _rfft(x: Any) -> Any:
    y = tensorflow.signal.rfft(x)
    return tensorflow.stack((tensorflow.math.real(y), tensorflow.math.imag(y)), -1)


def _int8_matmul(a: Any, b: Any, row: Any, column: Any) -> Any:
    # int32, of which 16 bits would hold only the small ones
    product = tensorflow.matmul(a, b, output_type="int32")
    wide = row.dtype if row.dtype == tensorflow.float64 else tensorflow.float32
    product, row_wide, column = (tensorflow.cast(x, wide) for x in (product, row, column))
    return tensorflow.cast(product * row_wide[:, None] * column, row.dtype)


OPERATIONS: dict[str, Callable[[Case], Operation]] = {
    "grouped_attention": _grouped_attention,
    "rotary": _rotary,
    "rms_norm": _plain(normalization.root_mean_square),
    "swiglu": _plain(_swiglu),
    "top_k": _top_k,
    "gather": _plain(_gather),
    "scatter_add": _scatter_add,
    "einsum": _plain(lambda x, w: tensorflow.einsum(Einsum.equation, x, w)),
    "rfft": _plain(_rfft),
    "int8_matmul": _plain(_int8_matmul),
}
