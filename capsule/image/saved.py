"""Archives of `docker save` that an engine of this machine has just written: of one image each."""

from __future__ import annotations

import json
import tarfile
from pathlib import Path
from typing import Any, cast

from capsule.digest import Digest, expect, of_stream
from capsule.errors import DamagedError
from capsule.image import Image, documents, facts

_MAX_CONFIG_BYTES = 8 << 20


def describe(path: Path, written: str, *, where: str) -> Image:
    """Describe an image that no registry has, from the bytes that an engine saved of it.

    Args:
        path: Path of the archive.
        written: What the user calls it.
        where: What the engine calls it, for messages.

    Raises:
        DamagedError: It is not what it names.
    """
    with tarfile.open(path) as archive:
        names, body = read(archive)
        config = documents.read_config(body, where=where)
        if len(names) != len(config.diff_ids):
            raise DamagedError(
                f"the saved image has {len(names)} layers, but its configuration lists"
                f" {len(config.diff_ids)}",
                where=where,
            )
        sizes = [
            _measure(archive, name, diff_id)
            for name, diff_id in zip(names, config.diff_ids, strict=True)
        ]
    return facts.make_local(written, config=config, sizes=sizes, where=where)


def read(archive: tarfile.TarFile) -> tuple[list[str], bytes]:
    """Return the names of the layer members, lowest first, and the configuration's bytes.

    Raises:
        DamagedError: It is no archive of one image.
    """
    try:
        (entry,) = json.loads(_member(archive, "manifest.json"))
        return list(map(str, entry["Layers"])), _member(archive, str(entry["Config"]))
    except (KeyError, TypeError, ValueError) as error:
        raise DamagedError(f"cannot read the image in the engine's archive: {error}") from None


def _member(archive: tarfile.TarFile, name: str) -> bytes:
    stream = archive.extractfile(name)
    return stream.read(_MAX_CONFIG_BYTES) if stream else b""


def _measure(archive: tarfile.TarFile, name: str, diff_id: Digest) -> int:
    """Return the size of a saved layer in bytes, once it is found to be the one that is named."""
    stream = archive.extractfile(name)
    if stream is None:
        raise DamagedError(f"the saved image lacks the layer {name}")
    # saved layers are plain tar files, so blob and diff_id are one
    expect(of_stream(cast(Any, stream)), diff_id, what=f"the saved layer {name}")
    return archive.getmember(name).size
