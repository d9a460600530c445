"""Layouts and archives: one image, every blob of it what its digest says, and no link followed."""

from __future__ import annotations

import gzip
import io
import json
import os
import tarfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
import zstandard

from capsule.digest import of_bytes
from capsule.errors import CannotRunError, CapsuleError, DamagedError
from capsule.image import Image, files, handing
from tests.support.archives import OCI, Made, lay_out, make_layer, make_tar
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
            "copy": _named("copy", tarfile.LNKTYPE, "bin/sh"),
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


def _named(name: str, kind: bytes, target: str = "") -> tarfile.TarInfo:
    entry = tarfile.TarInfo(name)
    entry.type, entry.linkname = kind, target
    return entry


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
    image = read(write(tmp_path, _relisted(made, {"layers": [layer]}, blob)))
    assert image.tree_digest == read(write(tmp_path, made.layout(), "plain.tar")).tree_digest


def _relisted(made: Made, change: dict[str, Any], *blobs: bytes) -> dict[str, bytes]:
    """A layout whose manifest has other fields; further blobs lie beside."""
    manifest = json.dumps(made.manifest | change).encode()
    entry = {
        "mediaType": f"{OCI}.manifest.v1+json",
        "digest": str(of_bytes(manifest)),
        "size": len(manifest),
    }
    return made.layout() | {
        "index.json": json.dumps({"schemaVersion": 2, "manifests": [entry]}).encode(),
        **{f"blobs/sha256/{of_bytes(blob).hex}": blob for blob in (manifest, *blobs)},
    }


def _several(*entries: dict[str, Any]) -> dict[str, bytes]:
    index = {"schemaVersion": 2, "manifests": list(entries)}
    return Made().layout() | {"index.json": json.dumps(index).encode()}


def _entry(made: Made, platform: str | None = None) -> dict[str, Any]:
    body = json.dumps(made.manifest).encode()
    entry = {
        "mediaType": f"{OCI}.manifest.v1+json",
        "digest": str(of_bytes(body)),
        "size": len(body),
    }
    if platform is None:
        return entry
    system, architecture = platform.split("/")
    return entry | {"platform": {"os": system, "architecture": architecture}}


OTHER = Made(layers=[make_layer({"other": b""})])


def test_of_several_platforms_this_one_is_taken(tmp_path: Path) -> None:
    listed = _several(_entry(Made(), "linux/amd64"), _entry(OTHER, "linux/arm64"))
    alone = _several(_entry(Made(), "linux/amd64"), _entry(OTHER, "unknown/unknown"))
    for number, content in enumerate((listed, alone)):
        image = read(write(tmp_path, content, f"{number}.tar"))
        assert image.identity.digest == of_bytes(json.dumps(Made().manifest).encode())


def test_one_image_of_two_tags_is_one(tmp_path: Path) -> None:
    tags = [_entry(Made()) | {"annotations": {"name": name}} for name in ("a", "b")]
    assert read(write(tmp_path, _several(*tags))).identity.kind == "manifest"


def _without(content: Mapping[str, bytes], body: bytes) -> dict[str, bytes]:
    return {name: one for name, one in content.items() if one != body}


def _changed(content: Mapping[str, bytes], body: bytes) -> dict[str, bytes]:
    """With one byte of a file changed."""
    at = len(body) // 2
    other = body[:at] + bytes([body[at] ^ 1]) + body[at + 1 :]
    return {name: other if one == body else one for name, one in content.items()}


def _both(first: Made, second: Made) -> dict[str, bytes]:
    return first.layout() | second.saved()


def _saved(change: Callable[[list[Any]], Any]) -> dict[str, bytes]:
    content = Made().saved()
    entries = json.loads(content["manifest.json"])
    return content | {"manifest.json": json.dumps(change(entries)).encode()}


def _with_layer(layer: bytes) -> dict[str, bytes]:
    return Made(layers=[layer]).layout()


def _bomb() -> bytes:
    """A file of zeros without end, as small as gzip makes it."""
    entry = tarfile.TarInfo("zeros")
    entry.size = 1 << 40
    return entry.tobuf() + bytes(400 << 20)


def _header(**fields: Any) -> bytes:
    entry = tarfile.TarInfo("name")
    for name, value in fields.items():
        setattr(entry, name, value)
    return entry.tobuf(tarfile.PAX_FORMAT) + bytes(1024)


def _long(kind: bytes) -> bytes:
    entry = tarfile.TarInfo("name")
    entry.type, entry.size = kind, 1 << 30
    return entry.tobuf() + bytes(2048)


_PLAIN = Made()
Refused = tuple[Callable[[], Mapping[str, bytes]], type[CapsuleError], str]
REFUSED: dict[str, Refused] = {
    "nothing of an image": (lambda: {"file": b"text"}, DamagedError, "holds no image"),
    "two images": (
        lambda: _several(_entry(_PLAIN), _entry(OTHER)),
        DamagedError,
        "holds 2 images, and one is run",
    ),
    "two images of docker save": (
        lambda: _saved(lambda entries: entries * 2),
        DamagedError,
        "holds 2 images, and one is run",
    ),
    "no image": (_several, DamagedError, "holds no images"),
    "none for this machine": (
        lambda: _several(_entry(_PLAIN, "linux/arm64"), _entry(OTHER, "linux/s390x")),
        CannotRunError,
        "only for linux/arm64, linux/s390x",
    ),
    "two lists that differ": (
        lambda: _both(_PLAIN, OTHER),
        DamagedError,
        "name different images",
    ),
    "two lists that name other layers": (
        lambda: _both(_PLAIN, _PLAIN),
        DamagedError,
        "name different images",
    ),
    "no layer": (
        lambda: _without(_PLAIN.layout(), _PLAIN.blobs[0]),
        DamagedError,
        "which it should hold",
    ),
    "no configuration": (
        lambda: _without(_PLAIN.layout(), _PLAIN.configuration),
        DamagedError,
        "which it should hold",
    ),
    "a changed layer": (
        lambda: _changed(Made(packed=False).layout(), Made(packed=False).blobs[0]),
        DamagedError,
        "expected sha256:|the tar is damaged",
    ),
    "a changed configuration": (
        lambda: _changed(_PLAIN.layout(), _PLAIN.configuration),
        DamagedError,
        "a document of it is sha256:",
    ),
    "a longer layer": (
        lambda: {
            name: body + b"x" if body == _PLAIN.blobs[0] else body
            for name, body in _PLAIN.layout().items()
        },
        DamagedError,
        "and its manifest says",
    ),
    "a layer with something behind": (
        lambda: Made(packed=False, layers=[make_layer() + b"behind"]).layout(),
        DamagedError,
        "bytes behind its end",
    ),
    "a layer that is packed and says that it is not": (
        lambda: _relisted(
            _PLAIN,
            {
                "layers": [
                    {**_PLAIN.manifest["layers"][0], "mediaType": f"{OCI}.layer.v1.tar"},
                ]
            },
        ),
        DamagedError,
        "is gzip",
    ),
    "a layer that unpacks without end": (
        lambda: _with_layer(_bomb()),
        DamagedError,
        "unpacks to more than 200 times",
    ),
    "a layer whose path leads out": (
        lambda: _with_layer(make_tar({"../out": b""})),
        DamagedError,
        "no path below a root",
    ),
    "links in a circle": (
        lambda: _with_layer(
            make_tar(
                {
                    "a": _named("a", tarfile.SYMTYPE, "b"),
                    "b": _named("b", tarfile.SYMTYPE, "a"),
                    "a/file": b"",
                }
            )
        ),
        DamagedError,
        "links without end",
    ),
    "a further name of nothing": (
        lambda: _with_layer(make_tar({"a": _named("a", tarfile.LNKTYPE, "none")})),
        DamagedError,
        "further name of a file that is none",
    ),
    "a whiteout of nothing": (
        lambda: _with_layer(make_tar({"bin/.wh.": b""})),
        DamagedError,
        "what has no name",
    ),
    "a sparse file": (
        lambda: _with_layer(_header(pax_headers={"GNU.sparse.major": "1"})),
        DamagedError,
        "sparse",
    ),
    "an entry of no kind": (
        lambda: _with_layer(_header(type=b"Z")),
        DamagedError,
        "of the kind b'Z'",
    ),
    "a name of a gigabyte": (
        lambda: _with_layer(_long(b"L")),
        DamagedError,
        "a name takes more than",
    ),
    "a name for all files": (
        lambda: _with_layer(
            tarfile.TarInfo.create_pax_global_header({"path": "every"}) + bytes(1024)
        ),
        DamagedError,
        "all files behind it",
    ),
    "folders without end": (
        lambda: _with_layer(make_tar({"a/" * 600 + "file": b""})),
        DamagedError,
        "nested deeper",
    ),
    "a list of no layers": (
        lambda: _saved(lambda entries: [entries[0] | {"Layers": None}]),
        DamagedError,
        "no configuration or no layers",
    ),
    "fewer layers than the configuration": (
        lambda: _saved(lambda entries: [entries[0] | {"Layers": []}]),
        DamagedError,
        "same number of layers",
    ),
    "a configuration outside": (
        lambda: _saved(lambda entries: [entries[0] | {"Config": "/etc/passwd"}]),
        DamagedError,
        "which it should hold",
    ),
    "a layer that lies elsewhere": (
        lambda: _relisted(
            _PLAIN, {"layers": [_PLAIN.manifest["layers"][0] | {"urls": ["https://h/x"]}]}
        ),
        DamagedError,
        "foreign layer",
    ),
    "another machine's": (
        lambda: Made(config={"architecture": "s390x"}).saved(),
        CannotRunError,
        "linux/s390x",
    ),
}


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
    with pytest.raises(DamagedError, match="which it should hold"):
        read(layout)
    blob.unlink()
    os.mkfifo(blob)
    with pytest.raises(DamagedError, match="which it should hold"):
        read(layout)


@pytest.mark.parametrize("target", ["../../etc/passwd", "/etc/passwd", "none", "1/layer.tar"])
def test_links_of_an_archive_lead_to_its_own_files_alone(target: str, tmp_path: Path) -> None:
    content: dict[str, Any] = dict(Made().saved())
    content["0/layer.tar"] = _named("0/layer.tar", tarfile.SYMTYPE, target)
    with pytest.raises(DamagedError, match="a link to no file of the archive"):
        read(write(tmp_path, content))


def test_an_equal_layer_may_be_a_link_as_docker_saves_it(tmp_path: Path) -> None:
    made = Made(layers=[make_layer(), make_layer()], packed=False)
    content: dict[str, Any] = dict(made.saved())
    content["1/layer.tar"] = _named("1/layer.tar", tarfile.SYMTYPE, "../0/layer.tar")
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
    for content in (OTHER.layout(), _changed(made.layout(), made.blobs[0])):
        write(tmp_path, content)
        with pytest.raises(DamagedError):
            b"".join(handing.stream(image))
