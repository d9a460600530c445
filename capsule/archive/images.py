"""An image's identity as JSON; its raw manifest and configuration travel as bytes beside it."""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from capsule.digest import Digest
from capsule.image import Image, Layer
from capsule.notes import Note
from capsule.record import Dataset, Setup


def to_json(image: Image) -> dict[str, Any]:
    """Everything of an image but its raw bytes."""
    return {
        "reference": image.reference,
        "pinned": image.pinned,
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
                size_bytes=layer["size_bytes"],
                media_type=layer["media_type"],
                diff_id=Digest.parse(layer["diff_id"]),
            )
            for layer in value["layers"]
        ),
        manifest=manifest,
        config=config,
    )


def setup_to_json(setup: Setup) -> dict[str, Any]:
    """What a run folder keeps of a setup, so that another process can go on with it."""
    value = {each.name: getattr(setup, each.name) for each in fields(Setup)}
    value["image"] = _whole(setup.image) if setup.image else None
    for name in ("image_observations", "variables", "levels"):
        value[name] = dict(value[name])
    value["datasets"] = [vars(each) for each in setup.datasets]
    value["notes"] = [vars(note) for note in setup.notes]
    return value


def setup_from_json(value: Mapping[str, Any]) -> Setup:
    """The setup that `setup_to_json` wrote."""
    restored = dict(value)
    if restored["image"]:
        image = dict(restored["image"])
        manifest, config = image.pop("manifest"), image.pop("config")
        restored["image"] = from_json(
            image,
            manifest=None if manifest is None else b64decode(manifest),
            config=b64decode(config),
        )
    restored["datasets"] = tuple(Dataset(**each) for each in restored["datasets"])
    restored["notes"] = tuple(Note(**each) for each in restored["notes"])
    return Setup(**restored)


def _whole(image: Image) -> dict[str, Any]:
    raw = None if image.manifest is None else b64encode(image.manifest).decode()
    return to_json(image) | {"manifest": raw, "config": b64encode(image.config).decode()}


def _text(value: Digest | None) -> str | None:
    return None if value is None else str(value)


def _digest(value: str | None) -> Digest | None:
    return None if value is None else Digest.parse(value)
