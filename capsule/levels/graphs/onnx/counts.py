"""Number of operations of an ONNX node without a formula in Level 0, for bounds and FLOPs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import Any, Callable

from .alone import Step

Shape = tuple[int, ...]
Shapes = Sequence[Shape]

EXACT = frozenset(
    (
        *("Abs", "And", "ArgMax", "ArgMin", "BitShift", "BitwiseAnd", "BitwiseNot"),
        *("BitwiseOr", "BitwiseXor", "Ceil", "CenterCropPad", "Clip", "Compress", "Concat"),
        *("ConstantOfShape", "DepthToSpace", "Equal", "Expand", "EyeLike", "Flatten"),
        *("Floor", "Gather", "GatherElements", "GatherND", "GlobalMaxPool", "Greater"),
        *("GreaterOrEqual", "Hardmax", "Identity", "IsInf", "IsNaN", "Less", "LessOrEqual"),
        *("Max", "MaxPool", "MaxRoiPool", "MaxUnpool", "Min", "Mod", "Neg"),
        *("NonMaxSuppression", "NonZero", "Not", "OneHot", "Or", "Pad", "Range", "ReduceMax"),
        *("ReduceMin", "Relu", "Reshape", "ReverseSequence", "Round", "Scatter", "Shape"),
        *("Sign", "Size", "Slice", "SpaceToDepth", "Split", "Squeeze", "TensorScatter"),
        *("ThresholdedRelu", "Tile", "TopK", "Transpose", "Trilu", "Unique", "Unsqueeze"),
        *("Where", "Xor"),
    )
)
"""Kinds that only choose, move or compare: a right one yields exactly what is due of its inputs."""

_MOVES = frozenset(
    (
        *("CenterCropPad", "Compress", "Concat", "ConstantOfShape", "DepthToSpace", "Expand"),
        *("EyeLike", "Flatten", "Gather", "GatherElements", "GatherND", "Identity", "OneHot"),
        *("Pad", "Range", "Reshape", "ReverseSequence", "Scatter", "Shape", "Size", "Slice"),
        *("SpaceToDepth", "Split", "Squeeze", "TensorScatter", "Tile", "Transpose", "Trilu"),
        *("Unsqueeze", "Where"),
    )
)
"""Kinds that compute nothing."""

_PER_ELEMENT = {
    **dict.fromkeys(("Celu", "Elu", "Gelu", "HardSwish", "LogSoftmax", "Selu", "Softmax"), 4),
    **dict.fromkeys(("HardSigmoid", "Softsign", "Sigmoid"), 3),
    **dict.fromkeys(("Mish", "Swish"), 5),
    **dict.fromkeys(("Softplus", "LeakyRelu", "PRelu", "Clip", "Shrink"), 2),
    **dict.fromkeys(("InstanceNormalization", "GroupNormalization", "LayerNormalization"), 8),
    "BatchNormalization": 4,
    "LRN": 6,
}
"""Operations of the textbook formula for an element of the result; 1 of kinds that are not here."""


ONCE = frozenset(("Add", "Cast", "CastLike", "Div", "Mul", "Reciprocal", "Sqrt", "Sub"))
"""Kinds that round once: what is due, if no more, and a zero that is due is a zero."""


def is_exact(step: Step) -> bool:
    """Return whether a right implementation yields exactly what is due of the node's inputs."""
    scatters = step.kind in ("ScatterElements", "ScatterND")
    return step.kind in EXACT or (scatters and step.how.get("reduction", b"none") == b"none")


def flops(step: Step, of: Shapes, shape: Shape) -> int:
    """Return the operations of one run. Without a formula, each element of the result counts as one
    operation; of a reduction, each element of the operand.

    Args:
        step: The node.
        of: Shapes of its operands.
        shape: Shape of its result.
    """
    if step.kind in _MOVES or (step.kind.startswith("Scatter") and is_exact(step)):
        return 0
    sums = terms(step, of, shape)
    if step.kind in _PRODUCTS:
        return 2 * sums * prod(shape)
    if step.kind in _RECURRENT:
        steps, batch = of[0][:2]
        gates = of[1][0] * of[1][1]
        return 2 * steps * batch * gates * (of[0][2] + of[2][2])
    if step.kind.startswith("Reduce") or step.kind.endswith("Pool"):
        return sums * prod(shape)
    return _PER_ELEMENT.get(step.kind, 1) * prod(shape)


def terms(step: Step, of: Shapes, shape: Shape) -> int:
    """Return the largest number of terms in a sum of the result."""
    count = _TERMS.get(step.kind)
    sums = count(step.how, of, shape) if count else 1
    largest = max(map(prod, of), default=1)
    return max(1, sums, largest // max(1, prod(shape)))


def passes(step: Step) -> int:
    """Return how often partial results may pass through memory in the dtype."""
    return _PASSES.get(step.kind, 0)


def _along(how: Mapping[str, Any], of: Shapes, usual: int = -1) -> int:
    return int(of[0][how.get("axis", usual)])


def _rows(how: Mapping[str, Any], of: Shapes, shape: Shape) -> int:  # noqa: ARG001
    axis = how.get("axis", -1) % len(of[0])
    return prod(of[0][axis:])


def _example(how: Mapping[str, Any], of: Shapes, shape: Shape) -> int:  # noqa: ARG001
    return prod(of[0][1:])


def _window(how: Mapping[str, Any], of: Shapes, shape: Shape) -> int:  # noqa: ARG001
    return prod(how.get("kernel_shape", of[0][2:]))


def _kernel(how: Mapping[str, Any], of: Shapes, shape: Shape) -> int:  # noqa: ARG001
    return prod(of[1][1:]) if len(of) > 1 else prod(of[0][1:])


def _transpose(how: Mapping[str, Any], of: Shapes, shape: Shape) -> int:  # noqa: ARG001
    return of[1][0] * prod(of[1][2:]) if len(of) > 1 else prod(of[0][1:])


def _einsum(how: Mapping[str, Any], of: Shapes, shape: Shape) -> int:
    words = how["equation"].decode().replace(" ", "").partition("->")[0].split(",")
    if "." in "".join(words):
        return max(map(prod, of))
    lengths = {letter: n for word, one in zip(words, of) for letter, n in zip(word, one)}
    return prod(lengths.values()) // max(1, prod(shape))


def _recurrence(how: Mapping[str, Any], of: Shapes, shape: Shape) -> int:  # noqa: ARG001
    # each step adds to what the one before has kept
    return of[0][0] * (of[0][2] + of[2][2])


def _attention(how: Mapping[str, Any], of: Shapes, shape: Shape) -> int:  # noqa: ARG001
    return sum(of[1][-2:])


_RECURRENT = ("GRU", "LSTM", "RNN")

_PRODUCTS = ("Conv", "ConvInteger", "ConvTranspose", "Einsum", "Gemm", "MatMul", "MatMulInteger")

_TERMS: dict[str, Callable[[Mapping[str, Any], Shapes, Shape], int]] = {
    "Attention": _attention,
    "AveragePool": _window,
    "Conv": _kernel,
    "ConvTranspose": _transpose,
    "CumSum": lambda how, of, shape: max(of[0], default=1),  # noqa: ARG005
    "DFT": _example,
    "DeformConv": _kernel,
    "Einsum": _einsum,
    "GRU": _recurrence,
    "Gemm": lambda how, of, shape: of[0][0 if how.get("transA") else 1],  # noqa: ARG005
    "GridSample": lambda how, of, shape: 16,  # noqa: ARG005
    "GroupNormalization": _example,
    "InstanceNormalization": lambda how, of, shape: prod(of[0][2:]),  # noqa: ARG005
    "LSTM": _recurrence,
    "LayerNormalization": _rows,
    "LogSoftmax": lambda how, of, shape: _along(how, of),  # noqa: ARG005
    "LpNormalization": lambda how, of, shape: _along(how, of),  # noqa: ARG005
    "LpPool": _window,
    "LRN": lambda how, of, shape: how["size"],  # noqa: ARG005
    "MatMul": lambda how, of, shape: of[0][-1],  # noqa: ARG005
    "MeanVarianceNormalization": lambda how, of, shape: prod(of[0]),  # noqa: ARG005
    "RMSNormalization": _rows,
    "RNN": _recurrence,
    "Resize": lambda how, of, shape: 4 ** max(0, len(shape) - 2),  # noqa: ARG005
    "Softmax": lambda how, of, shape: _along(how, of),  # noqa: ARG005
}

_PASSES = {
    **dict.fromkeys(_RECURRENT, 4),
    **dict.fromkeys(("Celu", "Elu", "HardSwish", "Mish", "Selu", "Swish", "PRelu"), 2),
    **dict.fromkeys(("InstanceNormalization", "LayerNormalization", "GroupNormalization"), 2),
    **dict.fromkeys(("RMSNormalization", "LpNormalization", "LRN", "RotaryEmbedding"), 4),
    **dict.fromkeys(("Attention", "GridSample", "Resize", "LogSoftmax"), 4),
    "CumSum": 1,
}
