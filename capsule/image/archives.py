"""OCI layouts and the archives of `docker save`: every blob hashed, and one image or none.

Engines load what two lists of an archive name differently, take blobs without hashing them, and
follow what others may exchange meanwhile. So all is read here first, and engines are handed what
was read (`handing`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace

from capsule import sizes
from capsule.digest import Digest, expect, of_bytes
from capsule.errors import CannotRunError, DamagedError
from capsule.image import Image, ImageFile, documents, facts, layers, platforms
from capsule.image.allowance import Allowance
from capsule.image.documents import Config, Index, Manifest, Offer
from capsule.image.files import open_file
from capsule.image.stores import Folder, Store, open_archive
from capsule.image.tree import Tree
from capsule.jsons import Json
from capsule.schema import parse

_MOST_BYTES = 8 << 20
_UNKNOWN = ("unknown", "unknown")
_ONE = (
    "save the image alone: docker save -o FILE NAME:TAG, or"
    " skopeo copy docker://HOST/NAME:TAG oci-archive:FILE"
)


@dataclass(frozen=True, kw_only=True)
class Parts:
    """Contents of an archive, before a layer is read.

    Attributes:
        index: What the manifest was chosen from by its platform, None where there was no choice.
        manifest: None for an archive of Docker's without one.
        config: The configuration.
        blobs: Names of the layers in the archive, lowest first.
    """

    index: Index | None
    manifest: Manifest | None
    config: Config
    blobs: tuple[str, ...]


@contextmanager
def open_store(file: ImageFile) -> Iterator[Store]:
    """Open the files of a layout or an archive.

    Raises:
        DamagedError: It is no archive.
        CannotRunError: It cannot be read.
    """
    if file.form == "oci":
        yield Folder(file.path)
        return
    where = str(file.path)
    try:
        with open_file(file.path) as stream, open_archive(stream, where) as archive:
            yield archive
    except OSError as error:
        raise CannotRunError(
            f"cannot read: {error.strerror}",
            where=where,
            advice="make the file readable, or name another image file",
        ) from None


def read(file: ImageFile) -> Image:
    """Return the image of a layout or an archive, with every blob hashed and unpacked once.

    Raises:
        DamagedError: It holds several images or none, its lists name different ones, or a blob is
            not what its digest says.
        CannotRunError: It cannot be read, or is for another platform.
    """
    where = str(file.path)
    with open_store(file) as store:
        parts = list_parts(store, file, where)
        tree, seen = _read_layers(store, parts, where)
    if parts.manifest is not None:
        image = facts.make(
            file.name, index=parts.index, manifest=parts.manifest, config=parts.config, where=where
        )
    else:
        name, sizes = f"docker-archive:{file.path.name}", [layer.tar_bytes for layer in seen]
        image = facts.make_local(name, config=parts.config, sizes=sizes, where=where)
    platforms.require(image)
    return replace(image, tree_digest=tree.digest(), file=file)


def list_parts(store: Store, file: ImageFile, where: str) -> Parts:
    """Return the parts that an archive names, and check that its two lists agree.

    Raises:
        DamagedError: It holds several images or none, or its lists name different ones.
        CannotRunError: It is for another platform.
    """
    has_layout, has_list = store.has("index.json"), store.has("manifest.json")
    if not has_layout and not has_list:
        raise DamagedError(
            "expected index.json (OCI layout) or manifest.json (docker save), found neither",
            where=where,
            advice="name an archive that `docker save` or `skopeo copy` wrote",
        )
    layout = _list_layout(store, where) if has_layout else None
    # a folder's manifest.json is nobody's
    saved = _list_docker(store, where) if has_list and file.form != "oci" else None
    if layout is None:
        assert saved is not None
        return saved
    if saved is not None and (
        saved.config.digest != layout.config.digest or saved.blobs != layout.blobs
    ):
        digests = [str(one.config.digest)[:19] for one in (layout, saved)]
        differing = "layers" if digests[0] == digests[1] else " and ".join(digests)
        raise DamagedError(
            f"index.json and manifest.json name different images ({differing}), so engines would"
            " run different images",
            where=where,
            advice=_ONE,
        )
    return layout


def _list_layout(store: Store, where: str) -> Parts:
    index, manifest = _choose(store, where)
    config = documents.read_config(_blob(store, manifest.config, where), where=where)
    blobs = tuple(f"blobs/sha256/{blob.digest.hex}" for blob in manifest.blobs)
    _require_equal_count(blobs, config, where)
    return Parts(index=index, manifest=manifest, config=config, blobs=blobs)


def _choose(store: Store, where: str) -> tuple[Index | None, Manifest]:
    """Return the manifest of a layout, and the index that it was chosen from by its platform."""
    body = _read(store, "index.json", where)
    top = documents.read(body, where=where)
    if not isinstance(top, Index):
        raise DamagedError(
            "expected an OCI index in index.json, found an image manifest", where=where
        )
    offers = tuple({offer.digest: offer for offer in _images(top)}.values())
    if len(offers) == 1:
        document = _document(store, offers[0], where)
        if isinstance(document, Manifest):
            return None, document
        return document, _choose_platform(store, document, where)
    wanted = {offer.platform for offer in offers if offer.platform}
    if offers and len(wanted) == len(offers):
        return None, _choose_platform(store, replace(top, offers=offers), where)
    raise DamagedError(
        f"expected one image in the archive, found {len(offers)}", where=where, advice=_ONE
    )


def _choose_platform(store: Store, index: Index, where: str) -> Manifest:
    wanted = platforms.this_machine()
    chosen = [offer for offer in _images(index) if offer.platform[: len(wanted)] == wanted]
    if not chosen:
        there = sorted({"/".join(offer.platform) for offer in _images(index)})
        raise CannotRunError(
            f"expected an image for {'/'.join(wanted)}, the index has"
            f" {', '.join(there[:20]) or 'none'}",
            where=where,
            advice=f"name or build an image for {'/'.join(wanted)}",
        )
    document = _document(store, chosen[0], where)
    if isinstance(document, Index):
        raise CannotRunError(
            "the index names another index, expected an image", where=where, advice=_ONE
        )
    return document


def _images(index: Index) -> Iterator[Offer]:
    """Yield the images of an index, without attestations."""
    return (offer for offer in index.offers if offer.platform != _UNKNOWN)


def _document(store: Store, offer: Offer, where: str) -> Index | Manifest:
    return documents.read(_blob(store, offer.digest, where), where=where)


def _list_docker(store: Store, where: str) -> Parts:
    entries = parse(_read(store, "manifest.json", where), where=where)
    if not isinstance(entries, list) or len(entries) != 1:
        count = (
            len(entries)
            if isinstance(entries, list)
            else "a manifest.json without a list of images"
        )
        raise DamagedError(
            f"expected one image in the archive, found {count}", where=where, advice=_ONE
        )
    name, blobs = _names(entries[0])
    if name is None or blobs is None:
        lacking = '"Layers", expected a list' if blobs is None else '"Config", expected a text'
        raise DamagedError(f"manifest.json lacks a valid {lacking}", where=where)
    config = documents.read_config(_read(store, name, where), where=where)
    _require_equal_count(blobs, config, where)
    return Parts(index=None, manifest=None, config=config, blobs=blobs)


def _names(entry: Json) -> tuple[str | None, tuple[str, ...] | None]:
    """Return the names of configuration and layers; None if missing."""
    if not isinstance(entry, Mapping):
        return None, None
    name, blobs = entry.get("Config"), entry.get("Layers")
    if not isinstance(blobs, list) or not all(isinstance(blob, str) for blob in blobs):
        return None, None
    return name if isinstance(name, str) else None, tuple(map(str, blobs))


def _require_equal_count(blobs: tuple[str, ...], config: Config, where: str) -> None:
    if len(blobs) != len(config.diff_ids):
        raise DamagedError(
            f"the image manifest lists {len(blobs)} layers, expected {len(config.diff_ids)} as in"
            " the image configuration",
            where=where,
        )


def _read_layers(store: Store, parts: Parts, where: str) -> tuple[Tree, list[layers.Seen]]:
    """Lay all layers over each other, and hold each against what names it."""
    sizes = [_size(store, name) for name in parts.blobs]
    allowance = Allowance(sum(dict(zip(parts.blobs, sizes, strict=True)).values()), where=where)
    tree, all_seen = Tree(), []
    for number, (name, size) in enumerate(zip(parts.blobs, sizes, strict=True), 1):
        blob = parts.manifest.blobs[number - 1] if parts.manifest else None
        if blob is not None and blob.size_bytes != size:
            raise DamagedError(
                f"layer {number} has {size} bytes, expected {blob.size_bytes} bytes as in the"
                " image manifest",
                where=where,
            )
        stream, _ = store.open(name)
        with stream:
            seen = layers.apply(
                stream,
                tree,
                number=number,
                kind=blob.media_type if blob else None,
                allowance=allowance,
                where=where,
            )
        if blob is not None:
            expect(seen.digest, blob.digest, what=f"layer {number}", where=where)
        diff_id = parts.config.diff_ids[number - 1]
        expect(seen.diff_id, diff_id, what=f"the content of layer {number}", where=where)
        all_seen.append(seen)
    return tree, all_seen


def _size(store: Store, name: str) -> int:
    stream, size = store.open(name)
    stream.close()
    return size


def _blob(store: Store, digest: Digest, where: str) -> bytes:
    body = _read(store, f"blobs/sha256/{digest.hex}", where)
    expect(of_bytes(body), digest, what="a JSON document of the image", where=where)
    return body


def _read(store: Store, name: str, where: str) -> bytes:
    stream, size = store.open(name)
    with stream:
        if size > _MOST_BYTES:
            raise DamagedError(
                f"file {name[:200]!r} has {sizes.size(size)}, more than the limit of"
                f" {sizes.size(_MOST_BYTES)}",
                where=where,
            )
        return stream.read(_MOST_BYTES)
