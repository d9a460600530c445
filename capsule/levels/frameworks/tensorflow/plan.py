"""The calls of a network: its nodes one after the other, activations with channels last.

Every value has a layout, the order in which its axes are held; None is the graph's own. An
operation with channels last takes and yields values so held, others keep what they are given, and
only one that reads the order of axes (a view, a product of matrices) gets it put back, inside the
timed call. Inputs and weights are laid out before the clock starts, results after it has stopped.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Callable

import tensorflow

from ...graphs.graph import Graph, Node
from ..base import FrameworkError, NativeTensor
from .operations import Axes, Case, Operation, Transposed, inverse
from .operators import OPERATIONS

_ANY_ORDER = (
    *("relu", "leaky_relu", "sigmoid", "tanh", "gelu", "sum", "dropout"),
    *("mean_squared_error", "sigmoid_cross_entropy"),
)
"""Operations on elements in equal places."""


@dataclass(frozen=True)
class Step:
    """One call.

    Attributes:
        function: Takes tensors, returns one.
        inputs: Names of what it takes.
        output: Name of what it returns.
        spent: Names that no later step reads.
    """

    function: Callable[..., Any]
    inputs: tuple[str, ...]
    output: str
    spent: tuple[str, ...] = ()


class Plan:
    """The calls of a network, and how its values are held.

    Attributes:
        taken: Names of the inputs and parameters that a call takes, in order.
    """

    def __init__(
        self,
        graph: Graph,
        nodes: tuple[Node, ...],
        results: tuple[str, ...],
        trained: tuple[str, ...],
        *,
        compiled: bool,
    ) -> None:
        """Plan the calls.

        Args:
            graph: The network.
            nodes: Those to be run.
            results: Names of the values that a call yields.
            trained: Parameters that gradients are taken by, none for inference.
            compiled: True if XLA compiles the calls.

        Raises:
            FrameworkError: TensorFlow lacks an operator.
        """
        read = {*trained, *results, *(name for node in nodes for name in node.inputs)}
        self.taken = tuple(name for name in (*graph.inputs, *graph.parameters) if name in read)
        self._parameters = frozenset(graph.parameters)
        self._laid_out: dict[str, tuple[NativeTensor, NativeTensor]] = {}
        self._trained = trained
        self._results = results
        self._compiled = compiled
        self._layouts: dict[str, Axes] = {}
        self._steps: list[Step] = []
        for node in nodes:
            self._add(node)
        self._release()

    def operands(self, values: Mapping[str, NativeTensor]) -> tuple[NativeTensor, ...]:
        """Lay out the operands of a call; repeated parameters once for all calls."""
        return tuple(self._operand(name, values[name]) for name in self.taken)

    def _operand(self, name: str, tensor: NativeTensor) -> NativeTensor:
        if name not in self._parameters:
            return _transpose(tensor, self._layouts.get(name))
        source, _ = self._laid_out.get(name, (None, None))
        if source is not tensor:
            self._laid_out[name] = tensor, _transpose(tensor, self._layouts.get(name))
        return self._laid_out[name][1]

    def forward(self, *operands: NativeTensor) -> tuple[NativeTensor, ...]:
        """Return the results, as they are held."""
        held = dict(zip(self.taken, operands))
        for step in self._steps:
            held[step.output] = step.function(*[held[name] for name in step.inputs])
            for name in step.spent:
                del held[name]
        return tuple(held[name] for name in self._results)

    def gradients(self, *operands: NativeTensor) -> tuple[NativeTensor, ...]:
        """Return the results, and the first one's gradients by the trained parameters, from a
        tape.
        """
        by = dict(zip(self.taken, operands))
        sources = [by[name] for name in self._trained]
        with tensorflow.GradientTape(watch_accessed_variables=False) as tape:
            tape.watch(sources)
            loss, *others = self.forward(*operands)
        gradients = tape.gradient(loss, sources, unconnected_gradients="zero")
        # the gradient of a table comes as rows and their numbers
        return (loss, *others, *map(tensorflow.convert_to_tensor, gradients))

    def pull_back(
        self, operands: tuple[NativeTensor, ...], upstream: NativeTensor
    ) -> Callable[[], tuple[NativeTensor, ...]]:
        """Return a function that computes gradients by the trained parameters repeatedly.

        Args:
            operands: By `operands`.
            upstream: The gradient of the result, in the graph's order of axes.
        """
        by = dict(zip(self.taken, operands))
        sources = [by[name] for name in self._trained]
        with tensorflow.GradientTape(persistent=True, watch_accessed_variables=False) as tape:
            tape.watch(sources)
            (result,) = self.forward(*operands)
        (name,) = self._results
        arriving = _transpose(upstream, self._layouts.get(name))

        def run() -> tuple[NativeTensor, ...]:
            gradients = tape.gradient(result, sources, arriving, unconnected_gradients="zero")
            return self._order(map(tensorflow.convert_to_tensor, gradients), self._trained)

        return run

    def in_order(self, results: tuple[NativeTensor, ...]) -> tuple[NativeTensor, ...]:
        """Return results, and gradients behind them, to be read in the graph's order of axes."""
        return self._order(results, (*self._results, *self._trained))

    def _order(
        self, tensors: Iterable[NativeTensor], names: Iterable[str]
    ) -> tuple[NativeTensor, ...]:
        layouts = (self._layouts.get(name) for name in names)
        return tuple(
            tensor if axes is None else Transposed(tensor, inverse(axes))
            for tensor, axes in zip(tensors, layouts)
        )

    def _add(self, node: Node) -> None:
        if node.operator in _STRUCTURE:
            self._structural(node)
        elif node.operator in _ANY_ORDER:
            axes = self._common(node.inputs)
            function = self._choose(node).function
            self._call(function, node, [axes] * len(node.inputs), axes if node.shape else None)
        else:
            operation = self._choose(node)
            yielded = None if operation.output is None else inverse(operation.output)
            wanted = operation.layouts(range(len(node.inputs)))
            self._call(operation.function, node, wanted, yielded)

    def _structural(self, node: Node) -> None:
        axes = self._common(node.inputs)
        if node.operator == "concat":
            axis = node.sizes["axis"]
            along = axis if axes is None else axes.index(axis)
            alike = [axes] * len(node.inputs)
            self._call(lambda *x: tensorflow.concat(x, along), node, alike, axes)
        elif node.operator == "view":
            shape = tuple(node.sizes["shape"])
            kept = axes if axes is None or _in_order(axes, node.sizes["of"]) else None
            self._call(lambda x: tensorflow.reshape(x, shape), node, [kept], None)
        elif node.operator == "expand":
            shape = tuple(node.sizes["shape"])
            wide = shape if axes is None else tuple(shape[axis] for axis in axes)
            self._call(lambda x: tensorflow.broadcast_to(x, wide), node, [axes], axes)
        elif node.operator == "scale":
            factor = node.sizes["factor"]
            self._call(lambda x: x * factor, node, [axes], axes)
        elif node.operator == "detach":
            self._call(tensorflow.stop_gradient, node, [axes], axes)
        else:
            order = _between(axes, tuple(node.sizes["axes"]))
            self._call(lambda x: _transpose(x, order), node, [axes], None)

    def _choose(self, node: Node) -> Operation:
        if node.operator not in OPERATIONS:
            raise FrameworkError(f"tensorflow has no operator {node.operation} for {node.name}")
        case = Case(node.sizes, self._compiled, bool(self._trained))
        return OPERATIONS[node.operator](case)

    def _common(self, names: Iterable[str]) -> Axes:
        """Return a layout that one of them is held in, that of the first if it has one."""
        return next((axes for axes in map(self._layouts.get, names) if axes is not None), None)

    def _call(
        self, function: Callable[..., Any], node: Node, wanted: Iterable[Axes], yielded: Axes
    ) -> None:
        inputs = tuple(map(self._hold, node.inputs, wanted))
        self._steps.append(Step(function, inputs, node.name))
        self._layouts[node.name] = yielded

    def _hold(self, name: str, wanted: Axes) -> str:
        """Return the name of a value in a layout; an input or a weight takes that of its first
        reader.
        """
        if name in self.taken:
            self._layouts.setdefault(name, wanted)
        axes = self._layouts[name]
        if axes == wanted:
            return name
        moved = f"{name} {wanted or 'in order'}"
        if moved not in self._layouts:
            order = _between(axes, wanted)
            self._steps.append(Step(lambda x: _transpose(x, order), (name,), moved))
            self._layouts[moved] = wanted
        return moved

    def _release(self) -> None:
        """Let each step end what it reads last, or memory would hold every activation."""
        living = set(self._results)
        for place in reversed(range(len(self._steps))):
            step = self._steps[place]
            spent = tuple({*step.inputs, step.output} - living)
            self._steps[place] = Step(step.function, step.inputs, step.output, spent)
            living.update(step.inputs)


_STRUCTURE = ("view", "transpose", "concat", "expand", "scale", "detach")


def _transpose(tensor: NativeTensor, axes: Axes) -> NativeTensor:
    return tensor if axes is None else tensorflow.transpose(tensor, axes)


def _between(axes: Axes, wanted: Axes) -> Axes:
    """Return the transposition from the order `axes` into the order `wanted`; None for none."""
    order = tuple(range(len(axes or wanted or ())))
    moves = tuple((axes or order).index(axis) for axis in wanted or order)
    return None if moves == order else moves


def _in_order(axes: tuple[int, ...], shape: tuple[int, ...]) -> bool:
    """Return whether only axes of length 1 have moved, so that elements lie in the graph's
    order.
    """
    long = [axis for axis in axes if shape[axis] > 1]
    return long == sorted(long)
