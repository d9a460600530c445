# ruff: noqa: E501, ARG005  (one fault, one line; sizes that a formula needs not)
"""Other formulas than the operator's: of sizes and tensors to a result, gradients by autograd."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

import torch
from torch.nn import functional as f

from .faults import Entry, Fault, Plant, as_entry, call_through, reach

Formula = Callable[..., Any]


def formula(function: Formula) -> Plant:
    """A plant of a formula of sizes and tensors."""
    return as_entry(lambda right, sizes: _reaching(partial(function, sizes)))


def around(function: Callable[..., Any]) -> Plant:
    """A plant of a function that takes the right one as a function of tensors, then the tensors."""

    def make(right: Entry, sizes: Any) -> Callable[..., Any]:
        return _reaching(partial(function, lambda *t: call_through(right, sizes, t)))

    return as_entry(make)


def _reaching(function: Formula) -> Formula:
    """A function that notes that it ran."""

    def run(*tensors: Any) -> Any:
        reach()
        return function(*tensors)

    return run


def detached(which: int) -> Plant:
    """No gradient by one operand."""
    return around(
        lambda right, *t: right(
            *(one.detach() + 0 * one if at == which else one for at, one in enumerate(t))
        )
    )


def on_operands(change: Callable[..., Any]) -> Plant:
    """The right function of other operands."""
    return around(lambda right, *t: right(*change(*t)))


def low(dtype: torch.dtype) -> Plant:
    """Computed in fewer bits, and widened again."""

    def run(right: Any, *tensors: Any) -> Any:
        results = right(*(one.to(dtype) if one.is_floating_point() else one for one in tensors))
        wide = next(one.dtype for one in tensors if one.is_floating_point())
        return (
            tuple(one.to(wide) for one in results)
            if isinstance(results, tuple)
            else results.to(wide)
        )

    return around(run)


def serial_product(sizes: Any, a: Any, b: Any, *bias: Any) -> Any:
    """Sums kept in the dtype of the operands."""
    a, b = (a.t() if sizes["ta"] else a), (b.t() if sizes["tb"] else b)
    total = torch.zeros(a.shape[0], b.shape[1], dtype=a.dtype)
    for k in range(a.shape[1]):
        total = total + torch.outer(a[:, k], b[k])
    return total + bias[0] if bias else total


def serial_rows(x: Any) -> Any:
    total = torch.zeros(x.shape[0], dtype=x.dtype)
    for column in range(x.shape[1]):
        total = total + x[:, column]
    return total


def norm(
    axes: Any, epsilon: float, biased: bool, x: Any, w: Any, b: Any, *, keep: bool = True
) -> Any:
    variance, mean = torch.var_mean(x, axes, keepdim=True, correction=0 if biased else 1)
    if not keep:
        variance, mean = variance.detach(), mean.detach()
    shape = (-1, *[1] * (x.ndim - 2)) if x.ndim > 2 else (-1,)
    return (x - mean) / torch.sqrt(variance + epsilon) * w.reshape(shape) + b.reshape(shape)


def attention(root: float, hidden_from: int | None, q: Any, k: Any, v: Any) -> Any:
    scores = q @ k.transpose(-1, -2) / (root * q.shape[-1] ** 0.5)
    if hidden_from is not None:
        scores = scores.masked_fill(
            torch.ones(scores.shape[-2:]).triu(hidden_from).bool(), -torch.inf
        )
    return torch.softmax(scores, -1) @ v


def lstm(
    order: str, forget: float, x: Any, h: Any, c: Any, wx: Any, wh: Any, bx: Any, bh: Any
) -> Any:
    parts = dict(zip(order, (x @ wx.t() + bx + h @ wh.t() + bh).chunk(4, 1), strict=True))
    cell = (parts["f"] + forget).sigmoid() * c + parts["i"].sigmoid() * parts["g"].tanh()
    return parts["o"].sigmoid() * cell.tanh(), cell


def conv(x: Any, w: Any, b: Any, s: Any, **other: int) -> Any:
    function = {3: f.conv1d, 4: f.conv2d, 5: f.conv3d}[x.ndim]
    how = {name: other.get(name, s[name]) for name in ("stride", "padding", "dilation", "groups")}
    return function(x, w, b, *how.values())


def up(x: Any, w: Any, b: Any, s: Any) -> Any:
    function = {3: f.conv_transpose1d, 4: f.conv_transpose2d, 5: f.conv_transpose3d}[x.ndim]
    return function(
        x, w, b, s["stride"], s["padding"], s["output_padding"], s["groups"], s["dilation"]
    )


def half(function: Formula) -> Formula:
    """Half the gradient of the first operand."""
    return lambda s, x, *t: function(s, (x + x.detach()) / 2, *t)


def mean_loss(x: Any, y: Any, weights: Any = None, smooth: float = 0.0) -> Any:
    return f.cross_entropy(x, y, weights, reduction="none", label_smoothing=smooth).mean()


def shifted_mask(s: Any, x: Any, mask: Any) -> Any:
    return x * mask.roll(1) / (1 - s["percent"] / 100)


FORWARD = (
    ("gemm", 0, "sums in the dtype", "whole", formula(serial_product)),
    ("gemm", 0, "in float16", "whole", low(torch.float16)),
    ("gemm", 0, "in float32", "whole", low(torch.float32)),
    ("gemm", 0, "in bfloat16", "whole", low(torch.bfloat16)),
    ("gemm", 0, "the last term of each sum left out", "whole", on_operands(lambda a, b: (torch.cat((a[:, :-1], 0 * a[:, -1:]), 1), b))),
    ("gemm", 0, "the last term of the last row left out", "last row", formula(lambda s, a, b: torch.cat((a[:-1] @ b, a[-1:, :-1] @ b[:-1])))),
    ("gemm", 3, "a transpose forgotten", "whole", formula(lambda s, a, b: a.reshape(96, 80) @ b)),
    ("gemm", 5, "no bias", "whole", on_operands(lambda a, b, c: (a, b, 0 * c))),
    ("gemm", 5, "the bias of the next column", "whole", on_operands(lambda a, b, c: (a, b, c.roll(1)))),
    ("matmul", 1, "one batch for all", "whole", on_operands(lambda a, b: (a[:1].expand(a.shape), b))),
    ("matmul", 1, "the last batch that before", "last twelfth", on_operands(lambda a, b: (torch.cat((a[:-1], a[-2:-1])), b))),
    ("conv1d", 1, "convolution for correlation", "whole", formula(lambda s, x, w, b: conv(x, w.flip(2), b, s))),
    ("conv2d", 1, "convolution for correlation", "whole", formula(lambda s, x, w, b: conv(x, w.flip(2, 3), b, s))),
    ("conv2d", 1, "groups in another order", "whole", formula(lambda s, x, w, b: conv(x.flip(1), w, b, s))),
    ("conv2d", 1, "no bias", "whole", on_operands(lambda x, w, b: (x, w, 0 * b))),
    ("conv2d", 0, "the frame repeats the edge", "edge", formula(lambda s, x, w: conv(f.pad(x, (1, 1, 1, 1), "replicate"), w, None, s, padding=0))),
    ("conv2d", 0, "the last channel left out", "whole", on_operands(lambda x, w: (torch.cat((x[:, :-1], 0 * x[:, -1:]), 1), w))),
    ("conv3d", 0, "two axes swapped", "whole", on_operands(lambda x, w: (x.transpose(2, 3), w))),
    ("conv3d", 1, "convolution for correlation", "whole", formula(lambda s, x, w, b: conv(x, w.flip(2, 3, 4), b, s))),
    ("conv_transpose1d", 0, "kernel flipped", "whole", formula(lambda s, x, w: up(x, w.flip(2), None, s))),
    ("conv_transpose2d", 1, "kernel flipped", "whole", formula(lambda s, x, w: up(x, w.flip(2, 3), None, s))),
    ("conv_transpose3d", 0, "kernel flipped", "whole", formula(lambda s, x, w: up(x, w.flip(2, 3, 4), None, s))),
    ("max_pool2d", 1, "the mean of each window", "whole", formula(lambda s, x: f.avg_pool2d(x, 3, 2, 1))),
    ("max_pool2d", 1, "the frame is 0", "edge", formula(lambda s, x: f.max_pool2d(f.pad(x, (1, 1, 1, 1)), 3, 2))),
    ("max_pool3d", 1, "the mean of each window", "whole", formula(lambda s, x: f.avg_pool3d(x.float(), (3, 2, 3), 2, 1).to(x.dtype))),
    ("average_pool2d", 1, "the frame counted", "edge", formula(lambda s, x: f.avg_pool2d(x, 3, 2, 1))),
    ("global_average_pool", 0, "one too many", "whole", around(lambda right, x: right(x) * 49 / 50)),
    ("global_average_pool", 0, "the last pixel left out", "whole", formula(lambda s, x: (x.flatten(2)[..., :-1].mean(2))[..., None, None])),
    ("batch_norm", 0, "unbiased variance", "whole", formula(lambda s, *t: norm((0, 2, 3), 1e-5, False, *t))),
    ("batch_norm", 0, "epsilon 2e-5", "whole", formula(lambda s, *t: norm((0, 2, 3), 2e-5, True, *t))),
    ("batch_norm", 0, "over each sample", "whole", formula(lambda s, *t: norm((2, 3), 1e-5, True, *t))),
    ("batch_norm", 0, "no bias", "whole", on_operands(lambda x, w, b: (x, w, 0 * b))),
    ("batch_norm_inference", 0, "epsilon 2e-5", "whole", formula(lambda s, x, w, b, m, v: f.batch_norm(x, m, v, w, b, False, 0.0, 2e-5))),
    ("batch_norm_inference", 0, "deviation for variance", "whole", on_operands(lambda x, w, b, m, v: (x, w, b, m, v * v))),
    ("batch_norm_inference", 0, "no mean", "whole", on_operands(lambda x, w, b, m, v: (x, w, b, 0 * m, v))),
    ("layer_norm", 0, "unbiased variance", "whole", formula(lambda s, *t: norm((1,), 1e-5, False, *t))),
    ("layer_norm", 0, "epsilon 1e-6", "whole", formula(lambda s, *t: norm((1,), 1e-6, True, *t))),
    ("layer_norm", 0, "over the other axis", "whole", formula(lambda s, *t: norm((0,), 1e-5, True, *t))),
    ("group_norm", 0, "one group", "whole", formula(lambda s, x, w, b: f.group_norm(x, 1, w, b))),
    ("group_norm", 0, "a channel of the next group", "whole", around(lambda right, x, w, b: right(x.roll(1, 1), w, b).roll(-1, 1))),
    ("relu", 0, "leaks a thousandth", "negative half", formula(lambda s, x: f.leaky_relu(x, 1e-3))),
    ("relu", 0, "leaks a millionth", "negative half", formula(lambda s, x: f.leaky_relu(x, 1e-6))),
    ("relu", 0, "ends at 6 / 8", "largest eighth", formula(lambda s, x: x.clamp(0, 0.75))),
    ("leaky_relu", 0, "slope 0.0101", "negative half", formula(lambda s, x: f.leaky_relu(x, 0.0101))),
    ("sigmoid", 0, "by pieces", "whole", formula(lambda s, x: f.hardsigmoid(x))),
    ("sigmoid", 0, "saturates at 3", "largest tenths", formula(lambda s, x: x.clamp(-3, 3).sigmoid())),
    ("tanh", 0, "saturates at 3", "largest tenths", formula(lambda s, x: x.clamp(-3, 3).tanh())),
    ("tanh", 0, "Pade's form", "whole", formula(lambda s, x: (x * (135135 + x**2 * (17325 + x**2 * (378 + x**2))) / (135135 + x**2 * (62370 + x**2 * (3150 + 28 * x**2)))).clamp(-1, 1))),
    ("gelu", 0, "the approximate form", "whole", formula(lambda s, x: f.gelu(x, approximate="tanh"))),
    ("gelu", 0, "by a sigmoid", "whole", formula(lambda s, x: x * (1.702 * x).sigmoid())),
    ("softmax", 1, "over the other axis", "whole", formula(lambda s, x: x.softmax(0))),
    ("softmax", 1, "the last column left out of the sum", "whole", formula(lambda s, x: x.exp() / x[:, :-1].exp().sum(1, keepdim=True))),
    ("softmax", 0, "of base 2.72", "whole", formula(lambda s, x: (x * 1.000634).softmax(1))),
    ("cross_entropy", 0, "sum for mean", "whole", formula(lambda s, p, y: f.nll_loss(p.log(), y, reduction="sum"))),
    ("cross_entropy", 0, "one row too many", "whole", around(lambda right, *t: right(*t) * 64 / 65)),
    ("cross_entropy", 0, "the last row left out", "last row", formula(lambda s, p, y: f.nll_loss(p[:-1].log(), y[:-1], reduction="sum") / 64)),
    ("softmax_cross_entropy", 0, "no softmax", "whole", formula(lambda s, x, y: f.nll_loss(x, y))),
    ("softmax_cross_entropy", 0, "sum for mean", "whole", formula(lambda s, x, y: f.cross_entropy(x, y, reduction="sum"))),
    ("softmax_cross_entropy", 0, "labels smoothed 0.01", "whole", formula(lambda s, x, y: mean_loss(x, y, smooth=0.01))),
    ("softmax_cross_entropy", 0, "the last row that before", "last row", on_operands(lambda x, y: (torch.cat((x[:-1], x[-2:-1])), y))),
    ("softmax_cross_entropy", 2, "divided by the weights", "whole", formula(lambda s, x, y, w: f.cross_entropy(x, y, w))),
    ("softmax_cross_entropy", 2, "weights of other classes", "whole", formula(lambda s, x, y, w: mean_loss(x, y, w.roll(1)))),
    ("sigmoid_cross_entropy", 0, "targets the other way", "whole", on_operands(lambda x, y: (x, 1 - y))),
    ("sigmoid_cross_entropy", 0, "one too many", "whole", around(lambda right, *t: right(*t) * 10000 / 10001)),
    ("mean_squared_error", 0, "halved", "whole", around(lambda right, *t: right(*t) / 2)),
    ("mean_squared_error", 0, "sum for mean", "whole", around(lambda right, a, b: right(a, b) * a.numel())),
    ("mean_squared_error", 0, "one too many", "whole", around(lambda right, a, b: right(a, b) * 10000 / 10001)),
    ("attention", 0, "not scaled", "whole", formula(lambda s, *t: attention(t[0].shape[-1] ** -0.5, None, *t))),
    ("attention", 1, "one key too many is seen", "whole", formula(lambda s, *t: attention(1.0, 2, *t))),
    ("attention", 1, "all keys are seen", "whole", formula(lambda s, *t: attention(1.0, None, *t))),
    ("attention", 0, "scaled by 1 / 5.7", "whole", formula(lambda s, *t: attention(5.7 / 32**0.5, None, *t))),
    ("embedding", 0, "the next row", "whole", formula(lambda s, t, i: f.embedding((i + 1) % len(t), t))),
    ("embedding", 0, "the last index that before", "last row", on_operands(lambda t, i: (t, torch.cat((i[:-1], i[-2:-1]))))),
    ("lstm_cell", 0, "gates in another order", "whole", formula(lambda s, *t: lstm("iofg", 0.0, *t))),
    ("lstm_cell", 0, "forget gate's bias 1", "whole", formula(lambda s, *t: lstm("ifgo", 1.0, *t))),
    ("lstm_cell", 0, "one bias alone", "whole", on_operands(lambda x, h, c, wx, wh, bx, bh: (x, h, c, wx, wh, bx, 0 * bh))),
    ("dropout", 1, "not scaled", "whole", formula(lambda s, x, m: x * m)),
    ("dropout", 0, "mask of the next element", "whole", formula(shifted_mask)),
    ("add", 0, "the vector twice", "whole", on_operands(lambda a, b: (a, 2 * b))),
    ("add", 0, "not added to the last row", "last row", formula(lambda s, a, b: torch.cat((a[:-1] + b, a[-1:] + 0 * b)))),
    ("sum", 1, "the last one left out", "whole", around(lambda right, *t: right(*t[:-1], 0 * t[-1]))),
    ("reduce_sum", 0, "sums in the dtype", "whole", formula(lambda s, x: serial_rows(x))),
    ("reduce_sum", 0, "the last column left out", "whole", formula(lambda s, x: x[:, :-1].sum(1))),
    ("reduce_sum", 0, "the last eight columns left out", "whole", formula(lambda s, x: x[:, :-8].sum(1))),
    ("reduce_sum", 0, "the first column twice", "whole", formula(lambda s, x: x.sum(1) + x[:, 0])),
    ("reduce_mean", 0, "one too many", "whole", formula(lambda s, x: x.sum(1) / (x.shape[1] + 1))),
    ("reduce_mean", 0, "the last column left out", "whole", formula(lambda s, x: x[:, :-1].sum(1) / x.shape[1])),
    ("reduce_max", 0, "the last column left out", "rows with it there", formula(lambda s, x: x[:, :-1].amax(1))),
    ("reduce_max", 0, "the smallest", "whole", formula(lambda s, x: x.amin(1))),
    ("reshape", 0, "channels last", "whole", on_operands(lambda x: (x.permute(0, 2, 3, 1).reshape(x.shape),))),
    ("squeeze", 0, "rows reversed", "whole", on_operands(lambda x: (x.flip(0),))),
    ("unsqueeze", 0, "two rows swapped", "two rows", on_operands(lambda x: (torch.cat((x[1:2], x[:1], x[2:])),))),
)  # fmt: skip
"""Operator, case, class, place, plant."""

BACKWARD = (
    ("gemm", 5, "none by the bias", "one operand", detached(2)),
    ("conv2d", 1, "none by the bias", "one operand", detached(2)),
    ("conv1d", 1, "none by the weight", "one operand", detached(1)),
    ("softmax", 1, "none through the sum", "whole", formula(lambda s, x: (x - x.amax(1, True)).exp() / (x - x.amax(1, True)).exp().sum(1, keepdim=True).detach())),
    ("batch_norm", 0, "none through the statistics", "whole", formula(lambda s, *t: norm((0, 2, 3), 1e-5, True, *t, keep=False))),
    ("layer_norm", 0, "none through the statistics", "whole", formula(lambda s, *t: norm((1,), 1e-5, True, *t, keep=False))),
    ("layer_norm", 0, "none by the bias", "one operand", detached(2)),
    ("sigmoid", 0, "half", "whole", formula(half(lambda s, x: x.sigmoid()))),
    ("tanh", 0, "half", "whole", formula(half(lambda s, x: x.tanh()))),
    ("leaky_relu", 0, "that of a relu", "negative half", formula(lambda s, x: x.relu() + (f.leaky_relu(x, 0.01) - x.relu()).detach())),
    ("gelu", 0, "that of the approximate form", "whole", formula(lambda s, x: f.gelu(x).detach() + f.gelu(x, approximate="tanh") - f.gelu(x, approximate="tanh").detach())),
    ("softmax_cross_entropy", 0, "half", "whole", formula(half(lambda s, x, y: f.cross_entropy(x, y)))),
    ("sigmoid_cross_entropy", 0, "half", "whole", formula(half(lambda s, x, y: f.binary_cross_entropy_with_logits(x, y)))),
    ("mean_squared_error", 0, "by one alone", "one operand", detached(1)),
    ("attention", 1, "none by the keys", "one operand", detached(1)),
    ("attention", 0, "none through the weights", "two operands", formula(lambda s, q, k, v: f.scaled_dot_product_attention(q.detach(), k.detach(), v) + 0 * q + 0 * k)),
    ("lstm_cell", 0, "none by the cell", "one operand", detached(2)),
    ("lstm_cell", 0, "none by the last bias", "one operand", detached(6)),
    ("add", 0, "none by the vector", "one operand", detached(1)),
    ("sum", 1, "none by the last", "one operand", detached(4)),
    ("max_pool2d", 1, "to the mean", "whole", formula(lambda s, x: f.max_pool2d(x, 3, 2, 1).detach() + f.avg_pool2d(x, 3, 2, 1) - f.avg_pool2d(x, 3, 2, 1).detach())),
    ("embedding", 0, "by the last index left out", "last row", formula(lambda s, t, i: torch.cat((f.embedding(i[:-1], t), f.embedding(i[-1:], t.detach()))))),
    ("dropout", 0, "not masked", "whole", formula(lambda s, x, m: (x * m * 2).detach() + 2 * x - 2 * x.detach())),
    ("reduce_max", 0, "shared by the row", "whole", formula(lambda s, x: x.amax(1).detach() + x.mean(1) - x.mean(1).detach())),
)  # fmt: skip


COARSE = {
    "sums in the dtype": ("bfloat16", "float16"),
    "in float32": ("float64",),
    "in float16": ("float64", "float32", "bfloat16"),
    "in bfloat16": ("float64", "float32", "float16"),
}
"""Where less precision than is due is a fault."""


Row = tuple[str, int, str, str, Plant]
"""Operator, case, class, place, plant."""


def faults(forward: Iterable[Row] = FORWARD, backward: Iterable[Row] = BACKWARD) -> list[Fault]:
    """Those of such rows, of this module unless others are given."""
    return [
        Fault(subject, way, kind, place, "", plant, case, dtypes=COARSE.get(kind, ()))
        for way, rows in (("forward", forward), ("backward", backward))
        for subject, case, kind, place, plant in rows
    ]
