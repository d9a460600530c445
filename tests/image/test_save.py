"""An image in one file: the registry's own bytes, and whole or not at all."""

import gzip
import io
import json
import os
import tarfile
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import BinaryIO

import pytest

from capsule import image as images
from capsule import process
from capsule.digest import of_bytes
from capsule.errors import CannotRunError, CapsuleError, DamagedError, UsageError
from capsule.image import Image, Layer, reference, registry, save
from capsule.jsons import JsonObject
from capsule.runtimes import local
from tests.support.capsules import seal
from tests.support.command import User, write_manifest, write_script
from tests.support.engines import push_tiny
from tests.support.patience import PATIENCE_SECONDS
from tests.support.records import make_record
from tests.support.registries import (
    OCI,
    answers,
    http,
    image_answers,
    make_config,
    make_manifest,
    serve,
)

BLOBS = (b"gzip of a", b"gzip of b, longer")
CONFIG = make_config()
MANIFEST = make_manifest(
    CONFIG,
    layers=[
        {
            "mediaType": f"{OCI}.layer.v1.tar+gzip",
            "digest": str(of_bytes(blob)),
            "size": len(blob),
        }
        for blob in BLOBS
    ],
)


def answer_files(changes: Mapping[bytes, bytes] | None = None) -> dict[str, bytes]:
    """The answers of a registry, some blobs exchanged for others."""
    blobs = {f"/v2/made/blobs/{of_bytes(blob)}": (changes or {}).get(blob, blob) for blob in BLOBS}
    return image_answers("made", CONFIG, MANIFEST) | {
        path: http(body) for path, body in blobs.items()
    }


def make_tar(name: str) -> bytes:
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w") as archive:
        archive.addfile(tarfile.TarInfo(name), io.BytesIO())
    return data.getvalue()


def resolve(host: str) -> Image:
    return registry.resolve(reference.parse(f"docker://{host}/made:1"))


def members(path: Path) -> dict[str, bytes]:
    with tarfile.open(path) as archive:
        entries = archive.getmembers()
        assert {(entry.mtime, entry.uid, entry.gid) for entry in entries} == {(0, 0, 0)}
        contents = {entry.name: archive.extractfile(entry) for entry in entries}
        return {name: content.read() for name, content in contents.items() if content}


def test_every_blob_is_the_registrys_own(tmp_path: Path) -> None:
    target = tmp_path / "image.tar"
    layers: list[Layer] = []
    with serve(answers(answer_files())) as host:
        saved = save.save(resolve(host), target, layers.append, local.save)
    assert saved == of_bytes(MANIFEST)
    files = members(target)
    blobs = {name: body for name, body in files.items() if name.startswith("blobs/")}
    assert {name.rpartition("/")[2] for name in blobs} == {
        of_bytes(body).hex for body in (CONFIG, MANIFEST, *BLOBS)
    }
    assert all(name == f"blobs/sha256/{of_bytes(body).hex}" for name, body in blobs.items())
    assert json.loads(files["oci-layout"]) == {"imageLayoutVersion": "1.0.0"}
    (entry,) = json.loads(files["index.json"])["manifests"]
    assert entry["digest"] == str(of_bytes(MANIFEST))
    assert (entry["size"], entry["platform"]["os"]) == (len(MANIFEST), "linux")
    (classic,) = json.loads(files["manifest.json"])
    assert files[classic["Config"]] == CONFIG
    assert [files[name] for name in classic["Layers"]] == list(BLOBS)
    # loading it takes nobody's tag away
    assert classic["RepoTags"] is None
    assert len(layers) == 2
    assert list(tmp_path.iterdir()) == [target]


def test_what_was_saved_is_read_as_the_same_image(tmp_path: Path) -> None:
    tars = [make_tar("a"), make_tar("b")]
    blobs = [gzip.compress(content) for content in tars]
    config = make_config(
        rootfs={"type": "layers", "diff_ids": [str(of_bytes(content)) for content in tars]}
    )
    layers: list[JsonObject] = [
        {
            "mediaType": f"{OCI}.layer.v1.tar+gzip",
            "digest": str(of_bytes(blob)),
            "size": len(blob),
        }
        for blob in blobs
    ]
    files = image_answers("made", config, make_manifest(config, layers=layers)) | {
        f"/v2/made/blobs/{of_bytes(blob)}": http(blob) for blob in blobs
    }
    with serve(answers(files)) as host:
        original = resolve(host)
        save.save(original, tmp_path / "image.tar", lambda layer: None, local.save)
    again = images.resolve(None, folder=None, override=str(tmp_path / "image.tar"))
    assert again.identity == original.identity
    assert (again.config, again.layers) == (original.config, original.layers)


def test_the_same_image_is_the_same_file(tmp_path: Path) -> None:
    with serve(answers(answer_files())) as host:
        for name in "ab":
            save.save(resolve(host), tmp_path / name, lambda layer: None, local.save)
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


def test_a_layer_that_comes_twice_is_written_once(tmp_path: Path) -> None:
    config = make_config(
        rootfs={"type": "layers", "diff_ids": [str(of_bytes(b"a")), str(of_bytes(b"a"))]}
    )
    layer = json.loads(MANIFEST)["layers"][0]
    manifest = make_manifest(config, layers=[layer, layer])
    files = answer_files() | image_answers("made", config, manifest)
    with serve(answers(files)) as host:
        save.save(resolve(host), tmp_path / "image.tar", lambda layer: None, local.save)
    with tarfile.open(tmp_path / "image.tar") as archive:
        names = archive.getnames()
    assert len(names) == len(set(names)) == 8


@pytest.mark.parametrize(
    ("body", "fault"),
    [
        (BLOBS[1][:-1] + b"x", "the layer is sha256:"),
        (BLOBS[1] + b"x", "exceeds its stated size of 17 bytes"),
        (BLOBS[1][:-1], "has 16 bytes, expected 17"),
        (b"", "has 0 bytes, expected 17"),
    ],
)
def test_bytes_that_are_not_the_layers_leave_nothing(
    tmp_path: Path, body: bytes, fault: str
) -> None:
    with (
        serve(answers(answer_files({BLOBS[1]: body}))) as host,
        pytest.raises(DamagedError) as caught,
    ):
        save.save(resolve(host), tmp_path / "image.tar", lambda layer: None, local.save)
    assert fault in str(caught.value) or "expected" in str(caught.value)
    assert list(tmp_path.iterdir()) == []


def test_an_answer_that_breaks_off_leaves_nothing(tmp_path: Path) -> None:
    whole = http(BLOBS[1])

    def answer(path: str, out: BinaryIO) -> None:
        files = answer_files()
        body = whole[:-5] if path.endswith(str(of_bytes(BLOBS[1]))) else files.get(path, b"")
        out.write(body)

    with serve(answer) as host, pytest.raises(CapsuleError):
        save.save(resolve(host), tmp_path / "image.tar", lambda layer: None, local.save)
    assert list(tmp_path.iterdir()) == []


def test_nothing_is_written_over_and_no_disk_is_filled(tmp_path: Path) -> None:
    target = tmp_path / "image.tar"
    target.write_text("mine")
    with serve(answers(answer_files())) as host:
        image = resolve(host)
    with pytest.raises(UsageError, match="already exists"):
        save.save(image, target, lambda layer: None, local.save)
    huge = tuple(replace(layer, size_bytes=2**52) for layer in image.layers)
    with pytest.raises(CannotRunError, match="are free"):
        save.save(
            replace(image, layers=huge), tmp_path / "other.tar", lambda layer: None, local.save
        )
    assert [path.read_text() for path in tmp_path.iterdir()] == ["mine"]


def test_a_capsule_without_an_image_has_none_to_save(author: User) -> None:
    write_script(author.folder)
    ran = author.run("run", write_manifest(author.folder, seeds=[1]), "-o", "a.capsule.zip")
    assert ran.returncode == 0, ran.stderr
    ended = author.run("image", "save", "a.capsule.zip", "image.tar")
    assert ended.returncode == 2
    assert "this capsule ran on the host, without an image" in ended.stderr


def test_a_name_that_is_nothing_is_bad_usage(author: User) -> None:
    ended = author.run("image", "save", "nothing.zip", "image.tar")
    assert ended.returncode == 2
    assert "nothing.zip" in ended.stderr


def call(*command: str | Path) -> str:
    words = [str(word) for word in command]
    ended = process.run(words, timeout_seconds=PATIENCE_SECONDS)
    assert ended.exit_code == 0, ended.stderr
    return (ended.stdout + ended.stderr).decode()


@pytest.fixture
def tiny() -> Image:
    return push_tiny("saved")


@pytest.mark.engines
def test_every_engine_takes_the_file(author: User, tiny: Image) -> None:
    path = author.folder / "tiny.oci.tar"
    facts = author.json("image", "save", f"docker://{tiny.pinned}", "tiny.oci.tar")
    assert facts["manifest_digest"] == str(tiny.manifest_digest)
    for program in ("docker", "podman"):
        words = call(program, "load", "--input", path)
        assert tiny.config_digest is not None
        assert tiny.config_digest.hex[:12] in words
        call(program, "rmi", str(tiny.config_digest))
    call("apptainer", "build", author.folder / "tiny.sif", f"oci-archive:{path}")
    assert (author.folder / "tiny.sif").is_file()


@pytest.mark.engines
def test_the_image_of_a_capsule_is_saved(author: User, tiny: Image) -> None:
    capsule = seal(author.folder, replace(make_record(), image=tiny))
    facts = author.json("image", "save", capsule, "tiny.oci.tar")
    assert facts["config_digest"] == str(tiny.config_digest)
    names = members(author.folder / "tiny.oci.tar")
    assert f"blobs/sha256/{tiny.layers[0].digest.hex}" in names


@pytest.mark.engines
@pytest.mark.parametrize("store", ["docker-daemon", "containers-storage"])
def test_an_image_of_a_local_engine_is_saved(author: User, store: str, tmp_path: Path) -> None:
    program = {"docker-daemon": "docker", "containers-storage": "podman"}[store]
    name = f"localhost/capsule-test/local-{program}-{os.getpid()}:1"
    content = tmp_path / "content.tar"
    content.write_bytes(make_tar("content"))
    call(program, "import", content, name)
    identity = call(program, "image", "inspect", "--format", "{{.Id}}", name).strip()
    try:
        # Docker is asked without any program
        path = {} if program == "podman" else {"PATH": str(author.folder)}
        ended = author.run("image", "save", f"{store}:{name}", "image.tar", "--json", **path)
    finally:
        call(program, "rmi", name)
    facts = json.loads(ended.stdout)
    assert facts["config_digest"].endswith(identity)
    files = members(author.folder / "image.tar")
    assert files[f"blobs/sha256/{of_bytes(content.read_bytes()).hex}"] == content.read_bytes()
    call("apptainer", "build", author.folder / "x.sif", f"oci-archive:{author.folder}/image.tar")
    for other in ("docker", "podman"):
        call(other, "load", "--input", author.folder / "image.tar")
        digest = facts["config_digest"]
        assert digest.endswith(
            call(other, "image", "inspect", "--format", "{{.Id}}", digest).strip()
        )
        call(other, "rmi", digest)
