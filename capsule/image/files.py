"""Images in files of this machine: which form a reference names, and what is in it."""

from __future__ import annotations

import os
import re
from dataclasses import replace
from pathlib import Path
from typing import Any, BinaryIO, cast

from capsule import leavings
from capsule.digest import of_stream
from capsule.errors import CannotRunError, UsageError
from capsule.image import Form, Image, ImageFile, facts, sif

_SCHEME = re.compile(r"(sif|oci|oci-archive|docker-archive):(?!//)")
_SUFFIXES = (".sif", ".simg", ".tar", ".tgz", ".tar.gz")
_FORMS = "a SIF, an OCI layout, an OCI archive, or an archive of `docker save`"
_TAR_MAGIC, _TAR_OFFSET = b"ustar", 257
_GZIP_MAGIC = b"\x1f\x8b"


def locate(written: str, folder: Path | None) -> ImageFile | None:
    """Return the file or folder that a reference names, None for a reference to a registry.

    Args:
        written: `sif:PATH`, `oci:DIR`, `oci-archive:PATH`, `docker-archive:PATH`, or a path, whose
            form then follows from what lies there.
        folder: Where a relative path starts, None for the current folder.

    Raises:
        UsageError: Nothing lies there, or something else.
    """
    scheme = _SCHEME.match(written)
    if scheme is None and not _is_path(written, folder):
        return None
    text = written[scheme.end() :] if scheme else written
    path = (folder or Path()) / Path(text).expanduser()
    try:
        form = _form(path)
    except OSError as error:
        raise UsageError(
            f"cannot read the image file: {error.strerror}",
            where=str(path),
            advice="name an existing file, or an image of a registry: docker://HOST/NAME:TAG",
        ) from None
    if form is None and not scheme and not _looks_like_path(written):
        # any folder may have the name of an image
        return None
    if form is None:
        raise UsageError(
            f"no image found; expected {_FORMS}",
            where=str(path),
            advice="name the file or folder that `docker save`, `skopeo copy` or `apptainer build`"
            " wrote",
        )
    named = cast(Form, scheme[1]) if scheme else form
    # both archives are tar files, and what is in them says which they are
    if named != form and {named, form} != {"oci-archive", "docker-archive"}:
        raise UsageError(
            f"the reference names the form {named}, but the file has the form {form}",
            where=str(path),
            advice=f"write {form}: before the path, or the path alone",
        )
    return ImageFile(form=named, path=path)


def read(file: ImageFile) -> Image:
    """Return the identity of an image in a file, after hashing all of it.

    Raises:
        DamagedError: It contradicts itself, or is damaged.
        CannotRunError: It cannot be read, or not in this form.
    """
    if file.form == "sif":
        return _read_sif(file)
    # a SIF needs none of it
    from capsule.image import archives

    return archives.read(file)


def _is_path(written: str, folder: Path | None) -> bool:
    if "://" in written:
        return False
    if _looks_like_path(written):
        return True
    # a bare word may be a name in a registry, too: it is a file where there is one
    return os.path.exists((folder or Path()) / written)  # noqa: PTH110 - of a name of any length


def _looks_like_path(written: str) -> bool:
    return written.startswith(("/", "./", "../", "~")) or written.lower().endswith(_SUFFIXES)


def _form(path: Path) -> Form | None:
    """Return the form of what lies at a path, None where it is none of an image.

    Raises:
        OSError: Nothing that can be read lies there.
    """
    if path.is_dir():
        return "oci" if (path / "oci-layout").is_file() else None
    with open_file(path) as stream:
        start = stream.read(_TAR_OFFSET + len(_TAR_MAGIC))
    if start[sif.MAGIC_OFFSET :].startswith(sif.MAGIC):
        return "sif"
    if start.startswith(_GZIP_MAGIC) or start[_TAR_OFFSET:] == _TAR_MAGIC:
        return "oci-archive"
    return None


def open_file(path: Path) -> BinaryIO:
    """Open a file that the user named: a link to it is followed, a pipe or device is none.

    Raises:
        OSError: It cannot be read.
    """
    stream = leavings.open_file(path.resolve())
    if stream is None:
        path.stat()
        raise PermissionError(0, "expected a readable regular file")
    return stream


def state_of(stream: BinaryIO) -> tuple[int, ...]:
    """Return values that change when anybody changes an open file."""
    status = os.fstat(stream.fileno())
    return (
        status.st_dev,
        status.st_ino,
        status.st_size,
        status.st_mtime_ns,
        status.st_ctime_ns,
    )


def _read_sif(file: ImageFile) -> Image:
    where = str(file.path)
    try:
        with open_file(file.path) as stream:
            state = state_of(stream)
            image = sif.read(stream, where=where)
            stream.seek(0)
            digest = of_stream(cast("Any", stream))
            if state_of(stream) != state:
                raise CannotRunError(
                    "the SIF changed while capsule read it",
                    where=where,
                    advice="run again when no process writes to the SIF",
                )
    except OSError as error:
        raise CannotRunError(
            f"cannot read: {error.strerror}",
            where=where,
            advice="make the file readable, or name another image file",
        ) from None
    made = facts.make_sif(
        file.name, platform="/".join(image.platform), tree=image.tree, where=where
    )
    return replace(made, file=file._replace(digest=digest, state=state))
