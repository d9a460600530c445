"""Level 0 in TensorFlow: for each operator its native function, one call where there is one."""

from __future__ import annotations

from typing import Any, Callable

import tensorflow

from . import normalization, pooling
from .convolution import convolution, transposed
from .operations import Case, Native

Chooser = Callable[[Case], Native]


def _plain(function: Callable[..., Any]) -> Chooser:
    return lambda case: Native(function)  # noqa: ARG005


def _gemm(case: Case) -> Native:
    ta, tb = bool(case.sizes["ta"]), bool(case.sizes["tb"])

    def product(a: Any, b: Any) -> Any:
        return tensorflow.matmul(a, b, ta, tb)

    def with_bias(a: Any, b: Any, c: Any) -> Any:
        return tensorflow.nn.bias_add(tensorflow.matmul(a, b, ta, tb), c)

    if case.sizes["bias"]:
        return Native(with_bias)
    return Native(product if ta or tb else tensorflow.matmul)


def _gelu(case: Case) -> Native:
    approximate = bool(case.sizes["approximate"])
    return Native(lambda x: tensorflow.nn.gelu(x, approximate))


def _sum(case: Case) -> Native:  # noqa: ARG001
    return Native(lambda *terms: tensorflow.add_n(terms))


def _dropout(case: Case) -> Native:
    scale = 100 / (100 - case.sizes["percent"])
    return Native(lambda x, mask: x * mask * scale)


def _cross_entropy(p: Any, labels: Any) -> Any:
    logs = tensorflow.math.log(tensorflow.gather(p, labels, axis=1, batch_dims=1))
    return -tensorflow.reduce_mean(logs)


def _softmax_cross_entropy(x: Any, labels: Any) -> Any:
    return tensorflow.reduce_mean(tensorflow.nn.sparse_softmax_cross_entropy_with_logits(labels, x))


def _mean_squared_error(a: Any, b: Any) -> Any:
    return tensorflow.reduce_mean(tensorflow.math.squared_difference(a, b))


def _attention(case: Case) -> Native:
    root = case.sizes["width"] ** 0.5
    seen = tensorflow.linalg.band_part(tensorflow.ones((case.sizes["length"],) * 2, "bool"), -1, 0)

    def attention(q: Any, k: Any, v: Any) -> Any:
        scores = tensorflow.matmul(q, k, transpose_b=True) / root
        return tensorflow.matmul(tensorflow.nn.softmax(scores), v)

    def causal(q: Any, k: Any, v: Any) -> Any:
        scores = tensorflow.matmul(q, k, transpose_b=True) / root
        hidden = tensorflow.where(seen, scores, scores.dtype.min)
        return tensorflow.matmul(tensorflow.nn.softmax(hidden), v)

    return Native(causal if case.sizes["causal"] else attention)


def _lstm_cell(x: Any, h: Any, c: Any, wx: Any, wh: Any, bx: Any, bh: Any) -> tuple[Any, Any]:
    both = (tensorflow.matmul(x, wx, transpose_b=True) + bx) + (
        tensorflow.matmul(h, wh, transpose_b=True) + bh
    )
    i, f, g, o = tensorflow.split(both, 4, axis=1)
    cell = tensorflow.sigmoid(f) * c + tensorflow.sigmoid(i) * tensorflow.tanh(g)
    return tensorflow.sigmoid(o) * tensorflow.tanh(cell), cell


def _reshape(case: Case) -> Native:
    shape = (case.sizes["n"], case.sizes["c"] * case.sizes["h"] * case.sizes["w"])
    return Native(lambda x: tensorflow.reshape(x, shape))


OPERATIONS: dict[str, Chooser] = {
    "gemm": _gemm,
    "matmul": _plain(tensorflow.matmul),
    **{f"conv{rank}d": convolution(rank) for rank in (1, 2, 3)},
    **{f"conv_transpose{rank}d": transposed(rank) for rank in (1, 2, 3)},
    "max_pool2d": pooling.maximum,
    "average_pool2d": pooling.average,
    "global_average_pool": pooling.over_all,
    "batch_norm": normalization.batch,
    "batch_norm_inference": normalization.batch_inference,
    "layer_norm": normalization.layer,
    "group_norm": normalization.group,
    "relu": _plain(tensorflow.nn.relu),
    "sigmoid": _plain(tensorflow.sigmoid),
    "tanh": _plain(tensorflow.tanh),
    "gelu": _gelu,
    "softmax": _plain(tensorflow.nn.softmax),
    "cross_entropy": _plain(_cross_entropy),
    "softmax_cross_entropy": _plain(_softmax_cross_entropy),
    "mean_squared_error": _plain(_mean_squared_error),
    "attention": _attention,
    "embedding": _plain(tensorflow.nn.embedding_lookup),
    "lstm_cell": _plain(_lstm_cell),
    "sum": _sum,
    "add": _plain(tensorflow.add),
    "dropout": _dropout,
    "reduce_sum": _plain(lambda x: tensorflow.reduce_sum(x, 1)),
    "reduce_mean": _plain(lambda x: tensorflow.reduce_mean(x, 1)),
    "reduce_max": _plain(lambda x: tensorflow.reduce_max(x, 1)),
    "reshape": _reshape,
    "squeeze": _plain(lambda x: tensorflow.squeeze(x, 1)),
    "unsqueeze": _plain(lambda x: tensorflow.expand_dims(x, 1)),
}
