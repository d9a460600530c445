"""Frameworks whose results, or calls, something is done to on their way."""

from collections.abc import Callable, Mapping

from capsule.levels.frameworks import base
from capsule.levels.frameworks.base import Call, NativeTensor
from capsule.levels.frameworks.numpy import Numpy
from capsule.levels.graphs.graph import Graph
from capsule.levels.operators import Operator

Change = Callable[[str, Call], Call]
"""Takes a method's name and its call, returns a call."""


class Operators:
    """Capabilities of a framework, with a function of what each hands out."""

    def __init__(self, right: base.Operators, change: Change) -> None:
        self._right = right
        self._change = change

    def operation(
        self, operator: Operator, sizes: Mapping[str, int], tensors: tuple[NativeTensor, ...]
    ) -> Call:
        return self._change("operation", self._right.operation(operator, sizes, tensors))

    def gradient(
        self,
        operator: Operator,
        sizes: Mapping[str, int],
        tensors: tuple[NativeTensor, ...],
        wrt: tuple[int, ...],
        upstream: tuple[NativeTensor, ...],
    ) -> Call:
        assert self._right.gradient is not None
        call = self._right.gradient(operator, sizes, tensors, wrt, upstream)
        return self._change("gradient", call)


class Networks:
    """See `Operators`."""

    def __init__(self, right: base.Networks, change: Change) -> None:
        self._right = right
        self._change = change

    def inference(self, graph: Graph, values: Mapping[str, NativeTensor]) -> Call:
        return self._change("inference", self._right.inference(graph, values))

    def alone(self, graph: Graph, values: Mapping[str, NativeTensor]) -> Call:
        return self._change("inference", self._right.alone(graph, values))

    @property
    def backward(self) -> base.Backward | None:
        return self._right.backward

    def training(self, graph: Graph, values: Mapping[str, NativeTensor]) -> Call:
        assert self._right.training is not None
        return self._change("training", self._right.training(graph, values))

    trainer = None
    module = None
    inferring = None
    mixed_trainer = None


def change(framework: Numpy, how: Change) -> None:
    """Let `how` change every call that a framework hands out."""
    framework.operators = Operators(framework.operators, how)
    framework.networks = Networks(framework.networks, how)
