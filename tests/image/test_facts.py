"""What is known of an image follows from its own documents, each held against the one before."""

from __future__ import annotations

import json

import pytest

from capsule.digest import of_bytes
from capsule.errors import CannotRunError, DamagedError
from capsule.image import Image, documents, facts
from capsule.image.documents import Index, Manifest
from capsule.jsons import Json
from tests.support.registries import make_config, make_index, make_manifest

NAME = "docker://registry.example.org/made"


def manifest_of(body: bytes) -> Manifest:
    document = documents.read(body, where="it")
    assert isinstance(document, Manifest)
    return document


def index_of(body: bytes) -> Index:
    document = documents.read(body, where="it")
    assert isinstance(document, Index)
    return document


def make(
    reference: str = f"{NAME}:1",
    *,
    index: bytes | None = None,
    manifest: bytes | None = None,
    config: bytes | None = None,
) -> Image:
    config = make_config() if config is None else config
    manifest = make_manifest(config) if manifest is None else manifest
    return facts.make(
        reference,
        index=None if index is None else index_of(index),
        manifest=manifest_of(manifest),
        config=documents.read_config(config, where="it"),
        where="it",
    )


CONFIG = make_config()
MANIFEST = make_manifest(CONFIG)


def test_all_that_is_known_follows_from_reference_and_bytes() -> None:
    body = make_index(MANIFEST)
    image = make(index=body)
    assert image.pinned == f"registry.example.org/made@{of_bytes(MANIFEST)}"
    assert (image.index, image.index_digest) == (body, of_bytes(body))
    assert (image.manifest, image.config) == (MANIFEST, CONFIG)
    assert make(f"{NAME}@{of_bytes(MANIFEST)}").index is None
    assert make(f"{NAME}@{of_bytes(body)}", index=body) == make(
        f"{NAME}@{of_bytes(body)}", index=body, config=CONFIG
    )


@pytest.mark.parametrize(
    ("reference", "index", "manifest", "words"),
    [
        (f"{NAME}@{of_bytes(b'x')}", None, None, "the image's manifest is"),
        (f"{NAME}@{of_bytes(MANIFEST)}", make_index(MANIFEST), None, "the image's index is"),
        (f"{NAME}:1", make_index(b"x"), None, "does not list the image manifest"),
        (f"{NAME}:1", make_index(MANIFEST, architecture="arm64"), None, "for linux/arm64"),
        (f"{NAME}:1", None, make_manifest(b"x"), "the image's configuration is"),
        (
            f"{NAME}:1",
            None,
            make_manifest(CONFIG, layers=[]),
            "lists 0 layers, expected 2 as in the image configuration",
        ),
    ],
)
def test_a_link_that_does_not_hold_is_damaged(
    reference: str, index: bytes | None, manifest: bytes | None, words: str
) -> None:
    with pytest.raises(DamagedError, match=words):
        make(reference, index=index, manifest=manifest)


@pytest.mark.parametrize("reference", [f"{NAME}:1", NAME, "tiny"])
def test_an_image_of_no_registry_is_called_by_none(reference: str) -> None:
    config = documents.read_config(CONFIG, where="it")
    with pytest.raises(DamagedError, match="the image manifest is missing"):
        facts.make_local(reference, config=config, sizes=[1, 2], where="it")
    local = facts.make_local("build images/torch", config=config, sizes=[1, 2], where="it")
    assert (local.pinned, local.manifest_digest) == (None, None)


@pytest.mark.parametrize(
    "changes",
    [
        {"variant": "v1\x1b[2J"},
        {"variant": "v1\n"},
        {"variant": "\ud800"},
        {"variant": "v" * 100},
        {"variant": 5},
        {"os": ""},
        {"os": "a/b"},
        {"architecture": None},
        {"config": 5},
        {"config": {"Env": {"A": "b"}}},
        {"config": {"Env": [5]}},
        {"config": {"Labels": ["x"]}},
    ],
)
def test_a_configuration_that_could_not_be_recorded_is_damaged(changes: dict[str, Json]) -> None:
    with pytest.raises(DamagedError):
        documents.read_config(make_config(**changes), where="it")


@pytest.mark.parametrize(
    "layer",
    [
        {"mediaType": "a/b\n"},
        {"mediaType": "a"},
        {"mediaType": None},
        {"size": True},
        {"size": -1},
        {"size": 1 << 63},
        {"digest": ["sha256:"]},
    ],
)
def test_a_layer_that_could_not_be_recorded_is_damaged(layer: dict[str, Json]) -> None:
    sound: dict[str, Json] = {"mediaType": "a/b", "digest": str(of_bytes(b"")), "size": 0}
    assert manifest_of(make_manifest(CONFIG, layers=[sound])).blobs[0].size_bytes == 0
    with pytest.raises(DamagedError):
        documents.read(make_manifest(CONFIG, layers=[sound | layer]), where="it")


def test_more_layers_than_could_be_mounted_are_damaged() -> None:
    layers: list[Json] = [{"mediaType": "a/b", "digest": str(of_bytes(b"")), "size": 0}]
    with pytest.raises(DamagedError, match="found 1001"):
        documents.read(make_manifest(CONFIG, layers=layers * 1001), where="it")


def test_what_is_index_and_manifest_at_once_is_neither() -> None:
    both = json.loads(MANIFEST) | json.loads(make_index(MANIFEST))
    with pytest.raises(CannotRunError, match="expected an image of Docker's schema 2"):
        documents.read(json.dumps(both).encode(), where="it")
