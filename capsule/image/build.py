"""Build an image from a recipe folder, by the `docker` command; no package source of ours."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path

from capsule import process
from capsule.errors import CannotRunError, CapsuleError, ExecutionError, UsageError
from capsule.image import Image, engines, registry
from capsule.image.reference import BUILT, Reference, parse

_BUILD_SECONDS = 4 * 3600
_PUSH_SECONDS = 3600
_WHEELHOUSE = "wheelhouse"


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
        return engines.describe(identity, written=f"{BUILT}{folder}", program="docker")
    _docker(["push", name], timeout_seconds=_PUSH_SECONDS, failed=CannotRunError, where=str(target))
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
