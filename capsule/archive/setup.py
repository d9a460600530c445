"""Setup of a run as its run folder stores it, and the origin as every document stores it."""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Iterable, Mapping
from dataclasses import asdict, fields
from typing import Any

from capsule import notes
from capsule.archive import images
from capsule.image import Image
from capsule.origin import Added, Extension, Origin, Original, Rereading, Side, Verification
from capsule.record import Dataset, Setup, Source

_ORIGINS: Mapping[str, type[Origin]] = {
    origin.kind: origin for origin in (Original, Verification, Side, Extension, Rereading)
}
_WHOLE = ("runs", "look", "seed_rule", "seeds")


def origin_to_json(origin: Origin) -> dict[str, Any]:
    """Return an origin, told by its `kind`."""
    stated = asdict(origin)
    # written only by verifications on another device
    if stated.get("device", "") is None:
        del stated["device"]
    return {"kind": origin.kind, **stated}


def origin_from_json(value: Mapping[str, Any]) -> Origin:
    """Return the origin that `origin_to_json` wrote."""
    rest: dict[str, Any] = {name: item for name, item in value.items() if name != "kind"}
    # 5.0 is a JSON integer too
    rest |= {name: int(rest[name]) for name in _WHOLE if rest.get(name) is not None}
    if "metrics" in rest:
        rest["metrics"] = tuple(rest["metrics"])
    if "added" in rest:
        rest["added"] = tuple(Added(id=one["id"], runs=int(one["runs"])) for one in rest["added"])
    return _ORIGINS[value["kind"]](**rest)


def setup_to_json(setup: Setup) -> dict[str, Any]:
    """Return the JSON of a setup in a run folder, from which another process can resume it."""
    value = {field.name: getattr(setup, field.name) for field in fields(Setup)}
    value["image"] = _whole(setup.image) if setup.image else None
    for name in ("image_observations", "variables", "levels"):
        value[name] = dict(value[name])
    value["datasets"] = [vars(dataset) for dataset in setup.datasets]
    value["sources"] = [asdict(source) for source in setup.sources]
    value["notes"] = list(map(notes.to_json, setup.notes))
    value["origin"] = origin_to_json(setup.origin)
    return value


def setup_from_json(value: Mapping[str, Any]) -> Setup:
    """Return the setup that `setup_to_json` wrote."""
    restored = dict(value)
    if restored["image"]:
        image = dict(restored["image"])
        documents = images.Documents(
            index=_from_text(image.pop("index")),
            manifest=_from_text(image.pop("manifest")),
            config=_from_text(image.pop("config")),
        )
        restored["image"] = images.from_json(image, documents, where="image")
    restored["datasets"] = tuple(Dataset(**dataset) for dataset in restored["datasets"])
    restored["sources"] = sources_from_json(restored["sources"])
    restored["notes"] = tuple(map(notes.from_json, restored["notes"]))
    restored["origin"] = origin_from_json(restored["origin"])
    return Setup(**restored)


def sources_from_json(values: Iterable[Mapping[str, Any]]) -> tuple[Source, ...]:
    """Return the checkouts, as every document has them."""
    return tuple(Source(**{**value, "inputs": tuple(value["inputs"])}) for value in values)


def _whole(image: Image) -> dict[str, Any]:
    documents = {"index": image.index, "manifest": image.manifest, "config": image.config}
    return images.to_json(image) | {name: _to_text(body) for name, body in documents.items()}


def _to_text(body: bytes | None) -> str | None:
    return None if body is None else b64encode(body).decode()


def _from_text(text: str | None) -> bytes | None:
    return None if text is None else b64decode(text)
