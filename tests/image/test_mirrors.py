"""Images by way of a site's mirror, held against the same digests; and without any network."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

import pytest

from capsule import offline
from capsule.digest import of_bytes
from capsule.errors import CannotRunError, DamagedError
from capsule.image import Image, kept, mirrors, reference, registry
from capsule.image.mirrors import Access
from tests.support.registries import (
    INDEX_TYPE,
    MANIFEST_TYPE,
    http,
    make_config,
    make_index,
    make_manifest,
    serve,
)

CONFIG = make_config()
MANIFEST = make_manifest(CONFIG)
INDEX = make_index(MANIFEST)
NOWHERE = "127.0.0.1:1"
NAME = f"docker://{NOWHERE}/group/made@{of_bytes(INDEX)}"


@contextmanager
def mirror(documents: Mapping[str, bytes], heads: list[str] | None = None) -> Iterator[str]:
    """A registry whose images lie below `hub/group/made`."""

    def answer(path: str, out: BinaryIO) -> None:
        body = documents.get(path.removeprefix("/v2/hub/group/made/"))
        if body is None:
            out.write(http(b"{}", status="404 Not Found"))
            return
        kind = json.loads(body).get("mediaType", "application/json")
        out.write(http(body, Content_Type=kind))

    with serve(answer, heads) as host:
        yield host


def documents(**changes: bytes) -> dict[str, bytes]:
    return {
        f"manifests/{of_bytes(INDEX)}": INDEX,
        f"manifests/{of_bytes(MANIFEST)}": MANIFEST,
        f"blobs/{of_bytes(CONFIG)}": CONFIG,
        **changes,
    }


def resolve(access: Access, name: str = NAME) -> Image:
    return registry.resolve(reference.parse(name), platform="linux/amd64", access=access)


def test_an_image_comes_from_the_mirror_and_keeps_its_name() -> None:
    heads: list[str] = []
    with mirror(documents(), heads) as host:
        image = resolve(Access(mirrors={NOWHERE: f"{host}/hub"}))
    assert image.reference == NAME
    assert image.pinned == f"{NOWHERE}/group/made@{of_bytes(MANIFEST)}"
    assert image.index_digest == of_bytes(INDEX)
    assert len(heads) == 3
    rerouted = mirrors.reroute(image, {NOWHERE: f"{host}/hub"})
    assert rerouted is not None
    assert rerouted.pinned == f"{host}/hub/group/made@{of_bytes(MANIFEST)}"
    assert rerouted.identity == image.identity
    assert mirrors.reroute(image, {"docker.io": host}) is None


@pytest.mark.parametrize(
    "wrong",
    [
        f"manifests/{of_bytes(INDEX)}",
        f"manifests/{of_bytes(MANIFEST)}",
        f"blobs/{of_bytes(CONFIG)}",
    ],
)
def test_a_mirror_that_serves_other_bytes_is_caught_and_named(wrong: str) -> None:
    other = (
        make_config(created="now") if "blobs" in wrong else make_manifest(CONFIG, annotations={})
    )
    with (
        mirror(documents(**{wrong: other})) as host,
        pytest.raises(DamagedError) as caught,
    ):
        resolve(Access(mirrors={NOWHERE: f"{host}/hub"}))
    assert str(of_bytes(other)) in caught.value.what


def test_what_the_mirror_lacks_is_asked_of_the_registry_itself() -> None:
    with mirror({}) as empty, mirror(documents()) as host:
        name = f"docker://{host}/hub/group/made@{of_bytes(INDEX)}"
        image = resolve(Access(mirrors={host: f"{empty}/hub"}), name)
    assert image.manifest == MANIFEST


def test_where_neither_has_it_both_are_told() -> None:
    with mirror({}) as empty, pytest.raises(CannotRunError) as caught:
        resolve(Access(mirrors={NOWHERE: f"{empty}/hub"}))
    assert f"the registry {NOWHERE} did not answer" in caught.value.what
    assert f"the mirror {empty} failed, too" in caught.value.what


def test_offline_the_kept_documents_are_the_image(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    access = Access(cache=tmp_path)
    kept.keep((INDEX, MANIFEST, CONFIG), tmp_path)
    heads: list[str] = []
    with mirror(documents(), heads) as host, offline.enforce(True):
        image = resolve(Access(mirrors={NOWHERE: f"{host}/hub"}, cache=tmp_path))
    assert (image.index, image.manifest, image.config) == (INDEX, MANIFEST, CONFIG)
    assert heads == []
    tagged = f"docker://{NOWHERE}/group/made:1"
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    with (
        offline.enforce(True),
        pytest.raises(CannotRunError, match="was not staged on this machine"),
    ):
        resolve(access, tagged)
    kept.note_tag(tagged, of_bytes(INDEX))
    with offline.enforce(True):
        assert resolve(access, tagged).pinned == image.pinned
    (file,) = (tmp_path / "state/capsule/tags").iterdir()
    file.write_text("no digest")
    with (
        offline.enforce(True),
        pytest.raises(CannotRunError, match="was not staged on this machine"),
    ):
        resolve(access, tagged)


@pytest.mark.parametrize("harm", ["gone", "other", "link", "fifo", "folder"])
def test_a_kept_document_is_believed_for_its_bytes_alone(tmp_path: Path, harm: str) -> None:
    import os

    kept.keep((INDEX, MANIFEST, CONFIG), tmp_path)
    path = tmp_path / "documents" / of_bytes(MANIFEST).hex
    path.unlink()
    match harm:
        case "other":
            path.write_bytes(make_manifest(CONFIG, annotations={}))
        case "link":
            (tmp_path / "elsewhere").write_bytes(MANIFEST)
            path.symlink_to(tmp_path / "elsewhere")
        case "fifo":
            os.mkfifo(path)
        case "folder":
            path.mkdir()
    with offline.enforce(True), pytest.raises(CannotRunError) as caught:
        resolve(Access(cache=tmp_path))
    assert str(of_bytes(MANIFEST)) in caught.value.what
    assert "capsule stage" in str(caught.value.advice)


def test_offline_is_offline_within_itself_and_over_afterwards() -> None:
    with offline.enforce(True):
        with offline.enforce(False):
            assert offline.is_on()
        assert offline.is_on()
    assert not offline.is_on()


def test_the_kinds_are_those_that_registries_send() -> None:
    assert json.loads(INDEX)["mediaType"] == INDEX_TYPE
    assert json.loads(MANIFEST)["mediaType"] == MANIFEST_TYPE
