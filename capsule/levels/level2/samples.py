"""The samples of a training, and those that it is judged by."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from math import prod
from pathlib import Path
from typing import Any, Callable

from ..catalog import training
from ..data import generators, samplers
from ..data.formats import layouts
from ..data.formats.sources import Arrays, Source
from ..data.tasks import TEST
from ..graphs.graph import Graph
from ..job import Recipe, Trial
from ..report import Report

_MOST_BYTES = 1 << 26
"""Bytes of a block of labels that is checked before the first step."""

_TOGETHER = 256
"""Samples whose labels are counted at once."""


@dataclass(frozen=True)
class Samples:
    """Samples by their numbers, as a graph takes them.

    Attributes:
        source: Where they are.
        rows: Rows of one sample in each array, by the names of the graph's inputs.
        below: By name, what labels are below that nobody has looked through yet.
        count: Number of samples.
    """

    source: Source
    rows: Mapping[str, int]
    below: Mapping[str, int]
    count: int

    def take(self, indices: Collection[int]) -> dict[str, Any]:
        """Return some samples, in this order, as C-ordered copies of what the network takes.

        Raises:
            ValueError: One is not what the format says, or holds a label that there is not.
            OSError: It cannot be read.
        """
        taken = self.source.take(indices, self.rows)
        for name, below in self.below.items():
            _check_labels(taken[name], name, below)
        return taken

    def count_classes(self, name: str, below: int, indices: Any) -> list[int]:
        """Count the whole numbers of each value below a bound in one array of some samples."""
        import numpy

        counts = numpy.zeros(below, "int64")
        rows = {name: self.rows[name]}
        for start in range(0, len(indices), _TOGETHER):
            values = self.source.take(indices[start : start + _TOGETHER], rows)[name]
            _check_labels(values, name, below)
            counts += numpy.bincount(values.reshape(-1), minlength=below)
        whole: list[int] = counts.tolist()
        return whole


def read(folder: Path, graph: Graph, form: str | None = None) -> tuple[Samples, Samples]:
    """Read the samples for training and for testing.

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
        raise ValueError(f"unknown format {form!r}; known: {', '.join(layouts.FORMATS)}")
    reader = layouts.FORMATS[form] if form else layouts.read_arrays
    shapes = {name: one.shape for name, one in graph.inputs.items() if name not in graph.noise}
    train, test = reader(folder, shapes)
    return _choose(train, "", graph), _choose(test, TEST, graph)


def make_order(
    trial: Trial, recipe: Recipe, folder: Path, count: int, report: Report
) -> Callable[[int], Any]:
    """Return the order of the samples in an epoch, from 0; what its sampler goes by is kept.

    Args:
        trial: Trial of a training.
        recipe: Its own.
        folder: Where the dataset lies.
        count: Number of samples to train on.
        report: Where files are kept.

    Raises:
        ValueError: What the sampler goes by is not there, or no such array.
        OSError: It cannot be read.
    """
    numbers = _read_measure(folder, recipe.sampler, count)
    if numbers is not None and (kept := samplers.encode(numbers)) is not None:
        report.keep(samplers.path(trial.benchmark, trial.case), kept)
    return partial(
        samplers.order,
        recipe.sampler,
        count,
        trial.context.seed,
        batch=recipe.batch,
        measure=numbers,
    )


def batches(count: int, batch: int) -> Iterator[Any]:
    """Yield the numbers below a count, so many at a time; the last ones may be fewer."""
    import numpy

    for start in range(0, count, batch):
        yield numpy.arange(start, min(start + batch, count))


def _read_measure(folder: Path, sampler: str, count: int) -> Any:
    """Return lengths or weights, float64 (count,); None for a sampler that goes by nothing."""
    name = training.SAMPLERS[sampler]
    if name is None:
        return None
    path = folder / f"{name}.npy"
    if not path.is_file():
        raise ValueError(f"the dataset lacks {name}.npy, which the sampler {sampler} needs")
    try:
        return samplers.check_measure(sampler, generators.read_array(path), count)
    except ValueError as error:
        raise ValueError(f"{name}.npy: {error}") from None


def _choose(source: Source, prefix: str, graph: Graph) -> Samples:
    rows, counts, below = {}, {}, {}
    for name, wanted in graph.inputs.items():
        if name in graph.noise:
            continue
        column = source.columns.get(name)
        if column is None:
            found = ", ".join(source.columns)
            raise ValueError(f"the dataset lacks {name}, which {graph.name} reads; found {found}")
        first, *rest = wanted.shape
        if wanted.below is not None and rest and not column.shape:
            # whole numbers of a sample may lie one after the other
            first, rest = prod(wanted.shape), []
        kind = "f" if wanted.below is None else "iu"
        has_rest = column.length % first and not column.is_stream
        if (
            column.dtype.kind not in kind
            or list(column.shape) != rest
            or column.rows not in (None, first)
            or has_rest
        ):
            raise ValueError(
                f"{prefix}{name} is {column.dtype} {(column.length, *column.shape)};"
                f" {graph.name} expects {'floats' if kind == 'f' else 'whole numbers'} of shape"
                f" ({'N' if first == 1 else f'{first} N'}, {', '.join(map(str, rest))})"
            )
        if wanted.below is not None:
            array = source.array(name) if isinstance(source, Arrays) else None
            if array is not None and array.nbytes <= _MOST_BYTES:
                _check_labels(array, prefix + name, wanted.below)
            else:
                below[name] = wanted.below
        rows[name], counts[name] = first, column.length // first
    if len(set(counts.values())) != 1 or not min(counts.values()):
        shown = ", ".join(f"{name} {count}" for name, count in counts.items())
        raise ValueError(
            f"{'test' if prefix else 'training'} arrays need equal numbers of samples, at least 1;"
            f" found {shown}"
        )
    return Samples(source, rows, below, next(iter(counts.values())))


def _check_labels(array: Any, name: str, below: int) -> None:
    if not array.size:
        return
    least, most = int(array.min()), int(array.max())
    if least < 0 or most >= below:
        raise ValueError(
            f"{name} contains numbers from {least} to {most}, expected 0 to {below - 1}"
        )
