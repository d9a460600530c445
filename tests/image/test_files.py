"""Images in files: their form is what lies there, and their identity what is in them."""

from __future__ import annotations

import hashlib
import os
from io import BytesIO
from pathlib import Path

import pytest

from capsule import image
from capsule.errors import UsageError
from capsule.image import files, sif
from capsule.manifest import ImageSpec
from tests.support.refused_sifs import REFUSED
from tests.support.sifs import PLAIN, Content, Part, Squashfs, make_sif, plain_sif


def tree_of(data: bytes) -> str:
    return str(sif.read(BytesIO(data), where="made.sif").tree)


def test_the_tree_is_the_digest_of_the_records_that_the_format_describes() -> None:
    """Made again by hand, from docs/reference/capsule-format.md alone."""
    records = sorted(
        (path, kind, mode, value)
        for path, kind, mode, value in (
            (b"bin", b"d", b"755", b""),
            (b"bin/sh", b"f", b"644", hashlib.sha256(b"#!").hexdigest().encode()),
            (
                b"bin/big",
                b"f",
                b"644",
                hashlib.sha256(bytes(range(256)) * 40).hexdigest().encode(),
            ),
            (b"etc/name", b"f", b"644", hashlib.sha256(b"made").hexdigest().encode()),
            (b"lib", b"l", b"", b"bin"),
        )
    )
    text = b"".join(
        b"%s %s %s\0%s\0" % (kind, mode, value, path) for path, kind, mode, value in records
    )
    assert tree_of(plain_sif()) == f"sha256:{hashlib.sha256(text).hexdigest()}"


@pytest.mark.parametrize(
    "content",
    [
        PLAIN | {"bin": {"sh": b"##", "big": bytes(range(256)) * 40}},
        PLAIN | {"lib": "etc"},
        PLAIN | {"more": b""},
        {name: content for name, content in PLAIN.items() if name != "lib"},
    ],
)
def test_whatever_is_in_it_changes_its_tree(content: dict[str, Content]) -> None:
    assert tree_of(plain_sif(content)) != tree_of(plain_sif())


def test_what_engines_write_and_how_it_is_packed_does_not(tmp_path: Path) -> None:
    other = PLAIN | {
        "etc": {"hosts": b"another", "resolv.conf": b"one more", "name": b"made"},
        "proc": {},
        "tmp": {},
    }
    assert tree_of(make_sif(Part(body=Squashfs().write(other)))) == tree_of(plain_sif())


@pytest.mark.parametrize("name", REFUSED)
def test_a_sif_that_is_none_is_refused_by_what_is_wrong(name: str, tmp_path: Path) -> None:
    make, kind, says = REFUSED[name]
    path = tmp_path / "made.sif"
    path.write_bytes(make())
    with pytest.raises(kind, match=says):
        files.read(image.ImageFile(form="sif", path=path))


@pytest.mark.parametrize("written", ["{}/made.sif", "sif:{}/made.sif", "{}/./made.sif"])
def test_a_sif_is_known_by_its_tree(written: str, tmp_path: Path) -> None:
    (tmp_path / "made.sif").write_bytes(plain_sif())
    spec = ImageSpec(reference="docker://registry.example/other:1")
    made = image.resolve(spec, folder=None, override=written.format(tmp_path))
    assert (made.reference, made.platform, made.layers) == ("sif:made.sif", "linux/amd64", ())
    assert (made.config, made.config_digest, made.pinned) == (None, None, None)
    assert (made.identity.kind, str(made.identity.digest)) == ("tree", tree_of(plain_sif()))


def test_a_manifest_s_path_starts_beside_it(tmp_path: Path) -> None:
    (tmp_path / "images").mkdir()
    (tmp_path / "images" / "made.sif").write_bytes(plain_sif())
    made = image.resolve(ImageSpec(reference="images/made.sif"), folder=tmp_path)
    assert made.file is not None
    assert made.file.path == tmp_path / "images" / "made.sif"


def test_a_path_without_an_image_is_named(tmp_path: Path) -> None:
    (tmp_path / "text.sif").write_text("words")
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "pipe.sif")
    for name, says in (
        ("gone.sif", "No such file"),
        ("text.sif", "no image found"),
        ("folder", "no image found"),
        ("pipe.sif", "expected a readable regular file"),
    ):
        with pytest.raises(UsageError, match=says) as error:
            files.locate(f"{tmp_path}/{name}", None)
        assert error.value.where == f"{tmp_path}/{name}"


def test_a_reference_that_names_another_form_is_told(tmp_path: Path) -> None:
    (tmp_path / "made.sif").write_bytes(plain_sif())
    with pytest.raises(
        UsageError, match="the reference names the form oci, but the file has the form sif"
    ):
        files.locate(f"oci:{tmp_path}/made.sif", None)


def test_a_name_in_a_registry_is_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "debian").mkdir()
    assert files.locate("docker://debian", None) is None
    assert files.locate("torch", None) is None
    # though there is a folder of that name
    assert files.locate("debian", None) is None
