"""Level 0 as ONNX: what today's models are made of, beside the layers of `operators`."""

from __future__ import annotations

import numpy
from onnx import TensorProto

from ...operators.gemm import Einsum
from ...operators.normalization import EPSILON
from .models import node
from .pieces import Chooser, Graph, Sizes, single


def _grouped_attention(sizes: Sizes) -> Graph:
    """Return a node; before it those that make its mask, for its own starts with the first key."""
    length, keys = sizes["m"], sizes["k"]
    hides = sizes["lengths"] or sizes["mask"]
    if not hides and (not sizes["causal"] or (length == keys and not sizes["window"])):
        return Graph((node("Attention", ["i0", "i1", "i2"], ["o0"], is_causal=sizes["causal"]),))
    constants = {
        "key": numpy.arange(keys).reshape(1, 1, 1, -1),
        "limits": numpy.arange(1 - length, 1).reshape(1, 1, -1, 1),
        "window": numpy.array(sizes["window"]),
        "keys": numpy.array([keys]),
        "standing": numpy.array([-1, 1, 1, 1]),
        "heads": numpy.array([1]),
    }
    nodes = [
        node("Reshape", ["i3" if sizes["lengths"] else "keys", "standing"], ["ends"]),
        node("Add", ["ends", "limits"], ["limit"]),
        node("Less", ["key", "limit" if sizes["causal"] else "ends"], ["seen"]),
    ]
    if sizes["window"]:
        nodes += [
            node("Sub", ["limit", "window"], ["first"]),
            node("GreaterOrEqual", ["key", "first"], ["near"]),
        ]
    if sizes["mask"]:
        nodes += [node("Unsqueeze", [f"i{3 + sizes['lengths']}", "heads"], ["mask"])]
    mask = "seen"
    for place, name in enumerate(("near", "mask")):
        if sizes["window" if name == "near" else name]:
            nodes += [node("And", [mask, name], [f"seen{place}"])]
            mask = f"seen{place}"
    return Graph((*nodes, node("Attention", ["i0", "i1", "i2", mask], ["o0"])), constants)


def _rotary(sizes: Sizes) -> Graph:
    positions = numpy.tile(numpy.arange(sizes["length"]), (sizes["batch"], 1))
    inputs, how = ["i0", "i1", "i2", "positions"], {"interleaved": sizes["interleaved"]}
    return Graph((node("RotaryEmbedding", inputs, ["o0"], **how),), {"positions": positions})


def _swiglu(sizes: Sizes) -> Graph:  # noqa: ARG001
    return Graph(
        (
            node("Gemm", ["i0", "i1"], ["gate"], transB=1),
            node("Gemm", ["i0", "i2"], ["through"], transB=1),
            node("Sigmoid", ["gate"], ["share"]),
            node("Mul", ["gate", "share"], ["open"]),
            node("Mul", ["open", "through"], ["o0"]),
        )
    )


def _top_k(sizes: Sizes) -> Graph:
    nodes = (node("TopK", ["i0", "k"], ["o0", "places"], axis=1),)
    return Graph(nodes, {"k": numpy.array([sizes["k"]])})


def _int8_matmul(sizes: Sizes) -> Graph:  # noqa: ARG001
    wide = {"to": TensorProto.FLOAT}
    nodes = (
        node("MatMulInteger", ["i0", "i1"], ["whole"]),
        node("Cast", ["whole"], ["product"], **wide),
        node("Unsqueeze", ["i2", "axes"], ["standing"]),
        node("Cast", ["standing"], ["row"], **wide),
        node("Cast", ["i3"], ["column"], **wide),
        node("Mul", ["product", "row"], ["rows"]),
        node("Mul", ["rows", "column"], ["both"]),
        node("CastLike", ["both", "i2"], ["o0"]),
    )
    return Graph(nodes, {"axes": numpy.array([1])})


OPERATIONS: dict[str, Chooser] = {
    "grouped_attention": _grouped_attention,
    "rotary": _rotary,
    "rms_norm": single("RMSNormalization", 2, axis=-1, epsilon=EPSILON),
    "swiglu": _swiglu,
    "top_k": _top_k,
    "gather": single("GatherElements", 2, axis=1),
    "scatter_add": single("ScatterElements", 3, axis=1, reduction="add"),
    "einsum": single("Einsum", 2, equation=Einsum.equation),
    "int8_matmul": _int8_matmul,
}
