"""The first steps of ranks that train together, by one process in float64.

Written apart from what the ranks do, and in numpy: schemes whose steps are those of one process are
held to that process with the whole batch, the others to all ranks one after the other.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..catalog.schemes import SCHEMES, count_largest
from ..graphs import passes, statistics
from ..graphs.graph import Graph
from ..job import Scheme
from ..level2 import trajectory
from ..optimizers import Chosen, start

Flats = list[Any]
"""An array of one axis for each rank: the trained parameters, or gradients of them."""


@dataclass(frozen=True)
class Setting:
    """Training to be checked, with its ranks.

    Attributes:
        graph: Builds the network for a batch.
        parameters: Before the first step, numpy arrays by name.
        optimizer: Key of `catalog.training.OPTIMIZERS`.
        numbers: All that it takes.
        scheme: How ranks train together.
        spans: Where the samples of each rank begin and end in a batch.
        group: Samples that are normalized together; None for all that a process has.
        batches: The inputs of each step.
        rates: The learning rate of each.
        order: Order of an asynchronous scheme, see `staleness.Server`.
    """

    graph: Callable[[int], Graph]
    parameters: Mapping[str, Any]
    optimizer: Chosen
    numbers: Mapping[str, float]
    scheme: Scheme
    spans: Sequence[tuple[int, int]]
    group: int | None
    batches: Sequence[Mapping[str, Any]]
    rates: Sequence[float]
    order: Sequence[tuple[int, bool]]


@dataclass(frozen=True)
class After:
    """Result of one step.

    Attributes:
        flats: Parameters of each rank.
        statistics: What is kept of those that groups are normalized by; of no meaning where ranks
            are not in step.
    """

    flats: Flats
    statistics: Any


class World:
    """All ranks, before the first step.

    Attributes:
        flats: Parameters of each rank.
        kept: Statistics of all ranks' batches, by name.
        weights: Each one's share of the samples.
        memory: What each keeps of gradients for the next step.
    """

    def __init__(self, setting: Setting) -> None:
        """See `Setting`."""
        self._setting = setting
        self._names = setting.graph(1).trainable
        self._moving = statistics.find(setting.graph(1))
        self.kept = {name: setting.parameters[name] for name in list_statistics(setting.graph(1))}
        first = flatten(setting.parameters, self._names)
        ranks, self._batch = len(setting.spans), setting.spans[-1][1]
        self.flats = [first for _ in range(ranks)]
        self.weights = [(end - begin) / self._batch for begin, end in setting.spans]
        self.memory = [0 * first for _ in range(ranks)]
        self._optimizers = [start(setting.optimizer, setting.numbers) for _ in range(ranks)]

    def differentiate(self, rank: int, step: int) -> Any:
        """Return gradients of a rank's own samples of a step, weighed."""
        first, end = self._setting.spans[rank]
        inputs = {}
        for name, array in self._setting.batches[step].items():
            rows = len(array) // self._batch
            inputs[name] = array[rows * first : rows * end]
        values = {**self._setting.parameters, **self.kept, **self._split(self.flats[rank])}
        wide = {
            name: one.astype("float64") if one.dtype.kind == "f" else one
            for name, one in {**values, **inputs}.items()
        }
        own = {name: wide.pop(name) for name in inputs}
        graph = self._setting.graph(self._setting.group or end - first)
        _, gradients, moved = passes.differentiate(graph, self._moving, wide, own)
        self.kept.update(moved)
        return flatten(gradients, self._names) * self.weights[rank]

    def move(self, rank: int, flat: Any, gradients: Any, step: int) -> Any:
        """Return parameters after a step of a rank's optimizer."""
        optimizer, rate = self._optimizers[rank], self._setting.rates[step]
        named = self._split(gradients)
        moved = optimizer.descend(self._split(flat), lambda _: (0.0, named), rate)
        return flatten(moved, self._names)

    def _split(self, flat: Any) -> dict[str, Any]:
        arrays, first = {}, 0
        for name in self._names:
            shape = self._setting.parameters[name].shape
            count = self._setting.parameters[name].size
            arrays[name] = flat[first : first + count].reshape(shape)
            first += count
        return arrays


def flatten(arrays: Mapping[str, Any], names: Sequence[str]) -> Any:
    """Return arrays one after the other, in float64."""
    import numpy

    none = numpy.zeros(0)
    return numpy.concatenate(
        [none, *(arrays[name].astype("float64").reshape(-1) for name in names)]
    )


def list_statistics(graph: Graph) -> tuple[str, ...]:
    """Return the parameters of a network that keep statistics of its batches."""
    return tuple(name for one in statistics.find(graph) for name in one.names)


def follow(setting: Setting) -> list[After]:
    """Yield the result of each step."""
    if SCHEMES[setting.scheme.name].exact:
        return _follow_one(setting)
    if SCHEMES[setting.scheme.name].asynchronous:
        return _replay(setting, World(setting))
    return _follow_all(setting, World(setting))


def _follow_one(setting: Setting) -> list[After]:
    graph = setting.graph(setting.group or setting.spans[-1][1])
    steps = trajectory.follow(
        graph,
        setting.parameters,
        setting.batches,
        setting.rates,
        setting.optimizer,
        setting.numbers,
    )
    return [
        After(
            [flatten(one.after, graph.trainable)] * len(setting.spans),
            flatten(one.after, list_statistics(graph)),
        )
        for one in steps
    ]


def _follow_all(setting: Setting, world: World) -> list[After]:
    """Return all ranks in step."""
    compress, steps = _COMPRESS.get(setting.scheme.name), []
    ranks = range(len(setting.spans))
    for step in range(len(setting.rates)):
        gradients = [world.differentiate(rank, step) for rank in ranks]
        if compress:
            for rank in ranks:
                world.memory[rank] = world.memory[rank] + gradients[rank]
                gradients[rank] = compress(world.memory[rank], setting.scheme.numbers)
                world.memory[rank] = world.memory[rank] - gradients[rank]
            gradients = [sum(gradients)] * len(ranks)
        else:
            gradients = [one / weight for one, weight in zip(gradients, world.weights)]
        world.flats = [world.move(rank, world.flats[rank], gradients[rank], step) for rank in ranks]
        if not compress:
            world.flats = _mix(setting.scheme, world, step + 1)
        steps.append(After(world.flats, flatten(world.kept, tuple(world.kept))))
    return steps


def _mix(scheme: Scheme, world: World, step: int) -> Flats:
    """Return the averaged parameters after some steps."""
    flats, ranks = world.flats, len(world.flats)
    if scheme.name == "neighbour-averaging":
        circles = [{(rank + shift) % ranks for shift in (-1, 0, 1)} for rank in range(ranks)]
        return [sum(flats[one] for one in circle) / len(circle) for circle in circles]
    if step % scheme.numbers.get("period", 1):
        return flats
    return [sum(flat * weight for flat, weight in zip(flats, world.weights))] * ranks


def _choose_largest(flat: Any, numbers: Mapping[str, float]) -> Any:
    import numpy

    order = numpy.argsort(-numpy.abs(flat), kind="stable")
    chosen = numpy.zeros_like(flat)
    places = order[: count_largest(flat.size, numbers["density"])]
    chosen[places] = flat[places]
    return chosen


def _quantize(flat: Any, numbers: Mapping[str, float]) -> Any:
    import numpy

    del numbers
    scale = numpy.abs(flat).max() / 127
    return numpy.rint(flat / scale) * scale if scale else flat


_COMPRESS: Mapping[str, Callable[[Any, Mapping[str, float]], Any]] = {
    "top-k": _choose_largest,
    "quantized": _quantize,
}
"""Compression of a rank's gradients before they are sent, by scheme."""


def _replay(setting: Setting, world: World) -> list[After]:
    """Return the steps of a server in the order that it took them in.

    Raises:
        ValueError: It was not the order of so many steps of each rank.
    """
    ranks, steps = range(len(setting.spans)), len(setting.rates)
    served, clocks = world.flats[0], [0 for _ in ranks]
    after: list[Flats] = [[] for _ in ranks]
    for rank, is_handed in setting.order:
        if is_handed:
            world.flats[rank] = served
            after[rank].append(served)
            continue
        served = world.move(0, served, world.differentiate(rank, clocks[rank]), clocks[rank])
        clocks[rank] += 1
    if any(len(one) != steps for one in after) or clocks != [steps for _ in ranks]:
        raise ValueError(
            f"the server applied {clocks} steps of the ranks, expected {steps} of each rank"
        )
    return [After([after[rank][step] for rank in ranks], None) for step in range(steps)]
