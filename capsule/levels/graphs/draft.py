"""Network under construction: values by name, and both forms of normalization.

`builder` has a method for each layer, which end here.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from math import prod
from typing import Any, Literal

from .. import catalog
from . import structure
from .graph import Graph, Input, Node, Parameter, prune

_ANY_SHAPE = ("relu", "leaky_relu", "sigmoid", "tanh", "gelu", "sum", "dropout")
"""Operators of n elements that keep the shape of their first input."""


class Draft:
    """A graph under construction.

    Attributes:
        name: Name of the network.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self._inputs: dict[str, Input] = {}
        self._parameters: dict[str, Parameter] = {}
        self._nodes: dict[str, Node] = {}
        self._counts: dict[str, int] = {}
        # what inference takes instead of a value that depends on a batch's statistics
        self._inference: dict[str, str] = {}

    def shape(self, value: str) -> tuple[int, ...]:
        """Return the shape of an input, a parameter or a value.

        Raises:
            ValueError: There is none of this name.
        """
        for known in (self._nodes, self._inputs, self._parameters):
            if value in known:
                return known[value].shape
        raise ValueError(f"{self.name}: no input, parameter or earlier node is named {value!r}")

    def type_of(self, value: str) -> str | None:
        """Return the type of a value's elements by numpy's name; None for real numbers."""
        if value in self._nodes:
            return self._nodes[value].type
        is_whole = value in self._inputs and self._inputs[value].below is not None
        return "int64" if is_whole else None

    def input(self, name: str, shape: Iterable[int], below: int | None = None) -> str:
        """Add an input of each call, batch first; whole numbers with `below`."""
        self._inputs[self._new(name)] = Input(tuple(shape), below)
        return name

    def _mask(self, name: str, shape: tuple[int, ...], percent: int) -> str:
        self._inputs[self._new(name)] = Input(shape, percent=percent)
        return name

    def latent(self, name: str, shape: Iterable[int]) -> str:
        """Add a generator's random input, batch first; see `graph.Input`."""
        self._inputs[self._new(name)] = Input(tuple(shape), is_latent=True)
        return name

    def labels(self, name: str, rows: int, classes: int) -> str:
        """Add the right class of each row, for a loss: whole numbers of shape (rows,)."""
        return self.input(name, (rows,), classes)

    def parameter(
        self,
        name: str,
        shape: Iterable[int],
        initial: Literal["uniform", "ones", "zeros"] = "zeros",
        bound: float = 0.0,
        *,
        trainable: bool = True,
        value: Any = None,
    ) -> str:
        """Add a weight or a constant; see `graph.Parameter`."""
        self._parameters[self._new(name)] = Parameter(
            tuple(shape), initial, bound, trainable, value
        )
        return name

    def node(
        self,
        operator: str,
        inputs: Iterable[str],
        sizes: Mapping[str, Any],
        name: str | None = None,
    ) -> str:
        """Add any operator of Level 0 or of `structure` to existing values.

        Args:
            operator: Its name.
            inputs: In the order of the operator's `tensors`.
            sizes: Its case; options of Level 0 may be left out.
            name: Name of the node; None for the operator's with a number.

        Raises:
            ValueError: There is no such operator or value, the sizes are wrong, or shapes differ
                from those that the operator takes.
        """
        operands = tuple(inputs)
        chosen = self._name(operator) if name is None else name
        value = self._append(operator, operands, sizes, chosen)
        twins = tuple(self._inference.get(operand, operand) for operand in operands)
        if twins != operands:
            self._inference[value] = self._append(operator, twins, sizes, f"{value}.inference")
        return value

    def graph(self, outputs: Iterable[str], loss: str | None = None) -> Graph:
        """Return the network.

        Args:
            outputs: What inference yields.
            loss: The scalar that training lowers.

        Raises:
            ValueError: There is no such value, no output, or the loss is no scalar.
        """
        yielded = tuple(outputs) if not isinstance(outputs, str) else (outputs,)
        for value in yielded:
            self.shape(value)
        if not yielded:
            raise ValueError(f"{self.name} has no outputs")
        if loss is not None and self.shape(loss) != ():
            raise ValueError(f"the loss of {self.name} has shape {self.shape(loss)}, expected ()")
        everything = Graph(
            self.name,
            self._inputs,
            self._parameters,
            tuple(self._nodes.values()),
            tuple(self._inference.get(value, value) for value in yielded),
            loss,
        )
        return prune(everything)

    def _name(self, operator: str) -> str:
        self._counts[operator] = self._counts.get(operator, 0) + 1
        return f"{operator}{self._counts[operator]}"

    def _new(self, name: str) -> str:
        if name in self._inputs or name in self._parameters or name in self._nodes:
            raise ValueError(f"{self.name} has two values named {name!r}")
        return name

    def _append(
        self, operator: str, inputs: tuple[str, ...], sizes: Mapping[str, Any], name: str
    ) -> str:
        formula = structure.load(operator)
        if operator in catalog.OPERATORS:
            sizes = catalog.OPERATORS[operator].complete(sizes)
        shapes = [self.shape(value) for value in inputs]
        due = [tensor.shape for tensor in formula.tensors(sizes).values()]
        flat = operator in (*_ANY_SHAPE, "mean_squared_error", "sigmoid_cross_entropy")
        same = (
            [(prod(shape),) for shape in shapes] == due and len(set(shapes)) == 1
            if flat
            else shapes == due
        )
        if not same:
            raise ValueError(f"{name} of {self.name} has shapes {shapes}, expected {due}")
        shape = shapes[0] if operator in _ANY_SHAPE else formula.outputs(sizes)[0]
        kind = sizes["type"] if operator == structure.ONNX else None
        if operator in structure.MOVING:
            kind = self.type_of(inputs[0])
        self._nodes[self._new(name)] = Node(name, operator, sizes, inputs, shape, kind)
        return name
