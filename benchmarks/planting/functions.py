# ruff: noqa: E501, ARG001, ARG005  (one algorithm, one line; sizes that it needs not)
"""Further right algorithms: of what normalizes, of softmax and attention, and of single elements.

Algorithms of sums and products are in `algorithms`; `ROWS` has all of them. Not among them, for they
are not right: softmax without a shift, which overflows, and what gives relu or leaky relu another
gradient at exactly 0 than the one of least norm, which frameworks give (PyTorch, "Autograd
mechanics", gradients for non-differentiable functions): half of x + |x|, two relus, the larger one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from math import e as euler
from math import log2
from typing import Any

import torch
from torch.nn import functional as f

from . import algorithms as by
from .algorithms import Sizes, widened
from .faults import Fault, Plant
from .formulas import Formula, low, serial_product

EPSILON = 1e-5


def two_passes(rows: Any) -> tuple[Any, Any]:
    """Mean and variance of each row, as the formulas stand."""
    mean = rows.mean(1, keepdim=True)
    return mean, (rows - mean).square().mean(1, keepdim=True)


def merged(rows: Any) -> tuple[Any, Any]:
    """The same of parts that are merged (Chan, Golub and LeVeque, Am. Stat. 37, 1983)."""
    count, mean, squares = 0, 0.0, 0.0
    for part in rows.chunk(7, 1):
        more = part.shape[1]
        of_part = part.mean(1, keepdim=True)
        apart, total = of_part - mean, count + more
        squares = squares + (part - of_part).square().sum(1, keepdim=True)
        squares = squares + apart.square() * (count * more / total)
        mean, count = mean + apart * (more / total), total
    return mean, squares / count


def shifted(rows: Any) -> tuple[Any, Any]:
    """The same in one pass over what is left of the first element."""
    first = rows[:, :1].detach()
    level = (rows - first).mean(1, keepdim=True)
    variance = (rows - first).square().mean(1, keepdim=True) - level.square()
    return first + level, variance


def normalized(kind: str, statistics: Callable[[Any], tuple[Any, Any]], *, folded: bool) -> Formula:
    """A normalization by way of rows; folded where the mean is taken off after the scale."""

    def run(s: Sizes, x: Any, w: Any, b: Any, *kept: Any) -> Any:
        if kept:
            return inferred(s, x, w, b, *kept)
        if kind == "batch_norm":
            rows = x.transpose(0, 1).flatten(1)
        else:
            rows = x.reshape(x.shape[0] * s.get("groups", 1), -1)
        mean, variance = statistics(rows)
        scale = (variance + EPSILON).rsqrt()
        normal = rows * scale - mean * scale if folded else (rows - mean) * scale
        if kind == "batch_norm":
            normal = normal.reshape(x.transpose(0, 1).shape).transpose(0, 1)
        shape = (-1, *[1] * (x.ndim - 2)) if x.ndim > 2 else (-1,)
        return normal.reshape(x.shape) * w.reshape(shape) + b.reshape(shape)

    return run


def inferred(s: Sizes, x: Any, w: Any, b: Any, mean: Any, variance: Any) -> Any:
    """With given statistics: one scale and one shift for each channel."""
    scale = w / torch.sqrt(variance + EPSILON)
    shift = b - mean * scale
    shape = (-1, *[1] * (x.ndim - 2))
    return x * scale.reshape(shape) + shift.reshape(shape)


def _online(x: Any) -> tuple[Any, Any]:
    """The maximum and the sum of exponentials of each row, found block by block."""
    most, total = torch.tensor(-torch.inf, dtype=x.dtype), torch.zeros((), dtype=x.dtype)
    for part in x.chunk(6, 1):
        level = torch.maximum(most, part.detach().amax(1, keepdim=True))
        total = total * torch.exp(most - level) + torch.exp(part - level).sum(1, keepdim=True)
        most = level
    return most, total


def online_softmax(s: Sizes, x: Any) -> Any:
    """Milakov and Gimelshein, arXiv:1805.02867."""
    most, total = _online(x)
    return torch.exp(x - most) / total


def base_two(s: Sizes, x: Any) -> Any:
    """By powers of 2, times a reciprocal."""
    powers = torch.exp2((x - x.detach().amax(1, keepdim=True)) * log2(euler))
    return powers * (1 / powers.sum(1, keepdim=True))


def online_loss(s: Sizes, x: Any, labels: Any, *weights: Any) -> Any:
    """Of the logarithm of an online sum."""
    most, total = _online(x)
    lost = total.log()[:, 0] - (x - most).gather(1, labels[:, None])[:, 0]
    return (lost * weights[0][labels]).mean() if weights else lost.mean()


def one_hot_loss(s: Sizes, x: Any, labels: Any, *weights: Any) -> Any:
    """Of log_softmax and a matrix of ones and zeros, row by row."""
    marked = f.one_hot(labels, x.shape[1]).to(x.dtype)
    lost = -(f.log_softmax(x, 1) * marked).sum(1)
    scaled = lost * weights[0][labels] if weights else lost
    return by.serial(scaled[None, :])[0] / len(labels)


def blocks_of_keys(s: Sizes, q: Any, k: Any, v: Any) -> Any:
    """Attention block by block of keys, queries scaled first (Dao and others, arXiv:2205.14135)."""
    q = q / q.shape[-1] ** 0.5
    places = torch.arange(q.shape[-2])
    most = torch.full((*q.shape[:-1], 1), -torch.inf, dtype=q.dtype)
    total, result = torch.zeros_like(most), torch.zeros_like(v)
    for block in places.chunk(5):
        scores = q @ k[..., block, :].mT
        if s["causal"]:
            scores = scores.masked_fill(block[None, :] > places[:, None], -torch.inf)
        level = torch.maximum(most, scores.detach().amax(-1, keepdim=True))
        weights, kept = torch.exp(scores - level), torch.exp(most - level)
        total = total * kept + weights.sum(-1, keepdim=True)
        result = result * kept + weights @ v[..., block, :]
        most = level
    return result / total


def plain_attention(s: Sizes, q: Any, k: Any, v: Any) -> Any:
    """All scores at once."""
    scores = q @ k.mT / q.shape[-1] ** 0.5
    if s["causal"]:
        hidden = torch.ones(scores.shape[-2:], dtype=torch.bool).triu(1)
        scores = scores.masked_fill(hidden, -torch.inf)
    return scores.softmax(-1) @ v


def joined_lstm(s: Sizes, *tensors: Any) -> Any:
    """One product of both inputs by both weights, biases added first."""
    x, h, c, wx, wh, bx, bh = tensors
    gates = torch.cat((x, h), 1) @ torch.cat((wx, wh), 1).t() + (bx + bh)
    i, forget, g, out = gates.chunk(4, 1)
    cell = forget.sigmoid() * c + i.sigmoid() * g.tanh()
    return out.sigmoid() * cell.tanh(), cell


def gelu(s: Sizes, x: Any) -> Any:
    """By erf, or its other form by a sigmoid."""
    if s["approximate"]:
        return x * torch.sigmoid(2 * (2 / torch.pi) ** 0.5 * (x + 0.044715 * x**3))
    return x * (torch.erf(x * 0.5**0.5) + 1) / 2


ALL = tuple(range(9))
"""Cases, but no nodes of networks, where an element may lie on the kink."""

ROWS: tuple[tuple[str, str, Formula, tuple[int, ...] | None], ...] = (
    *(
        (subject, name, function, cases)
        for subject, small in (("gemm", (0, 3, 4, 5)), ("matmul", (0, 1)))
        for name, function, cases in (
            ("Strassen", by.gemm(partial(by.strassen, 1)), None),
            ("Strassen, three levels", by.gemm(partial(by.strassen, 3)), None),
            ("split-k", by.gemm(partial(by.split, 7)), None),
            ("from the end", by.gemm(by.backwards), None),
            ("sums of products", by.gemm(lambda a, b: (a[..., None] * b[..., None, :, :]).sum(-2)), small),
        )
    ),
    ("gemm", "naive sums", serial_product, (0, 3, 4, 5)),
    *(
        (f"conv{rank}d", name, function, None)
        for rank in (1, 2, 3)
        for name, function in (("place by place", by.by_places), ("im2col", by.by_columns), ("Fourier", by.by_fourier))
    ),
    ("conv2d", "Winograd F(2 x 2, 3 x 3)", partial(by.winograd, 2), (0,)),
    ("conv2d", "Winograd F(4 x 4, 3 x 3)", partial(by.winograd, 4), (0,)),
    *(
        (f"conv_transpose{rank}d", name, by.transposed(function), None)
        for rank in (1, 2, 3)
        for name, function in (("place by place", by.by_places), ("im2col", by.by_columns), ("Fourier", by.by_fourier))
    ),
    ("max_pool2d", "by windows", by.max_by_windows, None),
    ("max_pool3d", "by windows", by.max_by_windows, None),
    ("average_pool2d", "by windows", by.mean_by_windows, None),
    ("global_average_pool", "naive sums", lambda s, x: (by.serial(x.reshape(-1, s["h"] * s["w"])) / (s["h"] * s["w"])).reshape(*x.shape[:2], 1, 1), None),
    ("global_average_pool", "means of rows", lambda s, x: x.mean(3, keepdim=True).mean(2, keepdim=True), None),
    *(
        (subject, name, normalized(subject, statistics, folded=folded), None)
        for subject in ("batch_norm", "layer_norm", "group_norm")
        for name, statistics, folded in (
            ("two passes", two_passes, False),
            ("merged parts", merged, False),
            ("one shifted pass", shifted, False),
            ("scale and shift", two_passes, True),
        )
    ),
    ("batch_norm_inference", "scale and shift", inferred, None),
    ("relu", "by a choice", lambda s, x: torch.where(x > 0, x, 0), None),
    ("relu", "by a mask", lambda s, x: x * (x > 0), None),
    ("leaky_relu", "by a choice", lambda s, x: torch.where(x > 0, x, x * (s["percent"] / 100)), None),
    ("leaky_relu", "by a slope", lambda s, x: x * torch.where(x > 0, 1, x.new_tensor(s["percent"] / 100)), None),
    ("sigmoid", "by an exponential", lambda s, x: 1 / (1 + torch.exp(-x)), None),
    ("sigmoid", "by a tanh", lambda s, x: torch.tanh(x / 2) / 2 + 0.5, None),
    ("tanh", "by expm1", lambda s, x: torch.expm1(2 * x) / (torch.expm1(2 * x) + 2), None),
    ("gelu", "by erf", gelu, None),
    ("softmax", "online", online_softmax, None),
    ("softmax", "powers of 2", base_two, None),
    ("cross_entropy", "naive sums", lambda s, p, y: -by.serial(p.gather(1, y[:, None]).log().t())[0] / len(y), None),
    ("softmax_cross_entropy", "online", online_loss, None),
    ("softmax_cross_entropy", "by ones and zeros", one_hot_loss, None),
    ("sigmoid_cross_entropy", "from below", lambda s, x, y: (x.relu() - x * y + torch.log1p(torch.exp(-x.abs()))).mean(), None),
    ("sigmoid_cross_entropy", "softplus, naive sums", lambda s, x, y: by.serial((f.softplus(x) - x * y)[None, :])[0] / len(x), ALL),
    ("mean_squared_error", "naive sums", lambda s, a, b: by.serial((a - b).square().reshape(1, -1))[0] / a.numel(), None),
    ("mean_squared_error", "a product", lambda s, a, b: torch.dot((a - b).flatten(), (a - b).flatten()) / a.numel(), None),
    ("attention", "block by block", blocks_of_keys, None),
    ("attention", "all scores", plain_attention, None),
    ("embedding", "by ones and zeros", lambda s, t, i: f.one_hot(i, len(t)).to(t.dtype) @ t, None),
    ("lstm_cell", "one product", joined_lstm, None),
    ("dropout", "scaled mask", lambda s, x, m: x * (m / (1 - s["percent"] / 100)), None),
    ("add", "the vector first", lambda s, a, b: b.expand_as(a) + a, None),
    ("sum", "from the end", lambda s, *t: sum(reversed(t[:-1]), t[-1]), None),
    ("sum", "of a stack", lambda s, *t: torch.stack(t).sum(0), None),
    *(
        (subject, name, lambda s, x, add_up=add_up, mean=mean: add_up(x) / (x.shape[1] if mean else 1), None)
        for subject, mean in (("reduce_sum", False), ("reduce_mean", True))
        for name, add_up in (("naive sums", by.serial), ("pairwise", by.pairwise), ("a product", by.by_ones), ("from the end", lambda x: by.serial(x.flip(1))))
    ),
    ("reduce_max", "by sorting", lambda s, x: x.sort(1).values[:, -1], None),
    ("reshape", "a copy", lambda s, x: x.contiguous().view(s["n"], -1), None),
)  # fmt: skip
"""Operator, name, algorithm, and cases: None for all of them, and for nodes of networks."""


def of_operator(subject: str, case: int) -> Iterable[Fault]:
    """The algorithms for one case of an operator; planted as faults are, though none is one."""
    for name, plant, cases, dtypes in _rows(subject):
        if cases is None or case in cases:
            yield Fault(subject, "", name, "", "", plant, case, dtypes=dtypes)


def of_network(subject: str, kinds: Iterable[str]) -> Iterable[Fault]:
    """The algorithms for a network, each in every node of its kind."""
    for kind in kinds:
        for name, plant, cases, dtypes in _rows(kind):
            if cases is None or "Winograd" in name:
                node = f"every {kind}"
                yield Fault(subject, "", name, "", "", plant, node=node, dtypes=dtypes)


def _rows(subject: str) -> Iterable[tuple[str, Plant, tuple[int, ...] | None, tuple[str, ...]]]:
    for name_of, name, function, cases in ROWS:
        if name_of == subject:
            yield name, widened(function), cases, ()
    if subject == "gemm":
        cut = by.gemm(by.Truncated.apply)
        yield "cut to float32", widened(cut), None, ("bfloat16", "float16")
    yield "in float64", low(torch.float64), None, ("float32", "bfloat16", "float16")
