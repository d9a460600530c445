"""The samples of a training, and those that it is judged by."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import prod
from pathlib import Path
from typing import Any

from ..data.formats import layouts
from ..data.formats.layouts import TEST, Columns, Stored
from ..graphs.graph import Graph

_TOGETHER = 256
"""Samples whose labels are counted at once."""


@dataclass(frozen=True)
class Samples:
    """Arrays by the names of a graph's inputs, with all rows of one sample side by side.

    Attributes:
        arrays: First axis `count` times `rows`.
        rows: Of one sample in each array.
        count: How many samples there are.
    """

    arrays: Mapping[str, Stored]
    rows: Mapping[str, int]
    count: int

    def take(self, indices: Any) -> dict[str, Any]:
        """Some samples, in this order, as C-ordered copies of what the network takes."""
        return {name: self.take_one(name, indices) for name in self.arrays}

    def take_one(self, name: str, indices: Any) -> Any:
        """The array of one name alone, as of `take`."""
        import numpy

        stored = self.arrays[name]
        rest = stored.array.shape[1:]
        rows = stored.array.reshape(self.count, self.rows[name], *rest)[indices]
        return numpy.ascontiguousarray(stored.decode(rows.reshape(-1, *rest)))

    def count_classes(self, name: str, below: int, indices: Any) -> list[int]:
        """How many whole numbers of each value below a bound some samples have in one array."""
        import numpy

        counts = numpy.zeros(below, "int64")
        for start in range(0, len(indices), _TOGETHER):
            values = self.take_one(name, indices[start : start + _TOGETHER])
            counts += numpy.bincount(values.reshape(-1), minlength=below)
        whole: list[int] = counts.tolist()
        return whole


def read(folder: Path, graph: Graph, form: str | None = None) -> tuple[Samples, Samples]:
    """Those for training, and those for testing.

    Args:
        folder: Where the files lie.
        graph: The network for a batch of 1.
        form: Key of `layouts.FORMATS`; None for one file NAME.npy for each input of the graph, and
            one test_NAME.npy.

    Raises:
        ValueError: There is no such format, a file is not what the format says, an array is not
            there, or not what the graph takes.
        ModuleNotFoundError: The format needs a package that is not installed.
        OSError: A file cannot be read.
    """
    if form is not None and form not in layouts.FORMATS:
        raise ValueError(f"no format {form!r}; there are {', '.join(layouts.FORMATS)}")
    arrays = layouts.FORMATS[form](folder) if form else layouts.read_arrays(folder)
    return _choose(arrays, "", graph, form), _choose(arrays, TEST, graph, form)


def _choose(arrays: Columns, prefix: str, graph: Graph, form: str | None) -> Samples:
    chosen, rows, counts = {}, {}, {}
    for name, wanted in graph.inputs.items():
        if name in graph.masks:
            continue
        if prefix + name not in arrays:
            there = ", ".join(sorted(arrays)) or "nothing"
            file = prefix + name + ("" if form else ".npy")
            raise ValueError(
                f"{graph.name} takes {name}, and the dataset has no {file}; it has {there}"
            )
        stored = arrays[prefix + name]
        first, *rest = wanted.shape
        if wanted.below is not None and rest and stored.array.ndim == 1:
            # whole numbers of a sample may lie one after the other
            first, rest = prod(wanted.shape), []
        if stored.is_stream:
            end = len(stored.array) // first * first
            stored = replace(stored, array=stored.array[:end])
        array, dtype = stored.array, stored.decode(stored.array[:0]).dtype
        kind = "f" if wanted.below is None else "iu"
        if dtype.kind not in kind or list(array.shape[1:]) != rest or len(array) % first:
            raise ValueError(
                f"{prefix}{name} is {dtype} {array.shape}, and {graph.name} takes"
                f" {'numbers with fractions' if kind == 'f' else 'whole numbers'} of shape"
                f" ({'N' if first == 1 else f'{first} N'}, {', '.join(map(str, rest))})"
            )
        if wanted.below is not None and not _is_within(array, wanted.below):
            raise ValueError(f"{prefix}{name} holds numbers beyond 0 to {wanted.below - 1}")
        chosen[name], rows[name], counts[name] = stored, first, len(array) // first
    if len(set(counts.values())) != 1 or not min(counts.values()):
        raise ValueError(f"{prefix or 'training'} arrays have {counts} samples")
    return Samples(chosen, rows, next(iter(counts.values())))


def _is_within(array: Any, below: int) -> bool:
    return array.size == 0 or (int(array.min()) >= 0 and int(array.max()) < below)
