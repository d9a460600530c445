"""What a manifest says of its data: address, DOI, licence, description; and what is refused."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from capsule import manifest as manifests
from capsule.errors import ManifestError
from capsule.jsons import Json
from capsule.manifest import DatasetSpec
from tests.support.records import manifest_document

DIGEST = f"sha256:{'5' * 64}"


def read(folder: Path | None = None, **fields: Json) -> DatasetSpec:
    document = {**manifest_document(), "datasets": {"ramp": fields}}
    if folder is not None:
        (folder / "train.py").write_text("")
    source = json.dumps(document).encode()
    return manifests.read(source, where="manifest.json", folder=folder).datasets[0]


def test_a_dataset_says_where_it_comes_from() -> None:
    spec = read(
        url="https://example.org/ramp.tar.gz",
        unpack=True,
        doi="10.5281/zenodo.1",
        license="CC0-1.0",
        description="A ramp",
        digest=DIGEST,
    )
    assert spec.provenance == (
        "https://example.org/ramp.tar.gz, doi:10.5281/zenodo.1, licence CC0-1.0"
    )
    assert (spec.description, spec.unpack, spec.embed) == ("A ramp", True, None)
    assert read(digest=DIGEST).provenance == "no source stated, no licence stated"


def test_what_can_be_fetched_need_not_lie_there(tmp_path: Path) -> None:
    assert read(tmp_path, path="ramp.bin", url="https://example.org/r").path == "ramp.bin"
    with pytest.raises(ManifestError, match="does not exist beside the manifest"):
        read(tmp_path, path="ramp.bin", digest=DIGEST)
    with pytest.raises(ManifestError, match="outside of the manifest's folder"):
        read(tmp_path, path="../ramp.bin", url="https://example.org/r")


@pytest.mark.parametrize(
    "url",
    [
        "file:///etc/passwd",
        "ftp://example.org/x",
        "https://",
        "https:///x",
        "https://user:secret@example.org/x",
        "https://example.org/a b",
        "https://example.org\\@other/x",
        "//example.org/x",
    ],
)
def test_only_addresses_that_anybody_can_fetch_are_taken(url: str) -> None:
    with pytest.raises(ManifestError, match="/datasets/ramp/url"):
        read(url=url, digest=DIGEST)


def test_what_others_can_change_on_the_way_needs_a_digest() -> None:
    with pytest.raises(ManifestError, match="add a digest"):
        read(url="http://example.org/x")
    assert read(url="http://example.org/x", digest=DIGEST).url
    assert read(url="http://127.0.0.1:8000/x").url
    with pytest.raises(ManifestError, match="add a digest"):
        read(url="http://127.0.0.1.example.org/x")


def test_only_an_address_can_be_of_an_archive() -> None:
    with pytest.raises(ManifestError, match='"unpack" is set'):
        read(digest=DIGEST, unpack=True)
    assert read(digest=DIGEST, unpack=False).unpack is False
