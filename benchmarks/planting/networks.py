# ruff: noqa: ARG005  (operands that a formula needs not)
"""The faults in networks: spoiled nodes, other formulas in every node of a kind, and memory."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any

import torch
from torch.nn import functional as f

from capsule.levels import catalog, networks
from capsule.levels.frameworks.torch import Torch
from capsule.levels.frameworks.torch import networks as native
from capsule.levels.graphs import apart
from capsule.levels.graphs.graph import Graph

from .faults import (
    KINDS,
    PLACES,
    SIZED,
    Fault,
    Plant,
    in_gradient,
    in_result,
    reach,
    remember,
    spoil,
)
from .formulas import around, formula, on_operands
from .operators import MEMORIES, SIZES

PLANTED = (
    *("lenet", "resnet44", "unet", "cosmoflow", "deepcam", "hepcnn", "cosmogan"),
    "transformer",
)
"""Networks that faults are planted in."""


def read_cases() -> dict[str, Mapping[str, int]]:
    """Every network of `manifests/level1.json`, and its case there."""
    listed = json.loads(MANIFEST.read_text(encoding="utf-8"))["benchmarks"]
    return {
        one["network"]: catalog.NETWORKS[one["network"]].cases["quick"][0][1]
        if one["cases"] == "quick"
        else one["cases"][0]
        for one in listed
    }


def case_of(name: str, which: int) -> Mapping[str, int]:
    """The case of a network, or with 1 that of twice its batch."""
    case = CASES[name]
    return {**case, "batch": case["batch"] * (1 + which)}


MANIFEST = Path(__file__).parents[2] / "manifests" / "level1.json"
CASES = read_cases()

SPOILED = 10
"""Nodes of each network."""

MOVING = ("view", "transpose", "concat", "expand", "detach")
SMALL_BATCH = 2


def kind_of(operator: str) -> str:
    """Of nodes in training and in inference."""
    return operator.removesuffix("_inference")


def kinds_of(name: str) -> list[str]:
    """Those of a network's nodes, each once."""
    graph = networks.build(name, CASES[name])
    return list(dict.fromkeys(kind_of(node.operator) for node in graph.nodes))


FORMULAS: Mapping[str, tuple[tuple[str, Plant], ...]] = {
    "batch_norm": (
        ("left out", around(lambda right, x, *t: x + sum(0 * one.sum() for one in t))),
        ("no bias", on_operands(lambda x, w, b, *t: (x, w, 0 * b, *t))),
        ("no weight", on_operands(lambda x, w, b, *t: (x, 1 + 0 * w, b, *t))),
        ("epsilon 2e-5", around(lambda right, x, w, b, *t: _norm(x, w, b, *t))),
    ),
    "layer_norm": (
        ("no bias", on_operands(lambda x, w, b: (x, w, 0 * b))),
        ("no weight", on_operands(lambda x, w, b: (x, 1 + 0 * w, b))),
        ("epsilon 1e-6", formula(lambda s, x, w, b: f.layer_norm(x, x.shape[1:], w, b, 1e-6))),
    ),
    "relu": (("leaks 1e-5", formula(lambda s, x: f.leaky_relu(x, 1e-5))),),
    "leaky_relu": (("that of a relu", formula(lambda s, x: f.relu(x))),),
    "gelu": (("the other form", formula(lambda s, x: f.gelu(x))),),
    "max_pool2d": (("times 0.99", around(lambda right, x: right(x) * 0.99)),),
    "conv2d": (
        ("convolution for correlation", on_operands(lambda x, w, *b: (x, w.flip(2, 3), *b))),
    ),
    "conv3d": (
        ("convolution for correlation", on_operands(lambda x, w, *b: (x, w.flip(2, 3, 4), *b))),
    ),
    "gemm": (("no bias", on_operands(lambda x, w, *b: (x, w, *(0 * one for one in b)))),),
    "softmax_cross_entropy": (
        ("summed", around(lambda right, x, y, *w: right(x, y, *w) * x.shape[0])),
    ),
    "mean_squared_error": (("halved", around(lambda right, a, b: right(a, b) / 2)),),
    "attention": (
        ("all keys are seen", formula(lambda s, *t: f.scaled_dot_product_attention(*t))),
    ),
}


def _norm(x: Any, w: Any, b: Any, *kept: Any) -> Any:
    mean, variance = kept or (None, None)
    return f.batch_norm(x, mean, variance, w, b, not kept, 0.0, 2e-5)


def faults() -> list[Fault]:
    """The list, the same each time."""
    numbers = count()
    listed: list[Fault] = []
    for name in PLANTED:
        graph = networks.build(name, CASES[name])
        listed += [_spoil_node(name, graph, at, next(numbers)) for at in range(SPOILED)]
        listed += [
            Fault(name, "both", word, "every node of its kind", "", plant, node=f"every {kind}")
            for kind in kinds_of(name)
            for word, plant in FORMULAS.get(kind, ())
        ]
        listed += [
            Fault(name, way, which, "later calls", "", lambda right: right, case)
            for way in ("forward", "backward")
            for which, case in (
                (MEMORIES[next(numbers) % len(MEMORIES)], 0),
                # of a batch of two it would be none
                ("right for two examples alone", int(CASES[name]["batch"] == SMALL_BATCH)),
            )
        ]
    return listed


def _spoil_node(name: str, graph: Graph, at: int, number: int) -> Fault:
    """One of the nodes, evenly from the first to the last, forward and backward in turn."""
    way = ("forward", "backward")[at % 2]
    passed = {node: list(places.values()) for node, places in apart.gradients(graph)}
    nodes = [
        node
        for node in graph.training
        if node.operator not in MOVING and (way == "forward" or passed.get(node.name))
    ]
    node = nodes[at * (len(nodes) - 1) // (SPOILED - 1)]
    kinds, places = list(KINDS), list(PLACES)
    kind = kinds[number % len(kinds)]
    place = places[number % len(places)] if node.shape or way == "backward" else "whole"
    if not node.shape and way == "forward" and kind == "taken from its neighbour":
        kind = "scaled by"
    size = SIZES[number // 3 % len(SIZES)] if kind in SIZED else 0.0
    change = spoil(kind, place, size)
    if way == "forward":
        plant = in_result(change)
    else:
        plant = in_gradient(change, passed[node.name][number % len(passed[node.name])])
    word = f"{size:.2g}" if size else ""
    return Fault(name, way, kind, place, word, plant, node=node.name)


class Planted(native.TorchNetworks):
    """torch's networks with one fault in them."""

    def __init__(self, fault: Fault) -> None:
        self._fault = fault

    def inference(self, graph: Graph, values: Any) -> Any:
        return self._whole(super().inference(self._plant(graph), values), graph, "forward")

    def alone(self, graph: Graph, values: Any) -> Any:
        return super().alone(self._plant(graph), values)

    def training(self, graph: Graph, values: Any) -> Any:
        return self._whole(super().training(self._plant(graph), values), graph, "backward")

    def _plant(self, graph: Graph) -> Graph:
        nodes = tuple(
            replace(node, operator=f"planted {node.operator}") if self._is_planted(node) else node
            for node in graph.nodes
        )
        return replace(graph, nodes=nodes)

    def _is_planted(self, node: Any) -> bool:
        wanted = self._fault.node
        name = node.name.removesuffix(".inference")
        return wanted in (name, f"every {kind_of(node.operator)}") and ":" not in node.name

    def _whole(self, call: Any, graph: Graph, way: str) -> Any:
        """Faults of a whole call."""
        if self._fault.node or self._fault.way != way:
            return call
        function, operands = call
        which = self._fault.kind
        if which not in MEMORIES:
            batch = next(iter(graph.inputs.values())).shape[0]
            if batch == SMALL_BATCH or graph.name.endswith(" apart"):
                return call

            def zeros(*tensors: Any) -> Any:
                reach()
                return tuple(map(torch.zeros_like, function(*tensors)))

            return zeros, operands
        changes: dict[int, Any] = {}

        def wrong(*tensors: Any) -> Any:
            return tuple(
                changes.setdefault(at, remember(which))(one.detach())
                for at, one in enumerate(function(*tensors))
            )

        return wrong, operands


@contextmanager
def plant(fault: Fault, framework: Torch) -> Iterator[None]:
    """Have a framework run networks with the fault."""
    right = dict(native.OPERATIONS)
    before = framework.networks
    framework.networks = Planted(fault)
    native.OPERATIONS.update(
        {f"planted {name}": fault.plant(entry) for name, entry in right.items()}
    )
    try:
        yield
    finally:
        native.OPERATIONS.clear()
        native.OPERATIONS.update(right)
        framework.networks = before
