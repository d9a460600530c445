"""What around a run will keep others from repeating it: its image, its data, its machine."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from capsule import inventory, placeholders
from capsule.datasets import tree
from capsule.errors import CannotRunError, UsageError
from capsule.image import Image, files, reference
from capsule.manifest import warnings as words
from capsule.manifest.model import DatasetSpec, Manifest
from capsule.record import Record
from capsule.sentences import Sentence


def of_image(image: Image | None, override: str | None, manifest: Manifest) -> Iterator[Sentence]:
    """Why nobody else will get the image.

    Args:
        image: That ran; None where nothing has run, or on the host.
        override: Reference that took the place of the manifest's.
        manifest: Tells the reference of what has not run.
    """
    written = override or (manifest.image.reference if manifest.image else None)
    if image is not None and image.pinned is None:
        is_engines = reference.owner_of(image.reference) is not None
        yield words.WARNINGS(
            "image-unpublished" if is_engines else "image-file", reference=image.reference
        )
    elif written is not None and _is_loopback(written):
        yield words.WARNINGS("image-loopback", reference=written)


def of_image_file(manifest: Manifest) -> Iterator[Sentence]:
    """That the file or folder which has the image is not here, or is another one than it says."""
    if manifest.image is None:
        return
    try:
        files.locate(manifest.image.reference, manifest.folder)
    except UsageError as error:
        fault = f"{error.what}; {error.advice}" if error.advice else error.what
        yield words.WARNINGS(
            "image-missing", reference=manifest.image.reference, place=str(error.where), fault=fault
        )


def _is_loopback(written: str) -> bool:
    try:
        return reference.parse(written).is_loopback
    except UsageError:
        return False  # no reference to a registry


def of_data(manifest: Manifest) -> Iterator[Sentence]:
    """Datasets that whoever verifies what is run by a manifest has to be given by its author."""
    for spec in manifest.datasets:
        if not (_has_source(spec) or _fits_into_capsule(spec, manifest.folder)):
            yield words.WARNINGS("dataset-without-source", dataset=spec.name)


def of_pointers(manifest: Manifest) -> Iterator[Sentence]:
    """Inputs and data that a clone has pointers of, and not the files themselves."""
    if manifest.folder is None:
        return
    inputs = {name for benchmark in manifest.benchmarks for name in benchmark.inputs}
    paths = {spec.path for spec in manifest.datasets if spec.path is not None}
    for name in sorted(inputs | paths):
        yield from words.of_pointers(placeholders.walk(name, manifest.folder / name))


def of_used_data(record: Record) -> Iterator[Sentence]:
    """The same of a capsule, which may carry some."""
    carried = {dataset.name for dataset in record.datasets if dataset.embedded}
    for spec in record.manifest.datasets:
        if not _has_source(spec) and spec.name not in carried:
            yield words.WARNINGS("dataset-without-source", dataset=spec.name)


def _has_source(spec: DatasetSpec) -> bool:
    return any((spec.generator, spec.url, spec.doi))


def _fits_into_capsule(spec: DatasetSpec, folder: Path | None) -> bool:
    """Whether a run would seal it, as far as that can be told without reading it."""
    if spec.embed is not None or spec.path is None or folder is None:
        return bool(spec.embed)
    try:
        entries = tree.files(folder / spec.path)
    except (UsageError, CannotRunError):
        return False  # a run says why
    return tree.is_small(sum(entry.status.st_size for entry in entries), len(entries))


def of_nodes(record: Record) -> Iterator[Sentence]:
    """Machines that were busy, and GPUs that stood idle."""
    for load in dict.fromkeys(filter(None, map(inventory.busy, record.nodes))):
        yield words.WARNINGS("busy", load=load)
    if record.manifest.resources.gpus_per_rank:
        return
    models = [
        str(inventory.at(gpu, "model") or "unknown GPU")
        for node in record.nodes
        for gpu in inventory.entries_at(node, "class", "gpus")
    ]
    if models:
        yield words.unused_gpus(count=len(models), model=models[0])
