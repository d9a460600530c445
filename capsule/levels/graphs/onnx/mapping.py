"""Operation of Level 0 for each kind of ONNX node, or the reason why there is none."""

from __future__ import annotations

from math import isclose, prod, sqrt
from typing import Any, Callable

import numpy

from . import alone, moves, spatial
from .nodes import How, epsilon, inputs, none, out, write, write_reshape
from .patterns import MEAN_SQUARED_ERROR
from .reader import Reader, Refused


def _layer_norm(r: Reader, node: Any, how: How) -> None:
    x, w, *bias = inputs(node)
    epsilon(how)
    shape = r.shape(x)
    axis = how.get("axis", -1) % len(shape)
    rows, columns = prod(shape[:axis]), prod(shape[axis:])
    if not bias:
        bias = [f"{out(node)}/bias"]
        r.constants[bias[0]] = numpy.zeros(columns, numpy.float32)
    operands = [r.view(r.real(x), (rows, columns), f"{out(node)}/rows")]
    operands += [r.view(r.real(name), (columns,), f"{name}/flat") for name in (w, *bias)]
    write_reshape(r, node, "layer_norm", operands, {"rows": rows, "columns": columns}, shape)


def _elementwise(operator: str) -> Callable[[Reader, Any, How], None]:
    def elementwise(r: Reader, node: Any, how: How) -> None:  # noqa: ARG001
        (x,) = inputs(node)
        write(r, node, operator, (x,), {"n": prod(r.shape(x))})

    return elementwise


def _leaky_relu(r: Reader, node: Any, how: How) -> None:
    (x,) = inputs(node)
    alpha = how.get("alpha", 0.01)
    percent = round(100 * alpha)
    if not 0 <= percent < 100 or numpy.float32(percent / 100) != numpy.float32(alpha):
        raise Refused(f"its alpha is {alpha:g}, expected a multiple of 0.01 from 0 to 0.99")
    write(r, node, "leaky_relu", (x,), {"n": prod(r.shape(x)), "percent": percent})


def _mul(r: Reader, node: Any, how: How) -> None:  # noqa: ARG001
    constants = [name for name in inputs(node) if name in r.constants]
    factor = r.constants[constants[0]] if len(constants) == 1 else numpy.zeros(0)
    if factor.size != 1:
        found = [r.constants[name].shape for name in constants]
        raise Refused(f"its constants have the shapes {found}, expected one constant number")
    (x,) = (name for name in inputs(node) if name not in constants)
    if factor.ndim > len(r.shape(x)):
        raise Refused(f"its constant has {factor.ndim} axes, expected at most {len(r.shape(x))}")
    write(r, node, "scale", (x,), {"of": r.shape(x), "factor": float(factor.reshape(()))})


def _gelu(r: Reader, node: Any, how: How) -> None:
    (x,) = inputs(node)
    approximate = int(how.get("approximate", b"none") == b"tanh")
    write(r, node, "gelu", (x,), {"n": prod(r.shape(x)), "approximate": approximate})


def _softmax(r: Reader, node: Any, how: How) -> None:
    (x,) = inputs(node)
    *rows, columns = shape = r.shape(x)
    if how.get("axis", -1) % len(shape) != len(shape) - 1:
        raise Refused(f"its axis is {how['axis']}, expected the last axis")
    operands = r.view(r.real(x), (prod(rows), columns), f"{out(node)}/rows")
    write_reshape(r, node, "softmax", [operands], {"rows": prod(rows), "columns": columns}, shape)


def _gemm(r: Reader, node: Any, how: How) -> None:
    a, b, *c = inputs(node)
    none(how, ("alpha", 1.0), ("beta", 1.0))
    ta, tb = how.get("transA", 0), how.get("transB", 0)
    (m, k), n = r.shape(a)[:: -1 if ta else 1], r.shape(b)[0 if tb else 1]
    sizes = {"m": m, "n": n, "k": k, "ta": ta, "tb": tb, "bias": len(c)}
    operands = [r.real(a), r.real(b)]
    if c:
        if r.shape(c[0]) not in ((n,), (1, n)):
            raise Refused(f"its C has the shape {r.shape(c[0])}, expected ({n},)")
        operands.append(r.view(r.real(c[0]), (n,), f"{c[0]}/flat"))
    write_reshape(r, node, "gemm", operands, sizes, (m, n))


def _matmul(r: Reader, node: Any, how: How) -> None:  # noqa: ARG001
    a, b = inputs(node)
    (*rows, k), (*others, _, n) = r.shape(a), r.shape(b)
    shape = (*rows, n)
    if not others:
        sizes = {"m": prod(rows), "n": n, "k": k}
        operands = [r.view(r.real(a), (prod(rows), k), f"{out(node)}/rows"), r.real(b)]
        write_reshape(r, node, "gemm", operands, sizes, shape)
        return
    *batch, m = rows
    if batch != others:
        raise Refused(
            f"its inputs have the shapes {r.shape(a)} and {r.shape(b)}, expected equal axes before"
            " the last two"
        )
    count = prod(batch)
    operands = [
        r.view(r.real(a), (count, m, k), f"{out(node)}/left"),
        r.view(r.real(b), (count, k, n), f"{out(node)}/right"),
    ]
    write_reshape(r, node, "matmul", operands, {"batch": count, "m": m, "n": n, "k": k}, shape)


def _add(r: Reader, node: Any, how: How) -> None:
    a, b = inputs(node)
    if r.shape(a) == r.shape(b):
        _sum(r, node, how)
        return
    if prod(r.shape(a)) < prod(r.shape(b)):
        a, b = b, a
    shape, row = r.shape(a), r.shape(b)
    while row and row[0] == 1:
        row = row[1:]
    if not row or shape[len(shape) - len(row) :] != row:
        raise Refused(
            f"its inputs have the shapes {r.shape(a)} and {r.shape(b)}, expected one shape to equal"
            " the last axes of the other"
        )
    columns = prod(row)
    rows = prod(shape) // columns
    operands = [
        r.view(r.real(a), (rows, columns), f"{out(node)}/rows"),
        r.view(r.real(b), (columns,), f"{out(node)}/row"),
    ]
    write_reshape(r, node, "add", operands, {"rows": rows, "columns": columns}, shape)


def _sum(r: Reader, node: Any, how: How) -> None:  # noqa: ARG001
    values = inputs(node)
    if len(values) == 1:
        r.alias(out(node), r.real(values[0]))
        return
    write(r, node, "sum", values, {"n": prod(r.shape(values[0])), "count": len(values)})


def _gather(r: Reader, node: Any, how: How) -> None:
    table, index = inputs(node)
    if how.get("axis", 0) or len(r.shape(table)) != 2:
        raise Refused(
            f"it gathers along axis {how.get('axis', 0)} of the shape {r.shape(table)}, expected"
            " axis 0 of a matrix, as in an embedding"
        )
    rows, width = r.shape(table)
    shape = r.shape(index)
    operands = [r.real(table), r.whole(index, rows)]
    sizes = {"rows": rows, "width": width, "count": prod(shape)}
    write_reshape(r, node, "embedding", operands, sizes, (*shape, width))


def _attention(r: Reader, node: Any, how: How) -> None:
    operands = inputs(node)
    shapes = {r.shape(value) for value in operands}
    if (
        len(operands) != 3
        or len(shapes) != 1
        or len(r.shape(operands[0])) != 4
        or len(node.output) > 1
    ):
        raise Refused(
            f"it has {len(operands)} inputs of shape {' and '.join(map(str, sorted(shapes)))}, and"
            f" {len(node.output)} outputs; expected the inputs q, k and v of one shape (batch,"
            " heads, length, width), and 1 output"
        )
    sizes = dict(zip(("batch", "heads", "length", "width"), shapes.pop()))
    scale = 1 / sqrt(sizes["width"])
    if not isclose(how.get("scale", scale), scale, rel_tol=1e-6):
        raise Refused(f"its scale is {how['scale']:g}, expected {scale:g} (1/sqrt(width))")
    none(how, ("softcap", 0.0), ("qk_matmul_output_mode", 0))
    write(r, node, "attention", operands, {**sizes, "causal": how.get("is_causal", 0)})


def _softmax_cross_entropy(r: Reader, node: Any, how: How) -> None:
    operands = inputs(node)
    none(how, ("reduction", b"mean"))
    if len(operands) != 2 or "ignore_index" in how or len(node.output) > 1:
        raise Refused(
            f"it has {len(operands)} inputs, {len(node.output)} outputs and the attributes"
            f" {', '.join(how) or 'none'}; expected 2 inputs, 1 output and no ignore_index"
        )
    if len(r.shape(operands[0])) != 2:
        raise Refused(f"its scores have the shape {r.shape(operands[0])}, expected (rows, classes)")
    rows, columns = r.shape(operands[0])
    values = [r.real(operands[0]), r.whole(operands[1], columns)]
    write_reshape(r, node, "softmax_cross_entropy", values, {"rows": rows, "columns": columns}, ())


def _mean_squared_error(r: Reader, node: Any, how: How) -> None:  # noqa: ARG001
    write(r, node, "mean_squared_error", inputs(node), {"n": prod(r.shape(node.input[0]))})


KINDS: dict[str, Callable[[Reader, Any, How], None]] = {
    **moves.KINDS,
    **spatial.KINDS,
    "Add": _add,
    "Attention": _attention,
    "Gather": _gather,
    "Gelu": _gelu,
    "Gemm": _gemm,
    "LayerNormalization": _layer_norm,
    "LeakyRelu": _leaky_relu,
    "MatMul": _matmul,
    "Mul": _mul,
    "Relu": _elementwise("relu"),
    "Sigmoid": _elementwise("sigmoid"),
    "Softmax": _softmax,
    "SoftmaxCrossEntropyLoss": _softmax_cross_entropy,
    "Sum": _sum,
    "Tanh": _elementwise("tanh"),
    MEAN_SQUARED_ERROR: _mean_squared_error,
}


def is_usual(node: Any, version: int) -> bool:
    """Return whether a kind of nodes that is known here means what it meant from version 13 to 23
    on.

    Args:
        node: Node of a file, or made of several.
        version: Version of the operators that the file uses.
    """
    here = alone.schema(node.op_type, version)
    if here is None:  # put in the place of nodes that the version has
        return True
    first = alone.schema(node.op_type, USUAL[0])
    oldest = first.since_version if first else USUAL[0]
    return bool(oldest <= here.since_version <= USUAL[-1])


USUAL = range(13, 24)
"""Versions of the default operator set in which `KINDS` were written."""
