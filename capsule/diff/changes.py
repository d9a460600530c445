"""What was changed of an experiment before it was run again: another thing is judged then."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from capsule.image import Image
from capsule.notes import Note
from capsule.origin import Verification
from capsule.record import Record

ImageRelation = Literal[
    "same-manifest", "same-config", "same-tree", "same-index", "different", "none"
]


def image_relation(a: Record, b: Record) -> ImageRelation:
    """The strongest identity that two records' images share; `none` when one ran without."""
    return relate_images(a.image, b.image)


def relate_images(x: Image | None, y: Image | None) -> ImageRelation:
    """The strongest identity that two images share; `none` where one is missing."""
    if x is None or y is None:
        return "none"
    if x.manifest_digest is not None and x.manifest_digest == y.manifest_digest:
        return "same-manifest"
    if x.config_digest == y.config_digest:
        return "same-config"
    if x.layers and [layer.diff_id for layer in x.layers] == [layer.diff_id for layer in y.layers]:
        return "same-tree"
    if x.index_digest is not None and x.index_digest == y.index_digest:
        return "same-index"
    return "different"


def between(original: Record, rerun: Record) -> tuple[Note, ...]:
    """What the re-execution judges in place of the original's experiment; none of the same one.

    Returns:
        Phrases that end the sentence of a verdict, such as "in another image".
    """
    return (*_image(original, rerun), *_program(original, rerun), *_manifest(original, rerun))


def _image(original: Record, rerun: Record) -> Iterator[Note]:
    relation = image_relation(original, rerun)
    named = f" ({rerun.image_override})" if rerun.image_override is not None else ""
    if relation == "different":
        yield Note(code="another-image", sentence=f"in another image{named}")
    elif relation == "same-index":
        platform = f" ({rerun.image.platform})" if rerun.image is not None else ""
        yield Note(
            code="another-platform", sentence=f"in the same image for another platform{platform}"
        )
    elif rerun.image is None and original.image is not None:
        yield Note(code="without-image", sentence="without the original's image")
    elif original.image is None and rerun.image is not None:
        yield Note(
            code="with-image", sentence=f"in an image{named}, while the original ran without one"
        )


def _program(original: Record, rerun: Record) -> Iterator[Note]:
    own = isinstance(rerun.origin, Verification) and rerun.origin.levels == "own"
    if own and original.levels.get("digest") != rerun.levels.get("digest"):
        yield Note(
            code="another-program",
            sentence="measured by the program of another version of capsule (--levels own)",
        )


def _manifest(original: Record, rerun: Record) -> Iterator[Note]:
    changed = rerun.origin.set if isinstance(rerun.origin, Verification) else {}
    if changed:
        values = ", ".join(f"{pointer} set to {value}" for pointer, value in changed.items())
        yield Note(code="changed-manifest", sentence=f"with {values}")
    elif original.manifest.source != rerun.manifest.source:
        yield Note(code="another-manifest", sentence="by another manifest")
