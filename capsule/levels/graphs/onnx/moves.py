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


def _flatten(r: Reader, node: Any, how: How) -> None:
    (x,) = inputs(node)
    shape = r.shape(x)
    axis = how.get("axis", 1)
    axis += len(shape) if axis < 0 else 0
    r.reshape(x, (prod(shape[:axis]), prod(shape[axis:])), out(node))


def _reshape(r: Reader, node: Any, how: How) -> None:
    x, given = inputs(node)
    of = r.shape(x)
    shape = [int(each) for each in r.constant(given)]
    if not how.get("allowzero", 0):
        shape = [of[axis] if each == 0 else each for axis, each in enumerate(shape)]
    # a file for one batch size has it in its shapes
    if x not in r.constants and (-1 in shape[1:] or prod(shape) != prod(of)):
        shape[0] = r.scaled(shape[0]) if shape[0] > 0 else shape[0]
    known = prod(each for each in shape if each != -1)
    r.reshape(x, tuple(prod(of) // known if each == -1 else each for each in shape), out(node))


def _squeeze(r: Reader, node: Any, how: How) -> None:
    x, *given = inputs(node)
    shape = r.shape(x)
    axes = r.constant(given[0]) if given else how.get("axes", numpy.nonzero(numpy.equal(shape, 1)))
    gone = {int(each) % len(shape) for each in numpy.ravel(axes)}
    left = tuple(each for axis, each in enumerate(shape) if axis not in gone)
    r.reshape(x, left, out(node))


def _unsqueeze(r: Reader, node: Any, how: How) -> None:
    x, *given = inputs(node)
    axes = r.constant(given[0]) if given else how["axes"]
    rank = len(r.shape(x)) + len(axes)
    new, old = {int(each) % rank for each in axes}, iter(r.shape(x))
    r.reshape(x, tuple(1 if axis in new else next(old) for axis in range(rank)), out(node))


def _transpose(r: Reader, node: Any, how: How) -> None:
    (x,) = inputs(node)
    of = r.shape(x)
    axes = tuple(how.get("perm", range(len(of))[::-1]))
    write(r, node, "transpose", (x,), {"of": of, "axes": axes})


def _identity(r: Reader, node: Any, how: How) -> None:  # noqa: ARG001
    x = node.input[0]
    r.reshape(x, r.shape(x), out(node))


def _dropout(r: Reader, node: Any, how: How) -> None:
    training = node.input[2] if len(node.input) > 2 else ""
    if (training and r.constant(training).any()) or len(node.output) > 1:
        raise Refused("only dropout in inference, which changes nothing, is supported")
    _identity(r, node, how)


KINDS: dict[str, Callable[[Reader, Any, How], None]] = {
    "Cast": _identity,
    "Concat": _concat,
    "Dropout": _dropout,
    "Flatten": _flatten,
    "Identity": _identity,
    "Reshape": _reshape,
    "Squeeze": _squeeze,
    "Transpose": _transpose,
    "Unsqueeze": _unsqueeze,
}
