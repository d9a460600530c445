"""Level 0 in torch: what today's models are made of, beside the layers of `operators`."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any, Callable

import torch
from torch.nn import functional

from ...operators.gemm import Einsum
from ...operators.normalization import EPSILON
from ..base import Call

Sizes = Mapping[str, int]


def _grouped_attention(sizes: Sizes, q: Any, k: Any, v: Any, *hiding: Any) -> Call:
    grouped = sizes["g"] != sizes["h"]
    attend = partial(functional.scaled_dot_product_attention, enable_gqa=grouped)
    hides = sizes["lengths"] or sizes["mask"]
    if not hides and not sizes["causal"]:
        return attend, (q, k, v)
    # torch's own causal mask starts with the first key, also where there is a cache
    if not hides and not sizes["window"] and sizes["m"] == sizes["k"]:
        return partial(attend, is_causal=True), (q, k, v)
    limits = torch.arange(1 - sizes["m"], 1, device=q.device)[:, None]
    key = torch.arange(sizes["k"], device=q.device)

    def see(*hiding: Any) -> Any:
        ends = hiding[0][:, None, None] if sizes["lengths"] else sizes["k"]
        limit = ends + limits
        seen = key < (limit if sizes["causal"] else ends)
        if sizes["window"]:
            seen = seen & (key >= limit - sizes["window"])
        if sizes["mask"]:
            seen = seen & hiding[-1]
        return seen[:, None] if seen.ndim == 3 else seen

    if not hides:
        return partial(attend, attn_mask=see()), (q, k, v)
    return lambda q, k, v, *hiding: attend(q, k, v, attn_mask=see(*hiding)), (q, k, v, *hiding)


def _rotary(sizes: Sizes, x: Any, cos: Any, sin: Any) -> Call:
    def halves(x: Any, cos: Any, sin: Any) -> Any:
        a, b = x.chunk(2, -1)
        return torch.cat((a * cos - b * sin, b * cos + a * sin), -1)

    def neighbours(x: Any, cos: Any, sin: Any) -> Any:
        a, b = x[..., 0::2], x[..., 1::2]
        return torch.stack((a * cos - b * sin, b * cos + a * sin), -1).flatten(-2)

    return neighbours if sizes["interleaved"] else halves, (x, cos, sin)


def _rms_norm(sizes: Sizes, x: Any, w: Any) -> Call:
    return functional.rms_norm, (x, (sizes["columns"],), w, EPSILON)


def _swiglu(sizes: Sizes, x: Any, g: Any, u: Any) -> Call:  # noqa: ARG001
    def product(x: Any, g: Any, u: Any) -> Any:
        return functional.silu(functional.linear(x, g)) * functional.linear(x, u)

    return product, (x, g, u)


def _top_k(sizes: Sizes, x: Any) -> Call:
    return (lambda x, k: torch.topk(x, k, 1)[0]), (x, sizes["k"])


def _gather(sizes: Sizes, x: Any, index: Any) -> Call:  # noqa: ARG001
    return torch.gather, (x, 1, index)


def _scatter_add(sizes: Sizes, x: Any, index: Any, source: Any) -> Call:  # noqa: ARG001
    return torch.scatter_add, (x, 1, index, source)


def _einsum(sizes: Sizes, x: Any, w: Any) -> Call:  # noqa: ARG001
    return torch.einsum, (Einsum.equation, x, w)


def _rfft(sizes: Sizes, x: Any) -> Call:  # noqa: ARG001
    return (lambda x: torch.view_as_real(torch.fft.rfft(x))), (x,)


def _int8_matmul(sizes: Sizes, a: Any, b: Any, row: Any, column: Any) -> Call:  # noqa: ARG001
    def product(a: Any, b: Any, row: Any, column: Any) -> Any:
        # int32, of which 16 bits would hold only the small ones
        return _scale(multiply(a, b), row, column)

    multiply = _padded_int_mm if a.device.type == "cuda" else torch._int_mm
    return product, (a, b, row, column)


def _padded_int_mm(a: Any, b: Any) -> Any:
    """Multiply int8 matrices of any size on CUDA.

    `_int_mm` takes m above 16, and k and n in eights; cuBLAS takes a row-major `b` only where m is
    a multiple of 32, and a column-major one everywhere (seen with 13.0 on an H200).
    """
    (m, k), n = a.shape, b.shape[1]
    if m % 32 == 0 and k % 8 == 0 and n % 8 == 0:
        return torch._int_mm(a, b)
    a = functional.pad(a, (0, -k % 8, 0, max(0, 17 - m)))
    b = functional.pad(b.t(), (0, -k % 8, 0, -n % 8)).contiguous()
    return torch._int_mm(a, b.t())[:m, :n]


def _fp8_matmul(sizes: Sizes, a: Any, b: Any, row: Any, column: Any) -> Call:  # noqa: ARG001
    def product(a: Any, b: Any, row: Any, column: Any) -> Any:
        return _scale(multiply(a, b), row, column)

    multiply = _scaled_mm if _has_fp8(a.device, row.dtype) else _widened_mm
    return product, (a, b, row, column)


def _has_fp8(device: torch.device, dtype: torch.dtype) -> bool:
    """Return whether products of float8 run on tensor cores, and are right in a dtype.

    NVIDIA's devices of compute capability 8.9 and later have such tensor cores. They keep some 14
    bits of a sum (DeepSeek-V3 technical report, arXiv 2412.19437, 2024, section 3.3.2): more than
    results in 16 bits have, and too few for the bounds of float32.
    """
    if device.type != "cuda" or torch.version.hip or dtype not in (torch.bfloat16, torch.float16):
        return False
    return bool(torch.cuda.get_device_capability(device) >= (8, 9))


def _scaled_mm(a: Any, b: Any) -> Any:
    """Multiply float8 matrices of any size, given by their bits, on tensor cores.

    `torch._scaled_mm` takes a row-major `a`, a column-major `b`, and k and n in sixteens.
    """
    k, n = b.shape
    a = functional.pad(a, (0, -k % 16)).view(torch.float8_e4m3fn)
    b = functional.pad(b.t(), (0, -k % 16, 0, -n % 16)).contiguous().view(torch.float8_e4m3fn)
    one = torch.ones((), device=a.device)
    return torch._scaled_mm(a, b.t(), one, one, out_dtype=torch.float32)[:, :n]


def _widened_mm(a: Any, b: Any) -> Any:
    left, right = (x.view(torch.float8_e4m3fn).to(torch.float32) for x in (a, b))
    return left @ right


def _scale(whole: Any, row: Any, column: Any) -> Any:
    wide = torch.promote_types(row.dtype, torch.float32)
    return (whole.to(wide) * row[:, None].to(wide) * column.to(wide)).to(row.dtype)


OPERATIONS: dict[str, Callable[..., Call]] = {
    "grouped_attention": _grouped_attention,
    "rotary": _rotary,
    "rms_norm": _rms_norm,
    "swiglu": _swiglu,
    "top_k": _top_k,
    "gather": _gather,
    "scatter_add": _scatter_add,
    "einsum": _einsum,
    "rfft": _rfft,
    "int8_matmul": _int8_matmul,
    "fp8_matmul": _fp8_matmul,
}
