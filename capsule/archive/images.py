"""An image's identity as JSON; its raw manifest and configuration travel as bytes beside it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from capsule.digest import Digest
from capsule.image import Image, Layer


def to_json(image: Image) -> dict[str, Any]:
    """Everything of an image but its raw bytes."""
    return {
        "reference": image.reference,
        "pinned": image.pinned,
        "identity": {"kind": image.identity.kind, "digest": str(image.identity.digest)},
        "tree_digest": _text(image.tree_digest),
        "index_digest": _text(image.index_digest),
        "manifest_digest": _text(image.manifest_digest),
        "platform": image.platform,
        "config_digest": str(image.config_digest),
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


def from_json(value: Mapping[str, Any], *, manifest: bytes | None, config: bytes) -> Image:
    """The image that `to_json` wrote, given its raw bytes again."""
    return Image(
        reference=value["reference"],
        pinned=value["pinned"],
        index_digest=_digest(value["index_digest"]),
        manifest_digest=_digest(value["manifest_digest"]),
        platform=value["platform"],
        config_digest=Digest.parse(value["config_digest"]),
        layers=tuple(
            Layer(
                digest=Digest.parse(layer["digest"]),
                size_bytes=int(layer["size_bytes"]),
                media_type=layer["media_type"],
                diff_id=Digest.parse(layer["diff_id"]),
            )
            for layer in value["layers"]
        ),
        manifest=manifest,
        config=config,
        tree_digest=_digest(value["tree_digest"]),
    )


def _text(value: Digest | None) -> str | None:
    return None if value is None else str(value)


def _digest(value: str | None) -> Digest | None:
    return None if value is None else Digest.parse(value)
