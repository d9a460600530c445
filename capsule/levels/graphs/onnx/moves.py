"""ONNX nodes that move elements, or do nothing."""

from __future__ import annotations

from math import prod
from typing import Any, Callable

import numpy

from .nodes import How, inputs, out, write
from .reader import Reader, Refused


def _concat(r: Reader, node: Any, how: How) -> None:
    values = inputs(node)
    shapes = tuple(map(r.shape, values))
    write(r, node, "concat", values, {"of": shapes, "axis": how["axis"] % len(shapes[0])})


def _expand(r: Reader, node: Any, how: How) -> None:  # noqa: ARG001
    x, target = inputs(node)
    of = r.shape(x)
    wide = [int(length) for length in r.constant(target)]
    if len(wide) != len(of):
        raise Refused(
            f"its input has the shape {of} and its target the shape {tuple(wide)}, expected equal"
            " numbers of axes"
        )
    # a file for one batch size has it in its shapes
    wide[0] = r.scale(wide[0]) if wide[0] > 1 else 1
    shape = tuple(max(pair) for pair in zip(of, wide))
    write(r, node, "expand", (x,), {"of": of, "shape": shape})


def _flatten(r: Reader, node: Any, how: How) -> None:
    (x,) = inputs(node)
    shape = r.shape(x)
    axis = how.get("axis", 1)
    axis += len(shape) if axis < 0 else 0
    r.reshape(x, (prod(shape[:axis]), prod(shape[axis:])), out(node))


def _reshape(r: Reader, node: Any, how: How) -> None:
    x, target = inputs(node)
    of = r.shape(x)
    shape = [int(length) for length in r.constant(target)]
    if not how.get("allowzero", 0):
        shape = [of[axis] if length == 0 else length for axis, length in enumerate(shape)]
    # a file for one batch size has it in its shapes
    if x not in r.constants and (-1 in shape[1:] or prod(shape) != prod(of)):
        shape[0] = r.scale(shape[0]) if shape[0] > 0 else shape[0]
    known = prod(length for length in shape if length != -1)
    lengths = (prod(of) // known if length == -1 else length for length in shape)
    r.reshape(x, tuple(lengths), out(node))


def _squeeze(r: Reader, node: Any, how: How) -> None:
    x, *rest = inputs(node)
    shape = r.shape(x)
    axes = r.constant(rest[0]) if rest else how.get("axes", numpy.nonzero(numpy.equal(shape, 1)))
    gone = {int(axis) % len(shape) for axis in numpy.ravel(axes)}
    left = tuple(length for axis, length in enumerate(shape) if axis not in gone)
    r.reshape(x, left, out(node))


def _unsqueeze(r: Reader, node: Any, how: How) -> None:
    x, *rest = inputs(node)
    axes = r.constant(rest[0]) if rest else how["axes"]
    rank = len(r.shape(x)) + len(axes)
    new, old = {int(axis) % rank for axis in axes}, iter(r.shape(x))
    r.reshape(x, tuple(1 if axis in new else next(old) for axis in range(rank)), out(node))


def _transpose(r: Reader, node: Any, how: How) -> None:
    (x,) = inputs(node)
    of = r.shape(x)
    axes = tuple(how.get("perm", range(len(of))[::-1]))
    write(r, node, "transpose", (x,), {"of": of, "axes": axes})


def _identity(r: Reader, node: Any, how: How) -> None:  # noqa: ARG001
    x = node.input[0]
    r.reshape(x, r.shape(x), out(node))


def _cast(r: Reader, node: Any, how: How) -> None:
    r.cast(node.input[0], how["to"], out(node))


def _dropout(r: Reader, node: Any, how: How) -> None:
    training = node.input[2] if len(node.input) > 2 else ""
    trains = bool(training and r.constant(training).any())
    if trains or len(node.output) > 1:
        raise Refused(
            f"it has training_mode {int(trains)} and {len(node.output)} outputs, expected"
            " training_mode 0 and 1 output"
        )
    _identity(r, node, how)


KINDS: dict[str, Callable[[Reader, Any, How], None]] = {
    "Cast": _cast,
    "Concat": _concat,
    "Dropout": _dropout,
    "Expand": _expand,
    "Flatten": _flatten,
    "Identity": _identity,
    "Reshape": _reshape,
    "Squeeze": _squeeze,
    "Transpose": _transpose,
    "Unsqueeze": _unsqueeze,
}
