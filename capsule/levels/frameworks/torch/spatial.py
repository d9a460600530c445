"""ONNX nodes that move elements about, in torch: what `nodes` has of slices, gathers and shapes."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from typing import Any, Callable

import torch
from torch.nn import functional

from ..base import FrameworkError

How = Mapping[str, Any]


def whole(value: Any) -> list[int]:
    """Whole numbers that a constant or a tensor holds."""
    numbers = value.tolist() if isinstance(value, torch.Tensor) else value
    return list(numbers) if isinstance(numbers, (list, tuple)) else [numbers]


def _concat(how: How, *tensors: Any) -> Any:
    return torch.cat(tensors, how["axis"])


def _expand(how: How, x: Any, shape: Any) -> Any:  # noqa: ARG001
    return x.broadcast_to(torch.broadcast_shapes(x.shape, tuple(whole(shape))))


def _flatten(how: How, x: Any) -> Any:
    axis = how.get("axis", 1)
    axis += x.dim() if axis < 0 else 0
    return x.reshape(prod(x.shape[:axis]), -1)


def _reshape(how: How, x: Any, shape: Any) -> Any:
    lengths = whole(shape)
    if not how.get("allowzero"):
        lengths = [x.shape[axis] if n == 0 else n for axis, n in enumerate(lengths)]
    return x.reshape(lengths)


def _squeeze(how: How, x: Any, axes: Any = None) -> Any:
    axes = how.get("axes", axes)
    return x.squeeze() if axes is None else x.squeeze(whole(axes))


def _unsqueeze(how: How, x: Any, axes: Any = None) -> Any:
    places = whole(how.get("axes", axes))
    for axis in sorted(axis % (x.dim() + len(places)) for axis in places):
        x = x.unsqueeze(axis)
    return x


def _transpose(how: How, x: Any) -> Any:
    return x.permute(how.get("perm", list(range(x.dim()))[::-1]))


def _slice(how: How, x: Any, starts: Any = None, ends: Any = None, *rest: Any) -> Any:
    axes, steps = (*rest, None, None)[:2]
    starts, ends = (whole(how.get(n, v)) for n, v in (("starts", starts), ("ends", ends)))
    axes = how.get("axes", axes)
    along = range(len(starts)) if axes is None else whole(axes)
    by = [1] * len(starts) if steps is None else whole(steps)
    for axis, start, end, step in zip(along, starts, ends, by):
        places = range(x.shape[axis])[slice(start, _end(start, end, step, x.shape[axis]), step)]
        if step > 0:
            first, last = (places[0], places[-1] + 1) if places else (0, 0)
            x = x[(slice(None),) * (axis % x.dim()) + (slice(first, last, step),)]
        else:
            x = x.index_select(axis, torch.tensor(list(places), device=x.device, dtype=torch.int64))
    return x


def _end(start: int, end: int, step: int, length: int) -> int | None:  # noqa: ARG001
    """Return the end of Python's slice; ONNX's backward slices can end before the first element."""
    return None if step < 0 and end < -length else end


def _split(how: How, x: Any, lengths: Any = None) -> Any:
    axis = how.get("axis", 0)
    lengths = how.get("split", lengths)
    if lengths is not None:
        return torch.split(x, whole(lengths), axis)
    if "num_outputs" not in how:
        raise FrameworkError("torch: Split has neither lengths nor num_outputs, expected either")
    return torch.split(x, -(-x.shape[axis] // how["num_outputs"]), axis)


def _wrap(index: Any, length: int) -> Any:
    return torch.where(index < 0, index + length, index).to(torch.int64)


def _gather(how: How, x: Any, index: Any) -> Any:
    axis = how.get("axis", 0) % x.dim()
    if isinstance(index, int):
        return x.select(axis, index)
    places = _wrap(index, x.shape[axis])
    shape = (*x.shape[:axis], *index.shape, *x.shape[axis + 1 :])
    return x.index_select(axis, places.reshape(-1)).reshape(shape)


def _gather_elements(how: How, x: Any, index: Any) -> Any:
    axis = how.get("axis", 0)
    return torch.gather(x, axis, _wrap(index, x.shape[axis]))


def _gather_nd(how: How, x: Any, index: Any) -> Any:
    if how.get("batch_dims", 0):
        raise FrameworkError(f"torch: GatherND has batch_dims {how['batch_dims']}, expected 0")
    places = [_wrap(part, x.shape[axis]) for axis, part in enumerate(index.unbind(-1))]
    return x[tuple(places)]


def _scatter(how: How, x: Any, index: Any, updates: Any) -> Any:
    axis = how.get("axis", 0)
    places = _wrap(index, x.shape[axis])
    reduction = how.get("reduction", b"none").decode()
    if reduction == "none":
        return x.scatter(axis, places, updates)
    names = {"add": "sum", "mul": "prod", "max": "amax", "min": "amin"}
    return x.scatter_reduce(axis, places, updates, names[reduction])


def _scatter_nd(how: How, x: Any, index: Any, updates: Any) -> Any:
    reduction = how.get("reduction", b"none").decode()
    if reduction not in ("none", "add"):
        raise FrameworkError(
            f"torch: ScatterND has the reduction {reduction}, expected none or add"
        )
    places = tuple(_wrap(part, x.shape[axis]) for axis, part in enumerate(index.unbind(-1)))
    return x.index_put(places, updates, accumulate=reduction == "add")


def _pad(how: How, x: Any, pads: Any = None, value: Any = None, axes: Any = None) -> Any:
    lengths = whole(how.get("pads", pads))
    along = range(x.dim()) if axes is None else [axis % x.dim() for axis in whole(axes)]
    ends = [(0, 0)] * x.dim()
    for place, axis in enumerate(along):
        ends[axis] = (lengths[place], lengths[place + len(lengths) // 2])
    mode = how.get("mode", b"constant").decode()
    if mode == "constant":
        flat = [length for pair in reversed(ends) for length in pair]
        # torch takes a number alone
        value = value.item() if isinstance(value, torch.Tensor) else value
        filled = how.get("value", 0.0 if value is None else value)
        return functional.pad(x, flat, value=filled)
    for axis, (before, after) in enumerate(ends):
        if before or after:
            x = x.index_select(axis, _sources(mode, x.shape[axis], before, after, x.device))
    return x


def _sources(mode: str, length: int, before: int, after: int, device: Any) -> Any:
    places = torch.arange(-before, length + after, device=device)
    if mode == "edge":
        return places.clamp(0, length - 1)
    if mode == "wrap":
        return places % length
    period = max(1, 2 * (length - 1))
    places = places % period
    return torch.where(places < length, places, period - places)


def _tile(how: How, x: Any, repeats: Any) -> Any:  # noqa: ARG001
    return x.repeat(whole(repeats))


def _triangle(how: How, x: Any, diagonal: Any = 0) -> Any:
    upper = how.get("upper", 1)
    (shift,) = whole(diagonal)
    return torch.triu(x, shift) if upper else torch.tril(x, shift)


def _depth_to_space(how: How, x: Any) -> Any:
    size = how["blocksize"]
    n, c, h, w = x.shape
    if how.get("mode", b"DCR") == b"CRD":
        return functional.pixel_shuffle(x, size)
    x = x.reshape(n, size, size, c // size**2, h, w).permute(0, 3, 4, 1, 5, 2)
    return x.reshape(n, c // size**2, h * size, w * size)


def _space_to_depth(how: How, x: Any) -> Any:
    size = how["blocksize"]
    if how.get("mode", b"DCR") == b"CRD":
        return functional.pixel_unshuffle(x, size)
    n, c, h, w = x.shape
    x = x.reshape(n, c, h // size, size, w // size, size).permute(0, 3, 5, 1, 2, 4)
    return x.reshape(n, c * size**2, h // size, w // size)


def _range(how: How, start: Any, limit: Any, delta: Any) -> Any:  # noqa: ARG001
    limits = [one.item() if isinstance(one, torch.Tensor) else one for one in (start, limit, delta)]
    device = next((one.device for one in (start, limit) if isinstance(one, torch.Tensor)), None)
    return torch.arange(*limits, device=device)


def _eye(how: How, x: Any) -> Any:
    ones = torch.ones_like(x)
    shift = how.get("k", 0)
    return torch.triu(torch.tril(ones, shift), shift)


KINDS: dict[str, Callable[..., Any]] = {
    "Concat": _concat,
    "DepthToSpace": _depth_to_space,
    "Expand": _expand,
    "EyeLike": _eye,
    "Flatten": _flatten,
    "Gather": _gather,
    "GatherElements": _gather_elements,
    "GatherND": _gather_nd,
    "Pad": _pad,
    "Range": _range,
    "Reshape": _reshape,
    "ScatterElements": _scatter,
    "ScatterND": _scatter_nd,
    "Slice": _slice,
    "SpaceToDepth": _space_to_depth,
    "Split": _split,
    "Squeeze": _squeeze,
    "Tile": _tile,
    "Transpose": _transpose,
    "Trilu": _triangle,
    "Unsqueeze": _unsqueeze,
}

LISTS: dict[str, tuple[int, ...]] = {
    **dict.fromkeys(("Expand", "Reshape", "Split", "Squeeze", "Tile", "Trilu", "Unsqueeze"), (1,)),
    "Pad": (1, 3),
    "Resize": (1, 2, 3),
    "Slice": (1, 2, 3, 4),
}
"""See `nodes`."""
