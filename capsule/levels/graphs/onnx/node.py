"""An ONNX node that is no operation of Level 0, held to ONNX's own reference.

`onnx.reference.ReferenceEvaluator` runs it in numpy, in float64 for what is due. Nothing is known
of its formula, so its bound is had from outside, by the rules of `graphs.bounds`: with n the most
numbers that one of the result is summed from, and q the root mean square of what the result moves
by when each number that it reads is moved by its own size up or down, by random bits,

    partial sums        m = |y| + q,  of which L sqrt(n) a m for the additions inside, and
                        L sqrt(p) u m where p partial results go through memory in the dtype
    the function itself 8 a |y|, as of exp and tanh; of Erf and Gelu see `rounding.erf_error`
    store               u |y| + t

q is measured in `RUNS` runs with moves of 2**-20, divided by that; it is 0 of what rounds once.
Kinds that only choose, move or compare yield exactly what is due. There are no derivatives.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

import numpy
from onnx.reference import ReferenceEvaluator

from ...operators.base import Operator, Tensor
from ...operators.rounding import EXACT, Calculator, Rounded, Rounding
from ...streams import signs
from . import alone, counts

Sizes = Mapping[str, Any]

RUNS = 4
MOVE = 2.0**-20

_SINGLE = ("AffineGrid", "CausalConvWithState", "DequantizeLinear", "GridSample", "LinearAttention")
"""Kinds that ONNX's reference computes in float32, whatever it is given."""

_KEPT = 4096


class OnnxNode(Operator):
    """A node of any kind.

    Sizes: `kind`; `model`, see `alone`, in hexadecimal digits; `of`, shapes of the operands;
    `types`, numpy's name of each that is not real; `output`, which result; `shape` and `type`, of
    it. An operand behind those of the model says only which type the real numbers have.
    """

    name = "onnx"

    def tensors(self, sizes: Sizes) -> dict[str, Tensor]:
        """x0, x1, ..."""
        return {
            f"x{place}": Tensor(shape, gradient=kind is None)
            for place, (shape, kind) in enumerate(zip(sizes["of"], sizes["types"]))
        }

    def outputs(self, sizes: Sizes) -> tuple[tuple[int, ...], ...]:
        """`shape`."""
        return (tuple(sizes["shape"]),)

    def forward(self, c: Calculator, sizes: Sizes, *inputs: Any) -> Any:
        """Run the node by ONNX's reference.

        Raises:
            ValueError: It cannot run the node, not in these types, or yields another shape.
        """
        values = [c.value(x) for x in inputs]
        right = run(sizes, values)
        if not isinstance(c, Rounding) or right.dtype.kind != "f":
            return right
        step = alone.parse(sizes["model"])
        if counts.is_exact(step):
            return c.enter(right)
        if step.kind in counts.ONCE:
            rounded = c.store(c.sum_up(right, numpy.zeros_like(right), 1))
            error = numpy.where(right == 0, 0.0, rounded.error)
            return Rounded(rounded.value, error, rounded.inside)
        sums = counts.terms(step, sizes["of"], sizes["shape"])
        walk = _walk(sizes, values, right)
        rounded = c.sum_up(right, walk, sums, counts.passes(step))
        error = rounded.error + _lose_by_erf(c, step, values, right)
        return c.store(Rounded(rounded.value, error, rounded.inside))

    def backward(self, c: Calculator, sizes: Sizes, upstream: Any, *inputs: Any) -> tuple[Any, ...]:  # noqa: ARG002
        """Raise ValueError: ONNX's nodes have no derivative.

        Raises:
            ValueError: Always.
        """
        raise ValueError(
            f"capsule has no derivative of ONNX's {sizes['kind']}: leave trains out to measure only"
            " inference"
        )

    def flops(self, sizes: Sizes) -> int:
        """See `counts.flops`."""
        return counts.flops(alone.parse(sizes["model"]), sizes["of"], tuple(sizes["shape"]))


def run(sizes: Sizes, values: Sequence[Any]) -> Any:
    """Return the result of a node by ONNX's reference.

    Args:
        sizes: See `OnnxNode`.
        values: Arrays of its operands.

    Raises:
        ValueError: See `OnnxNode.forward`.
    """
    real = next((value.dtype.name for value in values if value.dtype.kind == "f"), "float32")
    kind = sizes["kind"]
    if real not in ("float16", "float32", "float64") or (real == "float64" and kind in _SINGLE):
        raise ValueError(
            f"no reference for {kind}: ONNX's reference does not compute {kind} in {real}"
        )
    try:
        names, evaluator = _evaluator(sizes["model"], real)
        with numpy.errstate(all="ignore"):
            results = evaluator.run(None, dict(zip(names, values)))
    except Exception as error:
        raise ValueError(f"ONNX's reference cannot run {kind}: {error}") from None
    result = numpy.asarray(results[sizes["output"]])
    due = numpy.dtype(sizes["type"] or real)
    if result.dtype != due or result.shape != tuple(sizes["shape"]):
        raise ValueError(
            f"ONNX's reference returns {result.dtype} {result.shape} for {kind}, expected {due}"
            f" {tuple(sizes['shape'])}"
        )
    return result


@lru_cache(maxsize=_KEPT)
def _evaluator(model: str, real: str) -> tuple[tuple[str, ...], Any]:
    return alone.parse(model).operands, ReferenceEvaluator(alone.retype(model, real))


def _lose_by_erf(c: Rounding, step: alone.Step, values: Sequence[Any], right: Any) -> Any:
    """Return how much further a node can be off by an error function of a kernel's own."""
    if step.kind == "Erf":
        return c.erf_excess(right)
    if step.kind != "Gelu" or step.how.get("approximate", b"none") != b"none":
        return 0.0
    (x,) = values[:1]
    return abs(x) / 2 * c.erf_excess(EXACT.erf(x * 0.5**0.5))


def _walk(sizes: Sizes, values: Sequence[Any], right: Any) -> Any:
    """Return the root mean square change of the result when each input number changes by its own
    size, up or down.
    """
    squares = numpy.zeros(right.shape)
    for number in range(RUNS):
        sign = 1 - 2 * (number % 2)
        moved = []
        for place, value in enumerate(values):
            if value.dtype.kind == "f":
                label = f"capsule-walk-1\n{sizes['kind']}\n{number // 2}\n{place}\n"
                ways = signs(label, value.shape)
                moved.append(value * (1 + sign * MOVE * ways))
            else:
                moved.append(value)
        with numpy.errstate(invalid="ignore"):
            away = run(sizes, moved) - right
        squares += numpy.where(numpy.isfinite(away), away / MOVE, 0.0) ** 2 / RUNS
    return numpy.sqrt(squares)
