"""OCI layouts and archives of `docker save` made by hand, so that anything of them can be wrong."""

from __future__ import annotations

import gzip
import io
import json
import tarfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from capsule.digest import of_bytes
from tests.support.sifs import PLAIN, Content

OCI = "application/vnd.oci.image"


def make_tar(files: Mapping[str, bytes | tarfile.TarInfo]) -> bytes:
    """A tar of some files, in their order; an entry may be given whole."""
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for name, content in files.items():
            entry = content if isinstance(content, tarfile.TarInfo) else tarfile.TarInfo(name)
            body = b"" if isinstance(content, tarfile.TarInfo) else content
            entry.size = entry.size or len(body)
            archive.addfile(entry, io.BytesIO(body) if body else None)
    return data.getvalue()


def make_layer(content: Mapping[str, Content] = PLAIN) -> bytes:
    """The tar of a layer with what `tests.support.sifs` has as a squashfs."""
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w", format=tarfile.PAX_FORMAT) as archive:
        _add(archive, "", content)
    return data.getvalue()


def _add(archive: tarfile.TarFile, path: str, content: Mapping[str, Content]) -> None:
    for name, below in content.items():
        entry = tarfile.TarInfo(f"{path}{name}")
        if isinstance(below, Mapping):
            entry.type, entry.mode = tarfile.DIRTYPE, 0o755
            archive.addfile(entry)
            _add(archive, f"{path}{name}/", below)
        elif isinstance(below, str):
            entry.type, entry.linkname, entry.mode = tarfile.SYMTYPE, below, 0o777
            archive.addfile(entry)
        else:
            entry.size, entry.mode = len(below), 0o644
            archive.addfile(entry, io.BytesIO(below))


@dataclass(kw_only=True)
class Made:
    """An image of some layers, by the files that an archive of it has.

    Attributes:
        layers: Tars, lowest first.
        packed: Whether blobs are packed with gzip.
        config: Fields of the configuration that are another.
        document: All of the configuration, where it is another.
    """

    layers: Sequence[bytes] = field(default_factory=lambda: [make_layer()])
    packed: bool = True
    config: Mapping[str, Any] = field(default_factory=dict)
    document: bytes | None = None

    @cached_property
    def blobs(self) -> list[bytes]:
        """The layers as they are stored."""
        return [gzip.compress(one, 6, mtime=0) if self.packed else one for one in self.layers]

    @property
    def configuration(self) -> bytes:
        """The configuration's bytes."""
        if self.document is not None:
            return self.document
        document: dict[str, Any] = {
            "os": "linux",
            "architecture": "amd64",
            "config": {"Env": ["PATH=/bin"]},
            "rootfs": {"type": "layers", "diff_ids": [str(of_bytes(one)) for one in self.layers]},
        }
        return json.dumps({**document, **self.config}).encode()

    @property
    def manifest(self) -> dict[str, Any]:
        """The manifest of the layout."""
        kind = f"{OCI}.layer.v1.tar{'+gzip' if self.packed else ''}"
        return {
            "schemaVersion": 2,
            "mediaType": f"{OCI}.manifest.v1+json",
            "config": _describe(self.configuration, f"{OCI}.config.v1+json"),
            "layers": [_describe(blob, kind) for blob in self.blobs],
        }

    def layout(self) -> dict[str, bytes]:
        """The files of an OCI layout."""
        manifest = json.dumps(self.manifest).encode()
        index = {
            "schemaVersion": 2,
            "manifests": [_describe(manifest, f"{OCI}.manifest.v1+json")],
        }
        blobs = (manifest, self.configuration, *self.blobs)
        return {
            "oci-layout": b'{"imageLayoutVersion": "1.0.0"}',
            "index.json": json.dumps(index).encode(),
            **{f"blobs/sha256/{of_bytes(blob).hex}": blob for blob in blobs},
        }

    def saved(self) -> dict[str, bytes]:
        """The files of what `docker save` writes."""
        config = f"{of_bytes(self.configuration).hex}.json"
        names = [f"{number}/layer.tar" for number in range(len(self.layers))]
        entry = {"Config": config, "RepoTags": ["made:1"], "Layers": names}
        return {
            **dict(zip(names, self.blobs, strict=True)),
            config: self.configuration,
            "manifest.json": json.dumps([entry]).encode(),
        }


def _describe(body: bytes, kind: str) -> dict[str, Any]:
    return {"mediaType": kind, "digest": str(of_bytes(body)), "size": len(body)}


def lay_out(files: Mapping[str, bytes], folder: Path) -> Path:
    """Write files below a folder; returns it."""
    for name, body in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(body)
    return folder
