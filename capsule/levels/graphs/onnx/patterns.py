"""Single operations that ONNX files hold as several nodes, found and put in their place."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import isclose, sqrt
from typing import Any

from .models import node

MEAN_SQUARED_ERROR = "mean squared error"
"""A kind of node that stands for one: ONNX has none."""


@dataclass(frozen=True)
class _Nodes:
    """The nodes of a graph by the values that they write and read."""

    writer: Mapping[str, Any]
    readers: Mapping[str, list[Any]]
    constants: Mapping[str, Any]
    outputs: frozenset[str]

    def by(self, value: str, kind: str) -> Any:
        """Return the node of a kind that writes a value, for nobody but one reader."""
        writer = self.writer.get(value)
        hidden = len(self.readers.get(value, ())) == 1 and value not in self.outputs
        return writer if writer is not None and writer.op_type == kind and hidden else None

    def next(self, value: str, kind: str) -> Any:
        """Return the only reader of a value, if it is of a kind."""
        readers = self.readers.get(value, [])
        alone = len(readers) == 1 and value not in self.outputs
        return readers[0] if alone and readers[0].op_type == kind else None

    def with_number(self, node: Any, number: float) -> str | None:
        """Return the other operand of a node of which one is this number."""
        if node is None or len(node.input) != 2:
            return None
        for one, other in (node.input, tuple(reversed(node.input))):
            array = self.constants.get(one)
            if array is None or array.size != 1:
                continue
            if isclose(float(array.reshape(())), number, rel_tol=1e-3):
                return str(other)
        return None


def fuse(nodes: list[Any], constants: Mapping[str, Any], outputs: set[str]) -> list[Any]:
    """Return the nodes, each gelu and each mean squared error one of them.

    Args:
        nodes: In the order of the file.
        constants: Known arrays by name.
        outputs: Values that the file yields.
    """
    readers: dict[str, list[Any]] = {}
    for reader in nodes:
        for value in reader.input:
            readers.setdefault(value, []).append(reader)
    writer = {value: node for node in nodes for value in node.output}
    graph = _Nodes(writer, readers, constants, frozenset(outputs))
    left: dict[int, Any] = {id(node): node for node in nodes}
    for start in nodes:
        pattern = _gelu(graph, start) or _mean_squared_error(graph, start)
        if pattern:
            operation, parts = pattern
            for part in parts:
                del left[id(part)]
            # the last of the parts stands where all that the operation reads is there
            left[id(parts[-1])] = operation
    place = {id(node): index for index, node in enumerate(nodes)}
    return [left[key] for key in sorted(left, key=place.__getitem__)]


def _gelu(graph: _Nodes, erf: Any) -> tuple[Any, list[Any]] | None:
    """Erf of x / sqrt(2), + 1, and then times x and 1/2 in either order."""
    if erf.op_type != "Erf":
        return None
    scaled = graph.by(erf.input[0], "Div") or graph.by(erf.input[0], "Mul")
    number = sqrt(2) if scaled is not None and scaled.op_type == "Div" else sqrt(0.5)
    x = graph.with_number(scaled, number)
    plus = graph.next(erf.output[0], "Add")
    times = graph.next(plus.output[0], "Mul") if plus is not None else None
    if x is None or times is None or graph.with_number(plus, 1.0) is None:
        return None
    parts = [scaled, erf, plus]
    other = _other(times, plus.output[0])
    halved = graph.by(other, "Mul")
    if graph.with_number(halved, 0.5) == x:
        last, more = times, [halved]
    else:
        last, more = graph.next(times.output[0], "Mul"), [times]
        if other != x or graph.with_number(last, 0.5) != times.output[0]:
            return None
    made = node("Gelu", [x], last.output)
    made.name = erf.name
    return made, [*parts, *more, last]


def _mean_squared_error(graph: _Nodes, mean: Any) -> tuple[Any, list[Any]] | None:
    """ReduceMean over everything of a difference times itself, or its second power."""
    how = {attribute.name: attribute for attribute in mean.attribute}
    everything = len(mean.input) == 1 and "axes" not in how
    if mean.op_type != "ReduceMean" or not everything or "keepdims" not in how or how["keepdims"].i:
        return None
    square = graph.writer.get(mean.input[0])
    if square is None or graph.readers[mean.input[0]] != [mean]:
        return None
    twice = square.op_type == "Mul" and square.input[0] == square.input[1]
    if not twice and (square.op_type != "Pow" or graph.with_number(square, 2.0) != square.input[0]):
        return None
    difference = graph.writer.get(square.input[0])
    hidden = graph.readers[square.input[0]]
    if difference is None or difference.op_type != "Sub" or any(r is not square for r in hidden):
        return None
    made = node(MEAN_SQUARED_ERROR, difference.input, mean.output)
    made.name = mean.name
    return made, [difference, square, mean]


def _other(binary: Any, value: str) -> str:
    first, second = binary.input
    return str(second if first == value else first)
