"""Archives and layouts that are refused, each by what is wrong with it."""

from __future__ import annotations

import json
import tarfile
from collections.abc import Callable, Mapping
from typing import Any

from capsule.digest import of_bytes
from capsule.errors import CannotRunError, CapsuleError, DamagedError
from tests.support.archives import OCI, Made, make_layer, make_tar


def name_entry(name: str, kind: bytes, target: str = "") -> tarfile.TarInfo:
    entry = tarfile.TarInfo(name)
    entry.type, entry.linkname = kind, target
    return entry


def relist(made: Made, change: dict[str, Any], *blobs: bytes) -> dict[str, bytes]:
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


def list_several(*entries: dict[str, Any]) -> dict[str, bytes]:
    index = {"schemaVersion": 2, "manifests": list(entries)}
    return Made().layout() | {"index.json": json.dumps(index).encode()}


def describe(made: Made, platform: str | None = None) -> dict[str, Any]:
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


def _without(content: Mapping[str, bytes], body: bytes) -> dict[str, bytes]:
    return {name: one for name, one in content.items() if one != body}


def change_byte(content: Mapping[str, bytes], body: bytes) -> dict[str, bytes]:
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
    "nothing of an image": (lambda: {"file": b"text"}, DamagedError, "expected index.json"),
    "two images": (
        lambda: list_several(describe(_PLAIN), describe(OTHER)),
        DamagedError,
        "expected one image in the archive, found 2",
    ),
    "two images of docker save": (
        lambda: _saved(lambda entries: entries * 2),
        DamagedError,
        "expected one image in the archive, found 2",
    ),
    "no image": (list_several, DamagedError, "expected one image in the archive, found 0"),
    "none for this machine": (
        lambda: list_several(describe(_PLAIN, "linux/arm64"), describe(OTHER, "linux/s390x")),
        CannotRunError,
        "the index has linux/arm64, linux/s390x",
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
        "is missing",
    ),
    "no configuration": (
        lambda: _without(_PLAIN.layout(), _PLAIN.configuration),
        DamagedError,
        "is missing",
    ),
    "a changed layer": (
        lambda: change_byte(Made(packed=False).layout(), Made(packed=False).blobs[0]),
        DamagedError,
        "expected sha256:|the tar is damaged",
    ),
    "a changed configuration": (
        lambda: change_byte(_PLAIN.layout(), _PLAIN.configuration),
        DamagedError,
        "a JSON document of the image is sha256:",
    ),
    "a longer layer": (
        lambda: {
            name: body + b"x" if body == _PLAIN.blobs[0] else body
            for name, body in _PLAIN.layout().items()
        },
        DamagedError,
        "bytes as in the image manifest",
    ),
    "a layer with something behind": (
        lambda: Made(packed=False, layers=[make_layer() + b"behind"]).layout(),
        DamagedError,
        "data follows the end marker",
    ),
    "a layer that is packed and says that it is not": (
        lambda: relist(
            _PLAIN,
            {
                "layers": [
                    {**_PLAIN.manifest["layers"][0], "mediaType": f"{OCI}.layer.v1.tar"},
                ]
            },
        ),
        DamagedError,
        "is compressed with gzip",
    ),
    "a layer that unpacks without end": (
        lambda: _with_layer(_bomb()),
        DamagedError,
        "the image unpacks to more than",
    ),
    "a layer whose path leads out": (
        lambda: _with_layer(make_tar({"../out": b""})),
        DamagedError,
        "expected a path below the root",
    ),
    "links in a circle": (
        lambda: _with_layer(
            make_tar(
                {
                    "a": name_entry("a", tarfile.SYMTYPE, "b"),
                    "b": name_entry("b", tarfile.SYMTYPE, "a"),
                    "a/file": b"",
                }
            )
        ),
        DamagedError,
        "leads through more than 40 links",
    ),
    "a further name of nothing": (
        lambda: _with_layer(make_tar({"a": name_entry("a", tarfile.LNKTYPE, "none")})),
        DamagedError,
        "to the missing file",
    ),
    "a whiteout of nothing": (
        lambda: _with_layer(make_tar({"bin/.wh.": b""})),
        DamagedError,
        "which names no file",
    ),
    "a sparse file": (
        lambda: _with_layer(_header(pax_headers={"GNU.sparse.major": "1"})),
        DamagedError,
        "sparse",
    ),
    "an entry of no kind": (
        lambda: _with_layer(_header(type=b"Z")),
        DamagedError,
        "unsupported type b'Z'",
    ),
    "a name of a gigabyte": (
        lambda: _with_layer(_long(b"L")),
        DamagedError,
        "the names of a file exceed",
    ),
    "a name for all files": (
        lambda: _with_layer(
            tarfile.TarInfo.create_pax_global_header({"path": "every"}) + bytes(1024)
        ),
        DamagedError,
        "a global header sets",
    ),
    "folders without end": (
        lambda: _with_layer(make_tar({"a/" * 600 + "file": b""})),
        DamagedError,
        "nested deeper",
    ),
    "a list of no layers": (
        lambda: _saved(lambda entries: [entries[0] | {"Layers": None}]),
        DamagedError,
        'lacks a valid "Layers", expected a list',
    ),
    "fewer layers than the configuration": (
        lambda: _saved(lambda entries: [entries[0] | {"Layers": []}]),
        DamagedError,
        "as in the image configuration",
    ),
    "a configuration outside": (
        lambda: _saved(lambda entries: [entries[0] | {"Config": "/etc/passwd"}]),
        DamagedError,
        "is missing",
    ),
    "a layer that lies elsewhere": (
        lambda: relist(
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
