"""Pin an image: fetch its manifest and configuration, and hash the bytes ourselves."""

from __future__ import annotations

import platform as machine
from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

from capsule.digest import Digest, expect, of_bytes
from capsule.errors import CannotRunError, DamagedError, UsageError
from capsule.image import Image, Layer
from capsule.image.reference import Reference
from capsule.image.transfer import Answer, Transfer
from capsule.jsons import Json
from capsule.schema import parse

_OCI = "application/vnd.oci.image"
_DOCKER = "application/vnd.docker"
_INDEXES = (f"{_OCI}.index.v1+json", f"{_DOCKER}.distribution.manifest.list.v2+json")
_MANIFESTS = (f"{_OCI}.manifest.v1+json", f"{_DOCKER}.distribution.manifest.v2+json")
_CONFIGS = (f"{_OCI}.config.v1+json", f"{_DOCKER}.container.image.v1+json")
_ACCEPT = ", ".join((*_MANIFESTS, *_INDEXES))
_MAX_MANIFEST_BYTES = 4 << 20
_MAX_CONFIG_BYTES = 8 << 20
_LARGEST, _LONGEST_WORD = 2**53 - 1, 200
_ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}
_T = TypeVar("_T")


def resolve(
    reference: Reference, *, written: str | None = None, platform: str | None = None
) -> Image:
    """Fetch manifest and configuration, and check each link from the reference to the layers.

    Layers are not fetched: the engine does that, by the digests found here.

    Args:
        reference: By tag or by digest of a manifest or an index.
        written: The reference as its author wrote it, where that differs.
        platform: `os/architecture[/variant]`; this machine's by default.

    Raises:
        DamagedError: Bytes that are not those of the digest, or contradict each other.
        CannotRunError: No registry, no such image, no permission, no such platform.
        UsageError: `platform` is not in that form.
    """
    wanted = _platform(platform)
    with Transfer(reference) as transfer:
        served = transfer.get(
            f"manifests/{reference.tag_or_digest}", accept=_ACCEPT, limit_bytes=_MAX_MANIFEST_BYTES
        )
        digest = of_bytes(served.body)
        if reference.digest:
            expect(digest, reference.digest, what="the served manifest", where=str(reference))
        index_digest = None
        if "manifests" in (document := read_document(served, reference)):
            index_digest, digest = digest, _choose(document, wanted, reference)
            served = transfer.get(
                f"manifests/{digest}", accept=_ACCEPT, limit_bytes=_MAX_MANIFEST_BYTES
            )
            expect(of_bytes(served.body), digest, what="the served manifest", where=str(reference))
            document = read_document(served, reference)
        config_digest = _config_digest(document, reference)
        config = transfer.get(
            f"blobs/{config_digest}", accept="*/*", limit_bytes=_MAX_CONFIG_BYTES
        ).body
    expect(of_bytes(config), config_digest, what="the served configuration", where=str(reference))
    described = _object(config, f"configuration of {reference}")
    return Image(
        reference=written or str(reference),
        pinned=reference.pin(digest),
        index_digest=index_digest,
        manifest_digest=digest,
        platform=_same_platform(described, wanted, reference),
        config_digest=config_digest,
        layers=_layers(document, described, reference),
        manifest=served.body,
        config=config,
    )


def _platform(text: str | None) -> tuple[str, ...]:
    if text is None:
        name = machine.machine()
        return ("linux", _ARCHITECTURES.get(name, name))
    parts = tuple(text.split("/"))
    if len(parts) not in (2, 3) or not all(parts):
        raise UsageError(f"not a platform: {text!r}", advice="os/architecture, as in linux/amd64")
    return parts


def read_document(served: Answer, reference: Reference) -> Mapping[str, Json]:
    """The parsed manifest or index; its own fields alone decide which of the two it is.

    Raises:
        DamagedError: Not JSON, or not an object.
        CannotRunError: Neither of the two, or both at once.
    """
    document = _object(served.body, f"manifest of {reference}")
    is_index, is_manifest = "manifests" in document, "layers" in document
    kind = document.get("mediaType") or served.media_type
    known = _INDEXES if is_index else _MANIFESTS
    if is_index == is_manifest or kind not in known:
        # both at once is how one digest is made to mean two images
        raise CannotRunError(
            f"the registry serves {kind or 'something'} here, which is no image of schema 2 or OCI",
            where=str(reference),
        )
    return document


def _object(data: bytes, where: str) -> Mapping[str, Json]:
    document = parse(data, where=where)
    if not isinstance(document, dict):
        raise DamagedError("not a JSON object", where=where)
    return document


def _take(read: Callable[[], _T], reference: Reference, what: str) -> _T:
    try:
        return read()
    except (KeyError, TypeError, ValueError, AttributeError, UsageError) as error:
        raise DamagedError(
            f"the {what} is not as its specification asks: {error!r}", where=str(reference)
        ) from None


def _choose(index: Mapping[str, Json], wanted: tuple[str, ...], reference: Reference) -> Digest:
    def offers() -> list[tuple[tuple[str, ...], Digest]]:
        return [
            (_platform_of(_part(entry, "platform")), _digest(entry))
            for entry in _entries(index["manifests"])
        ]

    listed = _take(offers, reference, "index")
    for offer, digest in listed:
        if offer[: len(wanted)] == wanted:
            return digest
    # attestations are listed as unknown/unknown
    there = sorted({"/".join(offer) for offer, _ in listed if "unknown" not in offer})
    raise CannotRunError(
        f"the image is not there for {'/'.join(wanted)}, only for {', '.join(there) or 'nothing'}",
        where=str(reference),
    )


def _platform_of(entry: Mapping[str, Json]) -> tuple[str, ...]:
    parts = (entry.get("os"), entry.get("architecture"), entry.get("variant"))
    return tuple(_word(str(part)) for part in parts if part)


def _word(text: str) -> str:
    """The same text, which a record can hold."""
    if not (text.isascii() and text.isprintable() and len(text) <= _LONGEST_WORD):
        raise ValueError(f"{text[:_LONGEST_WORD]!a} is no name")
    return text


def _same_platform(
    config: Mapping[str, Json], wanted: tuple[str, ...], reference: Reference
) -> str:
    platform = _take(lambda: _platform_of(config), reference, "configuration")
    if platform[: len(wanted)] != wanted:
        raise CannotRunError(
            f"the image is for {'/'.join(platform) or 'no platform'}, wanted is {'/'.join(wanted)}",
            where=str(reference),
        )
    return "/".join(platform)


def _config_digest(manifest: Mapping[str, Json], reference: Reference) -> Digest:
    config = _take(lambda: _part(manifest, "config"), reference, "manifest")
    kind = _take(lambda: config["mediaType"], reference, "manifest")
    if kind not in _CONFIGS:
        raise CannotRunError(
            f"this is not a container image: its configuration is {kind}", where=str(reference)
        )
    return _take(lambda: _digest(config), reference, "manifest")


def _layers(
    manifest: Mapping[str, Json], config: Mapping[str, Json], reference: Reference
) -> tuple[Layer, ...]:
    def diff_ids() -> list[Digest]:
        return [Digest.parse(str(text)) for text in _entries(_part(config, "rootfs")["diff_ids"])]

    ids = _take(diff_ids, reference, "configuration")
    entries = manifest["layers"]
    if not isinstance(entries, list) or len(entries) != len(ids):
        raise DamagedError(
            "manifest and configuration do not list the same number of layers"
            f" ({len(ids)} in the configuration)",
            where=str(reference),
        )
    return _take(
        lambda: tuple(
            _layer(entry, diff_id, reference) for entry, diff_id in zip(entries, ids, strict=True)
        ),
        reference,
        "manifest",
    )


def _layer(entry: Json, diff_id: Digest, reference: Reference) -> Layer:
    if not isinstance(entry, Mapping) or type(size := entry["size"]) is not int:
        raise TypeError("a layer is an object with a size in bytes")
    if not 0 <= size <= _LARGEST:
        raise ValueError(f"{size} is no size")
    kind = _word(str(entry["mediaType"]))
    if entry.get("urls") or "foreign" in kind or "nondistributable" in kind:
        raise DamagedError(
            "a layer lies outside the registry (a foreign layer); nobody could keep this image",
            where=str(reference),
        )
    return Layer(digest=_digest(entry), size_bytes=size, media_type=kind, diff_id=diff_id)


def _digest(entry: Json) -> Digest:
    return Digest.parse(str(entry["digest"] if isinstance(entry, Mapping) else entry))


def _part(whole: Json, name: str) -> Mapping[str, Json]:
    """An object inside another, empty where there is none of that name."""
    part = whole.get(name) if isinstance(whole, Mapping) else whole
    if part is None:
        return {}
    if not isinstance(part, Mapping):
        raise TypeError(f"{name} is no object")
    return part


def _entries(value: Json) -> Sequence[Json]:
    if not isinstance(value, list):
        raise TypeError("what should be a list is none")
    return value
