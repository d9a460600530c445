"""The faults in operators: other formulas, spoiled parts of results and gradients, and memory."""

from __future__ import annotations

from itertools import count

from capsule.levels import catalog
from capsule.levels import operators as formulas_of

from . import formulas, modern
from .faults import KINDS, PLACES, SIZED, Fault, in_gradient, in_result, remembering, spoil

EACH_WAY = {"forward": 2, "backward": 2}
"""Spoiled parts of each operator."""

REMEMBERING = ("gemm", "conv2d", "softmax", "relu", "layer_norm")
MEMORIES = ("memoised", "stale", "lazy", "first wrong", "third wrong")

SIZES = tuple(2.0**-power for power in (1, 3, 5, 7, 9, 11, 14))
"""Of what is scaled or shifted, one after the other."""


def faults() -> list[Fault]:
    """The list, the same each time."""
    return [*formulas.faults(), *modern.faults(), *_spoiled(), *_remembering()]


def _spoiled() -> list[Fault]:
    """Class and place go round by steps that have no common part, and so through all pairs."""
    kinds, places, numbers = list(KINDS), list(PLACES), count()
    listed = []
    for subject, entry in catalog.OPERATORS.items():
        operator = formulas_of.load(subject)
        sizes = entry.complete(entry.cases["quick"][0][1])
        scalar = operator.outputs(sizes)[0] == ()
        wrt = operator.wrt(sizes)
        for way, often in EACH_WAY.items():
            for _ in range(often):
                number = next(numbers)
                kind, place = kinds[number % len(kinds)], places[number % len(places)]
                if scalar and way == "forward":
                    place = "whole"
                size = SIZES[number // 3 % len(SIZES)] if kind in SIZED else 0.0
                if scalar and way == "forward" and kind == "taken from its neighbour":
                    kind, size = "scaled by", 2.0**-6
                change = spoil(kind, place, size)
                operand = wrt[number % len(wrt)]
                plant = in_result(change) if way == "forward" else in_gradient(change, operand)
                listed.append(Fault(subject, way, kind, place, _word(size), plant))
    return listed


def _word(size: float) -> str:
    return f"{size:.2g}" if size else ""


def _remembering() -> list[Fault]:
    return [
        Fault(subject, way, which, "later calls", "", remembering(which, operand))
        for subject in REMEMBERING
        for way, operand in (("forward", None), ("backward", 0))
        for which in MEMORIES
    ]
