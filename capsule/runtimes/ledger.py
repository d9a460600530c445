"""Digests of the SIF files that this user made, in a folder that is open to nobody else.

A file for each image, `~/.local/state/capsule/images/<digest>.txt`, one digest a line. A SIF has no
digest that a registry could name, and two that are made of one image differ: who made one is all
that can be known of it.
"""

from __future__ import annotations

import fcntl
import os
import re
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from capsule import site as sites
from capsule.digest import Digest
from capsule.errors import CannotRunError

_LINE = re.compile(r"[0-9a-f]{64}")
_MAX_BYTES = 1 << 20


def path() -> Path:
    """The folder of the ledger."""
    return sites.state_folder() / "images"


def read(image: Digest) -> frozenset[Digest]:
    """The digests of what this user made of an image; none where nothing was made.

    Raises:
        CannotRunError: The ledger cannot be trusted: others may write it, or it is theirs.
    """
    with _open(image, os.O_RDONLY) as handle:
        text = b"" if handle is None else os.read(handle, _MAX_BYTES)
    lines = text.decode(errors="replace").split()
    return frozenset(Digest(hex=line) for line in lines if _LINE.fullmatch(line))


@contextmanager
def lock(image: Digest) -> Iterator[None]:
    """Make a SIF of this image alone: another process of this user waits until the block is over.

    Raises:
        CannotRunError: The ledger cannot be trusted.
    """
    with _open(image, os.O_RDWR | os.O_CREAT) as handle:
        if handle is not None:
            # some network file systems have no locks; two files are made then, and both are known
            with suppress(OSError):
                fcntl.flock(handle, fcntl.LOCK_EX)
        yield


def add(image: Digest, sif: Digest) -> None:
    """Remember a SIF of an image; in a home that cannot be written it is made again next time.

    Raises:
        CannotRunError: The ledger cannot be trusted.
    """
    with _open(image, os.O_WRONLY | os.O_APPEND | os.O_CREAT) as handle:
        if handle is not None:
            with suppress(OSError):
                os.write(handle, f"{sif.hex}\n".encode())


@contextmanager
def _open(image: Digest, flags: int) -> Iterator[int | None]:
    """The file of an image, None where there is none and none can be made."""
    folder = path()
    if flags & os.O_CREAT:
        with suppress(OSError):
            folder.parent.mkdir(parents=True, exist_ok=True)
            folder.mkdir(mode=0o700, exist_ok=True)
    try:
        parent = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    except (FileNotFoundError, NotADirectoryError, PermissionError):
        # of a home that is not this user's, too: nothing is known then, so images are made again
        yield None
        return
    except OSError as error:
        raise _fault(folder, f"no folder that can be read ({error.strerror})") from None
    try:
        _check(os.fstat(parent), folder, 0o077)
        with _open_in(parent, f"{image.hex}.txt", flags) as handle:
            yield handle
    finally:
        os.close(parent)


@contextmanager
def _open_in(parent: int, name: str, flags: int) -> Iterator[int | None]:
    try:
        handle = os.open(name, flags | os.O_NONBLOCK, 0o600, dir_fd=parent)
    except OSError:
        yield None
        return
    try:
        _check(os.fstat(handle), path() / name, 0o022)
        yield handle
    finally:
        os.close(handle)


def _check(status: os.stat_result, where: Path, forbidden: int) -> None:
    if status.st_uid != os.geteuid():
        raise _fault(where, f"owned by user {status.st_uid}")
    if stat.S_IMODE(status.st_mode) & forbidden:
        raise _fault(where, f"open to others (mode {stat.S_IMODE(status.st_mode):o})")


def _fault(where: Path, what: str) -> CannotRunError:
    return CannotRunError(
        "the list of the images that you made decides what is executed, and must be yours alone;"
        f" it is {what}",
        where=str(where),
        advice="remove it, and images are made anew; or name another place with XDG_STATE_HOME",
    )
