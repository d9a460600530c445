"""Keep SIF files in the user's own cache, and believe one for its bytes alone.

A file is `sif/IMAGE-SIF.sif`: the digest of the image and the file's own. A SIF has no digest that
a registry could name, and two that are made of one image differ.

Between hashing and the start of a container, which opens the file by its path again, nobody can
exchange it: the file and each folder above it belong to this user or to root, and nobody else may
write them (a sticky folder such as /tmp keeps others from what is not theirs).

What this does not hold against: root, and this user's own processes outside of containers.
"""

from __future__ import annotations

import fcntl
import os
import re
import secrets
import shutil
import stat
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from capsule.digest import Digest, expect, of_file
from capsule.errors import CannotRunError, CapsuleError, DamagedError, add_advice
from capsule.image import Image
from capsule.image.files import open_file, state_of
from capsule.image.sif import read
from capsule.places import weak_spot

_OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH
_CHANGED = "run again when no process writes to the file"
_HEX = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True, kw_only=True)
class Sif:
    """A SIF that may be executed.

    Attributes:
        path: Where it lies, out of others' reach.
        digest: Digest of its bytes.
        hashing_seconds: What it took to know that.
    """

    path: Path
    digest: Digest
    hashing_seconds: float


def obtain(image: Digest, cache: Path, make: Callable[[Path], None]) -> Sif:
    """Return the SIF of an image that the cache has, else a new one.

    Args:
        image: What the image is known by.
        cache: Folder that holds `sif/`.
        make: Makes the file at a path.

    Raises:
        CannotRunError: The cache cannot be written, or others could exchange what lies there.
    """
    place = cache / "sif"
    if sif := _look(image, place):
        return sif
    _open(place)
    with _lock(place / f".{image.hex}.lock"):
        # another process may have made it meanwhile
        if sif := _look(image, place):
            return sif
        _remove_damaged(image, place)
        return _make(image, place, make)


@add_advice(_CHANGED)
def adopt(image: Image, cache: Path) -> Sif:
    """Return a SIF that the user named by its path: where it lies, or as a copy in the cache.

    Where nobody else can exchange it, the cache gets a link to it, so that it is found again
    without its path; else a copy.

    Args:
        image: A SIF, its file hashed.
        cache: As for `obtain`.

    Raises:
        DamagedError: It is no longer the file that was hashed.
        CannotRunError: It has to be copied, and the cache cannot keep the copy.
    """
    file, identity = image.file, image.identity.digest
    assert file is not None
    assert file.digest is not None
    path, place = file.path.resolve(), cache / "sif"
    name = _name(identity, file.digest)
    if weak_spot(path):
        _open(place)
        made = _find(place / name) or _make(identity, place, partial(_copy, path))
        expect(made.digest, file.digest, what="the SIF's copy", where=str(path))
        # others could write it while it was read for its tree, and cannot write the copy
        actual = tree(made, cache) or made.digest
        expect(actual, identity, what="the tree of the SIF's copy", where=str(path))
        return made
    _check_state(path, file.state)
    with suppress(CannotRunError, OSError):
        # in a cache that cannot be written it is hashed again next time, by its path
        _open(place)
        _link(path, place / name)
    return Sif(path=path, digest=file.digest, hashing_seconds=0.0)


def tree(sif: Sif, cache: Path) -> Digest | None:
    """Return the digest of a SIF's root file system, which the cache keeps; None if unreadable."""
    kept = cache / "sif" / f"{sif.digest.hex}.tree"
    with suppress(OSError):
        text = kept.read_text(errors="replace")
        if _HEX.fullmatch(text) and weak_spot(kept) is None:
            return Digest(hex=text)
    try:
        with sif.path.open("rb") as stream:
            digest = read(stream, where=str(sif.path)).tree
    except (CapsuleError, OSError):
        return None
    with suppress(OSError):
        kept.write_text(digest.hex)
    return digest


def is_kept(image: Digest, cache: Path) -> bool:
    """Return whether a file is where the SIF of an image would be.

    Its bytes are not looked at: that is for `obtain` to do, before they are executed.
    """
    return any(_is_safe(path) for path in _list(image, cache / "sif"))


def _name(image: Digest, sif: Digest) -> str:
    return f"{image.hex}-{sif.hex}.sif"


def _list(image: Digest, place: Path) -> list[Path]:
    return sorted(place.glob(f"{image.hex}-*.sif"))


def _is_safe(path: Path) -> bool:
    """Return whether a file is there that nobody else can exchange; a link leads to another one."""
    return path.is_file() and weak_spot(path.parent) is None and weak_spot(path) is None


def _look(image: Digest, place: Path) -> Sif | None:
    return next(filter(None, map(_find, _list(image, place))), None)


def _find(path: Path) -> Sif | None:
    """Return the SIF at a path; None if its bytes are not those that its name says."""
    try:
        sif = _hash(path) if _is_safe(path) else None
    except OSError:
        return None
    return sif if sif and path.name.endswith(f"-{sif.digest.hex}.sif") else None


def _remove_damaged(image: Digest, place: Path) -> None:
    """Remove this user's files of an image, none of which is what its name says."""
    for path in _list(image, place):
        with suppress(OSError):
            if path.lstat().st_uid == os.geteuid():
                path.unlink()


def _hash(path: Path) -> Sif:
    began = time.monotonic()
    digest = of_file(path)
    return Sif(path=path.resolve(), digest=digest, hashing_seconds=time.monotonic() - began)


def _open(place: Path) -> None:
    """Make the folder of the cache, or require that a new file there is out of others' reach."""
    fault = None
    try:
        # or the user's mask might let a group write what is made here
        for folder in (*reversed(place.parents), place):
            folder.mkdir(mode=0o755, exist_ok=True)
    except OSError as error:
        fault = f"cannot make the folder: {error.strerror}"
    if spot := weak_spot(place):
        fault = f"other users can write {spot}"
    elif fault is None and not os.access(place, os.W_OK):
        fault = "you cannot write the folder"
    if fault:
        raise CannotRunError(
            f"the image needs a private folder: {fault}",
            where=str(place),
            advice="set CAPSULE_CACHE to a folder that only you can write and rename",
        )


@contextmanager
def _lock(path: Path) -> Iterator[None]:
    """Make a SIF of an image alone: another process of this user waits until the block is over."""
    with path.open("ab") as stream:
        # some network file systems have no locks; two files are made then, and both are whole
        with suppress(OSError):
            fcntl.flock(stream, fcntl.LOCK_EX)
        yield


def _link(path: Path, link: Path) -> None:
    if link.resolve() == path:
        return
    staged = link.with_name(f".{link.stem}.{secrets.token_hex(4)}")
    staged.symlink_to(path)
    staged.replace(link)


def _copy(source: Path, target: Path) -> None:
    shutil.copyfile(source, target)


def _check_state(path: Path, state: tuple[int, ...]) -> None:
    try:
        with open_file(path) as stream:
            is_same = state_of(stream) == state
    except OSError:
        is_same = False
    if not is_same:
        raise DamagedError(
            "the SIF changed after hashing",
            where=str(path),
            advice=_CHANGED,
        )


def _make(image: Digest, place: Path, make: Callable[[Path], None]) -> Sif:
    # in a folder that nobody else enters, or somebody might open the file while it may be written
    work = place / f".{image.hex}.{secrets.token_hex(4)}"
    try:
        work.mkdir(mode=0o700)
        staged = work / "made.sif"
        make(staged)
        staged.chmod(staged.stat().st_mode & ~_OTHERS_WRITE)
        made = _hash(staged)
        final = place / _name(image, made.digest)
        staged.replace(final)
    except OSError as error:
        raise CannotRunError(
            f"cannot write the image to the cache: {error.strerror}",
            where=str(place),
            advice="free some space, or set CAPSULE_CACHE to another folder",
        ) from None
    finally:
        shutil.rmtree(work, ignore_errors=True)
    return replace(made, path=final.resolve())
