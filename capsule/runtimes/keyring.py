"""Keep the user's keys of the kernel from a workload, where what a run needs is there without."""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Literal

from capsule import places, process
from capsule.errors import CannotRunError
from capsule.notes import KEYRING, YOUR_KEYRING
from capsule.runtimes import keyguard

Keyring = Literal["kept", "outside", "inside", "userns"]
"""Place at which a workload loses the calls about keys: nowhere; before its engine or program is
started; inside one's own image, by its Python, where Apptainer's setuid starter must come first;
before Apptainer is started, which is then told to leave out that starter. In all cases but the
first the workload begins with a session keyring of its own."""

_RECORDED: Mapping[Keyring, str] = {
    "kept": YOUR_KEYRING,
    "outside": "new, and a filter of capsule refuses calls about keys",
    "inside": "new, and a filter of capsule, set inside, refuses calls about keys",
    "userns": "new, and a filter of capsule refuses calls about keys; started with --userns",
}
_KEYED = {"afs": "AFS", "auristorfs": "AFS", "ecryptfs": "ecryptfs"}
_STATX_BYTES, _STATX_ATTRIBUTES, _STATX_ENCRYPTED = 256, 8, 0x800
_AT_FDCWD = -100
_WAY_OUT = (
    "use a file system that needs no kernel keys, or add --keep-keyring to let the workload read"
    " your keys"
)


def observe(keyring: Keyring) -> dict[str, str]:
    """Return the observation for the record."""
    return {KEYRING: _RECORDED[keyring]}


def is_kept(observations: Mapping[str, str]) -> bool:
    """Return whether a run was begun with the user's own keyring, as far as it is recorded."""
    return observations.get(KEYRING) == YOUR_KEYRING


def guard(keyring: Keyring) -> Callable[[], None] | None:
    """Return the guard that `process.start` calls before an engine or program starts."""
    if keyring == "kept":
        return None
    return _join if keyring == "inside" else _isolate


def require_reachable(paths: Iterable[Path]) -> None:
    """Stop where a path that a run needs cannot be read without the user's keys.

    Args:
        paths: Paths of this machine; a missing one stands for the folder that will hold it.

    Raises:
        CannotRunError: Names the path; or no keyring can be had here.
    """
    needed = list(dict.fromkeys(map(_existing, paths)))
    for path in needed:
        if kind := _KEYED.get(places.file_system(path)) or (_is_encrypted(path) and "fscrypt"):
            raise CannotRunError(
                f"is on {kind}, which the workload could not read: the workload's new session"
                " keyring lacks your keys",
                where=str(path),
                advice=_WAY_OUT,
            )
    readable = [path for path in needed if _can_read(path)]
    for path in process.in_thread(lambda: _find_unreadable(readable)):
        raise CannotRunError(
            "is readable for you, but not for the workload: the workload's new session keyring"
            " lacks your keys",
            where=str(path),
            advice=_WAY_OUT,
        )


def _find_unreadable(paths: Iterable[Path]) -> list[Path]:
    _isolate()
    return [path for path in paths if not _can_read(path)]


def _existing(path: Path) -> Path:
    return next(place for place in (path, *path.absolute().parents) if os.path.lexists(place))


def _can_read(path: Path) -> bool:
    try:
        if path.is_dir():
            with os.scandir(path) as entries:
                next(entries, None)
        else:
            os.close(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC))
    except OSError:
        return False
    return True


def _is_encrypted(path: Path) -> bool:
    """Return whether the kernel says of a path that its file system encrypts it."""
    # Python has no statx before 3.15
    statx = getattr(ctypes.CDLL(None), "statx", None)
    answer = ctypes.create_string_buffer(_STATX_BYTES)
    if statx is None or statx(_AT_FDCWD, os.fsencode(path), 0, 0, answer) != 0:
        return False
    field = answer.raw[_STATX_ATTRIBUTES : _STATX_ATTRIBUTES + 8]
    return bool(int.from_bytes(field, sys.byteorder) & _STATX_ENCRYPTED)


def _isolate() -> None:
    _attempt(keyguard.isolate)


def _join() -> None:
    _attempt(keyguard.join)


def _attempt(step: Callable[[], None]) -> None:
    try:
        step()
    except OSError as error:
        raise CannotRunError(
            f"cannot hide your kernel keys from the workload: {error.strerror}",
            advice="to leave your keys readable for the workload: add --keep-keyring",
        ) from None
