"""Hand an engine the image of an archive: those bytes that were read, and nothing else of it."""

from __future__ import annotations

import hashlib
import json
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from capsule.digest import Digest, expect, of_bytes
from capsule.errors import DamagedError, add_advice
from capsule.image import Image, archives
from capsule.image.archives import Parts
from capsule.image.layers import unpack
from capsule.image.stores import Store

_CHANGED = "run again when no process writes to the archive"
_OCI = "application/vnd.oci.image"
_PIECE_BYTES = 1 << 20


def lay_out(image: Image, folder: Path) -> None:
    """Write an OCI layout of one manifest, whatever the archive looks like.

    Args:
        image: Image of a layout or an archive.
        folder: New; gets a copy of every blob, hashed while it is written.

    Raises:
        DamagedError: The archive is no longer the one that was read.
        OSError: It cannot be written.
    """
    assert image.file is not None
    where = str(image.file.path)
    with archives.open_store(image.file) as store:
        parts = _require_same(image, store, where)
        blobs = folder / "blobs" / "sha256"
        blobs.mkdir(parents=True)
        manifest = image.manifest or _make_manifest(image)
        for document in (manifest, parts.config.body):
            (blobs / of_bytes(document).hex).write_bytes(document)
        for number, name in enumerate(parts.blobs):
            layer = image.layers[number]
            with (blobs / layer.digest.hex).open("wb") as target:
                for piece in _pieces(store, name, layer.digest, unpacked=not image.manifest):
                    target.write(piece)
    entry = {
        "mediaType": f"{_OCI}.manifest.v1+json",
        "digest": str(of_bytes(manifest)),
        "size": len(manifest),
    }
    index = {"schemaVersion": 2, "manifests": [entry]}
    (folder / "index.json").write_text(json.dumps(index))
    (folder / "oci-layout").write_text('{"imageLayoutVersion": "1.0.0"}')


def stream(image: Image) -> Iterator[bytes]:
    """Yield the input of `docker load`: configuration and layers, as pieces of a tar.

    Raises:
        DamagedError: The archive is no longer the one that was read.
    """
    assert image.file is not None
    assert image.config_digest is not None
    assert image.config is not None
    where = str(image.file.path)
    with archives.open_store(image.file) as store:
        parts = _require_same(image, store, where)
        config = f"{image.config_digest.hex}.json"
        names = [f"{layer.digest.hex}.tar" for layer in image.layers]
        entry = {"Config": config, "RepoTags": None, "Layers": names}
        for name, body in ((config, image.config), ("manifest.json", json.dumps([entry]).encode())):
            yield from _member(name, len(body), iter((body,)))
        written = set()
        for layer, name, blob in zip(image.layers, names, parts.blobs, strict=True):
            if name not in written:
                pieces = _pieces(store, blob, layer.digest, unpacked=not image.manifest)
                yield from _member(name, layer.size_bytes, pieces)
            written.add(name)
        yield bytes(2 * tarfile.BLOCKSIZE)


def _member(name: str, size: int, pieces: Iterator[bytes]) -> Iterator[bytes]:
    header = tarfile.TarInfo(name)
    header.size = size
    yield header.tobuf(tarfile.PAX_FORMAT)
    yield from pieces
    yield bytes(-size % tarfile.BLOCKSIZE)


@add_advice(_CHANGED)
def _require_same(image: Image, store: Store, where: str) -> Parts:
    assert image.file is not None
    parts = archives.list_parts(store, image.file, where)
    if parts.config.digest != image.config_digest:
        raise DamagedError(
            "the archive changed after capsule read it",
            where=where,
            advice=_CHANGED,
        )
    return parts


def _pieces(store: Store, name: str, digest: Digest, *, unpacked: bool) -> Iterator[bytes]:
    """Yield a blob, hashed on its way; of an archive of Docker's the tar inside, which is its
    blob.
    """
    stream, _ = store.open(name)
    hasher = hashlib.sha256()
    with stream:
        for piece in unpack(stream.read, None, name) if unpacked else _read(stream):
            hasher.update(piece)
            yield piece
    expect(
        Digest(hex=hasher.hexdigest()),
        digest,
        what="a layer, read again,",
        where=name,
        advice=_CHANGED,
    )


def _read(stream: BinaryIO) -> Iterator[bytes]:
    while piece := stream.read(_PIECE_BYTES):
        yield piece


def _make_manifest(image: Image) -> bytes:
    """Return a manifest of configuration and layers, for engines that need one; it names no
    image.
    """
    assert image.config is not None
    manifest = {
        "schemaVersion": 2,
        "mediaType": f"{_OCI}.manifest.v1+json",
        "config": {
            "mediaType": f"{_OCI}.config.v1+json",
            "digest": str(image.config_digest),
            "size": len(image.config),
        },
        "layers": [
            {
                "mediaType": f"{_OCI}.layer.v1.tar",
                "digest": str(layer.digest),
                "size": layer.size_bytes,
            }
            for layer in image.layers
        ],
    }
    return json.dumps(manifest).encode()
