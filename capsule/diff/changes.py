"""Changes to an experiment before its re-run, which change what is judged."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from capsule import summary
from capsule.diff import evidence, skipped, words
from capsule.image import Image
from capsule.manifest import otherdevice
from capsule.notes import Note
from capsule.origin import Verification
from capsule.record import Record

ImageRelation = Literal[
    "same-manifest", "same-config", "same-tree", "same-index", "different", "none"
]

# runs in images that are so related may be added up
SAME_IMAGE: frozenset[ImageRelation] = frozenset({"same-manifest", "same-config", "same-tree"})


def image_relation(a: Record, b: Record) -> ImageRelation:
    """The strongest identity that two records' images share; `none` when one ran without."""
    return relate_images(a.image, b.image)


def relate_images(x: Image | None, y: Image | None) -> ImageRelation:
    """The strongest identity that two images share; `none` where one is missing."""
    if x is None or y is None:
        return "none"
    if x.manifest_digest is not None and x.manifest_digest == y.manifest_digest:
        return "same-manifest"
    if x.config_digest is not None and x.config_digest == y.config_digest:
        return "same-config"
    if x.tree_digest is not None and x.tree_digest == y.tree_digest:
        return "same-tree"
    if x.layers and [layer.diff_id for layer in x.layers] == [layer.diff_id for layer in y.layers]:
        return "same-tree"
    if x.index_digest is not None and x.index_digest == y.index_digest:
        return "same-index"
    return "different"


def between(
    original: Record,
    rerun: Record,
    *,
    original_id: str | None = None,
    rerun_id: str | None = None,
) -> tuple[Note, ...]:
    """Return the changes of the re-run's experiment; none if it is the original's.

    Returns:
        Phrases that end the sentence of a verdict, such as "in another image". Options of whoever
        verified are among them, and who chose the seeds where nobody verified.
    """
    if verifies(rerun, original_id):
        way = _way(original, rerun)
    elif evidence.common_run(original, rerun) is not None:
        way = iter([words.CHANGES("same-run")])
    else:
        way = _seeds(original, rerun, rerun_id)
    return (
        *_image(original, rerun),
        *_program(original, rerun),
        *_device(original, rerun),
        *_manifest(original, rerun),
        *way,
        *skipped.notes(original, rerun),
    )


def verifies(rerun: Record, original_id: str | None) -> bool:
    """Return whether a record verifies a capsule; True if the capsule has no id."""
    return rerun.verifies is not None and original_id in (None, rerun.verifies)


def _way(original: Record, rerun: Record) -> Iterator[Note]:
    """Yield the options of `verify` that changed how seeds were drawn, or their number."""
    assert isinstance(rerun.origin, Verification)
    if rerun.origin.nonce is not None:
        yield words.CHANGES("nonce", nonce=rerun.origin.nonce)
    planned = {number for claim in original.claims for number in claim.looks}
    trials = summary.planned_trials(rerun.plan)
    runs = len({trial["seed"] for trial in trials if trial["seed_source"] == "fresh"})
    if runs and runs not in (planned or {len(original.manifest.seeds)}):
        yield words.CHANGES("unplanned-runs", runs=runs)


def _seeds(original: Record, rerun: Record, rerun_id: str | None) -> Iterator[Note]:
    """Yield the origin of the seeds of runs that do not verify the original."""
    if rerun_id is not None and original.verifies == rerun_id:
        yield words.CHANGES("original-last")
    else:
        yield words.separate_runs(verifies=rerun.verifies)


def _image(original: Record, rerun: Record) -> Iterator[Note]:
    relation = image_relation(original, rerun)
    named = rerun.image_override
    if relation == "different":
        is_known = not _is_unknown(original.image, rerun.image)
        yield words.another_image(named=named, is_known=is_known)
    elif relation == "same-index":
        platform = rerun.image.platform if rerun.image is not None else None
        yield words.another_platform(platform=platform)
    elif rerun.image is None and original.image is not None:
        yield words.CHANGES("without-image")
    elif original.image is None and rerun.image is not None:
        yield words.with_image(named=named)


def _is_unknown(a: Image | None, b: Image | None) -> bool:
    """Return whether a SIF, known by its tree alone, meets an image without a recorded tree."""
    images = [image for image in (a, b) if image is not None]
    kinds = [image.identity.kind for image in images]
    return "tree" in kinds and any(image.tree_digest is None for image in images)


def _program(original: Record, rerun: Record) -> Iterator[Note]:
    own = isinstance(rerun.origin, Verification) and rerun.origin.levels == "own"
    if own and original.levels.get("digest") != rerun.levels.get("digest"):
        yield words.CHANGES("another-program")


def _device(original: Record, rerun: Record) -> Iterator[Note]:
    if otherdevice.differ(original.manifest, rerun.manifest):
        there, here = (one.manifest.resources.device for one in (original, rerun))
        yield words.CHANGES(words.ANOTHER_DEVICE, there=there, here=here)


def _manifest(original: Record, rerun: Record) -> Iterator[Note]:
    changed = rerun.origin.set if isinstance(rerun.origin, Verification) else {}
    if changed:
        values = tuple((pointer, str(value)) for pointer, value in changed.items())
        yield words.changed_manifest(values=values)
    elif original.manifest.source != rerun.manifest.source:
        yield words.CHANGES("another-manifest")
