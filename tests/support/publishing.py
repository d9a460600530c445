"""Servers that a capsule was published on: a plain one, Zenodo as it was recorded, a registry."""

from __future__ import annotations

import hashlib
import io
import json
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from capsule.digest import of_bytes
from tests.support.registries import Answer, http

RECORDED = Path(__file__).parents[1] / "data" / "zenodo" / "record.json"
DOI, CONCEPT = "10.5281/zenodo.18812345", "10.5281/zenodo.18812344"
RECORD, NAME = "/api/records/18812345", "tiny-2cf24dba.capsule.zip"
FILE = f"{RECORD}/files/{NAME}/content"
EMPTY = b"{}"
_ORIGIN = "https://zenodo.org"


def id_of(capsule: bytes) -> str:
    """The id of a capsule, told by nothing of ours."""
    with zipfile.ZipFile(io.BytesIO(capsule)) as archive:
        return hashlib.sha256(archive.read("tagmanifest-sha256.txt")).hexdigest()


def record(origin: str, capsule: bytes, **changes: object) -> dict[str, Any]:
    """The recorded JSON, about this capsule and this server; `changes` are to its entry."""
    document: dict[str, Any] = json.loads(
        RECORDED.read_text().replace(f"{_ORIGIN}/api", f"{origin}/api")
    )
    entry = next(one for one in document["files"] if one["key"] == NAME)
    checksum = hashlib.md5(capsule, usedforsecurity=False).hexdigest()
    entry.update({"size": len(capsule), "checksum": f"md5:{checksum}", **changes})
    return document


def zenodo(origin: str, capsule: bytes, **changes: object) -> dict[str, bytes]:
    """What Zenodo answers, by path; the DOI of all versions leads to the newest."""
    body = json.dumps(record(origin, capsule, **changes)).encode()
    return {
        RECORD: http(body, Content_Type="application/json"),
        "/api/records/18812344": http(
            b"", status="302 FOUND", Location=f"{origin}{RECORD}", Content_Type="text/html"
        ),
        FILE: http(capsule, Content_Type="application/octet-stream"),
    }


def artifact(capsule: bytes, **changes: object) -> bytes:
    """The manifest that `oras push` makes of one file."""
    document = {
        "schemaVersion": 2,
        "mediaType": "application/vnd.oci.image.manifest.v1+json",
        "artifactType": "application/vnd.unknown.artifact.v1",
        "config": {
            "mediaType": "application/vnd.oci.empty.v1+json",
            "digest": str(of_bytes(EMPTY)),
            "size": len(EMPTY),
            "data": "e30=",
        },
        "layers": [
            {
                "mediaType": "application/vnd.oci.image.layer.v1.tar",
                "digest": str(of_bytes(capsule)),
                "size": len(capsule),
                "annotations": {"org.opencontainers.image.title": "tiny.capsule.zip"},
            }
        ],
        "annotations": {"org.opencontainers.image.created": "2026-03-04T09:12:31Z"},
        **changes,
    }
    return json.dumps(document).encode()


def registry(name: str, capsule: bytes, manifest: bytes | None = None) -> dict[str, bytes]:
    """What a registry answers for it at `NAME:1`, by path."""
    manifest = artifact(capsule) if manifest is None else manifest
    served = http(manifest, Content_Type="application/vnd.oci.image.manifest.v1+json")
    return {
        f"/v2/{name}/manifests/1": served,
        f"/v2/{name}/manifests/{of_bytes(manifest)}": served,
        f"/v2/{name}/blobs/{of_bytes(capsule)}": http(capsule),
    }


def by_path(files: Mapping[str, bytes]) -> Answer:
    """Whole answers by path without its query, and Zenodo's 404 for every other."""
    lost = http(
        b'{"status": 404, "message": "The persistent identifier does not exist."}',
        status="404 NOT FOUND",
        Content_Type="application/json",
    )

    def answer(path: str, out: Any) -> None:
        out.write(files.get(path.partition("?")[0], lost))

    return answer
