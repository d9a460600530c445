"""Level 0 as ONNX: for each operator a model of one node, or of few where ONNX has none for it."""

from __future__ import annotations

import numpy

from ...operators.convolution import WINDOWS
from ...operators.normalization import EPSILON
from . import modern
from .models import node
from .pieces import Chooser, Graph, Sizes, single


def _along_rows(kind: str) -> Chooser:
    axes = {"axes": numpy.array([1])}
    return lambda sizes: Graph(  # noqa: ARG005
        (node(kind, ["i0", "axes"], ["o0"], keepdims=0),), axes
    )


def _with_axes(kind: str) -> Chooser:
    axes = {"axes": numpy.array([1])}
    return lambda sizes: Graph((node(kind, ["i0", "axes"], ["o0"]),), axes)  # noqa: ARG005


def _gemm(sizes: Sizes) -> Graph:
    inputs = ["i0", "i1", "i2"][: 2 + sizes["bias"]]
    return Graph((node("Gemm", inputs, ["o0"], transA=sizes["ta"], transB=sizes["tb"]),))


def _conv(kind: str, rank: int) -> Chooser:
    def graph(sizes: Sizes) -> Graph:
        inputs = ["i0", "i1", "i2"][: 2 + sizes["bias"]]
        how = {
            "kernel_shape": [sizes[axis] for axis in WINDOWS[rank]],
            "strides": [sizes["stride"]] * rank,
            "pads": [sizes["padding"]] * (2 * rank),
            "dilations": [sizes["dilation"]] * rank,
            "group": sizes["groups"],
        }
        if "output_padding" in sizes:
            how["output_padding"] = [sizes["output_padding"]] * rank
        return Graph((node(kind, inputs, ["o0"], **how),))

    return graph


def _pool(kind: str, rank: int) -> Chooser:
    def graph(sizes: Sizes) -> Graph:
        how = {
            "kernel_shape": [sizes[axis] for axis in WINDOWS[rank]],
            "strides": [sizes["stride"]] * rank,
            "pads": [sizes["padding"]] * (2 * rank),
        }
        return Graph((node(kind, ["i0"], ["o0"], **how),))

    return graph


def _batch_norm(sizes: Sizes) -> Graph:
    # ONNX wants running means to update, and returns them; nobody reads those
    running = {"mean": numpy.zeros(sizes["c"]), "variance": numpy.ones(sizes["c"])}
    inputs = ["i0", "i1", "i2", *running]
    outputs = ["o0", "new_mean", "new_variance"]
    how = {"epsilon": EPSILON, "training_mode": 1}
    return Graph((node("BatchNormalization", inputs, outputs, **how),), running)


def _group_norm(sizes: Sizes) -> Graph:
    how = {"epsilon": EPSILON, "num_groups": sizes["groups"]}
    return Graph((node("GroupNormalization", ["i0", "i1", "i2"], ["o0"], **how),))


def _leaky_relu(sizes: Sizes) -> Graph:
    return Graph((node("LeakyRelu", ["i0"], ["o0"], alpha=sizes["percent"] / 100),))


def _gelu(sizes: Sizes) -> Graph:
    form = "tanh" if sizes["approximate"] else "none"
    return Graph((node("Gelu", ["i0"], ["o0"], approximate=form),))


def _cross_entropy(sizes: Sizes) -> Graph:  # noqa: ARG001
    return Graph(
        (
            node("Log", ["i0"], ["logs"]),
            node("NegativeLogLikelihoodLoss", ["logs", "i1"], ["o0"], reduction="mean"),
        )
    )


def _mean_squared_error(sizes: Sizes) -> Graph:  # noqa: ARG001
    return Graph(
        (
            node("Sub", ["i0", "i1"], ["difference"]),
            node("Mul", ["difference", "difference"], ["squares"]),
            node("ReduceMean", ["squares"], ["o0"], keepdims=0),
        )
    )


def _softmax_cross_entropy(sizes: Sizes) -> Graph:
    if not sizes["weighted"]:
        return single("SoftmaxCrossEntropyLoss", 2, reduction="mean")(sizes)
    loss = node("SoftmaxCrossEntropyLoss", ["i0", "i1", "i2"], ["losses"], reduction="none")
    return Graph((loss, node("ReduceMean", ["losses"], ["o0"], keepdims=0)))


def _sigmoid_cross_entropy(sizes: Sizes) -> Graph:  # noqa: ARG001
    return Graph(
        (
            node("Relu", ["i0"], ["above"]),
            node("Mul", ["i0", "i1"], ["products"]),
            node("Sub", ["above", "products"], ["linear"]),
            node("Abs", ["i0"], ["sizes"]),
            node("Neg", ["sizes"], ["below"]),
            node("Softplus", ["below"], ["rest"]),
            node("Add", ["linear", "rest"], ["losses"]),
            node("ReduceMean", ["losses"], ["o0"], keepdims=0),
        )
    )


def _attention(sizes: Sizes) -> Graph:
    return Graph((node("Attention", ["i0", "i1", "i2"], ["o0"], is_causal=sizes["causal"]),))


def _lstm_cell(sizes: Sizes) -> Graph:  # noqa: ARG001
    gates = ["i", "f", "g", "o"]
    return Graph(
        (
            node("Gemm", ["i0", "i3", "i5"], ["from_x"], transB=1),
            node("Gemm", ["i1", "i4", "i6"], ["from_h"], transB=1),
            node("Add", ["from_x", "from_h"], ["both"]),
            node("Split", ["both"], gates, axis=1, num_outputs=4),
            *(node("Sigmoid", [gate], [f"{gate}_gate"]) for gate in ("i", "f", "o")),
            node("Tanh", ["g"], ["g_gate"]),
            node("Mul", ["f_gate", "i2"], ["kept"]),
            node("Mul", ["i_gate", "g_gate"], ["added"]),
            node("Add", ["kept", "added"], ["o1"]),
            node("Tanh", ["o1"], ["squashed"]),
            node("Mul", ["o_gate", "squashed"], ["o0"]),
        ),
        outputs=2,
    )


def _sum(sizes: Sizes) -> Graph:
    return Graph((node("Sum", [f"i{place}" for place in range(sizes["count"])], ["o0"]),))


def _dropout(sizes: Sizes) -> Graph:
    nodes = (node("Mul", ["i0", "i1"], ["kept"]), node("Mul", ["kept", "scale"], ["o0"]))
    return Graph(nodes, {"scale": numpy.array(100 / (100 - sizes["percent"]))})


def _reshape(sizes: Sizes) -> Graph:
    shape = numpy.array([sizes["n"], sizes["c"] * sizes["h"] * sizes["w"]])
    return Graph((node("Reshape", ["i0", "shape"], ["o0"]),), {"shape": shape})


OPERATIONS: dict[str, Chooser] = {
    "gemm": _gemm,
    "matmul": single("MatMul", 2),
    **{f"conv{rank}d": _conv("Conv", rank) for rank in (1, 2, 3)},
    **{f"conv_transpose{rank}d": _conv("ConvTranspose", rank) for rank in (1, 2, 3)},
    **{f"max_pool{rank}d": _pool("MaxPool", rank) for rank in (2, 3)},
    "average_pool2d": _pool("AveragePool", 2),
    "global_average_pool": single("GlobalAveragePool"),
    "batch_norm": _batch_norm,
    "batch_norm_inference": single("BatchNormalization", 5, epsilon=EPSILON),
    "layer_norm": single("LayerNormalization", 3, epsilon=EPSILON),
    "group_norm": _group_norm,
    "relu": single("Relu"),
    "leaky_relu": _leaky_relu,
    "sigmoid": single("Sigmoid"),
    "tanh": single("Tanh"),
    "gelu": _gelu,
    "softmax": single("Softmax", axis=1),
    "cross_entropy": _cross_entropy,
    "softmax_cross_entropy": _softmax_cross_entropy,
    "sigmoid_cross_entropy": _sigmoid_cross_entropy,
    "mean_squared_error": _mean_squared_error,
    "attention": _attention,
    "embedding": single("Gather", 2, axis=0),
    "lstm_cell": _lstm_cell,
    "sum": _sum,
    "add": single("Add", 2),
    "dropout": _dropout,
    "reduce_sum": _along_rows("ReduceSum"),
    "reduce_mean": _along_rows("ReduceMean"),
    "reduce_max": _along_rows("ReduceMax"),
    "reshape": _reshape,
    "squeeze": _with_axes("Squeeze"),
    "unsqueeze": _with_axes("Unsqueeze"),
    **modern.OPERATIONS,
}
