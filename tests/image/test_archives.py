"""Layouts and archives: one image, every blob of it what its digest says, and no link followed."""

from __future__ import annotations

import gzip
import io
import json
import os
import tarfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import zstandard

from capsule.digest import of_bytes
from capsule.errors import DamagedError
from capsule.image import Image, files, handing
from tests.support.archives import OCI, Made, lay_out, make_layer, make_tar
from tests.support.refused_archives import (
    OTHER,
    REFUSED,
    change_byte,
    describe,
    list_several,
    name_entry,
    relist,
)
from tests.support.sifs import PLAIN, plain_sif


def read(path: Path | str) -> Image:
    file = files.locate(str(path), None)
    assert file is not None
    return files.read(file)


def write(folder: Path, content: Mapping[str, bytes], name: str = "made.tar") -> Path:
    path = folder / name
    path.write_bytes(make_tar(content))
    return path


def test_an_image_is_one_wherever_it_lies(tmp_path: Path) -> None:
    made = Made(packed=False)
    lay_out(made.layout(), tmp_path / "layout")
    (tmp_path / "made.sif").write_bytes(plain_sif())
    forms = {
        "oci:layout": read(tmp_path / "layout"),
        "oci-archive:oci.tar": read(write(tmp_path, made.layout(), "oci.tar")),
        "docker-archive:saved.tar": read(write(tmp_path, made.saved(), "saved.tar")),
        "sif:made.sif": read(tmp_path / "made.sif"),
    }
    assert {image.reference for image in forms.values()} == set(forms)
    assert len({image.tree_digest for image in forms.values()}) == 1
    kinds = [image.identity.kind for image in forms.values()]
    assert kinds == ["manifest", "manifest", "config", "tree"]
    layout, oci, saved, _ = forms.values()
    assert layout.identity == oci.identity
    assert layout.identity.digest == of_bytes(json.dumps(made.manifest).encode())
    assert saved.config_digest == oci.config_digest == of_bytes(made.configuration)


def test_layers_lie_over_each_other_as_engines_lay_them(tmp_path: Path) -> None:
    lower = make_layer(PLAIN | {"old": {"a": b"a", "b": b"b"}, "gone": b"gone", "now": b"file"})
    upper = make_tar(
        {
            ".wh.gone": b"",
            "old/.wh..wh..opq": b"",
            "old/c": b"c",
            # by way of a link of the layer below
            "lib/tool": b"tool",
            "now/inside": b"a folder",
            "copy": name_entry("copy", tarfile.LNKTYPE, "bin/sh"),
        }
    )
    image = read(write(tmp_path, Made(layers=[lower, upper]).layout()))
    same: dict[str, Any] = PLAIN | {
        "bin": {**PLAIN["bin"], "tool": b"tool"},  # type: ignore[dict-item]
        "old": {"c": b"c"},
        "now": {"inside": b"a folder"},
        "copy": b"#!",
    }
    (tmp_path / "same.sif").write_bytes(plain_sif(same))
    assert image.tree_digest == read(tmp_path / "same.sif").tree_digest


def test_packed_or_not_its_content_is_one(tmp_path: Path) -> None:
    plain = read(write(tmp_path, Made(packed=False).saved(), "plain.tar"))
    packed = tmp_path / "packed.tar.gz"
    packed.write_bytes(gzip.compress(make_tar(Made(packed=True).saved())))
    zipped = read(packed)
    assert (zipped.identity, zipped.tree_digest) == (plain.identity, plain.tree_digest)
    assert zipped.layers == plain.layers


def test_a_layer_packed_with_zstd_is_read(tmp_path: Path) -> None:
    made = Made(packed=False)
    blob = zstandard.ZstdCompressor().compress(made.layers[0])
    layer = {
        "mediaType": f"{OCI}.layer.v1.tar+zstd",
        "digest": str(of_bytes(blob)),
        "size": len(blob),
    }
    image = read(write(tmp_path, relist(made, {"layers": [layer]}, blob)))
    assert image.tree_digest == read(write(tmp_path, made.layout(), "plain.tar")).tree_digest


def test_oflist_several_platforms_this_one_is_taken(tmp_path: Path) -> None:
    listed = list_several(describe(Made(), "linux/amd64"), describe(OTHER, "linux/arm64"))
    alone = list_several(describe(Made(), "linux/amd64"), describe(OTHER, "unknown/unknown"))
    for number, content in enumerate((listed, alone)):
        image = read(write(tmp_path, content, f"{number}.tar"))
        assert image.identity.digest == of_bytes(json.dumps(Made().manifest).encode())


def test_one_image_of_two_tags_is_one(tmp_path: Path) -> None:
    tags = [describe(Made()) | {"annotations": {"name": name}} for name in ("a", "b")]
    assert read(write(tmp_path, list_several(*tags))).identity.kind == "manifest"


@pytest.mark.parametrize("name", REFUSED)
def test_an_archive_of_a_stranger_is_refused_by_what_is_wrong(name: str, tmp_path: Path) -> None:
    make, kind, says = REFUSED[name]
    with pytest.raises(kind, match=says):
        read(write(tmp_path, make()))


def test_links_of_a_folder_are_not_followed(tmp_path: Path) -> None:
    made = Made()
    layout = lay_out(made.layout(), tmp_path / "layout")
    blob = layout / "blobs/sha256" / of_bytes(made.blobs[0]).hex
    blob.rename(tmp_path / "elsewhere")
    blob.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(DamagedError, match="is missing"):
        read(layout)
    blob.unlink()
    os.mkfifo(blob)
    with pytest.raises(DamagedError, match="is missing"):
        read(layout)


@pytest.mark.parametrize("target", ["../../etc/passwd", "/etc/passwd", "none", "1/layer.tar"])
def test_links_of_an_archive_lead_to_its_own_files_alone(target: str, tmp_path: Path) -> None:
    content: dict[str, Any] = dict(Made().saved())
    content["0/layer.tar"] = name_entry("0/layer.tar", tarfile.SYMTYPE, target)
    with pytest.raises(DamagedError, match="which is missing in the archive"):
        read(write(tmp_path, content))


def test_an_equal_layer_may_be_a_link_as_docker_saves_it(tmp_path: Path) -> None:
    made = Made(layers=[make_layer(), make_layer()], packed=False)
    content: dict[str, Any] = dict(made.saved())
    content["1/layer.tar"] = name_entry("1/layer.tar", tarfile.SYMTYPE, "../0/layer.tar")
    assert (
        read(write(tmp_path, content)).identity
        == read(write(tmp_path, made.saved(), "two.tar")).identity
    )


def test_a_file_of_an_archive_may_not_be_there_twice(tmp_path: Path) -> None:
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w") as archive:
        for name, body in (*Made().saved().items(), *OTHER.saved().items()):
            entry = tarfile.TarInfo(name)
            entry.size = len(body)
            archive.addfile(entry, io.BytesIO(body))
    (tmp_path / "made.tar").write_bytes(data.getvalue())
    with pytest.raises(DamagedError, match="twice"):
        read(tmp_path / "made.tar")


def test_engines_get_the_blobs_that_were_read(tmp_path: Path) -> None:
    made = Made()
    for number, content in enumerate((made.layout(), made.saved())):
        # names that begin so are found by no engine in every form
        image = read(write(tmp_path, {f"./{k}": v for k, v in content.items()}, f"{number}.tar"))
        handing.lay_out(image, tmp_path / f"layout{number}")
        laid = read(tmp_path / f"layout{number}")
        assert (laid.config_digest, laid.tree_digest) == (image.config_digest, image.tree_digest)
        loaded = tmp_path / f"loaded{number}.tar"
        loaded.write_bytes(b"".join(handing.stream(image)))
        again = read(loaded)
        assert (again.config_digest, again.tree_digest) == (image.config_digest, image.tree_digest)


def test_what_changed_since_it_was_read_reaches_no_engine(tmp_path: Path) -> None:
    made = Made(packed=False)
    image = read(write(tmp_path, made.layout()))
    for content in (OTHER.layout(), change_byte(made.layout(), made.blobs[0])):
        write(tmp_path, content)
        with pytest.raises(DamagedError):
            b"".join(handing.stream(image))
