"""ONNX nodes that know of channels and space: convolutions, pools and their normalizations."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any, Callable

from ...operators.convolution import AXES, WINDOWS
from .nodes import How, epsilon, inputs, none, out, write, write_reshape
from .reader import Reader, Refused


def _conv(r: Reader, node: Any, how: How) -> None:
    x, w, *bias = inputs(node)
    n, c, *spatial = r.shape(x)
    k, _, *window = r.shape(w)
    sizes = {**_places(c, k, spatial, window), "n": n, "groups": how.get("group", 1)}
    sizes.update(_window(how, spatial, window), bias=len(bias))
    write(r, node, f"conv{len(window)}d", (x, w, *bias), sizes)


def _conv_transpose(r: Reader, node: Any, how: How) -> None:
    x, w, *bias = inputs(node)
    n, c, *spatial = r.shape(x)
    _, share, *window = r.shape(w)
    groups = how.get("group", 1)
    none(how, ("auto_pad", b"NOTSET"))
    if "output_shape" in how:
        raise Refused("it has an output_shape, expected pads")
    added = list(how.get("output_padding", [0] * len(window)))
    if len(set(added)) > 1:
        raise Refused(f"its output_padding is {added}, expected equal numbers for all axes")
    sizes = {**_places(c, share * groups, spatial, window), "n": n, "groups": groups}
    sizes.update(_window(how, spatial, window), bias=len(bias), output_padding=added[0])
    write(r, node, f"conv_transpose{len(window)}d", (x, w, *bias), sizes)


def _pool(operator: str, ranks: Sequence[int]) -> Callable[[Reader, Any, How], None]:
    def pool(r: Reader, node: Any, how: How) -> None:
        (x,) = inputs(node)
        window = how["kernel_shape"]
        if len(window) not in ranks or len(node.output) > 1:
            axes = " or ".join(map(str, ranks))
            raise Refused(
                f"it has {len(window)} spatial axes and {len(node.output)} outputs, expected"
                f" {axes} axes and 1 output"
            )
        n, c, *spatial = r.shape(x)
        moves = _window(how, spatial, window)
        if moves.pop("dilation") != 1:
            raise Refused(f"its dilations are {how['dilations']}, expected 1 for a pool")
        if moves["padding"] and operator == "average_pool":
            none(how, ("count_include_pad", 0))
        rests = [
            (length + 2 * moves["padding"] - width) % moves["stride"]
            for length, width in zip(spatial, window)
        ]
        if how.get("ceil_mode") and any(rests):
            raise Refused(
                f"its last window exceeds the input {tuple(spatial)} because ceil_mode is 1,"
                " expected ceil_mode 0"
            )
        names = zip(AXES[len(window)], spatial), zip(WINDOWS[len(window)], window)
        sizes = {"n": n, "c": c, **dict(names[0]), **dict(names[1]), **moves}
        write(r, node, f"{operator}{len(window)}d", (x,), sizes)

    return pool


def _global_average_pool(r: Reader, node: Any, how: How) -> None:  # noqa: ARG001
    (x,) = inputs(node)
    write(r, node, "global_average_pool", (x,), _image(r, x))


def _reduce_mean(r: Reader, node: Any, how: How) -> None:
    x, *rest = inputs(node)
    n, c, *spatial = r.shape(x)
    axes = [int(axis) for axis in r.constant(rest[0])] if rest else how.get("axes", [])
    if len(spatial) != 2 or sorted(axis % 4 for axis in axes) != [2, 3]:
        raise Refused(
            f"it takes the mean over the axes {axes} of the shape {r.shape(x)}, expected the last"
            " two axes of four"
        )
    if how.get("keepdims", 1):
        write(r, node, "global_average_pool", (x,), _image(r, x))
        return
    mean = r.node("global_average_pool", (r.real(x),), _image(r, x), f"{out(node)}/mean")
    r.alias(out(node), r.view(mean, (n, c), out(node)))


def _batch_norm(r: Reader, node: Any, how: How) -> None:
    x, w, b, mean, variance = inputs(node)
    epsilon(how)
    n, c, *rest = r.shape(x)
    shape = (n, c, *rest) if len(rest) == 2 else (n, c, 1, prod(rest))
    operands = [r.view(r.real(x), shape, f"{out(node)}/image"), r.real(w), r.real(b)]
    if how.get("training_mode", 0):
        operator = "batch_norm"
    else:
        operator = "batch_norm_inference"
        operands += [r.real(mean, trainable=False), r.real(variance, trainable=False)]
    write_reshape(r, node, operator, operands, dict(zip("nchw", shape)), r.shape(x))


def _group_norm(r: Reader, node: Any, how: How) -> None:
    x, w, b = inputs(node)
    epsilon(how)
    n, c, *rest = r.shape(x)
    if r.shape(w) != (c,):
        raise Refused(
            f"its scale has the shape {r.shape(w)}, expected ({c},), one number per channel, as in"
            " opset 21 or later"
        )
    shape = (n, c, *rest) if len(rest) == 2 else (n, c, 1, prod(rest))
    operands = [r.view(r.real(x), shape, f"{out(node)}/image"), r.real(w), r.real(b)]
    sizes = {**dict(zip("nchw", shape)), "groups": how["num_groups"]}
    write_reshape(r, node, "group_norm", operands, sizes, r.shape(x))


def _window(how: How, spatial: Sequence[int], window: Sequence[int]) -> dict[str, int]:
    """Stride, padding and dilation of a window, which here are the same along each axis."""
    rank = len(window)
    strides, dilations = how.get("strides", [1] * rank), how.get("dilations", [1] * rank)
    pads = list(how.get("pads", [0] * 2 * rank))
    automatic = how.get("auto_pad", b"NOTSET").decode()
    if automatic.startswith("SAME"):
        reach = [d * (w - 1) + 1 for w, d in zip(window, dilations)]
        # as many positions as strides fit in, and what that needs beyond the edges
        needs = [
            max((-(-length // s) - 1) * s + r - length, 0)
            for length, s, r in zip(spatial, strides, reach)
        ]
        pads = [need // 2 for need in needs] + [need - need // 2 for need in needs]
    lengths = {"strides": set(strides), "dilations": set(dilations), "pads": set(pads)}
    uneven = [f"{name} {sorted(values)}" for name, values in lengths.items() if len(values) > 1]
    if uneven:
        raise Refused(f"found {' and '.join(uneven)}, expected equal numbers for all axes and ends")
    return {"stride": strides[0], "padding": pads[0], "dilation": dilations[0]}


def _places(c: int, k: int, spatial: Sequence[int], window: Sequence[int]) -> dict[str, int]:
    if len(window) not in AXES:
        raise Refused(f"it has {len(window)} spatial axes, expected 1 to 3")
    names = zip(AXES[len(window)], spatial), zip(WINDOWS[len(window)], window)
    return {"c": c, "k": k, **dict(names[0]), **dict(names[1])}


def _image(r: Reader, x: str) -> dict[str, int]:
    if len(r.shape(x)) != 4:
        raise Refused(f"its input has the shape {r.shape(x)}, expected (n, c, h, w)")
    return dict(zip("nchw", r.shape(x)))


KINDS: dict[str, Callable[[Reader, Any, How], None]] = {
    "AveragePool": _pool("average_pool", (2,)),
    "BatchNormalization": _batch_norm,
    "Conv": _conv,
    "ConvTranspose": _conv_transpose,
    "GlobalAveragePool": _global_average_pool,
    "GroupNormalization": _group_norm,
    "MaxPool": _pool("max_pool", (2, 3)),
    "ReduceMean": _reduce_mean,
}
