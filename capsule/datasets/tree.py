"""List the files of a dataset, and refuse what could not mean the same on another machine."""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from capsule.errors import CannotRunError, UsageError

_MAX_LINKS = 40  # as the kernel
_RENAME = "rename the file or folder"
# beyond that whoever reads a capsule would wait for what may lie at home already
_MOST_SMALL_BYTES = 10 << 20
_MOST_SMALL_FILES = 1000


@dataclass(frozen=True, kw_only=True)
class Entry:
    """A file of a dataset.

    Attributes:
        name: Path below the dataset's folder with `/`; the file's own name when it is the dataset.
        path: Where it is.
        status: Status of the file itself, never of a link.
    """

    name: str
    path: str
    status: os.stat_result


def is_small(size_bytes: int, files: int) -> bool:
    """Return whether a capsule carries a dataset of this size where its manifest says nothing
    else.
    """
    return size_bytes <= _MOST_SMALL_BYTES and files <= _MOST_SMALL_FILES


def files(root: Path) -> list[Entry]:
    """Return every file of a dataset, in no particular order.

    Args:
        root: A file or a folder; a link to either is followed.

    Raises:
        UsageError: It holds something that has no digest; names it and says what to do.
        CannotRunError: It does not exist or cannot be read.
    """
    try:
        top = root.resolve(strict=True)
        if not top.is_dir():
            return [_entry(top.name, str(top), top)]
        entries = _below(top)
    except OSError as error:
        raise CannotRunError(
            f"cannot be read: {error.strerror}",
            where=error.filename or str(root),
            advice="make the dataset readable, or correct its path",
        ) from error
    except RuntimeError as error:  # what Path.resolve raised for a loop of links before 3.13
        raise CannotRunError(
            "the dataset's path is a loop of links",
            where=str(root),
            advice="point the link to the data",
        ) from error
    if not entries:
        raise UsageError(
            "the dataset is an empty folder",
            where=str(root),
            advice="put the data into the folder, or name another path",
        )
    return entries


def _below(top: Path) -> list[Entry]:
    entries: list[Entry] = []
    folders = [""]
    while folders:
        folder = folders.pop()
        with os.scandir(top / folder) as listing:
            for item in listing:
                name = f"{folder}{item.name}"
                _check_name(name, top)
                if item.is_symlink():
                    _check_link(name, top)
                if item.is_dir():
                    folders.append(f"{name}/")
                else:
                    entries.append(_entry(name, item.path, top))
    return entries


def _entry(name: str, path: str, top: Path) -> Entry:
    status = os.stat(path)  # noqa: PTH116 - a million Path objects cost more than their hashes
    if not stat.S_ISREG(status.st_mode):
        raise _refusal(
            name,
            top,
            "is a device, pipe or socket, expected a file or folder",
            "remove this entry from the dataset",
        )
    return Entry(name=name, path=path, status=status)


def _check_name(name: str, top: Path) -> None:
    try:
        name.encode()
    except UnicodeEncodeError:
        raise _refusal(
            name, top, "has a name in another encoding, expected UTF-8", _RENAME
        ) from None
    if any(mark in name for mark in "\n\r"):
        raise _refusal(name, top, "has a line break in its name", _RENAME)
    if name == "-":
        raise _refusal(name, top, "is reserved for standard input", _RENAME)


def _check_link(name: str, top: Path) -> None:
    """Follow a link by hand: every hop must stay in the folder, wherever that is mounted."""
    advice = "replace the link by a copy of its target"
    here = PurePosixPath(name)
    for _ in range(_MAX_LINKS):
        target = PurePosixPath(os.readlink(top / here))  # noqa: PTH115 - as PurePosixPath
        walked = None if target.is_absolute() else _join(here.parent, target)
        if walked is None:
            raise _refusal(name, top, f"is a link that leaves the dataset: {target}", advice)
        here = walked
        if (top / here).is_dir() and not (top / here).is_symlink():
            raise _refusal(name, top, f"is a link to a folder: {target}", advice)
        if not (top / here).is_symlink():
            break
    if not (top / here).exists():
        raise _refusal(name, top, f"is a link to a missing file: {target}", "remove the link")


def _join(folder: PurePosixPath, target: PurePosixPath) -> PurePosixPath | None:
    parts = list(folder.parts)
    for part in target.parts:
        if part != "..":
            parts.append(part)
        elif parts:
            parts.pop()
        else:
            return None
    return PurePosixPath(*parts)


def _refusal(name: str, top: Path, what: str, advice: str) -> UsageError:
    # a name may hold a line break or half a character; ascii keeps the message one readable line
    return UsageError(f"{name!a} {what}", where=str(top), advice=advice)
