"""Images in files: SIF files, and archives whose digests mostly fit."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

from capsule.digest import of_bytes
from capsule.image import ImageFile, files
from tests.fuzz import mutate
from tests.fuzz.campaign import Door
from tests.support.archives import OCI, Made, make_layer, make_tar
from tests.support.capsules import seal
from tests.support.records import make_record
from tests.support.sifs import PLAIN, Part, Squashfs, gzipped, make_sif

_LAYER = make_layer()


def make_sif_file(random: Random) -> bytes:
    """A SIF with some numbers changed: of its own, of its file system, or of an inode."""
    changed = random.choice(("sif", "squashfs", "inode"))
    pack = random.choice((None, gzipped))

    def change(kind: int, data: bytes) -> bytes:
        return _twist(data, random) if changed == "inode" and random.random() < 0.3 else data

    body = Squashfs(pack=pack, inode=change).write(PLAIN)
    if changed == "squashfs":
        body = _twist(body, random)
    whole = make_sif(Part(body=body))
    return _twist(whole, random) if changed == "sif" else whole


def _twist(data: bytes, random: Random) -> bytes:
    """With some numbers replaced, each where it may be; lengths stay."""
    twisted = bytearray(data)
    for _ in range(random.choice((1, 2, 5))):
        place, width = random.randrange(len(data)), random.choice((1, 2, 4, 8))
        odd = random.choice((0, 1, 2**31 - 1, 2**63 - 1, random.getrandbits(64)))
        twisted[place : place + width] = odd.to_bytes(8, "little")[:width]
    return bytes(twisted[: len(data)])


def make_archive(random: Random) -> bytes:
    """An archive: its lists, documents, tar or layer changed, digests of most made again."""
    part = random.choice(("layer", "config", "manifest", "index", "tar", "saved"))
    layer = mutate.text(_LAYER, random) if part == "layer" else _LAYER
    made = Made(layers=[layer], packed=random.random() < 0.5)
    if part == "config":
        changed = mutate.document(json.loads(made.configuration), random, 1)
        made.document = json.dumps(changed).encode()
    if part == "saved":
        return make_tar(_change_file(made.saved(), "manifest.json", random))
    content = made.layout()
    if part == "index":
        content = _change_file(content, "index.json", random)
    if part == "manifest":
        manifest = json.dumps(mutate.document(made.manifest, random, 1)).encode()
        entry = {"mediaType": f"{OCI}.manifest.v1+json", "size": len(manifest)}
        index: dict[str, Any] = {"manifests": [entry | {"digest": str(of_bytes(manifest))}]}
        content |= {
            "index.json": json.dumps(index).encode(),
            f"blobs/sha256/{of_bytes(manifest).hex}": manifest,
        }
    tar = make_tar(content)
    return mutate.text(tar, random) if part == "tar" else tar


def _change_file(content: dict[str, bytes], name: str, random: Random) -> dict[str, bytes]:
    changed = mutate.document(json.loads(content[name]), random, random.choice((1, 2)))
    return content | {name: json.dumps(changed).encode()}


def send(data: bytes, folder: Path) -> None:
    """Read the image; one that is taken can be sealed."""
    path = folder / "image"
    path.write_bytes(data)
    file = files.locate(str(path), None)
    assert file is not None
    image = files.read(ImageFile(form=file.form, path=path))
    assert image.tree_digest is not None
    seal(folder, replace(make_record(), image=replace(image, file=None)))


SIF = Door(name="sif", make=make_sif_file, send=send)
ARCHIVE = Door(name="image-archive", make=make_archive, send=send)
