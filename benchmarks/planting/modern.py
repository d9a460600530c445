# ruff: noqa: E501, ARG005  (one fault, one line; sizes that a formula needs not)
"""Other formulas than those of the operators of today's models; see `formulas`."""

from __future__ import annotations

from typing import Any

import torch
from torch.nn import functional as f

from . import formulas
from .faults import Fault
from .formulas import around, detached, formula, on_operands

EPSILON = 1e-5


def grouped(
    s: Any,
    q: Any,
    k: Any,
    v: Any,
    *hiding: Any,
    turns: bool = False,
    late: int = 0,
    wide: int = 0,
    without: str = "",
    root: float = 1.0,
) -> Any:
    """Causal attention of groups: right, unless something is asked for.

    Args:
        s: Sizes.
        q: Queries.
        k: Keys.
        v: Values.
        hiding: Lengths and mask, as far as there are such.
        turns: Heads take groups in turns.
        late: Keys that are seen after a query's position.
        wide: Keys that are seen before its window.
        without: `lengths`, `mask` or `cache` is left out.
        root: A factor of the scores.
    """
    heads = s["h"] // s["g"]
    k, v = (x.repeat(1, heads, 1, 1) if turns else x.repeat_interleave(heads, 1) for x in (k, v))
    whole = not s["lengths"] or without == "lengths"
    ends = torch.tensor(s["k"]) if whole else hiding[0][:, None, None]
    ends = torch.tensor(s["m"]) if without == "cache" else ends
    limit = ends + torch.arange(1 - s["m"], 1)[:, None] + late
    key = torch.arange(s["k"])
    seen = key < limit
    if s["window"]:
        seen = seen & (key >= limit - s["window"] - wide)
    if s["mask"] and without != "mask":
        seen = seen & hiding[-1]
    scores = q @ k.transpose(-1, -2) * (root / s["w"] ** 0.5)
    hidden = ~(seen[:, None] if seen.ndim == 3 else seen)
    return scores.masked_fill(hidden, torch.finfo(q.dtype).min).softmax(-1) @ v


def last_head_alone(s: Any, q: Any, k: Any, v: Any) -> Any:
    """Keys and values hear of the last head of their group alone."""
    heads = s["h"] // s["g"]
    k, v = (torch.stack([*[x.detach()] * (heads - 1), x], 2).flatten(1, 2) for x in (k, v))
    return f.scaled_dot_product_attention(q, k, v, is_causal=True)


def neighbours(x: Any, cos: Any, sin: Any) -> Any:
    a, b = x[..., 0::2], x[..., 1::2]
    return torch.stack((a * cos - b * sin, b * cos + a * sin), -1).flatten(-2)


def rms(x: Any, w: Any, axis: int = 1, epsilon: float = EPSILON, keep: bool = True) -> Any:
    wide = x if x.dtype == torch.float64 else x.float()
    scale = torch.rsqrt(wide.square().mean(axis, keepdim=True) + epsilon)
    return (wide * (scale if keep else scale.detach()) * w).to(x.dtype)


def gated(gate: Any, x: Any, g: Any, u: Any) -> Any:
    return gate(x @ g.t()) * (x @ u.t())


def eight(read: Any) -> Any:
    """A scaled product of numbers that `read` makes of the bits."""
    return formula(lambda s, a, b, row, column: scale(read(a) @ read(b), row, column))


def scale(product: Any, row: Any, column: Any) -> Any:
    wide = torch.promote_types(row.dtype, torch.float32)
    return (product.to(wide) * row[:, None].to(wide) * column.to(wide)).to(row.dtype)


def flushed(codes: Any) -> Any:
    """Numbers below the normal ones are 0."""
    return codes.view(torch.float8_e4m3fn).float() * (codes & 127 > 7)


def only(right: Any, instead: Any) -> Any:
    """The right value with the gradient of another one."""
    return right.detach() + instead - instead.detach()


FORWARD = (
    ("grouped_attention", 0, "heads take groups in turns", "whole", formula(lambda s, *t: grouped(s, *t, turns=True))),
    ("grouped_attention", 0, "one key too many is seen", "whole", formula(lambda s, *t: grouped(s, *t, late=1))),
    ("grouped_attention", 0, "scaled by 1 / 5.7", "whole", formula(lambda s, *t: grouped(s, *t, root=32**0.5 / 5.7))),
    ("grouped_attention", 1, "the window one too wide", "whole", formula(lambda s, *t: grouped(s, *t, wide=1))),
    ("grouped_attention", 1, "no mask", "whole", formula(lambda s, *t: grouped(s, *t, without="mask"))),
    ("grouped_attention", 1, "all sequences whole", "shorter ones", formula(lambda s, *t: grouped(s, *t, without="lengths"))),
    ("grouped_attention", 1, "positions from the cache's begin", "whole", formula(lambda s, *t: grouped(s, *t, without="cache"))),
    ("rotary", 0, "turned the other way", "whole", on_operands(lambda x, cos, sin: (x, cos, -sin))),
    ("rotary", 0, "neighbours for halves", "whole", formula(lambda s, *t: neighbours(*t))),
    ("rotary", 0, "of the next position", "whole", on_operands(lambda x, cos, sin: (x, cos.roll(-1, 0), sin.roll(-1, 0)))),
    ("rotary", 1, "the last position that before", "last row", on_operands(lambda x, cos, sin: (x, *(torch.cat((t[:-1], t[-2:-1])) for t in (cos, sin))))),
    ("rms_norm", 0, "the mean taken away", "whole", formula(lambda s, x, w: f.layer_norm(x, (s["columns"],), w, None, EPSILON))),
    ("rms_norm", 0, "epsilon 1e-6", "whole", formula(lambda s, x, w: rms(x, w, epsilon=1e-6))),
    ("rms_norm", 0, "over the other axis", "whole", formula(lambda s, x, w: rms(x, w, axis=0))),
    ("rms_norm", 0, "1 + weight", "whole", on_operands(lambda x, w: (x, 1 + w))),
    ("swiglu", 0, "gate and values swapped", "whole", on_operands(lambda x, g, u: (x, u, g))),
    ("swiglu", 0, "gelu for silu", "whole", formula(lambda s, *t: gated(f.gelu, *t))),
    ("swiglu", 0, "sigmoid for silu", "whole", formula(lambda s, *t: gated(torch.sigmoid, *t))),
    ("swiglu", 0, "hard silu", "whole", formula(lambda s, *t: gated(f.hardswish, *t))),
    ("top_k", 0, "the smallest", "whole", formula(lambda s, x: x.topk(s["k"], 1, largest=False)[0])),
    ("top_k", 0, "the smallest first", "whole", around(lambda right, x: right(x).flip(1))),
    ("top_k", 0, "without the largest", "whole", formula(lambda s, x: x.topk(s["k"] + 1, 1)[0][:, 1:])),
    ("gather", 0, "the next column", "whole", on_operands(lambda x, i: (x, (i + 1) % x.shape[1]))),
    ("gather", 0, "the last index that before", "last column", on_operands(lambda x, i: (x, torch.cat((i[:, :-1], i[:, -3:-2]), 1)))),
    ("scatter_add", 0, "one of equal indices alone", "duplicates", formula(lambda s, x, i, y: torch.zeros_like(x).scatter(1, i, y) + x)),
    ("scatter_add", 0, "added to nothing", "whole", on_operands(lambda x, i, y: (0 * x, i, y))),
    ("scatter_add", 0, "the last one left out", "last column", on_operands(lambda x, i, y: (x, i[:, :-1], y[:, :-1]))),
    ("einsum", 0, "heads and rows mixed up", "whole", formula(lambda s, x, w: torch.einsum("bri,ihc->brhc", x, w).reshape(s["batch"], s["heads"], s["rows"], -1))),
    ("einsum", 0, "the last term of each sum left out", "whole", on_operands(lambda x, w: (x[..., :-1], w[:-1]))),
    ("rfft", 0, "scaled by 1 / sqrt n", "whole", formula(lambda s, x: torch.view_as_real(torch.fft.rfft(x, norm="ortho")))),
    ("rfft", 0, "turned the other way", "imaginary parts", formula(lambda s, x: torch.view_as_real(torch.fft.rfft(x).conj().resolve_conj()))),
    ("rfft", 0, "the last sample left out", "whole", on_operands(lambda x: (torch.cat((x[:, :-1], 0 * x[:, -1:]), 1),))),
    ("rfft", 1, "filled up to 256 samples", "whole", formula(lambda s, x: torch.view_as_real(torch.fft.rfft(x, 256))[:, : s["n"] // 2 + 1])),
    ("int8_matmul", 0, "sums in 16 bits", "large sums", eight(lambda a: a.to(torch.int16))),
    ("int8_matmul", 0, "without a sign", "negative ones", eight(lambda a: a.view(torch.uint8).int())),
    ("int8_matmul", 0, "one scale for all rows", "whole", on_operands(lambda a, b, row, column: (a, b, row.mean().expand(row.shape), column))),
    ("int8_matmul", 0, "the last scale that before", "last column", on_operands(lambda a, b, row, column: (a, b, row, torch.cat((column[:-1], column[-2:-1]))))),
    ("fp8_matmul", 0, "e5m2 for e4m3fn", "whole", eight(lambda a: a.view(torch.float8_e5m2).float())),
    ("fp8_matmul", 0, "subnormal numbers as 0", "few terms", eight(flushed)),
    ("fp8_matmul", 0, "sums in bfloat16", "whole", eight(lambda a: a.view(torch.float8_e4m3fn).bfloat16())),
)  # fmt: skip
"""Operator, case, class, place, plant."""

BACKWARD = (
    ("grouped_attention", 0, "by the last head of a group alone", "two operands", formula(last_head_alone)),
    ("grouped_attention", 1, "none by the keys", "one operand", detached(1)),
    ("rotary", 0, "not turned back", "whole", around(lambda right, x, *t: only(right(x, *t), x))),
    ("rms_norm", 0, "none through the mean", "one operand", formula(lambda s, x, w: rms(x, w, keep=False))),
    ("rms_norm", 0, "none by the weight", "one operand", detached(1)),
    ("swiglu", 0, "none through the gate's sigmoid", "two operands", formula(lambda s, *t: gated(lambda z: z * z.sigmoid().detach(), *t))),
    ("swiglu", 0, "none by the values' weight", "one operand", detached(2)),
    ("top_k", 0, "shared by the row", "whole", around(lambda right, x: only(right(x), x.mean(1, keepdim=True).expand(right(x).shape)))),
    ("gather", 0, "by the last index left out", "last column", formula(lambda s, x, i: torch.cat((x.gather(1, i[:, :-1]), x.detach().gather(1, i[:, -1:])), 1))),
    ("scatter_add", 0, "none by what was there", "one operand", detached(0)),
    ("scatter_add", 0, "none by the source", "one operand", detached(2)),
    ("einsum", 0, "none by the weight", "one operand", detached(1)),
    ("rfft", 0, "turned the other way", "whole", around(lambda right, x: only(right(x), right(x) * torch.tensor([1, -1])))),
    ("int8_matmul", 0, "none by the rows' scales", "one operand", detached(2)),
    ("fp8_matmul", 0, "none by the columns' scales", "one operand", detached(3)),
)  # fmt: skip


def faults() -> list[Fault]:
    """All of them."""
    return formulas.faults(FORWARD, BACKWARD)
