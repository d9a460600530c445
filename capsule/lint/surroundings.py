"""What around a run will keep others from repeating it: its image, its data, its machine."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from capsule import inventory, placeholders
from capsule.datasets import tree
from capsule.errors import CannotRunError, UsageError
from capsule.image import Image, files, reference
from capsule.manifest.model import DatasetSpec, Manifest
from capsule.record import Record


def of_image(image: Image | None, override: str | None, manifest: Manifest) -> Iterator[str]:
    """Why nobody else will get the image.

    Args:
        image: That ran; None where nothing has run, or on the host.
        override: Reference that took the place of the manifest's.
        manifest: Tells the reference of what has not run.
    """
    written = override or (manifest.image.reference if manifest.image else None)
    if image is not None and image.pinned is None:
        yield (
            f"the image {image.reference} is known to this machine's engine alone: push it to a"
            " registry that others reach, and run it from there by its digest"
            if reference.owner_of(image.reference)
            else f"the image {image.reference} is a file of yours: publish it, since whoever"
            " verifies names it with --image"
        )
    elif written is not None and _is_loopback(written):
        yield (
            f"the image {written} lies in a registry on this machine, where nobody else gets it:"
            " push it to one that others reach, and run it from there by its digest"
        )


def of_image_file(manifest: Manifest) -> Iterator[str]:
    """That the file or folder which has the image is not here, or is another one than it says."""
    if manifest.image is None:
        return
    try:
        files.locate(manifest.image.reference, manifest.folder)
    except UsageError as error:
        yield (
            f"the image {manifest.image.reference} is not here, {error.where}: {error.what}"
            f"{f'; {error.advice}' if error.advice else ''}"
        )


def _is_loopback(written: str) -> bool:
    try:
        return reference.parse(written).is_loopback
    except UsageError:
        return False  # no reference to a registry


def of_data(manifest: Manifest) -> Iterator[str]:
    """Datasets that whoever verifies what is run by a manifest has to be given by its author."""
    for spec in manifest.datasets:
        if not (_has_source(spec) or _fits_into_capsule(spec, manifest.folder)):
            yield _NO_SOURCE.format(name=spec.name)


def of_pointers(manifest: Manifest) -> Iterator[str]:
    """Inputs and data that a clone has pointers of, and not the files themselves."""
    if manifest.folder is None:
        return
    inputs = {name for benchmark in manifest.benchmarks for name in benchmark.inputs}
    paths = {spec.path for spec in manifest.datasets if spec.path is not None}
    for name in sorted(inputs | paths):
        yield from placeholders.warn_of_pointers(placeholders.walk(name, manifest.folder / name))


def of_used_data(record: Record) -> Iterator[str]:
    """The same of a capsule, which may carry some."""
    carried = {dataset.name for dataset in record.datasets if dataset.embedded}
    for spec in record.manifest.datasets:
        if not _has_source(spec) and spec.name not in carried:
            yield _NO_SOURCE.format(name=spec.name)


_NO_SOURCE = (
    "dataset {name} has neither generator nor url nor doi, and does not come along in the capsule,"
    " so that whoever verifies has to get it from you: publish it, and name its address in the"
    " manifest"
)


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


def of_nodes(record: Record) -> Iterator[str]:
    """Machines that were busy, and GPUs that stood idle."""
    for load in dict.fromkeys(filter(None, map(inventory.busy, record.nodes))):
        yield (
            f"the machine was busy when the run began, {load}: times are longer than they would be,"
            " and scatter more; run it again when nothing else runs"
        )
    if record.manifest.resources.gpus_per_rank:
        return
    models = [
        str(inventory.at(gpu, "model") or "unknown GPU")
        for node in record.nodes
        for gpu in inventory.entries_at(node, "class", "gpus")
    ]
    if models:
        count = "a GPU" if len(models) == 1 else f"{len(models)} GPUs"
        yield (
            f"the machine has {count}, {models[0]}, and nothing used it:"
            ' "resources": {"gpus_per_rank": 1} gives one to each process'
        )
