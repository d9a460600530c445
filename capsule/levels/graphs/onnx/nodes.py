"""Common parts of ONNX nodes: inputs, and the notation of their result."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import isclose
from typing import Any

from ... import catalog
from ...operators.normalization import EPSILON
from .. import structure
from .reader import Reader, Refused

How = Mapping[str, Any]
"""A node's attributes."""


def none(how: How, *usual: tuple[str, Any]) -> None:
    """Refuse an attribute that has another value than its usual one."""
    for name, value in usual:
        if how.get(name, value) != value:
            raise Refused(f"{name} is {how[name]!r}, not {value!r}")


def epsilon(how: How) -> None:
    """Refuse a normalization with another epsilon than Level 0's."""
    if not isclose(how.get("epsilon", 1e-5), EPSILON, rel_tol=1e-3):
        raise Refused(f"its epsilon is {how['epsilon']:g}, expected {EPSILON:g}")


def inputs(node: Any) -> list[str]:
    """Return the names of the present inputs, in order."""
    return [name for name in node.input if name]


def out(node: Any) -> str:
    """Name of the first output."""
    return str(node.output[0])


def write(r: Reader, node: Any, operator: str, values: Sequence[str], sizes: How) -> None:
    """Write an operation on values of the file, which yields the node's output."""
    result = r.node(operator, [r.real(value) for value in values], sizes, out(node))
    r.alias(out(node), result)


def write_reshape(
    r: Reader,
    node: Any,
    operator: str,
    operands: Sequence[str],
    sizes: How,
    shape: tuple[int, ...],
) -> None:
    """Write an operation on names of the network, whose result the file has in another shape."""
    (due,) = structure.load(operator).outputs(catalog.OPERATORS[operator].complete(sizes))
    name = out(node) if due == shape else f"{out(node)}/{operator}"
    r.alias(out(node), r.view(r.node(operator, operands, sizes, name), shape, out(node)))
