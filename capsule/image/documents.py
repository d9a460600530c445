"""Index, manifest and configuration of an image, read strictly out of what was served."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from capsule.digest import Digest, of_bytes
from capsule.errors import CannotRunError, DamagedError, UsageError
from capsule.jsons import Json
from capsule.schema import parse

_OCI = "application/vnd.oci.image"
_DOCKER = "application/vnd.docker"
INDEXES = (f"{_OCI}.index.v1+json", f"{_DOCKER}.distribution.manifest.list.v2+json")
MANIFESTS = (f"{_OCI}.manifest.v1+json", f"{_DOCKER}.distribution.manifest.v2+json")
_CONFIGS = (f"{_OCI}.config.v1+json", f"{_DOCKER}.container.image.v1+json")
# engines stop at 127; an image of more is none that could be mounted
_MAX_LAYERS = 1000
_PLATFORM_PART = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]{0,63}")
_MEDIA_TYPE = re.compile(r"[A-Za-z0-9!#$&^_.+-]{1,127}/[A-Za-z0-9!#$&^_.+-]{1,127}")
# as the published schema has it: whole numbers that every reader of JSON keeps
_MOST_BYTES = 2**53 - 1
_T = TypeVar("_T")


@dataclass(frozen=True, kw_only=True)
class Offer:
    """One line of an index; `platform` is (os, architecture[, variant]), empty where not named."""

    platform: tuple[str, ...]
    digest: Digest


@dataclass(frozen=True, kw_only=True)
class Index:
    """A multi-platform index: its raw bytes, their digest, and what it offers."""

    body: bytes
    digest: Digest
    offers: tuple[Offer, ...]


@dataclass(frozen=True, kw_only=True)
class Blob:
    """A layer as a manifest names it."""

    digest: Digest
    size_bytes: int
    media_type: str


@dataclass(frozen=True, kw_only=True)
class Manifest:
    """A platform manifest: its raw bytes, their digest, the configuration's, and the layers."""

    body: bytes
    digest: Digest
    config: Digest
    blobs: tuple[Blob, ...]


@dataclass(frozen=True, kw_only=True)
class Config:
    """A configuration: its raw bytes, their digest, the platform, and the layers' contents."""

    body: bytes
    digest: Digest
    platform: tuple[str, ...]
    diff_ids: tuple[Digest, ...]


def read(body: bytes, *, kind: str | None = None, where: str) -> Index | Manifest:
    """Return the index or manifest in some bytes; its own fields alone decide which of the two it
    is.

    Args:
        body: As it was served.
        kind: Media type that it was served as, for a document that names none.
        where: The image, for messages.

    Raises:
        DamagedError: Not JSON, or not as its specification asks.
        CannotRunError: Neither of the two, or both at once.
    """
    document = _object(body, where)
    is_index, is_manifest = "manifests" in document, "layers" in document
    named = document.get("mediaType") or kind
    known = INDEXES if is_index else MANIFESTS
    if is_index == is_manifest or (named and named not in known):
        # both at once is how one digest is made to mean two images
        if is_index and is_manifest:
            found = 'both "manifests" and "layers"'
        elif named:
            found = f"the media type {str(named)[:80]!r}"
        else:
            found = 'neither "manifests" nor "layers"'
        raise CannotRunError(
            f"expected an image of Docker's schema 2 or OCI, found a document with {found}",
            where=where,
            advice="push or save the image again with a current version of Docker or Podman",
        )
    if is_index:
        offers = _take(lambda: tuple(map(_offer, _entries(document["manifests"]))), "index", where)
        return Index(body=body, digest=of_bytes(body), offers=offers)
    config = _take(lambda: _part(document, "config"), "manifest", where)
    if (config_kind := _take(lambda: config["mediaType"], "manifest", where)) not in _CONFIGS:
        raise CannotRunError(
            "expected a container image, found a configuration of the media type"
            f" {str(config_kind)[:80]!r}",
            where=where,
            advice="name a container image",
        )
    return Manifest(
        body=body,
        digest=of_bytes(body),
        config=_take(lambda: _digest(config), "manifest", where),
        blobs=_take(lambda: _blobs(document["layers"]), "manifest", where),
    )


def read_artifact(body: bytes, *, where: str) -> Blob:
    """Return the one blob of an artifact that is no image, by the bytes of its manifest.

    Raises:
        DamagedError: Not JSON, or not as its specification asks.
        CannotRunError: An index, an image, or an artifact of another number of blobs.
    """
    document = _object(body, where)
    config = _take(lambda: _part(document, "config").get("mediaType"), "manifest", where)
    if "manifests" in document or "layers" not in document or config in _CONFIGS:
        kind = "a container image" if config in _CONFIGS else "a document without a list of files"
        raise CannotRunError(
            f"the registry sent {kind}, expected a capsule",
            where=where,
            advice="give the reference of a capsule",
        )
    blobs = _take(lambda: _blobs(document["layers"]), "manifest", where)
    if len(blobs) != 1:
        raise CannotRunError(
            f"the artifact has {len(blobs)} files, expected one capsule",
            where=where,
            advice="give the reference of a capsule",
        )
    return blobs[0]


def read_config(body: bytes, *, where: str) -> Config:
    """Return the configuration in some bytes.

    Raises:
        DamagedError: Not JSON, or not as its specification asks.
    """
    document = _object(body, where)
    _take(lambda: _check_settings(_part(document, "config")), "configuration", where)
    platform = _take(lambda: _platform(document), "configuration", where)
    if not platform:
        lacking = [f'"{name}"' for name in ("os", "architecture") if not document.get(name)]
        raise DamagedError(f"the image configuration lacks {' and '.join(lacking)}", where=where)
    return Config(
        body=body,
        digest=of_bytes(body),
        platform=platform,
        diff_ids=_take(
            lambda: tuple(map(_parse_digest, _entries(_part(document, "rootfs")["diff_ids"]))),
            "configuration",
            where,
        ),
    )


def variables(config: bytes, *, where: str) -> dict[str, str]:
    """Return the variables that an image sets for every program, from its configuration.

    Raises:
        DamagedError: Not JSON, or not as its specification asks.
    """
    settings = _take(lambda: _part(_object(config, where), "config"), "configuration", where)
    _take(lambda: _check_settings(settings), "configuration", where)
    entries = _entries(settings.get("Env") or [])
    return dict(str(entry).partition("=")[::2] for entry in entries)


def _object(body: bytes, where: str) -> Mapping[str, Json]:
    document = parse(body, where=where)
    if not isinstance(document, dict):
        raise DamagedError(
            f"expected a JSON object that describes the image, found {_show(document)}",
            where=where,
        )
    return document


def _take(read_part: Callable[[], _T], what: str, where: str) -> _T:
    try:
        return read_part()
    except (KeyError, TypeError, ValueError, UsageError) as error:
        fault = error.what if isinstance(error, UsageError) else str(error)
        if isinstance(error, KeyError):
            fault = f"{fault[:80]} is missing"
        raise DamagedError(
            f"the {what} breaks its specification: {fault[:200]}", where=where
        ) from None


def _show(value: Json) -> str:
    return repr(str(value)[:80])


def _offer(entry: Json) -> Offer:
    return Offer(platform=_platform(_part(entry, "platform")), digest=_digest(entry))


def _platform(entry: Mapping[str, Json]) -> tuple[str, ...]:
    parts = [part for name in ("os", "architecture", "variant") if (part := entry.get(name))]
    for part in parts:
        if not isinstance(part, str) or not _PLATFORM_PART.fullmatch(part):
            raise ValueError(
                f"invalid part {str(part)[:40]!r} of a platform, expected letters, digits and"
                " . _ + -"
            )
    if not entry.get("os") or not entry.get("architecture"):
        return ()
    return tuple(str(part) for part in parts)


def _blob(entry: Json) -> Blob:
    if not isinstance(entry, Mapping):
        raise TypeError(f"a layer is {_show(entry)}, expected an object")
    size, kind = entry["size"], entry["mediaType"]
    # True is an integer to Python alone
    if type(size) is not int or not 0 <= size <= _MOST_BYTES:
        raise TypeError(f"a layer has the size {_show(size)}, expected 0 to {_MOST_BYTES} bytes")
    if not isinstance(kind, str) or not _MEDIA_TYPE.fullmatch(kind):
        raise TypeError(f"a layer has the media type {_show(kind)}, expected TYPE/SUBTYPE")
    if entry.get("urls") or "foreign" in kind or "nondistributable" in kind:
        raise ValueError(
            "a layer is stored outside the registry (foreign layer), which capsule does not support"
        )
    return Blob(digest=_digest(entry), size_bytes=size, media_type=kind)


def _check_settings(settings: Mapping[str, Json]) -> None:
    """Check the settings that are read later: variables and labels."""
    variables, labels = settings.get("Env") or [], settings.get("Labels") or {}
    for item in _entries(variables):
        if not isinstance(item, str):
            raise TypeError(f'"Env" has the entry {_show(item)}, expected text')
    if not isinstance(labels, Mapping):
        raise TypeError(f'"Labels" is {_show(labels)}, expected an object')


def _digest(entry: Json) -> Digest:
    if not isinstance(entry, Mapping):
        raise TypeError(f"an entry is {_show(entry)}, expected an object with a digest")
    return _parse_digest(entry["digest"])


def _parse_digest(text: Json) -> Digest:
    if not isinstance(text, str):
        raise TypeError(f"a digest is {_show(text)}, expected text")
    return Digest.parse(text)


def _part(whole: Json, name: str) -> Mapping[str, Json]:
    """Return an object inside another, empty where there is none of that name."""
    part = whole.get(name) if isinstance(whole, Mapping) else whole
    if part is None:
        return {}
    if not isinstance(part, Mapping):
        raise TypeError(f'"{name}" is {_show(part)}, expected an object')
    return part


def _entries(value: Json) -> Sequence[Json]:
    if not isinstance(value, list):
        raise TypeError(f"expected a list, found {_show(value)}")
    return value


def _blobs(value: Json) -> tuple[Blob, ...]:
    entries = _entries(value)
    if len(entries) > _MAX_LAYERS:
        raise ValueError(f"expected at most {_MAX_LAYERS} layers, found {len(entries)}")
    return tuple(map(_blob, entries))
