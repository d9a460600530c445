"""What registries answer: indexes, manifests and configurations."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from random import Random
from types import TracebackType
from typing import Any
from unittest import mock

from capsule.digest import of_bytes
from capsule.errors import CannotRunError, DamagedError
from capsule.image import reference, registry
from capsule.image.transfer import Answer
from tests.fuzz import mutate
from tests.fuzz.campaign import Door
from tests.support.capsules import seal
from tests.support.records import make_record

_OCI = "application/vnd.oci.image"
_NAME = "docker://127.0.0.1:5000/made:1"
_CONFIG: dict[str, Any] = {
    "os": "linux",
    "architecture": "amd64",
    "variant": "v2",
    "config": {"Env": ["PATH=/bin"]},
    "rootfs": {"type": "layers", "diff_ids": [str(of_bytes(b"a")), str(of_bytes(b"b"))]},
}
_MANIFEST: dict[str, Any] = {
    "schemaVersion": 2,
    "mediaType": f"{_OCI}.manifest.v1+json",
    "config": {"mediaType": f"{_OCI}.config.v1+json", "digest": "", "size": 1},
    "layers": [
        {"mediaType": f"{_OCI}.layer.v1.tar+gzip", "digest": str(of_bytes(blob)), "size": 7}
        for blob in (b"A", b"B")
    ],
}
_INDEX: dict[str, Any] = {
    "schemaVersion": 2,
    "mediaType": f"{_OCI}.index.v1+json",
    "manifests": [
        {"digest": "", "platform": {"os": "linux", "architecture": "amd64", "variant": "v2"}},
        {"digest": str(of_bytes(b"c")), "platform": {"os": "linux", "architecture": "arm64"}},
    ],
}


def make(random: Random) -> bytes:
    """An index, its manifest and its configuration: some changed, digests mostly right."""
    part = random.choice(("config", "manifest", "index"))
    config, manifest, index = (
        mutate.document(document, random, random.choice((1, 2)))
        if name == part or random.random() < 0.1
        else document
        for name, document in (("config", _CONFIG), ("manifest", _MANIFEST), ("index", _INDEX))
    )
    answers = {"config": _encode(config, random)}
    manifest = _with_digest(manifest, ("config", "digest"), answers["config"], random)
    answers["manifest"] = _encode(manifest, random)
    index = _with_digest(index, ("manifests", 0, "digest"), answers["manifest"], random)
    answers["index"] = _encode(index, random)
    texts = {name: body.decode("latin-1") for name, body in answers.items()}
    return json.dumps({**texts, "indexed": random.random() < 0.5}).encode()


def _encode(document: Any, random: Random) -> bytes:
    data = json.dumps(document).encode()
    return mutate.text(data, random) if random.random() < 0.05 else data


def _with_digest(document: Any, place: tuple[str | int, ...], body: bytes, random: Random) -> Any:
    changed = json.loads(json.dumps(document))
    try:
        if random.random() < 0.95:
            mutate.at(changed, place[:-1])[place[-1]] = str(of_bytes(body))
    except (KeyError, IndexError, TypeError):
        pass
    return changed


class _Registry:
    """Answers as it is told, in the place of a conversation."""

    def __init__(self, first: bytes, blobs: dict[str, bytes]) -> None:
        self._first = first
        self._blobs = blobs

    def __enter__(self) -> _Registry:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Nothing to close."""

    def get(self, path: str, *, accept: str, limit_bytes: int) -> Answer:
        body = self._first if path == "manifests/1" else self._blobs.get(path.partition("/")[2])
        if body is None:
            raise CannotRunError(f"no {path}")
        if len(body) > limit_bytes:
            raise DamagedError("longer than allowed")
        return Answer(body=body, media_type=f"{_OCI}.manifest.v1+json")


def send(data: bytes, folder: Path) -> None:
    """Pin the image; one that is taken can be sealed."""
    sent = json.loads(data)
    bodies = {name: sent[name].encode("latin-1") for name in ("config", "manifest", "index")}
    blobs = {str(of_bytes(body)): body for body in bodies.values()}
    spoken = _Registry(bodies["index" if sent["indexed"] else "manifest"], blobs)
    with mock.patch.object(registry, "Transfer", lambda _reference: spoken):
        image = registry.resolve(reference.parse(_NAME), platform="linux/amd64")
    seal(folder, replace(make_record(), image=image))


REGISTRY = Door(name="registry", make=make, send=send)
