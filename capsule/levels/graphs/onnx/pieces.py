"""ONNX nodes for one operator of Level 0, from inputs to outputs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Callable

from .models import node

Sizes = Mapping[str, int]


@dataclass(frozen=True)
class Graph:
    """Nodes from the inputs to the outputs, which are named by their places: `i0`, `o0` and so on.

    Attributes:
        nodes: In the order that they run.
        constants: Further tensors by name; floating ones are cast to the dtype of the case.
        outputs: Number of results.
    """

    nodes: tuple[Any, ...]
    constants: Mapping[str, Any] = field(default_factory=dict)
    outputs: int = 1


Chooser = Callable[[Sizes], Graph]


def single(kind: str, inputs: int = 1, **attributes: Any) -> Chooser:
    """Return one node that takes all inputs in order."""
    names = [f"i{place}" for place in range(inputs)]
    return lambda sizes: Graph((node(kind, names, ["o0"], **attributes),))  # noqa: ARG005
