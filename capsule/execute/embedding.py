"""Datasets that a capsule carries: small ones, and those with `"embed": true`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from capsule import archive
from capsule.datasets import tree
from capsule.errors import UsageError
from capsule.manifest import DatasetSpec, Manifest
from capsule.record import Dataset
from capsule.sizes import size

FOLDER = "datasets/"


@dataclass(frozen=True, kw_only=True)
class Embedded:
    """The datasets of a run, and what of them its capsule carries.

    Attributes:
        datasets: All of them.
        files: Every file that is carried: its path below `datasets/`, and where it lies.
        sentences: What its author should know of it.
    """

    datasets: tuple[Dataset, ...]
    files: Mapping[str, Path]
    sentences: tuple[str, ...] = ()


def choose(manifest: Manifest, datasets: Iterable[Dataset], places: Mapping[str, Path]) -> Embedded:
    """Decide what a new run's capsule carries.

    Args:
        manifest: It may say so.
        datasets: What was found.
        places: Where each lies.

    Raises:
        UsageError: A capsule cannot hold what its manifest wants in it.
    """
    specs = {spec.name: spec for spec in manifest.datasets}
    chosen: list[Dataset] = []
    files: dict[str, Path] = {}
    sentences: list[str] = []
    for dataset in datasets:
        spec = specs[dataset.name]
        own = _files(dataset, spec, places[dataset.name], files)
        if own is not None:
            files |= own
            sentences.append(_describe(dataset, spec))
        chosen.append(replace(dataset, embedded=own is not None))
    return Embedded(datasets=tuple(chosen), files=files, sentences=tuple(sentences))


def files_of(dataset: Dataset, place: Path) -> dict[str, Path]:
    """The files of a dataset, by their paths below `datasets/`."""
    return {
        # of a link within it the capsule has what it leads to, as its digest does
        f"{dataset.name}/{entry.name}": Path(entry.path).resolve()
        for entry in tree.files(place)
    }


def within(copies: Path, dataset: Dataset, place: Path) -> Path:
    """Return the place of a dataset among the copies in a run folder.

    Args:
        copies: Of the run's datasets.
        dataset: Which.
        place: Where it lay when it was copied.
    """
    folder = copies / dataset.name
    return folder if place.is_dir() else folder / place.name


def _files(
    dataset: Dataset, spec: DatasetSpec, place: Path, others: Mapping[str, Path]
) -> dict[str, Path] | None:
    """Return the part of a dataset that the capsule will contain, or None."""
    is_small = tree.is_small(dataset.bytes, dataset.files)
    is_made = dataset.source == "generator"
    if is_made or not (is_small if spec.embed is None else spec.embed):
        if spec.embed and is_made:
            raise UsageError(
                f'"embed" is set for generated dataset {spec.name}, expected a dataset of files',
                where=f"/datasets/{spec.name}/embed",
                advice='verifiers generate the data again; remove "embed"',
            )
        return None
    files = files_of(dataset, place)
    try:
        archive.check_names(f"data/{FOLDER}{name}" for name in [*others, *files])
    except UsageError as error:
        if spec.embed:
            raise UsageError(
                error.what, where=f"/datasets/{spec.name}", advice=error.advice
            ) from None
        return None
    return files


def _describe(dataset: Dataset, spec: DatasetSpec) -> str:
    licence = f"licence {spec.license}" if spec.license else "no licence stated"
    return (
        f"dataset {dataset.name} ({size(dataset.bytes)}, {licence}) will be published inside the"
        ' capsule; set "embed": false to leave it out'
    )
