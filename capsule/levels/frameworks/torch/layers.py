"""ONNX nodes with weights or windows, in torch: convolutions, pools, norms, recurrences,
attention and resampling.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import ceil, floor
from typing import Any, Callable

import torch
from onnx import TensorProto
from torch.nn import functional

from ..base import FrameworkError

How = Mapping[str, Any]

TYPES = {
    TensorProto.BOOL: torch.bool,
    TensorProto.UINT8: torch.uint8,
    TensorProto.UINT16: torch.uint16,
    TensorProto.UINT32: torch.uint32,
    TensorProto.UINT64: torch.uint64,
    TensorProto.INT8: torch.int8,
    TensorProto.INT16: torch.int16,
    TensorProto.INT32: torch.int32,
    TensorProto.INT64: torch.int64,
}
"""torch's types that are not real, by ONNX's."""


def _gemm(how: How, a: Any, b: Any, c: Any = None) -> Any:
    a = a.t() if how.get("transA") else a
    b = b.t() if how.get("transB") else b
    alpha, beta = how.get("alpha", 1.0), how.get("beta", 1.0)
    if isinstance(c, torch.Tensor) and a.is_floating_point():
        return torch.addmm(c, a, b, alpha=alpha, beta=beta)
    product = a @ b if alpha == 1.0 else alpha * (a @ b)
    return product if c is None else product + (c if beta == 1.0 else beta * c)


def _edges(how: How, x: Any, window: Sequence[int]) -> list[tuple[int, int]]:
    """Return the padding before and after each spatial axis."""
    rank = len(window)
    strides, dilations = how.get("strides", [1] * rank), how.get("dilations", [1] * rank)
    automatic = how.get("auto_pad", b"NOTSET").decode()
    pads = list(how.get("pads", [0] * 2 * rank))
    if not automatic.startswith("SAME"):
        return [(0, 0)] * rank if automatic == "VALID" else list(zip(pads[:rank], pads[rank:]))
    edges = []
    for length, width, stride, dilation in zip(x.shape[2:], window, strides, dilations):
        need = max((-(-length // stride) - 1) * stride + dilation * (width - 1) + 1 - length, 0)
        few, many = need // 2, need - need // 2
        edges.append((few, many) if automatic == "SAME_UPPER" else (many, few))
    return edges


def _pad_edges(x: Any, edges: Sequence[tuple[int, int]], value: float) -> Any:
    if not any(map(any, edges)):
        return x
    return functional.pad(x, [one for pair in reversed(edges) for one in pair], value=value)


def _conv(how: How, x: Any, w: Any, bias: Any = None) -> Any:
    rank = w.dim() - 2
    function = (functional.conv1d, functional.conv2d, functional.conv3d)[rank - 1]
    edges = _edges(how, x, w.shape[2:])
    padding = [before for before, _ in edges]
    if any(before != after for before, after in edges):
        x, padding = _pad_edges(x, edges, 0.0), [0] * rank
    strides, dilations = how.get("strides", [1] * rank), how.get("dilations", [1] * rank)
    return function(x, w, bias, strides, padding, dilations, how.get("group", 1))


def _conv_transpose(how: How, x: Any, w: Any, bias: Any = None) -> Any:
    rank = w.dim() - 2
    names = ("conv_transpose1d", "conv_transpose2d", "conv_transpose3d")
    if "output_shape" in how or how.get("auto_pad", b"NOTSET") != b"NOTSET":
        found = " and ".join(name for name in ("output_shape", "auto_pad") if name in how)
        raise FrameworkError(f"torch: ConvTranspose has {found}, expected only pads")
    strides, dilations = how.get("strides", [1] * rank), how.get("dilations", [1] * rank)
    pads, added = how.get("pads", [0] * 2 * rank), how.get("output_padding", [0] * rank)
    result = getattr(functional, names[rank - 1])(
        x, w, bias, strides, 0, added, how.get("group", 1), dilations
    )
    for axis in range(rank):
        length = result.shape[axis + 2] - pads[axis] - pads[axis + rank]
        result = result.narrow(axis + 2, pads[axis], length)
    return result


def _max_pool(how: How, x: Any) -> Any:
    window = how["kernel_shape"]
    rank = len(window)
    names = ("max_pool1d", "max_pool2d", "max_pool3d")
    strides, dilations = how.get("strides", [1] * rank), how.get("dilations", [1] * rank)
    edges, upward = _edges(how, x, window), bool(how.get("ceil_mode", 0))
    padding = [before for before, _ in edges]
    if any(before != after or 2 * before > width for (before, after), width in zip(edges, window)):
        x, padding = _pad_edges(x, edges, -torch.inf), [0] * rank
    function = getattr(functional, names[rank - 1])
    return function(x, window, strides, padding, dilations, upward)


def _average_pool(how: How, x: Any) -> Any:
    window = how["kernel_shape"]
    rank = len(window)
    strides, edges = how.get("strides", [1] * rank), _edges(how, x, window)
    upward, counted = bool(how.get("ceil_mode", 0)), bool(how.get("count_include_pad", 0))
    padding = [before for before, _ in edges]
    even = all(before == after and 2 * before <= w for (before, after), w in zip(edges, window))
    dilations = how.get("dilations", [1] * rank)
    if not even or set(dilations) != {1} or (upward and rank == 1):
        raise FrameworkError(
            f"torch: AveragePool with the window {window} has the pads (begin, end) {edges}, the"
            f" dilations {dilations} and ceil_mode {int(upward)}; expected equal pads of at most"
            " half a window, dilations 1, and ceil_mode 0 for one axis"
        )
    if rank == 1:
        return functional.avg_pool1d(x, window, strides, padding, upward, counted)
    function = functional.avg_pool2d if rank == 2 else functional.avg_pool3d
    return function(x, window, strides, padding, upward, counted)


def _space(x: Any) -> tuple[int, ...]:
    return tuple(range(2, x.dim()))


def _batch_norm(how: How, x: Any, w: Any, b: Any, mean: Any, variance: Any) -> Any:
    if how.get("training_mode"):
        raise FrameworkError("torch: BatchNormalization has training_mode 1, expected 0")
    return functional.batch_norm(x, mean, variance, w, b, False, 0.0, how.get("epsilon", 1e-5))


def _instance_norm(how: How, x: Any, w: Any, b: Any) -> Any:
    return functional.instance_norm(x, None, None, w, b, True, 0.0, how.get("epsilon", 1e-5))


def _layer_norm(how: How, x: Any, w: Any, b: Any = None) -> Any:
    shape = x.shape[how.get("axis", -1) % x.dim() :]
    if isinstance(b, torch.Tensor):
        b = b.broadcast_to(shape)
    w = w.broadcast_to(shape)
    # the mean and what is divided by come with it
    return torch.native_layer_norm(x, shape, w, b, how.get("epsilon", 1e-5))


def _rms_norm(how: How, x: Any, w: Any) -> Any:
    shape = x.shape[how.get("axis", -1) % x.dim() :]
    return functional.rms_norm(x, shape, w.broadcast_to(shape), how.get("epsilon", 1e-5))


def _group_norm(how: How, x: Any, w: Any, b: Any) -> Any:
    if how["version"] < 21:
        raise FrameworkError(
            f"torch: GroupNormalization of version {how['version']} is not supported: export the"
            " file with opset 21 or later"
        )
    return functional.group_norm(x, how["num_groups"], w, b, how.get("epsilon", 1e-5))


def _response(how: How, x: Any) -> Any:
    numbers = (how.get(n, v) for n, v in (("alpha", 1e-4), ("beta", 0.75), ("bias", 1.0)))
    return functional.local_response_norm(x, how["size"], *numbers)


def _reorder(x: Any, order: Sequence[int]) -> Any:
    parts = x.chunk(len(order))
    return torch.cat([parts[place] for place in order])


def _recurrent(how: How, inputs: Sequence[Any], order: Sequence[int]) -> tuple[Any, ...]:
    """Torch's flat weights, and the usual rest, of a recurrence that torch has too."""
    x, w, r, bias, lengths = _pick(inputs, range(5))
    more = ("activation_alpha", "activation_beta", "activations", "clip", "input_forget", "layout")
    found = [name for name in more if how.get(name)]
    found += ["lengths"] if lengths is not None else []
    found += ["peepholes"] if any(one is not None for one in inputs[7:]) else []
    if found:
        kind = {1: "RNN", 3: "GRU", 4: "LSTM"}[len(order)]
        raise FrameworkError(
            f"torch: {kind} with {', '.join(found)} is not supported: export the file without"
            f" {', '.join(found)}"
        )
    weights = []
    for way in range(w.shape[0]):
        weights += [_reorder(one[way], order) for one in (w, r)]
        if bias is not None:
            weights += [_reorder(half, order) for half in bias[way].chunk(2)]
    if how.get("direction") == b"reverse":
        x = x.flip(0)
    return x, weights, bias is not None, w.shape[0] == 2


def _pick(inputs: Sequence[Any], places: Sequence[int]) -> list[Any]:
    """Return some of the inputs, None for those that are left out."""
    return [inputs[place] if place < len(inputs) else None for place in places]


def _start(state: Any, x: Any, w: Any, r: Any) -> Any:
    return x.new_zeros(w.shape[0], x.shape[1], r.shape[2]) if state is None else state


def _end_axes(how: How, y: Any, ways: int) -> Any:
    """Return results with ONNX's axes: length, directions, batch, width."""
    y = y.flip(0) if how.get("direction") == b"reverse" else y
    return y.reshape(*y.shape[:2], ways, -1).transpose(1, 2)


def _lstm(how: How, *inputs: Any) -> Any:
    x, weights, biased, both = _recurrent(how, inputs, (0, 2, 3, 1))
    w, r, h, c = _pick(inputs, (1, 2, 5, 6))
    states = [_start(state, x, w, r) for state in (h, c)]
    y, h, c = torch.lstm(x, states, weights, biased, 1, 0.0, False, both, False)
    return _end_axes(how, y, w.shape[0]), h, c


def _gru(how: How, *inputs: Any) -> Any:
    if not how.get("linear_before_reset"):
        raise FrameworkError("torch: GRU has linear_before_reset 0, expected 1")
    x, weights, biased, both = _recurrent(how, inputs, (1, 0, 2))
    w, r, h = _pick(inputs, (1, 2, 5))
    y, h = torch.gru(x, _start(h, x, w, r), weights, biased, 1, 0.0, False, both, False)
    return _end_axes(how, y, w.shape[0]), h


def _rnn(how: How, *inputs: Any) -> Any:
    x, weights, biased, both = _recurrent(how, inputs, (0,))
    w, r, h = _pick(inputs, (1, 2, 5))
    y, h = torch.rnn_tanh(x, _start(h, x, w, r), weights, biased, 1, 0.0, False, both, False)
    return _end_axes(how, y, w.shape[0]), h


def _attention(how: How, q: Any, k: Any, v: Any, mask: Any = None, *more: Any) -> Any:
    usual = {"version", "is_causal", "scale", "kv_num_heads", "q_num_heads"}
    plain = set(how) <= usual
    if any(one is not None for one in more) or not plain or q.dim() != 4:
        given = sum(one is not None for one in (q, k, v, mask, *more))
        raise FrameworkError(
            f"torch: Attention has a query of {q.dim()} axes, {given} inputs and the attributes"
            f" {', '.join(sorted(set(how) - {'version'})) or 'none'}; expected 4 axes, the inputs"
            " q, k, v and mask, and at most is_causal, scale, q_num_heads and kv_num_heads"
        )
    if mask is not None and how.get("is_causal"):
        raise FrameworkError("torch: Attention has a mask and is_causal 1, expected one of the two")
    return functional.scaled_dot_product_attention(
        *(q, k, v, mask),
        is_causal=bool(how.get("is_causal", 0)),
        scale=how.get("scale"),
        enable_gqa=q.shape[1] != k.shape[1],
    )


_MODES = {b"nearest": "nearest", b"linear": "linear", b"cubic": "bicubic"}


def _refuse_resize(how: How, x: Any, sizes: Any) -> FrameworkError:
    """Return the error of a Resize that torch does not compute as ONNX does."""
    given = {"mode": b"nearest", "coordinate_transformation_mode": b"half_pixel", **how}
    attributes = ", ".join(
        f"{name} {value.decode() if isinstance(value, bytes) else value}"
        for name, value in given.items()
        if name != "version"
    )
    return FrameworkError(
        f"torch: Resize from {tuple(x.shape)} to {tuple(sizes)} with {attributes} is not supported"
    )


def _resize(how: How, x: Any, roi: Any = None, scales: Any = None, sizes: Any = None) -> Any:  # noqa: ARG001
    rank = x.dim() - 2
    if not sizes:
        sizes = [floor(n * s + 1e-9) for n, s in zip(x.shape, scales)]
        factors = list(scales)[2:]
    else:
        factors = [to / of for to, of in zip(sizes[2:], x.shape[2:])]
    placed = how.get("coordinate_transformation_mode", b"half_pixel").decode()
    mode = _MODES.get(how.get("mode", b"nearest"))
    nearest = mode == "nearest"
    exact = list(sizes[:2]) == list(x.shape[:2]) and rank in (1, 2, 3) and "axes" not in how
    same = how.get("nearest_mode", b"round_prefer_floor") == b"floor" and placed == "asymmetric"
    whole = all(floor(f) == ceil(f) for f in factors)
    # of whole factors half pixels rounded are the floor of asymmetric ones
    rounded = how.get("nearest_mode", b"round_prefer_floor").startswith(b"round")
    same = same or (whole and rounded and placed in ("half_pixel", "pytorch_half_pixel"))
    cubic = mode == "bicubic" and (rank != 2 or how.get("cubic_coeff_a", -0.75) != -0.75)
    aligned = placed == "align_corners"
    # they differ where one point is left, and torch's own is the other one
    halves = placed == "half_pixel" or (placed == "pytorch_half_pixel" and min(sizes[2:]) > 1)
    usual = how.get("antialias", 0) == 0 and not how.get("exclude_outside", 0)
    if (
        mode is None
        or not exact
        or not usual
        or cubic
        or not (same if nearest else aligned or halves)
    ):
        raise _refuse_resize(how, x, sizes)
    if nearest:
        return functional.interpolate(x, list(sizes[2:]), mode="nearest")
    ways = {"linear": ("linear", "bilinear", "trilinear")[rank - 1], "bicubic": "bicubic"}
    if aligned and scales and any(f * n % 1 for f, n in zip(factors, x.shape[2:])):
        raise _refuse_resize(how, x, sizes)
    by, to = (factors, None) if scales else (None, list(sizes[2:]))
    return functional.interpolate(x, to, by, mode=ways[mode], align_corners=aligned)


def _grid_sample(how: How, x: Any, grid: Any) -> Any:
    modes = {"linear": "bilinear", "cubic": "bicubic"}
    mode = how.get("mode", b"linear").decode()
    return functional.grid_sample(
        *(x, grid, modes.get(mode, mode), how.get("padding_mode", b"zeros").decode()),
        align_corners=bool(how.get("align_corners", 0)),
    )


KINDS: dict[str, Callable[..., Any]] = {
    "Attention": _attention,
    "AveragePool": _average_pool,
    "BatchNormalization": _batch_norm,
    "Conv": _conv,
    "ConvTranspose": _conv_transpose,
    "GRU": _gru,
    "Gemm": _gemm,
    "GlobalAveragePool": lambda how, x: x.mean(_space(x), keepdim=True),  # noqa: ARG005
    "GlobalMaxPool": lambda how, x: x.amax(_space(x), keepdim=True),  # noqa: ARG005
    "GridSample": _grid_sample,
    "GroupNormalization": _group_norm,
    "InstanceNormalization": _instance_norm,
    "LRN": _response,
    "LSTM": _lstm,
    "LayerNormalization": _layer_norm,
    "MaxPool": _max_pool,
    "RMSNormalization": _rms_norm,
    "RNN": _rnn,
    "Resize": _resize,
}
