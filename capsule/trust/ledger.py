"""Ledger of the capsules that this user sealed, and of the run folders that they began.

Two lists of SHA-256 in a folder that only the user may write: `sealed.txt` has the ids of capsules,
`begun.txt` has hashes of the path of a run folder and its `run.json`. A moved capsule keeps its id;
a moved run folder is no longer the user's own.
"""

from __future__ import annotations

import os
import stat
from contextlib import suppress
from pathlib import Path

from capsule.digest import of_bytes
from capsule.errors import ExecutionError
from capsule.site import state_folder

_SEALED, _BEGUN = "sealed.txt", "begun.txt"
_OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH


def add(capsule_id: str) -> str | None:
    """Add a capsule to the ledger.

    Returns:
        Why it cannot be added, with a remedy; None when it was added.
    """
    if holds(capsule_id):
        return None
    try:
        _append(_SEALED, capsule_id)
    except ExecutionError as error:
        advice = (
            error.advice or "set XDG_STATE_HOME to keep the list of your capsules in another folder"
        )
        return (
            f"capsule {capsule_id[:12]} is sealed, but could not be listed as yours"
            f" ({error.where}: {error.what}); verify the capsule with --trust; {advice}"
        )
    return None


def holds(capsule_id: str) -> bool:
    """Return whether this user sealed the capsule."""
    return capsule_id in _read(_SEALED)


def begin(place: Path, header: Path) -> None:
    """Add a run folder to the ledger; if that fails, resuming the run needs `--trust`.

    Args:
        place: Its future path.
        header: Its `run.json`, which may still lie in a folder of another name.
    """
    with suppress(ExecutionError):
        _append(_BEGUN, _name(place, header))


def has_begun(place: Path) -> bool:
    """Return whether this user began the run in this folder, and alone owns and may write it."""
    header = place / "run.json"
    try:
        return (
            _is_private(place.stat(), stat.S_IWOTH)
            and _is_private(header.stat(), stat.S_IWOTH)
            and _name(place, header) in _read(_BEGUN)
        )
    except OSError:
        return False


def fault() -> str | None:
    """Return why the ledger is not used; None if it is, or does not exist."""
    try:
        _check(state_folder())
        for name in (_SEALED, _BEGUN):
            if (state_folder() / name).exists():
                _check(state_folder() / name)
    except FileNotFoundError:
        return None
    except OSError as error:
        return f"{state_folder()}: {error.strerror}"
    except ExecutionError as error:
        return f"{error.where}: {error.what}"
    return None


def _name(place: Path, header: Path) -> str:
    return of_bytes(os.fsencode(place.resolve()) + b"\0" + header.read_bytes()).hex


def _append(name: str, entry: str) -> None:
    ledger = state_folder() / name
    try:
        ledger.parent.parent.mkdir(parents=True, exist_ok=True)
        ledger.parent.mkdir(mode=0o700, exist_ok=True)
        _check(ledger.parent)
        handle = os.open(ledger, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        try:
            _check(ledger)
            # one short append is atomic: two runs may seal at once
            os.write(handle, f"{entry}\n".encode())
        finally:
            os.close(handle)
    except OSError as error:
        raise ExecutionError(str(error.strerror), where=str(ledger)) from None


def _read(name: str) -> frozenset[str]:
    """Return the entries; none if other users could have written some."""
    try:
        _check(state_folder())
        with (state_folder() / name).open("rb") as stream:
            if not _is_private(os.fstat(stream.fileno()), _OTHERS_WRITE):
                return frozenset()
            return frozenset(stream.read().decode(errors="replace").split())
    except (OSError, ExecutionError):
        return frozenset()


def _check(path: Path) -> None:
    """Raise if other users could have written a ledger.

    Raises:
        ExecutionError: They could.
        OSError: Its permissions cannot be read.
    """
    if not _is_private(path.stat(), _OTHERS_WRITE):
        raise ExecutionError(
            "writable by other users, so capsule does not use this path",
            where=str(path),
            advice=f"remove the permission of other users: chmod go-w {path}",
        )


def _is_private(status: os.stat_result, forbidden: int) -> bool:
    kind = stat.S_ISDIR(status.st_mode) or stat.S_ISREG(status.st_mode)
    return kind and status.st_uid == os.geteuid() and not status.st_mode & forbidden
