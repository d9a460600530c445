"""Images that an engine of this machine has and no registry: named as that engine names them.

What such an image is known by is the digest of its configuration. Whoever has that image in an
engine of theirs can run it; nobody can fetch it.
"""

from __future__ import annotations

import json
import re
import shutil
import tarfile
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from capsule import process
from capsule.digest import Digest, expect, of_bytes, of_stream
from capsule.errors import CannotRunError, CapsuleError, DamagedError, UsageError
from capsule.image import Image, documents, facts

_PROGRAMS = {"docker-daemon": "docker", "containers-storage": "podman"}
_TITLES = {"docker": "Docker", "podman": "Podman"}
_FORM = re.compile(r"(docker-daemon|containers-storage):([A-Za-z0-9][A-Za-z0-9._:/@-]{0,300})")
_SAVE_SECONDS = 3600
_MAX_CONFIG_BYTES = 8 << 20


@dataclass(frozen=True, kw_only=True)
class Local:
    """An image in an engine of this machine.

    Attributes:
        program: The engine's: `docker` or `podman`.
        name: `NAME:TAG`, or an id.
        written: The reference as the user wrote it.
    """

    program: str
    name: str
    written: str


def locate(written: str, *, where: str | None = None) -> Local | None:
    """The image that a reference names, None for a reference to something else.

    Raises:
        UsageError: It names an engine's store, and no image in it.

    >>> locate("docker-daemon:torch:2").name
    'torch:2'
    """
    transport = written.partition(":")[0]
    if transport not in _PROGRAMS:
        return None
    match = _FORM.fullmatch(written)
    if match is None:
        raise UsageError(
            f"not the name of an image: {written!r}",
            where=where,
            advice=f"an image of a local engine is written {transport}:NAME:TAG",
        )
    return Local(program=_PROGRAMS[transport], name=match[2], written=written)


def read(local: Local) -> Image:
    """Describe an image by the bytes that its engine saves of it.

    Raises:
        CannotRunError: The engine is not here, or has no such image.
        DamagedError: What it saves is not what it names.
    """
    words = ("image", "inspect", "--format", "{{.Id}}", local.name)
    try:
        answer = _run(local.program, *words).decode(errors="replace").strip()
    except CannotRunError as error:
        raise CannotRunError(
            f"{_TITLES[local.program]} here has no such image: {error.what}",
            where=local.written,
            advice=f"`{local.program} image ls` lists what it has",
        ) from None
    identity = Digest.parse(f"sha256:{answer.removeprefix('sha256:')}", where=local.written)
    return describe(str(identity), written=local.written, program=local.program)


def describe(identity: str, *, written: str, program: str) -> Image:
    """Describe an image that no registry has, from the bytes that an engine saves of it.

    Args:
        identity: What the engine calls it.
        written: What the user calls it.
        program: The engine's.

    Raises:
        CannotRunError: The engine is not here, or has no such image.
        DamagedError: What it saves is not what it names.
    """
    with _save_by(program, identity) as path, tarfile.open(path) as archive:
        names, body = read_archive(archive)
        config = documents.read_config(body, where=identity)
        if len(names) != len(config.diff_ids):
            raise DamagedError("the saved image and its configuration differ in their layers")
        sizes = [
            _measure(archive, name, diff_id)
            for name, diff_id in zip(names, config.diff_ids, strict=True)
        ]
    return facts.make_local(written, config=config, sizes=sizes, where=identity)


@contextmanager
def save(identity: Digest) -> Iterator[Path]:
    """An archive as of `docker save` of an image that an engine here has, while the block runs.

    Raises:
        CannotRunError: Neither Docker nor Podman is here and has it.
        DamagedError: Its configuration is not that of `identity`.
    """
    program = _keeper(identity)
    with _save_by(program, str(identity)) as path:
        with tarfile.open(path) as archive:
            config = read_archive(archive)[1]
        expect(of_bytes(config), identity, what="the saved image's configuration")
        yield path


def read_archive(archive: tarfile.TarFile) -> tuple[list[str], bytes]:
    """Names of the layer members, lowest first, and the bytes of the configuration.

    Raises:
        DamagedError: It is no archive of one image.
    """
    try:
        (entry,) = json.loads(_member(archive, "manifest.json"))
        return list(map(str, entry["Layers"])), _member(archive, str(entry["Config"]))
    except (KeyError, TypeError, ValueError) as error:
        raise DamagedError(f"the engine saved what is no image: {error}") from None


def _keeper(identity: Digest) -> str:
    refusals = []
    for program, title in _TITLES.items():
        try:
            _run(program, "image", "inspect", "--format", "{{.Id}}", str(identity))
        except CannotRunError as error:
            refusals.append(f"{title}: {error.what}")
        else:
            return program
    raise CannotRunError(
        f"no registry has the image {identity}, and no engine here ({'; '.join(refusals)})",
        advice="build it again where it was built here; else whoever has it writes it to a file by"
        " `capsule image save`, which --image FILE then takes, or pushes it to a registry",
    )


@contextmanager
def _save_by(program: str, identity: str) -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="capsule-image-") as work:
        path = Path(work) / "image.tar"
        try:
            _run(program, "image", "save", "--output", str(path), identity)
        except CannotRunError as error:
            raise CannotRunError(
                f"{program} cannot save the image: {error.what}", where=identity
            ) from None
        yield path


def _run(program: str, *words: str) -> bytes:
    if shutil.which(program) is None:
        raise CannotRunError(f"{program} is not on the PATH")
    try:
        answer = process.run([program, *words], timeout_seconds=_SAVE_SECONDS)
    except CapsuleError as error:
        raise CannotRunError(error.what) from None
    if answer.exit_code != 0:
        raise CannotRunError(answer.stderr.decode(errors="replace").strip()[-500:])
    return answer.stdout


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
