"""Level 0 in TensorFlow: for each operator its native function, one call where there is one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Callable

import tensorflow

from ...operators import Operator
from ..base import Call, NativeTensor, look_up
from . import convolution, modern, normalization, pooling
from .compiler import Compiler
from .operations import Axes, Case, Operation, Transposed, inverse

Chooser = Callable[[Case], Operation]


class TensorFlowOperators:
    """TensorFlow's own operations, in the layouts that its users hold tensors in."""

    def __init__(self, framework: str, compiler: Compiler) -> None:
        self._framework = framework
        self._compiler = compiler
        # of the operation that was asked for last: other values of it are not compiled again
        self._last: tuple[Any, Operation, Callable[..., Any]] | None = None

    def operation(
        self, operator: Operator, sizes: Mapping[str, int], tensors: tuple[NativeTensor, ...]
    ) -> Call:
        """Return the operation, and operands laid out for it."""
        chosen, wrapped = self._choose(operator, sizes, differentiated=False)
        operands = chosen.lay_out(tensors)
        function = self._compiler.prepare(wrapped, operands)
        axes = chosen.output
        if axes is None:
            return function, operands
        return lambda *operands: Transposed(function(*operands), axes), operands

    def gradient(
        self,
        operator: Operator,
        sizes: Mapping[str, int],
        tensors: tuple[NativeTensor, ...],
        wrt: tuple[int, ...],
        upstream: tuple[NativeTensor, ...],
    ) -> Call:
        """Return the gradients from a persistent tape that has recorded one forward run."""
        chosen, wrapped = self._choose(operator, sizes, differentiated=True)
        operands = chosen.lay_out(tensors)
        sources = tuple(operands[place] for place in wrt)
        function = self._compiler.prepare(wrapped, operands)
        with tensorflow.GradientTape(persistent=True, watch_accessed_variables=False) as tape:
            tape.watch(sources)
            results = function(*operands)
        arriving = chosen.lay_out_gradients(upstream)
        back = tuple(None if axes is None else inverse(axes) for axes in chosen.layouts(wrt))

        def run() -> tuple[NativeTensor, ...]:
            return tuple(map(_densify, tape.gradient(results, sources, arriving), back))

        return run, ()

    def _choose(
        self, operator: Operator, sizes: Mapping[str, int], *, differentiated: bool
    ) -> tuple[Operation, Callable[..., Any]]:
        """Return an operation, and what `Compiler.prepare` makes a function of."""
        subject = operator.name, dict(sizes), differentiated
        if self._last is None or self._last[0] != subject:
            case = Case(sizes, self._compiler.compiles, differentiated)
            chosen = look_up(OPERATIONS, operator, self._framework)(case)
            self._last = subject, chosen, self._compiler.wrap(chosen.function)
        return self._last[1:]


def _densify(gradient: NativeTensor, axes: Axes) -> NativeTensor:
    """Return a gradient as a tensor: that of a table comes as rows and their numbers."""
    tensor = tensorflow.convert_to_tensor(gradient)
    return tensor if axes is None else Transposed(tensor, axes)


def _plain(function: Callable[..., Any]) -> Chooser:
    return lambda case: Operation(function)  # noqa: ARG005


def _gemm(case: Case) -> Operation:
    ta, tb = bool(case.sizes["ta"]), bool(case.sizes["tb"])

    def product(a: Any, b: Any) -> Any:
        return tensorflow.matmul(a, b, ta, tb)

    def with_bias(a: Any, b: Any, c: Any) -> Any:
        return tensorflow.nn.bias_add(tensorflow.matmul(a, b, ta, tb), c)

    if case.sizes["bias"]:
        return Operation(with_bias)
    return Operation(product if ta or tb else tensorflow.matmul)


def _gelu(case: Case) -> Operation:
    approximate = bool(case.sizes["approximate"])
    return Operation(lambda x: tensorflow.nn.gelu(x, approximate))


def _leaky_relu(case: Case) -> Operation:
    slope = case.sizes["percent"] / 100
    return Operation(lambda x: tensorflow.nn.leaky_relu(x, slope))


def _sum(case: Case) -> Operation:  # noqa: ARG001
    return Operation(lambda *terms: tensorflow.add_n(terms))


def _dropout(case: Case) -> Operation:
    scale = 100 / (100 - case.sizes["percent"])
    return Operation(lambda x, mask: x * mask * scale)


def _cross_entropy(p: Any, labels: Any) -> Any:
    logs = tensorflow.math.log(tensorflow.gather(p, labels, axis=1, batch_dims=1))
    return -tensorflow.reduce_mean(logs)


def _softmax_cross_entropy(x: Any, labels: Any, *weights: Any) -> Any:
    losses = tensorflow.nn.sparse_softmax_cross_entropy_with_logits(labels, x)
    for of_labels in weights:
        losses = losses * tensorflow.gather(of_labels, labels)
    return tensorflow.reduce_mean(losses)


def _sigmoid_cross_entropy(x: Any, y: Any) -> Any:
    return tensorflow.reduce_mean(tensorflow.nn.sigmoid_cross_entropy_with_logits(y, x))


def _mean_squared_error(a: Any, b: Any) -> Any:
    return tensorflow.reduce_mean(tensorflow.math.squared_difference(a, b))


def _attention(case: Case) -> Operation:
    root = case.sizes["width"] ** 0.5
    seen = tensorflow.linalg.band_part(tensorflow.ones((case.sizes["length"],) * 2, "bool"), -1, 0)

    def attention(q: Any, k: Any, v: Any) -> Any:
        scores = tensorflow.matmul(q, k, transpose_b=True) / root
        return tensorflow.matmul(tensorflow.nn.softmax(scores), v)

    def causal(q: Any, k: Any, v: Any) -> Any:
        scores = tensorflow.matmul(q, k, transpose_b=True) / root
        hidden = tensorflow.where(seen, scores, scores.dtype.min)
        return tensorflow.matmul(tensorflow.nn.softmax(hidden), v)

    return Operation(causal if case.sizes["causal"] else attention)


def _lstm_cell(x: Any, h: Any, c: Any, wx: Any, wh: Any, bx: Any, bh: Any) -> tuple[Any, Any]:
    both = (tensorflow.matmul(x, wx, transpose_b=True) + bx) + (
        tensorflow.matmul(h, wh, transpose_b=True) + bh
    )
    i, f, g, o = tensorflow.split(both, 4, axis=1)
    cell = tensorflow.sigmoid(f) * c + tensorflow.sigmoid(i) * tensorflow.tanh(g)
    return tensorflow.sigmoid(o) * tensorflow.tanh(cell), cell


def _reshape(case: Case) -> Operation:
    shape = (case.sizes["n"], case.sizes["c"] * case.sizes["h"] * case.sizes["w"])
    return Operation(lambda x: tensorflow.reshape(x, shape))


OPERATIONS: dict[str, Chooser] = {
    "gemm": _gemm,
    "matmul": _plain(tensorflow.matmul),
    **{f"conv{rank}d": convolution.make_plain(rank) for rank in (1, 2, 3)},
    **{f"conv_transpose{rank}d": convolution.make_transpose(rank) for rank in (1, 2, 3)},
    **{f"max_pool{rank}d": pooling.make_maximum(rank) for rank in (2, 3)},
    "average_pool2d": pooling.average,
    "global_average_pool": pooling.over_all,
    "batch_norm": normalization.batch,
    "batch_norm_inference": normalization.batch_inference,
    "layer_norm": normalization.layer,
    "group_norm": normalization.group,
    "relu": _plain(tensorflow.nn.relu),
    "leaky_relu": _leaky_relu,
    "sigmoid": _plain(tensorflow.sigmoid),
    "tanh": _plain(tensorflow.tanh),
    "gelu": _gelu,
    "softmax": _plain(tensorflow.nn.softmax),
    "cross_entropy": _plain(_cross_entropy),
    "softmax_cross_entropy": _plain(_softmax_cross_entropy),
    "sigmoid_cross_entropy": _plain(_sigmoid_cross_entropy),
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
    **modern.OPERATIONS,
}
