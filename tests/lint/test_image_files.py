"""An image file that a manifest names and that is not there: told before a run looks for it."""

from __future__ import annotations

import json

import pytest

from capsule import cli
from tests.support.command import User, write_manifest, write_script


def lint(user: User, reference: str, capsys: pytest.CaptureFixture[str]) -> str:
    write_script(user.folder)
    manifest = write_manifest(user.folder, image={"reference": reference})
    assert cli.main(["lint", "--json", str(manifest)]) == 0
    warnings = json.loads(capsys.readouterr().out)["warnings"]
    return " ".join(one["sentence"] for one in warnings)


@pytest.mark.parametrize(
    "reference",
    [
        "images/torch.sif",
        "torch.tar",
        "torch.tar.gz",
        "sif:torch.sif",
        "oci:layout",
        "oci-archive:torch.tar",
        "docker-archive:torch.tar",
        "./layout",
        "/nowhere/torch.sif",
    ],
)
def test_one_that_is_missing_is_told_with_a_way_out(
    author: User, reference: str, capsys: pytest.CaptureFixture[str]
) -> None:
    said = lint(author, reference, capsys)
    path = author.folder / reference.rpartition(":")[2]
    assert f"the image {reference} cannot be used ({path}): cannot read the image file" in said
    assert "Name an existing file, or an image of a registry" in said


def test_one_that_is_no_image_or_another_one_is_told(
    author: User, capsys: pytest.CaptureFixture[str]
) -> None:
    (author.folder / "torch.sif").write_bytes(b"nothing")
    assert "no image found" in lint(author, "torch.sif", capsys)
    (author.folder / "empty").mkdir()
    assert "no image found" in lint(author, "oci:empty", capsys)
    (author.folder / "torch.tar").write_bytes(bytes(257) + b"ustar" + bytes(250))
    said = lint(author, "sif:torch.tar", capsys)
    assert "the reference names the form sif, but the file has the form oci-archive" in said
    assert "Write oci-archive: before the path" in said


def test_one_that_is_there_and_a_name_in_a_registry_are_no_matter(
    author: User, capsys: pytest.CaptureFixture[str]
) -> None:
    (author.folder / "torch.tar").write_bytes(bytes(257) + b"ustar" + bytes(250))
    assert "cannot be used" not in lint(author, "torch.tar", capsys)
    assert "cannot be used" not in lint(author, "docker://h.example/torch:1", capsys)
    assert "cannot be used" not in lint(author, "docker-daemon:torch:1", capsys)
