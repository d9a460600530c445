"""Build an image from an Apptainer definition; what comes of it is a SIF, known by its tree."""

from __future__ import annotations

import secrets
import shutil
from dataclasses import replace
from pathlib import Path

from capsule import process
from capsule import site as sites
from capsule.errors import CannotRunError, ExecutionError
from capsule.image import Image, ImageFile, files

SUFFIX = ".def"
_PROGRAMS = ("apptainer", "singularity")
_SECONDS = 4 * 3600.0


def build(definition: Path) -> Image:
    """Build a definition as this user, into the user's own cache.

    Two builds of one definition seldom give one tree: what it installs changes meanwhile. So it is
    built again for each run, and what others need to verify is the SIF.

    Raises:
        CannotRunError: No Apptainer, no such file, or no place to keep the SIF.
        ExecutionError: The build fails; carries its last words.
    """
    program = next(filter(None, map(shutil.which, _PROGRAMS)), None)
    if program is None:
        raise CannotRunError(
            "a definition is built by Apptainer, which is not on the PATH", where=str(definition)
        )
    if not definition.is_file():
        raise CannotRunError("there is no such definition", where=str(definition))
    folder = sites.cache_folder(sites.load()) / "definitions"
    target = folder / f".{secrets.token_hex(8)}.sif"
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        _build(program, definition, target)
        image = files.read(ImageFile(form="sif", path=target))
        kept = folder / f"{image.identity.digest.hex}.sif"
        target.replace(kept)
        # a new name is a change of its state
        with files.open_file(kept) as stream:
            state = files.state_of(stream)
    except OSError as error:
        raise CannotRunError(
            f"the image cannot be kept: {error.strerror}", where=str(folder)
        ) from None
    finally:
        target.unlink(missing_ok=True)
    assert image.file is not None
    file = image.file._replace(path=kept, state=state)
    return replace(image, reference=f"sif:{definition.stem}.sif", file=file)


def _build(program: str, definition: Path, target: Path) -> None:
    answer = process.run(
        [program, "build", str(target), definition.name],
        cwd=definition.parent.resolve(),
        timeout_seconds=_SECONDS,
        limit_bytes=256 << 20,
    )
    if answer.exit_code != 0:
        talk = (answer.stdout[-2000:] + answer.stderr[-2000:]).decode(errors="replace").strip()
        raise ExecutionError(
            f"apptainer build failed: {talk[-2000:]}",
            where=str(definition),
            advice="what it does in %post has to be allowed to this user: see `apptainer build"
            " --fakeroot`; or build the SIF elsewhere and name that",
        )
