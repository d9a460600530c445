"""ONNX nodes that are no operation of Level 0: for each kind a function of torch.

An entry of `KINDS` takes a node's attributes and its inputs, None for one that is left out:
tensors, Python's numbers for constants without axes, lists for those that say a shape or axes
(`_LISTS`). It returns a tensor, or a tuple of the node's results.
"""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence
from functools import reduce
from typing import Any, Callable

import torch
from torch.nn import functional

from ...graphs.graph import Node
from ...graphs.onnx import alone
from ..base import FrameworkError, NativeTensor
from . import layers, spatial
from .layers import TYPES
from .spatial import whole

How = Mapping[str, Any]
Kind = Callable[..., Any]


def make(node: Node) -> Callable[..., tuple[NativeTensor, ...]]:
    """Return a function of a node's operands that yields all of its results.

    Raises:
        FrameworkError: There is none for its kind.
    """
    step = alone.parse(node.sizes["model"])
    if step.kind not in KINDS or step.node.domain not in ("", "ai.onnx"):
        raise FrameworkError(f"torch has no function for {node.name} ({node.operation})")
    kind, how = KINDS[step.kind], {**step.how, "version": step.version}
    lists = _LISTS.get(step.kind, ())
    places: list[int | None] = []
    fixed: list[Any] = []
    for place, read in enumerate(step.reads):
        is_operand = isinstance(read, int)
        places.append(read if is_operand else None)
        fixed.append(None if is_operand or read is None else _constant(read, place in lists))
    named = [place for place, name in enumerate(step.node.output) if name]
    real = node.sizes["type"] is None
    counted = len(step.operands)

    def run(*operands: NativeTensor) -> tuple[NativeTensor, ...]:
        device = operands[0].device
        inputs = [
            operands[place]
            if place is not None
            else (value.to(device) if isinstance(value, torch.Tensor) else value)
            for place, value in zip(places, fixed)
        ]
        try:
            results = kind(how, *inputs)
        except NotImplementedError as error:
            # whole numbers without a sign, mostly
            raise FrameworkError(
                f"torch cannot compute {node.name} ({node.operation}): {error}"
            ) from None
        except FrameworkError as error:
            raise FrameworkError(f"{error} (node {node.name})") from None
        if not isinstance(results, (tuple, list)):
            results = (results,)
        if len(results) <= named[-1]:
            raise FrameworkError(
                f"torch returns only the first result of {node.operation}; {node.name} needs more"
            )
        if real and len(operands) > counted:
            return tuple(results[place].to(operands[-1].dtype) for place in named)
        return tuple(results[place] for place in named)

    run.__name__ = run.__qualname__ = f"onnx_{step.kind}"
    return run


def _constant(array: Any, is_list: bool) -> Any:
    if is_list:
        return array.tolist()
    return torch.from_numpy(array.copy()) if array.ndim else array.item()


def _tensor(value: Any, like: NativeTensor) -> NativeTensor:
    if isinstance(value, torch.Tensor):
        return value
    return torch.tensor(value, dtype=like.dtype, device=like.device)


def _unary(function: Kind) -> Kind:
    return lambda how, x: function(x)  # noqa: ARG005


def _binary(function: Kind) -> Kind:
    return lambda how, a, b: function(a, b)  # noqa: ARG005


def _many(function: Kind) -> Kind:
    def fold(how: How, *values: Any) -> Any:  # noqa: ARG001
        like = next(value for value in values if isinstance(value, torch.Tensor))
        return reduce(function, (_tensor(value, like) for value in values))

    return fold


def _div(how: How, a: Any, b: Any) -> Any:  # noqa: ARG001
    is_whole = not any(
        one.is_floating_point() if isinstance(one, torch.Tensor) else isinstance(one, float)
        for one in (a, b)
    )
    like = a if isinstance(a, torch.Tensor) else b
    return torch.div(_tensor(a, like), b, rounding_mode="trunc") if is_whole else a / b


def _pow(how: How, a: Any, b: Any) -> Any:  # noqa: ARG001
    result = torch.pow(a, b)
    return result.to(a.dtype) if isinstance(a, torch.Tensor) else result


def _mod(how: How, a: Any, b: Any) -> Any:
    like = a if isinstance(a, torch.Tensor) else b
    function = torch.fmod if how.get("fmod") else torch.remainder
    return function(_tensor(a, like), _tensor(b, like))


def _mean(how: How, *values: Any) -> Any:
    return _many(operator.add)(how, *values) / len(values)


def _where(how: How, condition: Any, a: Any, b: Any) -> Any:  # noqa: ARG001
    like = next((one for one in (a, b) if isinstance(one, torch.Tensor)), None)
    if like is None:
        return torch.where(condition, a, b)
    return torch.where(condition, _tensor(a, like), _tensor(b, like))


def _clip(how: How, x: Any, low: Any = None, high: Any = None) -> Any:
    low, high = how.get("min", low), how.get("max", high)
    if isinstance(low, torch.Tensor) or isinstance(high, torch.Tensor):
        low, high = (None if one is None else _tensor(one, x) for one in (low, high))
    return x if low is None and high is None else torch.clamp(x, low, high)


def _cast(how: How, x: Any) -> Any:
    real = how["to"] in alone.REALS
    if not isinstance(x, torch.Tensor):
        x = torch.tensor(x)
    if real and x.is_floating_point():
        return x
    return x.to(torch.get_default_dtype() if real else TYPES[how["to"]])


def _reduce(function: Kind, usual: int = 18) -> Kind:
    """Reductions: axes came as an attribute before version 18, of sums before version 13."""

    def along(how: How, x: Any, axes: Any = None) -> Any:
        chosen = how.get("axes") if how["version"] < usual else axes
        if chosen is None or not whole(chosen):
            if how.get("noop_with_empty_axes"):
                return function(x.unsqueeze(0), [0], False)
            chosen = range(x.dim())
        return function(x, whole(list(chosen)), bool(how.get("keepdims", 1)))

    return along


def _product(x: Any, axes: Sequence[int], keep: bool) -> Any:
    for axis in sorted((axis % max(1, x.dim()) for axis in axes), reverse=True):
        x = torch.prod(x, axis, keepdim=keep)
    return x


def _sum(x: Any, axes: Sequence[int], keep: bool) -> Any:
    return torch.sum(x, axes, keepdim=keep, dtype=x.dtype)


def _extreme(function: Kind) -> Kind:
    def choose(how: How, x: Any) -> Any:
        axis, keep = how.get("axis", 0), bool(how.get("keepdims", 1))
        if not how.get("select_last_index"):
            return function(x, axis, keepdim=keep)
        return x.shape[axis] - 1 - function(x.flip(axis), axis, keepdim=keep)

    return choose


def _cumulate(how: How, x: Any, axis: Any) -> Any:
    (axis,) = whole(axis)
    x = x.flip(axis) if how.get("reverse") else x
    total = torch.cumsum(x, axis, dtype=x.dtype)
    total = total - x if how.get("exclusive") else total
    return total.flip(axis) if how.get("reverse") else total


def _top(how: How, x: Any, count: Any) -> Any:
    (count,) = whole(count)
    axis, largest = how.get("axis", -1), bool(how.get("largest", 1))
    # of equals ONNX takes the first ones, and topk any
    ordered, places = torch.sort(x, dim=axis, descending=largest, stable=True)
    return ordered.narrow(axis, 0, count), places.narrow(axis, 0, count)


def _likelihood(how: How, x: Any, target: Any, weights: Any = None) -> Any:
    ignored = how.get("ignore_index", -100)
    reduction = how.get("reduction", b"mean").decode()
    return functional.nll_loss(x, target.to(torch.int64), weights, None, ignored, None, reduction)


def _cross_entropy(how: How, x: Any, target: Any, weights: Any = None) -> Any:
    logarithms = torch.log_softmax(x, 1)
    return _likelihood(how, logarithms, target, weights), logarithms


def _normalize(how: How, x: Any) -> Any:
    return functional.normalize(x, how.get("p", 2), how.get("axis", -1))


def _hardmax(how: How, x: Any) -> Any:
    axis = how.get("axis", -1)
    return torch.zeros_like(x).scatter(axis, torch.argmax(x, axis, keepdim=True), 1.0)


def _one_hot(how: How, index: Any, depth: Any, values: Any) -> Any:
    (depth,) = whole(depth)
    axis = how.get("axis", -1) % (index.dim() + 1)
    places = torch.arange(depth, device=index.device).reshape(-1, *[1] * (index.dim() - axis))
    hot = torch.where(index < 0, index + depth, index).unsqueeze(axis) == places
    return torch.where(hot, values[1], values[0])


def _softmax(function: Kind) -> Kind:
    return lambda how, x: function(x, how.get("axis", -1))


def _elu(how: How, x: Any) -> Any:
    return functional.elu(x, how.get("alpha", 1.0))


def _selu(how: How, x: Any) -> Any:
    alpha, gamma = how.get("alpha", 1.6732631921768188), how.get("gamma", 1.0507010221481323)
    return gamma * functional.elu(x, alpha)


def _hard_sigmoid(how: How, x: Any) -> Any:
    return torch.clamp(x * how.get("alpha", 0.2) + how.get("beta", 0.5), 0, 1)


def _swish(how: How, x: Any) -> Any:
    return x * torch.sigmoid(how.get("alpha", 1.0) * x)


def _is_infinite(how: How, x: Any) -> Any:
    low, high = (how.get(name, 1) for name in ("detect_negative", "detect_positive"))
    return torch.isinf(x) & (((x < 0) & bool(low)) | ((x > 0) & bool(high)))


def _round_toward(how: How, x: Any, shift: Any) -> Any:
    left = how["direction"] == b"LEFT"
    return torch.bitwise_left_shift(x, shift) if left else torch.bitwise_right_shift(x, shift)


_NAMES = {
    "Abs": torch.abs,
    **{
        name: getattr(torch, name.lower())
        for name in (
            *(
                "Acos",
                "Acosh",
                "Asin",
                "Asinh",
                "Atan",
                "Atanh",
                "Ceil",
                "Cos",
                "Cosh",
                "Erf",
                "Exp",
            ),
            *(
                "Floor",
                "Log",
                "Neg",
                "Reciprocal",
                "Relu",
                "Round",
                "Sigmoid",
                "Sign",
                "Sin",
                "Sinh",
            ),
            *("Sqrt", "Tan", "Tanh"),
        )
    },
    "BitwiseNot": torch.bitwise_not,
    "HardSwish": functional.hardswish,
    "Identity": lambda x: x,
    "IsNaN": torch.isnan,
    "Mish": functional.mish,
    "Not": torch.logical_not,
    "Softplus": functional.softplus,
    "Softsign": functional.softsign,
}

_PAIRS = {
    "Add": operator.add,
    "And": torch.logical_and,
    "BitwiseAnd": torch.bitwise_and,
    "BitwiseOr": torch.bitwise_or,
    "BitwiseXor": torch.bitwise_xor,
    "Equal": operator.eq,
    "Greater": operator.gt,
    "GreaterOrEqual": operator.ge,
    "Less": operator.lt,
    "LessOrEqual": operator.le,
    "MatMul": torch.matmul,
    "Mul": operator.mul,
    "Or": torch.logical_or,
    "Sub": operator.sub,
    "Xor": torch.logical_xor,
}

_REDUCTIONS = {
    "ReduceL1": lambda x, axes, keep: torch.sum(torch.abs(x), axes, keepdim=keep),
    "ReduceL2": lambda x, axes, keep: torch.sqrt(_sum(x * x, axes, keep)),
    "ReduceLogSum": lambda x, axes, keep: torch.log(_sum(x, axes, keep)),
    "ReduceLogSumExp": lambda x, axes, keep: torch.logsumexp(x, axes, keepdim=keep),
    "ReduceMax": lambda x, axes, keep: torch.amax(x, axes, keepdim=keep),
    "ReduceMean": lambda x, axes, keep: torch.mean(x, axes, keepdim=keep),
    "ReduceMin": lambda x, axes, keep: torch.amin(x, axes, keepdim=keep),
    "ReduceProd": _product,
    "ReduceSumSquare": lambda x, axes, keep: _sum(x * x, axes, keep),
}

KINDS: dict[str, Kind] = {
    **layers.KINDS,
    **spatial.KINDS,
    **{name: _unary(function) for name, function in _NAMES.items()},
    **{name: _binary(function) for name, function in _PAIRS.items()},
    **{name: _reduce(function) for name, function in _REDUCTIONS.items()},
    "ReduceSum": _reduce(_sum, 13),
    "ArgMax": _extreme(torch.argmax),
    "ArgMin": _extreme(torch.argmin),
    "BitShift": _round_toward,
    "Cast": _cast,
    "CastLike": lambda how, x, like: _tensor(x, like).to(like.dtype),  # noqa: ARG005
    "Celu": lambda how, x: functional.celu(x, how.get("alpha", 1.0)),
    "Clip": _clip,
    "CumSum": _cumulate,
    "Div": _div,
    "Dropout": lambda how, x, *more: (x, torch.ones_like(x, dtype=torch.bool)),  # noqa: ARG005
    "Einsum": lambda how, *tensors: torch.einsum(how["equation"].decode(), *tensors),
    "Elu": _elu,
    "Gelu": lambda how, x: functional.gelu(x, approximate=how.get("approximate", b"none").decode()),
    "HardSigmoid": _hard_sigmoid,
    "Hardmax": _hardmax,
    "IsInf": _is_infinite,
    "LeakyRelu": lambda how, x: functional.leaky_relu(x, how.get("alpha", 0.01)),
    "LogSoftmax": _softmax(torch.log_softmax),
    "LpNormalization": _normalize,
    "Max": _many(torch.maximum),
    "Mean": _mean,
    "Min": _many(torch.minimum),
    "Mod": _mod,
    "NegativeLogLikelihoodLoss": _likelihood,
    "OneHot": _one_hot,
    "PRelu": lambda how, x, slope: torch.where(x < 0, x * slope, x),  # noqa: ARG005
    "Pow": _pow,
    "Selu": _selu,
    "Softmax": _softmax(torch.softmax),
    "SoftmaxCrossEntropyLoss": _cross_entropy,
    "Sum": _many(operator.add),
    "Swish": _swish,
    "ThresholdedRelu": lambda how, x: torch.where(x > how.get("alpha", 1.0), x, 0.0),
    "TopK": _top,
    "Where": _where,
}

_LISTS: dict[str, tuple[int, ...]] = {
    **spatial.LISTS,
    **dict.fromkeys((*_REDUCTIONS, "ReduceSum"), (1,)),
    **dict.fromkeys(("CumSum", "OneHot", "TopK"), (1,)),
}
"""Of a kind the inputs that say a shape, axes or a number of things."""
