"""Keep SIF files: one that is executed was made by this user, and nobody else can exchange it.

Whoever could write a file into a cache would have it executed. So:

- a SIF is believed for its bytes alone: its SHA-256 is in the ledger of what this user made of the
  image. Its name and its labels are whatever somebody wrote;
- between hashing and the start of a container, which opens the file by its path again, it cannot be
  exchanged: the file and each folder above it belong to this user or to root, and nobody else may
  write them (a sticky folder such as /tmp keeps others from what is not theirs);
- where the cache is not so, the image is made again in the user's own cache. What others keep in
  theirs is neither read, run nor replaced.

What this does not hold against: root, and this user's own processes outside of containers.
"""

from __future__ import annotations

import os
import secrets
import shutil
import stat
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from capsule import site as sites
from capsule.digest import Digest, expect, of_file
from capsule.errors import CannotRunError, CapsuleError, DamagedError
from capsule.image import Image
from capsule.image.files import open_file, state_of
from capsule.image.sif import read
from capsule.places import weak_spot
from capsule.runtimes import ledger

_OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH


@dataclass(frozen=True, kw_only=True)
class Sif:
    """A SIF that may be executed.

    Attributes:
        path: Where it lies, out of others' reach.
        digest: Of its bytes.
        hashing_seconds: What it took to know that.
    """

    path: Path
    digest: Digest
    hashing_seconds: float


def obtain(image: Digest, cache: Path, make: Callable[[Path], None]) -> Sif:
    """The SIF of an image that this user has, else a new one.

    Args:
        image: What the image is known by.
        cache: Folder that holds `sif/`; the user's own one is used where others may write this.
        make: Makes the file at a path.

    Raises:
        CannotRunError: The ledger, or the user's own cache, is open to others.
    """
    places = _places(cache)
    known = ledger.read(image)
    if sif := _look(image, places, known):
        return sif
    with ledger.lock(image):
        # another process may have made it meanwhile
        if (now_known := ledger.read(image)) != known and (sif := _look(image, places, now_known)):
            return sif
        return _make(image, _place(image, places), make)


def adopt(image: Image, cache: Path) -> Sif:
    """A SIF that the user named by its path: run where it lies, or from a copy of one's own.

    Where nobody else can exchange it, a link to it is kept in the place of an image that was made,
    so that it is found again without its path; else a copy.

    Args:
        image: A SIF, its file hashed.
        cache: As for `obtain`.

    Raises:
        DamagedError: It is no longer the file that was hashed.
        CannotRunError: The ledger, or the user's own cache, is open to others.
    """
    file, identity = image.file, image.identity.digest
    assert file is not None
    assert file.digest is not None
    path, places = file.path.resolve(), _places(cache)
    if weak_spot(path):
        kept = _look(identity, places, frozenset({file.digest}))
        made = kept or _make(identity, _place(identity, places), partial(_copy, path))
        expect(made.digest, file.digest, what="the SIF's copy", where=str(path))
        # others could write it while it was read for its tree, and cannot write the copy
        expect(tree(made) or made.digest, identity, what="the tree of its copy", where=str(path))
        return made
    _check_state(path, file.state)
    with suppress(CannotRunError, OSError):
        # in a cache that cannot be written it is hashed again next time, by its path
        _link(path, _place(identity, places) / f"{identity.hex}.sif")
        ledger.add(identity, file.digest)
    return Sif(path=path, digest=file.digest, hashing_seconds=0.0)


def tree(sif: Sif) -> Digest | None:
    """The digest of a SIF's root file system, kept beside the list of what this user made.

    None for one that cannot be read here.

    Raises:
        CannotRunError: The ledger is open to others.
    """
    for digest in ledger.read(sif.digest):
        return digest
    try:
        with sif.path.open("rb") as stream:
            digest = read(stream, where=str(sif.path)).tree
    except (CapsuleError, OSError):
        return None
    ledger.add(sif.digest, digest)
    return digest


def is_kept(image: Digest, cache: Path) -> bool:
    """Whether a file is where the SIF of an image would be, and this user made one.

    Its bytes are not looked at: that is for `obtain` to do, before they are executed.
    """
    paths = (place / f"{image.hex}.sif" for place in _places(cache))
    with suppress(CannotRunError):
        made = bool(ledger.read(image))
        return made and any(path.is_file() and weak_spot(path) is None for path in paths)
    return False


def _places(cache: Path) -> tuple[Path, ...]:
    return tuple(dict.fromkeys((cache / "sif", sites.own_cache_folder() / "sif")))


def _look(image: Digest, places: Sequence[Path], known: frozenset[Digest]) -> Sif | None:
    for place in places:
        # a link leads to a SIF that lies elsewhere; what is looked at is what will be run
        path = (place / f"{image.hex}.sif").resolve()
        if not known or weak_spot(place) or weak_spot(path) or not path.is_file():
            continue
        try:
            sif = _hash(path)
        except OSError:
            continue
        if sif.digest in known:
            return sif
    return None


def _hash(path: Path) -> Sif:
    began = time.monotonic()
    digest = of_file(path)
    return Sif(path=path.resolve(), digest=digest, hashing_seconds=time.monotonic() - began)


def _place(image: Digest, places: Sequence[Path]) -> Path:
    """The first place where a new file is out of others' reach, and in the way of none of theirs.

    Raises:
        CannotRunError: Says who could exchange it in the last one.
    """
    for place in places:
        if _can_keep(place, f"{image.hex}.sif"):
            return place
    spot = weak_spot(places[-1])
    fault = "it cannot be written" if spot is None else f"others may write {spot}"
    raise CannotRunError(
        f"there is no place of your own to keep the image in: {fault}",
        where=str(places[-1]),
        advice="name a folder that only you may write, and that only you may rename, with"
        " CAPSULE_CACHE",
    )


def _can_keep(place: Path, name: str) -> bool:
    if weak_spot(place):
        return False
    try:
        # or the user's mask might let a group write what is made here
        for folder in (*reversed(place.parents), place):
            folder.mkdir(mode=0o755, exist_ok=True)
    except OSError:
        return False
    file = place / name
    theirs = os.path.lexists(file) and file.lstat().st_uid != os.geteuid()
    return not theirs and os.access(place, os.W_OK) and weak_spot(place) is None


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
        raise DamagedError("the SIF changed after it was hashed", where=str(path))


def _make(image: Digest, place: Path, make: Callable[[Path], None]) -> Sif:
    final = place / f"{image.hex}.sif"
    # in a folder that nobody else enters, or somebody might open the file while it may be written
    work = place / f".{image.hex}.{secrets.token_hex(4)}"
    try:
        work.mkdir(mode=0o700)
        staged = work / final.name
        make(staged)
        staged.chmod(staged.stat().st_mode & ~_OTHERS_WRITE)
        made = _hash(staged)
        ledger.add(image, made.digest)
        staged.replace(final)
    except OSError as error:
        raise CannotRunError(
            f"the image cannot be kept: {error.strerror}", where=str(place)
        ) from None
    finally:
        shutil.rmtree(work, ignore_errors=True)
    return replace(made, path=final.resolve())
