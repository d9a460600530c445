"""Build an image from a recipe folder, by the `docker` command; no package source of ours."""

from __future__ import annotations

import json
import os
import shutil
import tarfile
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

from capsule import process
from capsule.digest import Digest, expect, of_bytes, of_stream
from capsule.errors import CannotRunError, CapsuleError, DamagedError, ExecutionError
from capsule.image import Image, Layer, registry
from capsule.image.reference import Reference, parse
from capsule.schema import parse as parse_json

_BUILD_SECONDS = 4 * 3600
_SAVE_SECONDS = 3600
_WHEELHOUSE = "wheelhouse"
_MAX_CONFIG_BYTES = 8 << 20
_TAR_LAYER = "application/vnd.oci.image.layer.v1.tar"


def build(
    folder: Path,
    *,
    base: str | None = None,
    wheelhouse: Path | None = None,
    arguments: Mapping[str, str] | None = None,
    tag: str | None = None,
    push: bool = False,
) -> Image:
    """Build the folder's Dockerfile with Docker.

    Args:
        folder: Holds `Dockerfile`; the whole folder is the build's context.
        base: Value of the build argument BASE, when the Dockerfile's own default cannot be pulled.
        wheelhouse: Folder of wheels that takes the place of the recipe's `wheelhouse/`.
        arguments: More build arguments.
        tag: `docker://HOST/NAME:TAG`; by default a name made from the folder's.
        push: Push it to the registry of `tag`; the image is then pinned by what that one serves.

    Raises:
        CannotRunError: No Dockerfile, no Docker, or the push is refused.
        ExecutionError: The build fails; carries its last words.
    """
    if not (folder / "Dockerfile").is_file():
        raise CannotRunError("a recipe folder holds a Dockerfile", where=str(folder))
    named = parse(tag) if tag else None
    name = _engine_name(named) if named else f"capsule/{_word(folder.resolve().name)}:latest"
    options = {**(arguments or {}), **({"BASE": base} if base else {})}
    with tempfile.TemporaryDirectory(prefix="capsule-build-") as work:
        context = folder if wheelhouse is None else _context(folder, wheelhouse, Path(work))
        number = Path(work) / "id"
        words = [
            word for key, value in options.items() for word in ("--build-arg", f"{key}={value}")
        ]
        command = ["build", "--iidfile", str(number), "--tag", name, *words, str(context)]
        _docker(command, timeout_seconds=_BUILD_SECONDS, failed=ExecutionError, where=str(folder))
        identity = number.read_text().strip()
    if not push:
        return _local(identity, written=f"build {folder}")
    if named is None:
        raise CannotRunError("a push needs a tag: docker://HOST/NAME:TAG", where=str(folder))
    _docker(["push", name], timeout_seconds=_SAVE_SECONDS, failed=CannotRunError, where=str(named))
    return registry.resolve(named)


@contextmanager
def saved(identity: Digest | str) -> Iterator[Path]:
    """A `docker save` archive of a local image, for as long as the block runs.

    Raises:
        CannotRunError: No Docker here, or no such image in it.
        DamagedError: Its configuration is not that of `identity`, given as a digest.
    """
    with tempfile.TemporaryDirectory(prefix="capsule-image-") as work:
        path = Path(work) / "image.tar"
        _docker(
            ["image", "save", "--output", str(path), str(identity)],
            timeout_seconds=_SAVE_SECONDS,
            failed=CannotRunError,
            where=str(identity),
        )
        if isinstance(identity, Digest):
            with tarfile.open(path) as archive:
                config = _config(archive)[1]
            expect(of_bytes(config), identity, what="the saved image's configuration")
        yield path


def _context(folder: Path, wheelhouse: Path, work: Path) -> Path:
    context = work / "context"
    shutil.copytree(folder, context, ignore=shutil.ignore_patterns(_WHEELHOUSE))
    (context / _WHEELHOUSE).mkdir()
    for wheel in sorted(wheelhouse.glob("*.whl")):
        shutil.copy2(wheel, context / _WHEELHOUSE)
    return context


def _docker(
    words: list[str], *, timeout_seconds: float, failed: type[CapsuleError], where: str
) -> None:
    environment = os.environ.copy()
    # a client without buildx may still insist on BuildKit when the caller's settings ask for it
    if process.run(["docker", "buildx", "version"]).exit_code != 0:
        environment["DOCKER_BUILDKIT"] = "0"
    answer = process.run(
        ["docker", *words],
        env=environment,
        timeout_seconds=timeout_seconds,
        limit_bytes=256 << 20,
    )
    if answer.exit_code != 0:
        said = (answer.stdout[-2000:] + answer.stderr[-2000:]).decode(errors="replace").strip()
        raise failed(f"docker {words[0]} failed: {said[-2000:]}", where=where)


def _engine_name(reference: Reference) -> str:
    return str(reference).removeprefix("docker://")


def _word(name: str) -> str:
    return (
        "".join(c if c.isalnum() and c.isascii() else "-" for c in name.lower()).strip("-") or "x"
    )


def _local(identity: str, *, written: str) -> Image:
    """Describe an image that no registry has, from the bytes that Docker saves of it."""
    with saved(identity) as path, tarfile.open(path) as archive:
        names, config = _config(archive)
        described = parse_json(config, where="image configuration")
        diff_ids = [Digest.parse(text) for text in described["rootfs"]["diff_ids"]]
        if len(names) != len(diff_ids):
            raise DamagedError("the saved image and its configuration differ in their layers")
        layers = tuple(
            _layer(archive, name, diff_id) for name, diff_id in zip(names, diff_ids, strict=True)
        )
    parts = (described.get("os"), described.get("architecture"), described.get("variant"))
    return Image(
        reference=written,
        pinned=None,
        index_digest=None,
        manifest_digest=None,
        platform="/".join(str(part) for part in parts if part),
        config_digest=of_bytes(config),
        layers=layers,
        manifest=None,
        config=config,
    )


def _config(archive: tarfile.TarFile) -> tuple[list[str], bytes]:
    """Names of the layer members, lowest first, and the bytes of the configuration."""
    (entry,) = json.loads(_member(archive, "manifest.json"))
    return list(entry["Layers"]), _member(archive, entry["Config"])


def _member(archive: tarfile.TarFile, name: str) -> bytes:
    stream = archive.extractfile(name)
    return stream.read(_MAX_CONFIG_BYTES) if stream else b""


def _layer(archive: tarfile.TarFile, name: str, diff_id: Digest) -> Layer:
    stream = archive.extractfile(name)
    if stream is None:
        raise DamagedError(f"the saved image has no {name}")
    # saved layers are plain tar files, so blob and diff_id are one
    expect(of_stream(cast(Any, stream)), diff_id, what=f"the saved layer {name}")
    return Layer(
        digest=diff_id,
        size_bytes=archive.getmember(name).size,
        media_type=_TAR_LAYER,
        diff_id=diff_id,
    )
