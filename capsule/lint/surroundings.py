"""Warnings about what others need to repeat a run: its image, its data, its machine."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from capsule import deviceseries, inventory, placeholders
from capsule.datasets import tree
from capsule.errors import CannotRunError, UsageError
from capsule.image import Image, files, reference
from capsule.lint.located import Located
from capsule.manifest import warnings as words
from capsule.manifest.model import DatasetSpec, Manifest
from capsule.manifest.paths import matches
from capsule.record import Record
from capsule.schema import pointer

IMAGE = "/image/reference"
"""Pointer of a manifest to its image."""


def of_image(image: Image | None, override: str | None, manifest: Manifest) -> Iterator[Located]:
    """Warn of an image that nobody else can get.

    Args:
        image: The image that ran; None before a run, or on the host.
        override: Reference that replaced the manifest's.
        manifest: Gives the reference before a run.
    """
    written = override or (manifest.image.reference if manifest.image else None)
    if image is not None and image.pinned is None:
        is_engines = reference.owner_of(image.reference) is not None
        yield Located.at(
            IMAGE,
            words.WARNINGS(
                "image-unpublished" if is_engines else "image-file", reference=image.reference
            ),
        )
    elif written is not None and _is_loopback(written):
        yield Located.at(IMAGE, words.WARNINGS("image-loopback", reference=written))


def of_image_file(manifest: Manifest) -> Iterator[Located]:
    """Warn of an image file or folder that is absent, or another than the manifest says."""
    if manifest.image is None:
        return
    written = manifest.image.reference
    try:
        files.locate(written, manifest.folder)
    except UsageError as error:
        advice = error.advice or ""
        fault = ". ".join(filter(None, (error.what, advice[:1].upper() + advice[1:])))
        place = str(error.where)
        sentence = words.WARNINGS("image-missing", reference=written, place=place, fault=fault)
        yield Located.at(IMAGE, sentence)


def _is_loopback(written: str) -> bool:
    try:
        return reference.parse(written).is_loopback
    except UsageError:
        return False  # no reference to a registry


def of_data(manifest: Manifest) -> Iterator[Located]:
    """Warn of datasets that a verifier can get from the author alone."""
    for spec in manifest.datasets:
        if not (_has_source(spec) or _fits_into_capsule(spec, manifest.folder)):
            yield _sourceless(spec)


def of_pointers(manifest: Manifest) -> Iterator[Located]:
    """Warn of inputs and data of which a git clone has only pointers."""
    if manifest.folder is None:
        return
    places = {
        name: pointer("benchmarks", place, "inputs")
        for place, benchmark in enumerate(manifest.benchmarks)
        for name in benchmark.inputs
    }
    for spec in manifest.datasets:
        if spec.path is not None:
            places[spec.path] = pointer("datasets", spec.name, "path")
    for name in sorted(places):
        found = words.of_pointers(placeholders.walk(name, manifest.folder / name))
        yield from (Located.at(places[name], one) for one in found)


def of_used_data(record: Record) -> Iterator[Located]:
    """Warn of a capsule's datasets that a verifier can get from the author alone."""
    carried = {dataset.name for dataset in record.datasets if dataset.embedded}
    for spec in record.manifest.datasets:
        if not _has_source(spec) and spec.name not in carried:
            yield _sourceless(spec)


def _sourceless(spec: DatasetSpec) -> Located:
    where = pointer("datasets", spec.name)
    return Located.at(where, words.WARNINGS("dataset-without-source", dataset=spec.name))


def _has_source(spec: DatasetSpec) -> bool:
    return any((spec.generator, spec.url, spec.doi))


def _fits_into_capsule(spec: DatasetSpec, folder: Path | None) -> bool:
    """Return whether a run would seal a dataset, as far as its sizes tell."""
    if spec.embed is not None or spec.path is None or folder is None:
        return bool(spec.embed)
    try:
        entries = tree.files(folder / spec.path)
    except (UsageError, CannotRunError):
        return False  # a run says why
    return tree.is_small(sum(entry.status.st_size for entry in entries), len(entries))


def of_nodes(record: Record) -> Iterator[Located]:
    """Warn of busy machines, of GPUs without a request, and of requested GPUs left idle."""
    for load in dict.fromkeys(filter(None, map(inventory.busy, record.nodes))):
        yield Located.at("", words.WARNINGS("busy", load=load))
    if record.manifest.resources.gpus_per_rank:
        yield from _of_idle_gpus(record)
        return
    # a verifier who chose CPUs leaves GPUs unused on purpose
    if record.manifest.other_device is not None:
        return
    models = [
        str(inventory.at(gpu, "model") or "unknown GPU")
        for node in record.nodes
        for gpu in inventory.entries_at(node, "class", "gpus")
    ]
    if models:
        sentence = words.unused_gpus(count=len(models), model=models[0])
        yield Located.at("/resources", sentence)


def _of_idle_gpus(record: Record) -> Iterator[Located]:
    unused = deviceseries.find_unused(record.devices)
    runs = Counter(trial.partition("/")[0] for trial, _ in unused)
    for place, benchmark in enumerate(record.manifest.benchmarks):
        if runs[benchmark.id]:
            sentence = words.WARNINGS("ran-without-gpu", runs=runs[benchmark.id])
            yield Located.at(pointer("benchmarks", place), sentence)


def is_relevant(warning: Located, manifest: Manifest) -> bool:
    """Return whether a warning concerns a judged claim; a busy machine concerns machine metrics."""
    return warning.code != "busy" or any(
        metric.kind == "machine"
        for claim in manifest.claims
        if claim.type != "ratio"
        for _, metric in matches(claim.metric, manifest.benchmarks)
    )
