"""An image's identity as JSON; the registry's own documents travel as bytes beside it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from capsule.digest import Digest
from capsule.errors import CapsuleError, DamagedError
from capsule.image import Image


@dataclass(frozen=True, kw_only=True)
class Documents:
    """The raw bytes that an image is described by.

    Attributes:
        index: None where the reference named the manifest itself.
        manifest: None for an image that was built on the spot, saved by Docker, or is a SIF.
        config: The configuration, None for a SIF.
    """

    index: bytes | None
    manifest: bytes | None
    config: bytes | None


def to_json(image: Image) -> dict[str, Any]:
    """Return everything of an image but its raw bytes."""
    return {
        "reference": image.reference,
        "pinned": image.pinned,
        "identity": {"kind": image.identity.kind, "digest": str(image.identity.digest)},
        "tree_digest": _text(image.tree_digest),
        "index_digest": _text(image.index_digest),
        "manifest_digest": _text(image.manifest_digest),
        "platform": image.platform,
        "config_digest": _text(image.config_digest),
        "layers": [
            {
                "digest": str(layer.digest),
                "size_bytes": layer.size_bytes,
                "media_type": layer.media_type,
                "diff_id": str(layer.diff_id),
            }
            for layer in image.layers
        ],
    }


def from_json(value: Mapping[str, Any], documents: Documents, *, where: str) -> Image:
    """Return the image that `to_json` wrote: made from its documents again, and held against what
    it says.

    Args:
        value: Output of `to_json`, or untrusted data.
        documents: The raw bytes beside it.
        where: Its name, for messages.

    Raises:
        DamagedError: The documents are none of an image or contradict each other, or something
            that is stated does not follow from them.
    """
    try:
        image = _make(value, documents, where)
    except DamagedError:
        raise
    except CapsuleError as error:
        raise DamagedError(error.what, where=where) from None
    image = replace(image, tree_digest=_tree(value))
    derived = to_json(image)
    wrong = [name for name in derived if value[name] != derived[name]]
    if wrong:
        raise DamagedError(
            f"the image's values for {' and '.join(wrong)} contradict its reference and documents:"
            f" {wrong[0]} is {str(value[wrong[0]])[:300]}, expected"
            f" {str(derived[wrong[0]])[:300]}",
            where=where,
        )
    return image


def _make(value: Mapping[str, Any], raw: Documents, where: str) -> Image:
    # most capsules that are read hold no image
    from capsule.image import documents, facts

    reference = str(value["reference"])
    if raw.config is None:
        platform, tree = str(value["platform"]), _tree(value)
        return facts.make_sif(reference, platform=platform, tree=tree, where=where)
    config = documents.read_config(raw.config, where=where)
    if raw.manifest is None:
        sizes = [layer["size_bytes"] for layer in value["layers"]]
        return facts.make_local(reference, config=config, sizes=sizes, where=where)
    index = None if raw.index is None else documents.read(raw.index, where=where)
    manifest = documents.read(raw.manifest, where=where)
    if isinstance(index, documents.Manifest):
        raise DamagedError("the image's index is a manifest, expected an index", where=where)
    if isinstance(manifest, documents.Index):
        raise DamagedError("the image's manifest is an index, expected a manifest", where=where)
    return facts.make(reference, index=index, manifest=manifest, config=config, where=where)


def _tree(value: Mapping[str, Any]) -> Digest | None:
    tree = value["tree_digest"]
    return None if tree is None else Digest.parse(tree)


def _text(value: Digest | None) -> str | None:
    return None if value is None else str(value)
