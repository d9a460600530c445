"""Images that an engine of this machine has and no registry: named as that engine names them.

What such an image is known by is the digest of its configuration. Whoever has that image in an
engine of theirs can run it; nobody can fetch it.
"""

from __future__ import annotations

import re
import tarfile
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from capsule import runtimes
from capsule.digest import Digest, expect, of_bytes
from capsule.errors import CannotRunError, UsageError, add_advice
from capsule.image import Image, saved
from capsule.runtimes.base import KeepsImages

_AGAIN = "build or pull the image again"
_ENGINES = {"docker-daemon": "docker", "containers-storage": "podman"}
_FORM = re.compile(r"(docker-daemon|containers-storage):([A-Za-z0-9][A-Za-z0-9._:/@-]{0,300})")


def find(written: str, where: str | None) -> Image | None:
    """Return the image that an engine here has, None for a reference to something else.

    It is described by the bytes that the engine saves of it.

    Args:
        written: The reference.
        where: The place that it stands in.

    Raises:
        UsageError: It names an engine's store, and no image in it.
        CannotRunError: The engine is not here, or has no such image.
        DamagedError: What it saves is not what it names.
    """
    transport = written.partition(":")[0]
    if transport not in _ENGINES:
        return None
    match = _FORM.fullmatch(written)
    if match is None:
        raise UsageError(
            f"invalid image name {written!r}",
            where=where,
            advice=f"write an image of a local engine as {transport}:NAME:TAG",
        )
    name = _ENGINES[transport]
    engine = _make(name)
    try:
        identity = str(engine.identify(match[2]))
    except CannotRunError as error:
        raise CannotRunError(
            f"{engine.title} on this machine has no such image: {error.what}",
            where=written,
            advice=f"list the images with `{name} image ls`",
        ) from None
    with _save_by(engine, identity) as path, add_advice(_AGAIN):
        return saved.describe(path, written, where=identity)


@contextmanager
def save(identity: Digest) -> Iterator[Path]:
    """Save a local engine's image like `docker save` for the duration of the block.

    Raises:
        CannotRunError: Neither Docker nor Podman is here and has it.
        DamagedError: Its configuration is not that of `identity`.
    """
    with _save_by(_find_keeper(identity), str(identity)) as path:
        with tarfile.open(path) as archive, add_advice(_AGAIN):
            config = saved.read(archive)[1]
            expect(of_bytes(config), identity, what="the saved image's configuration")
        yield path


def _find_keeper(identity: Digest) -> KeepsImages:
    refusals = []
    for engine in map(_make, _ENGINES.values()):
        try:
            engine.identify(str(identity))
        except CannotRunError as error:
            refusals.append(f"{engine.title}: {error.what}")
        else:
            return engine
    raise CannotRunError(
        f"no registry and no engine on this machine has image {identity} ({'; '.join(refusals)})",
        advice="build the image again, or ask the image's owner to push the image to a registry or"
        " to save the image with `capsule image save` (then add --image FILE)",
    )


def _make(name: str) -> KeepsImages:
    engine = runtimes.make(name)
    assert isinstance(engine, KeepsImages)
    return engine


@contextmanager
def _save_by(engine: KeepsImages, identity: str) -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="capsule-image-") as work:
        path = Path(work) / "image.tar"
        try:
            engine.save(identity, path)
        except CannotRunError as error:
            raise CannotRunError(
                f"{engine.title} cannot save the image: {error.what}",
                where=identity,
                advice="free some space in the temporary folder, or set TMPDIR to another folder",
            ) from None
        yield path
