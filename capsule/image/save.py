"""Write an image to one file that every engine and every capsule takes: an OCI layout in a tar.

Its blobs are the registry's own, unchanged, each held against the digest that names it, so that
the image is known by the same digests from the file. Beside the layout lies what Docker before
version 25 looks for. The file names no tag, which would take the place of one where it is loaded.
"""

from __future__ import annotations

import hashlib
import shutil
import tarfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import BinaryIO

from capsule import places, sizes
from capsule.digest import Digest, canonical_json, expect, of_bytes
from capsule.errors import CannotRunError, DamagedError, UsageError, add_advice
from capsule.image import Image, Layer, saved
from capsule.image.reference import owner_of, parse
from capsule.image.transfer import Transfer
from capsule.schema import parse as parse_json

_OCI = "application/vnd.oci.image"
_MANIFEST_TYPE, _CONFIG_TYPE = f"{_OCI}.manifest.v1+json", f"{_OCI}.config.v1+json"
_BLOCK_BYTES = tarfile.BLOCKSIZE
_PIECE_BYTES = 1 << 20

Hold = Callable[[Digest], AbstractContextManager[Path]]
"""Has an engine write an archive of an image, as of `docker save`, for as long as a block runs."""
Copy = Callable[[Layer, Callable[[bytes], object]], None]
"""Hands the bytes of a layer to a function, in pieces."""


@add_advice("try again; if the error returns, push or build the image again")
def save(image: Image, target: Path, watch: Callable[[Layer], None], hold: Hold) -> Digest:
    """Write an image to a new file; returns the digest of its manifest.

    Args:
        image: Image of a registry, or of an engine of this machine, which gets a manifest here.
        target: Path of the new file, which must not exist.
        watch: Receiver of each layer before it is copied.
        hold: Function that lets the engine of an image save it to an archive.

    Raises:
        UsageError: `target` exists, or the image is already a file.
        CannotRunError: The image cannot be had, or the file cannot be written.
        DamagedError: A layer differs from its digest, or the engine saved a wrong number of layers.
    """
    config = image.config
    if config is None or image.file is not None:
        raise UsageError(
            "nothing to save: the image is already a file",
            where=image.reference,
            advice="copy the image file instead",
        )
    places.check(output=target, flag="FILE")
    _require_room(image, target)
    manifest = image.manifest or _make_manifest(image, config)
    with places.scratch(target.absolute().parent) as work, _open_source(image, hold) as copy:
        path = work / "image.tar"
        try:
            with path.open("wb") as stream:
                _write(stream, image, (manifest, config), copy, watch)
            _publish(path, target)
        except OSError as error:
            raise CannotRunError(
                f"cannot write the image: {error.strerror or error}",
                where=str(target),
                advice="free some space, or name a file in another folder",
            ) from None
    return of_bytes(manifest)


def _require_room(image: Image, target: Path) -> None:
    """Stop before a disk is filled, by the sizes that the image's own manifest states."""
    needed_bytes = sum(layer.size_bytes for layer in image.layers)
    free_bytes = shutil.disk_usage(target.absolute().parent).free
    if needed_bytes > free_bytes:
        raise CannotRunError(
            f"too little disk space: the image needs {sizes.size(needed_bytes)},"
            f" {sizes.size(free_bytes)} are free",
            where=str(target),
            advice="write the image to a disk with more room",
        )


def _write(
    stream: BinaryIO,
    image: Image,
    documents: tuple[bytes, bytes],
    copy: Copy,
    watch: Callable[[Layer], None],
) -> None:
    manifest, config = documents
    layers = list({layer.digest: layer for layer in image.layers}.values())
    members = {
        "oci-layout": canonical_json({"imageLayoutVersion": "1.0.0"}),
        "index.json": canonical_json(_index(image, manifest)),
        "manifest.json": canonical_json(_for_docker(image, config)),
        _blob(of_bytes(manifest)): manifest,
        _blob(of_bytes(config)): config,
    }
    for folder in ("blobs", "blobs/sha256"):
        # Apptainer unpacks nothing into a folder that is not listed
        entry = tarfile.TarInfo(f"{folder}/")
        entry.type, entry.mode = tarfile.DIRTYPE, 0o755
        stream.write(entry.tobuf(tarfile.GNU_FORMAT))
    for name, body in members.items():
        _begin(stream, name, len(body))
        stream.write(body)
        _pad(stream)
    for layer in layers:
        watch(layer)
        _begin(stream, _blob(layer.digest), layer.size_bytes)
        _copy_layer(stream, layer, copy)
        _pad(stream)
    stream.write(bytes(2 * _BLOCK_BYTES))


def _copy_layer(stream: BinaryIO, layer: Layer, copy: Copy) -> None:
    """Copy exactly the bytes of a layer.

    Raises:
        DamagedError: The length or the digest of the layer differs from the stated one.
    """
    hasher, left = hashlib.sha256(), layer.size_bytes

    def write(piece: bytes) -> None:
        nonlocal left
        left -= len(piece)
        if left < 0:
            raise DamagedError(
                f"the layer {layer.digest} exceeds its stated size of {layer.size_bytes} bytes"
            )
        hasher.update(piece)
        stream.write(piece)

    copy(layer, write)
    if left:
        raise DamagedError(
            f"the layer {layer.digest} has {layer.size_bytes - left} bytes, expected"
            f" {layer.size_bytes}"
        )
    expect(Digest(hex=hasher.hexdigest()), layer.digest, what="the layer")


@contextmanager
def _open_source(image: Image, hold: Hold) -> Iterator[Copy]:
    if image.pinned is not None:
        reference = parse(f"docker://{image.pinned}")
        with Transfer(reference) as transfer:
            yield lambda layer, write: transfer.download(
                f"blobs/{layer.digest}", write, size_bytes=layer.size_bytes
            )
        return
    if owner_of(image.reference) is None:
        raise UsageError(
            "nothing to save: the image is already a file",
            where=image.reference,
            advice="copy the image file instead",
        )
    with hold(image.identity.digest) as path, tarfile.open(path) as archive:
        names, _ = saved.read(archive)
        if len(names) != len(image.layers):
            raise DamagedError(
                f"expected {len(image.layers)} layers in the saved image, found {len(names)}",
                where=image.reference,
            )
        members = dict(zip((layer.digest for layer in image.layers), names, strict=True))

        def copy(layer: Layer, write: Callable[[bytes], object]) -> None:
            member = archive.extractfile(members[layer.digest])
            while member is not None and (piece := member.read(_PIECE_BYTES)):
                write(piece)

        yield copy


def _make_manifest(image: Image, body: bytes) -> bytes:
    """Return a manifest for an image that has none: its layers are plain tar files."""
    config = {
        "mediaType": _CONFIG_TYPE,
        "digest": str(of_bytes(body)),
        "size": len(body),
    }
    layers = [
        {"mediaType": layer.media_type, "digest": str(layer.digest), "size": layer.size_bytes}
        for layer in image.layers
    ]
    return canonical_json(
        {"schemaVersion": 2, "mediaType": _MANIFEST_TYPE, "config": config, "layers": layers}
    )


def _index(image: Image, manifest: bytes) -> dict[str, object]:
    kind = parse_json(manifest, where=image.reference).get("mediaType") or _MANIFEST_TYPE
    platform = dict(zip(("os", "architecture", "variant"), image.platform.split("/"), strict=False))
    entry = {
        "mediaType": kind,
        "digest": str(of_bytes(manifest)),
        "size": len(manifest),
        "platform": platform,
    }
    return {"schemaVersion": 2, "mediaType": f"{_OCI}.index.v1+json", "manifests": [entry]}


def _for_docker(image: Image, config: bytes) -> list[dict[str, object]]:
    layers = [_blob(layer.digest) for layer in image.layers]
    return [{"Config": _blob(of_bytes(config)), "RepoTags": None, "Layers": layers}]


def _blob(digest: Digest) -> str:
    return f"blobs/sha256/{digest.hex}"


def _begin(stream: BinaryIO, name: str, size_bytes: int) -> None:
    entry = tarfile.TarInfo(name)
    entry.size = size_bytes
    stream.write(entry.tobuf(tarfile.GNU_FORMAT))


def _pad(stream: BinaryIO) -> None:
    stream.write(bytes(-stream.tell() % _BLOCK_BYTES))


def _publish(path: Path, target: Path) -> None:
    """Give the whole file its name, and never that of another."""
    try:
        target.hardlink_to(path)
    except FileExistsError:
        raise UsageError(
            "another process created this file while capsule saved the image",
            where=str(target),
            advice="name another file",
        ) from None
    except OSError:
        # a file system without links
        path.rename(target)
