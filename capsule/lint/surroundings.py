"""What around a run will keep others from repeating it: its image, its data, its machine."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from capsule import inventory
from capsule.errors import UsageError
from capsule.image import Image, reference
from capsule.manifest.model import Manifest
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
        )
    elif written is not None and _is_loopback(written):
        yield (
            f"the image {written} lies in a registry on this machine, where nobody else gets it:"
            " push it to one that others reach, and run it from there by its digest"
        )


def _is_loopback(written: str) -> bool:
    try:
        return reference.parse(written).is_loopback
    except UsageError:
        return False  # no reference to a registry


def of_data(manifest: Manifest, carried: Collection[str]) -> Iterator[str]:
    """Datasets that whoever verifies has to be given by the author.

    Args:
        manifest: Says where they come from.
        carried: Names of those that come along in the capsule, or may.
    """
    for dataset in manifest.datasets:
        if not (dataset.generator or dataset.url or dataset.doi or dataset.name in carried):
            yield (
                f"dataset {dataset.name} has neither generator nor url nor doi, and does not come"
                " along in the capsule, so that whoever verifies has to get it from you: publish"
                " it, and name its address in the manifest"
            )


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
