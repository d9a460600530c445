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
from capsule.errors import CannotRunError, CapsuleError, DamagedError, ExecutionError, UsageError
from capsule.image import Image, documents, facts, registry
from capsule.image.reference import Reference, parse

_BUILD_SECONDS = 4 * 3600
_SAVE_SECONDS = 3600
_WHEELHOUSE = "wheelhouse"
_MAX_CONFIG_BYTES = 8 << 20


def build(
    folder: Path,
    *,
    base: str | None = None,
    wheelhouse: Path | None = None,
    arguments: Mapping[str, str] | None = None,
    push: str | None = None,
) -> Image:
    """Build the folder's Dockerfile with Docker.

    Args:
        folder: Holds `Dockerfile`; the whole folder is the build's context.
        base: Value of the build argument BASE, when the Dockerfile's own default cannot be pulled.
        wheelhouse: Folder of wheels that takes the place of the recipe's `wheelhouse/`.
        arguments: More build arguments.
        push: `docker://HOST/NAME:TAG` to push it to; the image is then pinned by what that
            registry serves. None leaves it in Docker, under a name made from the folder's.

    Raises:
        UsageError: Nothing can be pushed to `push`; said before anything is built.
        CannotRunError: No Dockerfile, no Docker, or the push is refused.
        ExecutionError: The build fails; carries its last words.
    """
    target = _target(push) if push is not None else None
    if not (folder / "Dockerfile").is_file():
        raise CannotRunError("a recipe folder holds a Dockerfile", where=str(folder))
    name = f"capsule/{_word(folder.resolve().name)}:latest"
    if target is not None:
        name = str(target).removeprefix("docker://")
    identity = _build(
        folder, name, wheelhouse, {**(arguments or {}), **({"BASE": base} if base else {})}
    )
    if target is None:
        return _describe(identity, written=f"build {folder}")
    _docker(["push", name], timeout_seconds=_SAVE_SECONDS, failed=CannotRunError, where=str(target))
    return registry.resolve(target)


def _target(text: str) -> Reference:
    """Where to push to: a reference with a tag, in a registry that takes what users push."""
    target = parse(text, where="--push")
    if target.digest is not None:
        raise UsageError(
            f"{text!r} names a digest, which only follows from what is pushed",
            where="--push",
            advice=f"name a tag: {text.partition('@')[0]}",
        )
    if target.is_official:
        raise UsageError(
            f"{text!r} means {target}, where only Docker itself may push",
            where="--push",
            advice="name the registry, or your account there: docker://HOST/NAME:TAG",
        )
    return target


def _build(folder: Path, name: str, wheelhouse: Path | None, arguments: Mapping[str, str]) -> str:
    """Build under a name in Docker; returns the id that Docker gives the image."""
    words = [word for key, value in arguments.items() for word in ("--build-arg", f"{key}={value}")]
    with tempfile.TemporaryDirectory(prefix="capsule-build-") as work:
        context = folder if wheelhouse is None else _context(folder, wheelhouse, Path(work))
        number = Path(work) / "id"
        command = ["build", "--iidfile", str(number), "--tag", name, *words, str(context)]
        _docker(command, timeout_seconds=_BUILD_SECONDS, failed=ExecutionError, where=str(folder))
        return number.read_text().strip()


@contextmanager
def save(identity: Digest | str) -> Iterator[Path]:
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
        talk = (answer.stdout[-2000:] + answer.stderr[-2000:]).decode(errors="replace").strip()
        raise failed(f"docker {words[0]} failed: {talk[-2000:]}", where=where)


def _word(name: str) -> str:
    return (
        "".join(c if c.isalnum() and c.isascii() else "-" for c in name.lower()).strip("-") or "x"
    )


def _describe(identity: str, *, written: str) -> Image:
    """Describe an image that no registry has, from the bytes that Docker saves of it."""
    with save(identity) as path, tarfile.open(path) as archive:
        names, body = _config(archive)
        config = documents.read_config(body, where=identity)
        if len(names) != len(config.diff_ids):
            raise DamagedError("the saved image and its configuration differ in their layers")
        sizes = [
            _measure(archive, name, diff_id)
            for name, diff_id in zip(names, config.diff_ids, strict=True)
        ]
    return facts.make_local(written, config=config, sizes=sizes, where=identity)


def _config(archive: tarfile.TarFile) -> tuple[list[str], bytes]:
    """Names of the layer members, lowest first, and the bytes of the configuration."""
    (entry,) = json.loads(_member(archive, "manifest.json"))
    return list(entry["Layers"]), _member(archive, entry["Config"])


def _member(archive: tarfile.TarFile, name: str) -> bytes:
    stream = archive.extractfile(name)
    return stream.read(_MAX_CONFIG_BYTES) if stream else b""


def _measure(archive: tarfile.TarFile, name: str, diff_id: Digest) -> int:
    """The size of a saved layer in bytes, once it is found to be the one that is named."""
    stream = archive.extractfile(name)
    if stream is None:
        raise DamagedError(f"the saved image has no {name}")
    # saved layers are plain tar files, so blob and diff_id are one
    expect(of_stream(cast(Any, stream)), diff_id, what=f"the saved layer {name}")
    return archive.getmember(name).size
