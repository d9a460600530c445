"""The samples of a training, and those that it is judged by."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..data import generators
from ..graphs.graph import Graph

TEST = "test_"
"""What the names of arrays begin with that nothing is trained on."""


@dataclass(frozen=True)
class Samples:
    """Arrays by the names of a graph's inputs, with all rows of one sample side by side.

    Attributes:
        arrays: First axis `count` times `rows`.
        rows: Of one sample in each array.
        count: How many samples there are.
    """

    arrays: Mapping[str, Any]
    rows: Mapping[str, int]
    count: int

    def take(self, indices: Any) -> dict[str, Any]:
        """Some samples, in this order, as C-ordered copies."""
        return {
            name: array.reshape(self.count, rows, *array.shape[1:])[indices].reshape(
                -1, *array.shape[1:]
            )
            for (name, array), rows in zip(self.arrays.items(), self.rows.values())
        }


def read(folder: Path, graph: Graph) -> tuple[Samples, Samples]:
    """Those for training, and those for testing.

    Args:
        folder: One file NAME.npy for each input of the graph, and one test_NAME.npy.
        graph: The network for a batch of 1.

    Raises:
        ValueError: An array is not there, or not what the graph takes.
        OSError: A file cannot be read.
    """
    arrays = generators.read(folder)
    return _choose(arrays, "", graph), _choose(arrays, TEST, graph)


def _choose(arrays: Mapping[str, Any], prefix: str, graph: Graph) -> Samples:
    chosen, rows, counts = {}, {}, {}
    for name, wanted in graph.inputs.items():
        if prefix + name not in arrays:
            there = ", ".join(sorted(arrays)) or "nothing"
            raise ValueError(
                f"{graph.name} takes {name}, and the dataset has no {prefix}{name}.npy; it has"
                f" {there}"
            )
        array = arrays[prefix + name]
        first, *rest = wanted.shape
        kind = "f" if wanted.below is None else "iu"
        if array.dtype.kind not in kind or list(array.shape[1:]) != rest or len(array) % first:
            raise ValueError(
                f"{prefix}{name} is {array.dtype} {array.shape}, and {graph.name} takes"
                f" {'numbers with fractions' if kind == 'f' else 'whole numbers'} of shape"
                f" ({'N' if first == 1 else f'{first} N'}, {', '.join(map(str, rest))})"
            )
        if wanted.below is not None and not _is_within(array, wanted.below):
            raise ValueError(f"{prefix}{name} holds numbers beyond 0 to {wanted.below - 1}")
        chosen[name], rows[name], counts[name] = array, first, len(array) // first
    if len(set(counts.values())) != 1 or not min(counts.values()):
        raise ValueError(f"{prefix or 'training'} arrays have {counts} samples")
    return Samples(chosen, rows, next(iter(counts.values())))


def _is_within(array: Any, below: int) -> bool:
    return array.size == 0 or (int(array.min()) >= 0 and int(array.max()) < below)
