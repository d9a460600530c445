"""The stage of a network that one rank runs: `catalog.stages`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from ..catalog.stages import Cut
from .graph import Graph, Input, Node


def split(graph: Graph, cuts: Sequence[Cut]) -> tuple[Graph, ...]:
    """Return the stages of a training, each a network whose loss is the value that it hands on.

    Its first input is what the stage before hands on; the last one's loss is that of the network.

    Args:
        graph: The network for a micro-batch.
        cuts: Between the stages.

    Raises:
        ValueError: There is no such value, or others pass with it.
    """
    ends = [*(cut.name for cut in cuts), graph.require_loss()]
    stages, before = list[Graph](), None
    for end, nodes in zip(ends, _divide(graph, ends)):
        stages.append(_make(graph, nodes, before, end))
        before = next(node for node in nodes if node.name == end)
    return tuple(stages)


def _divide(graph: Graph, ends: Sequence[str]) -> Iterator[list[Node]]:
    nodes = list(graph.training)
    names, first, begin = [node.name for node in nodes], 0, ""
    if absent := [end for end in ends if end not in names]:
        raise ValueError(f"{graph.name} has no value {absent[0]} on the way to its loss")
    for end in ends:
        last = names.index(end)
        earlier = set(names[:first]) - {begin}
        passing = {name for node in nodes[first:] for name in node.inputs} & earlier
        if passing:
            raise ValueError(
                f"{graph.name} cannot be cut at {begin}: the nodes after {begin} also read"
                f" {', '.join(sorted(passing))}, expected only {begin}"
            )
        yield nodes[first : last + 1]
        first, begin = last + 1, end


def _make(graph: Graph, nodes: Sequence[Node], before: Node | None, end: str) -> Graph:
    read = {name for node in nodes for name in node.inputs}
    inputs = {name: one for name, one in graph.inputs.items() if name in read}
    if before is not None:
        inputs = {before.name: Input(before.shape), **inputs}
    return replace(
        graph,
        inputs=inputs,
        parameters={name: one for name, one in graph.parameters.items() if name in read},
        nodes=tuple(nodes),
        outputs=(end,),
        loss=end,
    )


def list_ties(stages: Sequence[Graph]) -> tuple[str, ...]:
    """Return the trained parameters that the first stage and the last one both read.

    Raises:
        ValueError: Others do.
    """
    places: dict[str, list[int]] = {}
    for place, stage in enumerate(stages):
        for name in stage.trainable:
            places.setdefault(name, []).append(place)
    shared = {name: one for name, one in places.items() if len(one) > 1}
    for name, one in shared.items():
        if one != [0, len(stages) - 1]:
            raise ValueError(
                f"{name} of {stages[0].name} is read by stages {one}, expected one stage, or the"
                " first and the last"
            )
    return tuple(shared)
