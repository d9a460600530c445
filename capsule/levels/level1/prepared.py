"""A Level 1 trial with everything made that it needs, and its minibatches."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Callable

from ..frameworks import Framework
from ..frameworks.base import Networks, require
from ..graphs import values
from ..graphs.graph import Graph, Node
from ..instruments.calls import arrays
from ..instruments.doubles import Bring
from ..operators import ARITHMETIC, several
from ..operators.base import Call
from . import microbatch
from .microbatch import Part


@dataclass(frozen=True)
class Prepared:
    """A trial with everything made that it needs.

    Attributes:
        graph: Builds the network for a batch, once.
        batch: Batch of the case.
        parameters: Numpy arrays by name.
        tensors: The same on the device.
        bring: Puts an array where the reference is computed.
        trains: True if training is measured.
        placed: What `_calls` laid out on the device, one after the other.
    """

    framework: Framework
    graph: Callable[[int], Graph]
    batch: int
    dtype: str
    seed: int
    warmup: int
    calls: int
    conditions: tuple[str, ...]
    trains: bool
    parameters: Mapping[str, Any]
    tensors: Mapping[str, Any]
    bring: Bring
    placed: list[Mapping[str, Any]] = field(default_factory=list)

    @property
    def native(self) -> Networks:
        """Return the framework's runner of networks."""
        return require(self.framework.networks, self.framework.name, "run networks")

    def parts(self, sizes: Sequence[int], further: int = 0) -> tuple[Part, ...]:
        """Return a minibatch, made from the seed and split; another one with `further`."""
        whole = self.graph(sum(sizes))
        inputs = values.inputs(whole, self.dtype, self.seed + further)
        return microbatch.split(whole, {size: self.graph(size) for size in sizes}, inputs, sizes)

    def exact(self, parts: Sequence[Part]) -> tuple[Part, ...]:
        """Return parts with their inputs where the reference is computed."""
        return tuple(replace(part, inputs=self._bring(part.inputs)) for part in parts)

    @cached_property
    def exact_parameters(self) -> Mapping[str, Any]:
        """Return the parameters where the reference is computed."""
        return self._bring(self.parameters)

    def _bring(self, arrays: Mapping[str, Any]) -> dict[str, Any]:
        return {name: self.bring(array) for name, array in arrays.items()}

    def place(self, part: Part) -> dict[str, Any]:
        """Return a part's inputs and the parameters, on the device."""
        inputs = {
            name: self.framework.from_numpy(_copy(array), self.dtype)
            for name, array in part.inputs.items()
        }
        return {**inputs, **self.tensors}

    def fill(self, placed: Sequence[Mapping[str, Any]], parts: Sequence[Part]) -> None:
        """Put the inputs of parts into what was laid out for others of their sizes.

        Raises:
            FrameworkError: Tensors stay as they are.
        """
        fill = require(self.framework.fill, self.framework.name, "overwrite the values of tensors")
        for tensors, part in zip(placed, parts):
            for name, array in part.inputs.items():
                fill(tensors[name], array)

    def call(self, parts: Sequence[Part]) -> Call:
        """Training, or inference where there is none: what the limit of memory is for."""
        return self.training(parts) if self.trains else self.inference(parts)

    def inference(self, parts: Sequence[Part]) -> Call:
        """Return a function that computes the outputs of each part."""
        read = _read(parts[0].graph.inference)
        return microbatch.inference(self._calls(self.native.inference, parts, read))

    def training(self, parts: Sequence[Part]) -> Call:
        """Return a function that computes the minibatch's loss and gradients."""
        import numpy

        stored, read = ARITHMETIC[self.dtype].stored, _read(parts[0].graph.training)
        shares = [
            self.framework.from_numpy(numpy.array(part.share, stored), self.dtype) for part in parts
        ]
        train = require(self.native.training, self.framework.name, "differentiate")
        return microbatch.training(self._calls(train, parts, read), shares)

    def arrays(self, parts: Sequence[Part], results: Any, *, trained: bool) -> tuple[Any, ...]:
        """Return results as numpy arrays of their own, once they have the shapes and the dtype due.

        Of inference those of the whole minibatch, of training the loss and the gradients.
        """
        graph = parts[0].graph
        shapes = [shape for part in parts for shape in _shapes(part.graph)]
        types = [] if trained else [one for part in parts for one in _types(part.graph)]
        if trained:
            shapes = [(), *(self.parameters[name].shape for name in graph.trainable)]
        reached = arrays(self.framework, graph.name, self.dtype, several(results), shapes, types)
        return tuple(map(_copy, reached)) if trained else _join(reached, len(parts))

    def _calls(
        self,
        make: Callable[[Graph, Mapping[str, Any]], Call],
        parts: Sequence[Part],
        read: set[str],
    ) -> list[Call]:
        """Return a call for each part; those of one size share what was compiled, where they
        can.
        """
        calls: list[Call] = []
        firsts: dict[int, tuple[Call, list[Any]]] = {}
        for part in parts:
            tensors = self.place(part)
            inputs = [tensors[name] for name in part.inputs if name in read]
            first = firsts.get(id(part.graph))
            call = microbatch.again(*first, inputs) if first else None
            if call is None:
                call = make(part.graph, tensors)
            firsts.setdefault(id(part.graph), (call, inputs))
            calls.append(call)
            self.placed.append(tensors)
        return calls


def _read(nodes: Iterable[Node]) -> set[str]:
    """Return the names of all inputs of nodes."""
    return {name for node in nodes for name in node.inputs}


def _shapes(graph: Graph) -> list[tuple[int, ...]]:
    """Return the shapes of the outputs."""
    of = {node.name: node.shape for node in graph.nodes}
    return [of[name] for name in graph.outputs]


def _types(graph: Graph) -> list[str | None]:
    """Return the types of the outputs."""
    of = {node.name: node.type for node in graph.nodes}
    return [of[name] for name in graph.outputs]


def _join(results: tuple[Any, ...], parts: int) -> tuple[Any, ...]:
    """Return outputs of the minibatch, of those of its parts one after the other."""
    import numpy

    count = len(results) // parts
    return tuple(numpy.concatenate(results[index::count]) for index in range(count))


def _copy(array: Any) -> Any:
    return array.copy()
