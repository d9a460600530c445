# ruff: noqa: E501  (one fault, one line)
"""Faults planted in operators of torch: each must leave its error bound."""

from collections.abc import Callable, Mapping
from functools import partial
from importlib import util
from typing import Any

import numpy
import pytest

from capsule.levels import catalog, frameworks, operators
from capsule.levels.frameworks.base import Call
from capsule.levels.frameworks.base import NativeTensor as Tensor
from capsule.levels.instruments import errors
from tests.support import trials

pytestmark = [
    pytest.mark.torch,
    pytest.mark.skipif(util.find_spec("torch") is None, reason="torch is not installed here"),
]

if util.find_spec("torch") is not None:
    import torch
    from torch.nn import functional

    from capsule.levels.frameworks.torch.operators import OPERATIONS as NATIVE

    # as they are: the others are what a fault is planted in
    RIGHT = dict(NATIVE)

Function = Callable[..., Any]
"""Of tensors, yields a tensor or a tuple of them."""


def half_sums(a: Tensor, b: Tensor) -> Tensor:
    """A product whose sums are kept in the dtype of its operands."""
    total = torch.zeros(a.shape[0], b.shape[1], dtype=a.dtype)
    for k in range(a.shape[1]):
        total = total + torch.outer(a[:, k], b[k])
    return total


def half_row_sums(x: Tensor) -> Tensor:
    total = torch.zeros(x.shape[0], dtype=x.dtype)
    for column in range(x.shape[1]):
        total = total + x[:, column]
    return total


def norm_over(
    axes: tuple[int, ...],
    x: Tensor,
    w: Tensor,
    b: Tensor,
    unbiased: bool = False,
    epsilon: float = 1e-5,
) -> Tensor:
    variance, mean = torch.var_mean(x, axes, keepdim=True, unbiased=unbiased)
    shape = (-1, *[1] * (x.ndim - 2)) if x.ndim > 2 else (-1,)
    return (x - mean) / torch.sqrt(variance + epsilon) * w.reshape(shape) + b.reshape(shape)


def attention(
    q: Tensor, k: Tensor, v: Tensor, root: float | None = None, hidden_from: int = 1
) -> Tensor:
    scores = q @ k.transpose(-1, -2) / (root or q.shape[-1] ** 0.5)
    hidden = torch.ones(scores.shape[-2:]).triu(hidden_from).bool()
    scores = scores.masked_fill(hidden, -torch.inf)
    return torch.softmax(scores, -1) @ v


def lstm(
    x: Tensor,
    h: Tensor,
    c: Tensor,
    wx: Tensor,
    wh: Tensor,
    bx: Tensor,
    bh: Tensor,
    order: str = "ifgo",
) -> tuple[Tensor, Tensor]:
    parts = dict(zip(order, (x @ wx.t() + bx + h @ wh.t() + bh).chunk(4, 1), strict=True))
    cell = parts["f"].sigmoid() * c + parts["i"].sigmoid() * parts["g"].tanh()
    return parts["o"].sigmoid() * cell.tanh(), cell


def detached(function: Function, which: int) -> Function:
    """The right result, without a gradient by one of its operands."""
    return lambda *operands: function(
        *(
            operand.detach() + 0 * operand if at == which else operand
            for at, operand in enumerate(operands)
        )
    )


def scaled_gradient(function: Function, factor: float) -> Function:
    return lambda *operands: function(
        *((factor * operand + (1 - factor) * operand.detach()) for operand in operands)
    )


def right(name: str, sizes: Mapping[str, int], *tensors: Tensor) -> Tensor:
    function, operands = RIGHT[name](sizes, *tensors)
    result: Tensor = function(*operands)
    return result


def wrong_gradient(value: Tensor, instead: Tensor) -> Tensor:
    """A value with the gradient of another one."""
    return value.detach() + instead - instead.detach()


FORWARD, BACKWARD = "l2_error_ratio", "grad_l2_error_ratio"

# operator, dtype, options, what torch does instead, the metric that tells
Fault = tuple[str, str, Mapping[str, int], Callable[..., Call], str]

FAULTS: dict[str, Fault] = {
    "gemm: sums in float16": ("gemm", "float16", {"m": 32, "n": 32, "k": 1024}, lambda s, a, b: (half_sums, (a, b)), FORWARD),
    "gemm: sums in bfloat16": ("gemm", "bfloat16", {"m": 32, "n": 32, "k": 1024}, lambda s, a, b: (half_sums, (a, b)), FORWARD),
    "gemm: float32 where float64 is due": ("gemm", "float64", {"m": 32, "n": 32, "k": 64}, lambda s, a, b: (lambda a, b: (a.float() @ b.float()).double(), (a, b)), FORWARD),
    "gemm: a transpose forgotten": ("gemm", "float32", {"m": 64, "n": 64, "k": 64, "tb": 1}, lambda s, a, b: (torch.mm, (a, b)), FORWARD),
    "gemm: no bias": ("gemm", "bfloat16", {"m": 8, "n": 8, "k": 8, "bias": 1}, lambda s, a, b, c: (lambda a, b, c: a @ b + 0 * c, (a, b, c)), FORWARD),
    "gemm: no gradient of the bias": ("gemm", "float32", {"m": 8, "n": 8, "k": 8, "bias": 1}, lambda s, a, b, c: (detached(lambda a, b, c: torch.addmm(c, a, b), 2), (a, b, c)), BACKWARD),
    "reduce_sum: sums in float16": ("reduce_sum", "float16", {"rows": 16, "columns": 4096}, lambda s, x: (half_row_sums, (x,)), FORWARD),
    "reduce_mean: one too many": ("reduce_mean", "float32", {"rows": 16, "columns": 100}, lambda s, x: (lambda x: x.sum(1) / 101, (x,)), FORWARD),
    "conv2d: convolution, not correlation": ("conv2d", "float32", {}, lambda s, x, w, b: (lambda x, w, b: functional.conv2d(x, w.flip(2, 3), b, 2, 1, 2, 4), (x, w, b)), FORWARD),
    "conv2d: no gradient of the bias": ("conv2d", "float32", {}, lambda s, x, w, b: (detached(lambda x, w, b: functional.conv2d(x, w, b, 2, 1, 2, 4), 2), (x, w, b)), BACKWARD),
    "conv2d: groups in the wrong order": ("conv2d", "bfloat16", {}, lambda s, x, w, b: (lambda x, w, b: functional.conv2d(x.flip(1), w, b, 2, 1, 2, 4), (x, w, b)), FORWARD),
    "softmax: wrong axis": ("softmax", "float16", {"rows": 64, "columns": 100}, lambda s, x: (torch.softmax, (x, 0)), FORWARD),
    "softmax: no gradient through the sum": ("softmax", "float32", {"rows": 4, "columns": 10}, lambda s, x: (lambda x: x.exp() / x.exp().sum(1, keepdim=True).detach(), (x,)), BACKWARD),
    "cross entropy: no softmax in it": ("softmax_cross_entropy", "float32", {"rows": 64, "columns": 100}, lambda s, x, y: (functional.nll_loss, (x, y)), FORWARD),
    "cross entropy: divided by the sum of weights": ("softmax_cross_entropy", "float32", {"rows": 64, "columns": 3, "weighted": 1}, lambda s, x, y, w: (functional.cross_entropy, (x, y, w)), FORWARD),
    "binary cross entropy: a sum for the mean": ("sigmoid_cross_entropy", "float32", {"n": 50}, lambda s, x, y: (lambda x, y: functional.binary_cross_entropy_with_logits(x, y, reduction="sum") / 49, (x, y)), FORWARD),
    "binary cross entropy: targets the other way": ("sigmoid_cross_entropy", "bfloat16", {"n": 50}, lambda s, x, y: (lambda x, y: functional.binary_cross_entropy_with_logits(x, 1 - y), (x, y)), FORWARD),
    "binary cross entropy: half the gradient": ("sigmoid_cross_entropy", "float32", {"n": 50}, lambda s, x, y: (lambda x, y: functional.binary_cross_entropy_with_logits((x + x.detach()) / 2, y), (x, y)), BACKWARD),
    "cross entropy: weights of other classes": ("softmax_cross_entropy", "float32", {"rows": 64, "columns": 3, "weighted": 1}, lambda s, x, y, w: (lambda x, y, w: functional.cross_entropy(x, y, w.flip(0), reduction="none").mean(), (x, y, w)), FORWARD),
    "cross entropy: sum for mean": ("cross_entropy", "float32", {"rows": 64, "columns": 100}, lambda s, p, y: (lambda p, y: functional.nll_loss(p.log(), y, reduction="sum"), (p, y)), FORWARD),
    "batch_norm: unbiased variance": ("batch_norm", "float32", {"n": 2, "c": 4, "h": 3, "w": 3}, lambda s, *t: (partial(norm_over, (0, 2, 3), unbiased=True), t), FORWARD),
    "batch_norm: another epsilon": ("batch_norm", "float64", {}, lambda s, *t: (partial(norm_over, (0, 2, 3), epsilon=2e-5), t), FORWARD),
    "batch_norm: over each sample": ("batch_norm", "bfloat16", {}, lambda s, *t: (partial(norm_over, (2, 3)), t), FORWARD),
    "layer_norm: wrong axis": ("layer_norm", "float16", {"rows": 64, "columns": 64}, lambda s, *t: (partial(norm_over, (0,)), t), FORWARD),
    "gelu: the approximate form": ("gelu", "float32", {"n": 1000}, lambda s, x: (partial(functional.gelu, approximate="tanh"), (x,)), FORWARD),
    "sigmoid: gradient halved": ("sigmoid", "bfloat16", {"n": 1000}, lambda s, x: (scaled_gradient(torch.sigmoid, 0.5), (x,)), BACKWARD),
    "relu: leaky by a thousandth": ("relu", "float32", {"n": 1000}, lambda s, x: (partial(functional.leaky_relu, negative_slope=1e-3), (x,)), FORWARD),
    "leaky_relu: the slope of another library": ("leaky_relu", "float32", {"n": 1000, "percent": 30}, lambda s, x: (functional.leaky_relu, (x, 0.01)), FORWARD),
    "leaky_relu: gradient of a relu": ("leaky_relu", "float32", {"n": 1000, "percent": 30}, lambda s, x: (lambda x: x.relu() + 0.3 * (x - x.relu()).detach(), (x,)), BACKWARD),
    "max_pool3d: the mean of each window": ("max_pool3d", "float32", {}, lambda s, x: (functional.avg_pool3d, (x, (3, 2, 3), 2, 1)), FORWARD),
    "attention: not scaled": ("attention", "float16", {}, lambda s, *t: (partial(attention, root=1.0), t), FORWARD),
    "attention: one key too many is seen": ("attention", "float32", {}, lambda s, *t: (partial(attention, hidden_from=2), t), FORWARD),
    "lstm_cell: gates in another order": ("lstm_cell", "bfloat16", {}, lambda s, *t: (partial(lstm, order="iofg"), t), FORWARD),
    "max_pool2d: one percent short": ("max_pool2d", "bfloat16", {}, lambda s, x: (lambda x: functional.max_pool2d(x, 3, 2, 1) * 0.99, (x,)), FORWARD),
    "average_pool2d: the frame counted": ("average_pool2d", "float32", {}, lambda s, x: (functional.avg_pool2d, (x, 3, 2, 1)), FORWARD),
    "embedding: off by one": ("embedding", "float32", {}, lambda s, t, i: (lambda t, i: functional.embedding((i + 1) % len(t), t), (t, i)), FORWARD),
    "dropout: not scaled": ("dropout", "float16", {"n": 100, "percent": 10}, lambda s, x, m: (torch.mul, (x, m)), FORWARD),
    "sum: the last one left out": ("sum", "bfloat16", {"n": 100, "count": 3}, lambda s, a, b, c: (lambda a, b, c: a + b + 0 * c, (a, b, c)), FORWARD),
    "rotary: turned the other way": ("rotary", "bfloat16", {}, lambda s, x, cos, sin: RIGHT["rotary"](s, x, cos, -sin), FORWARD),
    "rotary: not turned back": ("rotary", "float32", {}, lambda s, *t: (lambda *t: wrong_gradient(right("rotary", s, *t), t[0]), t), BACKWARD),
    "rms_norm: another epsilon": ("rms_norm", "float32", {"rows": 64, "columns": 64}, lambda s, x, w: (functional.rms_norm, (x, (64,), w, 1e-6)), FORWARD),
    "swiglu: gate and values swapped": ("swiglu", "float16", {}, lambda s, x, g, u: RIGHT["swiglu"](s, x, u, g), FORWARD),
    "top_k: from the wrong places": ("top_k", "float32", {"rows": 3, "columns": 9, "k": 2}, lambda s, x: (lambda x: wrong_gradient(torch.topk(x, 2)[0], x[:, :2]), (x,)), BACKWARD),
    "gather: the next column": ("gather", "bfloat16", {}, lambda s, x, i: (torch.gather, (x, 1, (i + 1) % x.shape[1])), FORWARD),
    "scatter_add: the last one left out": ("scatter_add", "float16", {"rows": 9, "columns": 50, "count": 20}, lambda s, x, i, y: (torch.scatter_add, (x, 1, i[:, :-1], y[:, :-1])), FORWARD),
    "einsum: the last term left out": ("einsum", "float32", {}, lambda s, x, w: (torch.einsum, ("bri,ihc->bhrc", x[..., :-1], w[:-1])), FORWARD),
    "rfft: turned the other way": ("rfft", "float32", {}, lambda s, x: (lambda x: torch.view_as_real(torch.fft.rfft(x).conj().resolve_conj()), (x,)), FORWARD),
    "int8_matmul: the last scale that before": ("int8_matmul", "float16", {}, lambda s, a, b, r, c: RIGHT["int8_matmul"](s, a, b, r, torch.cat((c[:-1], c[-2:-1]))), FORWARD),
    "fp8_matmul: sums in bfloat16": ("fp8_matmul", "float32", {}, lambda s, a, b, r, c: (lambda a, b, r, c: (a.view(torch.float8_e4m3fn).bfloat16() @ b.view(torch.float8_e4m3fn).bfloat16()).float() * r[:, None] * c, (a, b, r, c)), FORWARD),
    "grouped_attention: heads take groups in turns": ("grouped_attention", "bfloat16", {"n": 1, "h": 4, "g": 2, "m": 9, "k": 9, "w": 8}, lambda s, q, k, v: (lambda q, k, v: functional.scaled_dot_product_attention(q, k.repeat(1, 2, 1, 1), v.repeat(1, 2, 1, 1)), (q, k, v)), FORWARD),
    "grouped_attention: a window one too wide": ("grouped_attention", "float16", {}, lambda s, *t: RIGHT["grouped_attention"]({**s, "window": s["window"] + 1}, *t), FORWARD),
    "grouped_attention: shorter sequences whole": ("grouped_attention", "float32", {}, lambda s, q, k, v, n, m: RIGHT["grouped_attention"](s, q, k, v, 0 * n + s["k"], m | True), FORWARD),
}  # fmt: skip


@pytest.mark.parametrize("fault", FAULTS)
def test_a_planted_fault_leaves_the_bound(monkeypatch: pytest.MonkeyPatch, fault: str) -> None:
    name, dtype, parameters, instead, metric = FAULTS[fault]
    trial: trials.Entry = {
        "operator": name,
        "dtype": dtype,
        "parameters": parameters or catalog.OPERATORS[name].cases["quick"][-1][1],
        "repetitions": 1,
        "warmup": 0,
    }
    framework = frameworks.load("torch", "cpu", 2, "default")
    monkeypatch.setitem(NATIVE, name, instead)
    values = trials.values(framework, **trial)
    assert values[metric][0] > 1
    if metric == BACKWARD:
        assert values[FORWARD][0] <= 1
        assert values["gradient_check"][0] > 1


def test_a_result_that_changes_from_call_to_call_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = iter(range(1000))

    def drifting(a: Tensor, b: Tensor) -> Tensor:
        return torch.mm(a, b) * (1 + next(calls) % 2 * 2**-23)  # a last bit, well within the bound

    monkeypatch.setitem(NATIVE, "gemm", lambda sizes, a, b: (drifting, (a, b)))
    trial: trials.Entry = {
        "operator": "gemm",
        "dtype": "float32",
        "parameters": {"m": 9, "n": 9, "k": 64},
        "repetitions": 2,
        "warmup": 0,
    }
    framework = frameworks.load("torch", "cpu", 2, "default")
    values = trials.values(framework, **trial)
    assert values["repeatable"] == (0.0,)
    assert values["l2_error_ratio"][0] < 1


def test_the_heat_map_shows_where_the_error_is() -> None:
    right = numpy.zeros((8, 16))
    wrong = right.copy()
    wrong[7, 15] = 3.0
    norms = errors.errors((wrong,), (right,), (1.0,))
    assert norms["error_heatmap"] == (*[0.0] * 63, 3.0)
    assert (norms["l1_error"], norms["max_error"]) == ((3.0,), (3.0,))


def test_two_trials_share_no_samples() -> None:
    framework = frameworks.load("numpy", "cpu", None, "default")
    trial: trials.Entry = {
        "operator": "relu",
        "dtype": "float32",
        "parameters": {"n": 9},
        "repetitions": 4,
        "warmup": 1,
    }
    for _ in range(2):
        assert len(trials.values(framework, **trial)["forward_time"]) == 5


def test_errors_of_several_outputs_are_those_of_all_together() -> None:
    right = (numpy.array([3.0]), numpy.array([4.0]))
    norms = errors.errors((right[0] + 3, right[1] - 4), right, (3.0, 8.0))
    assert norms["l2_error"] == (5.0,)
    assert norms["relative_error"] == (1.0,)
    assert norms["l2_error_ratio"] == (1.0,)
    assert operators.several(right) == right
