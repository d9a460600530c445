"""Safe access to files left by a workload: no link is followed, no pipe is waited for."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import count, islice
from pathlib import Path
from typing import BinaryIO


def is_file(path: Path) -> bool:
    """Return whether a path is a regular file; a link to a file is not."""
    try:
        return stat.S_ISREG(path.lstat().st_mode)
    except OSError:
        return False


def size_bytes(path: Path) -> int:
    """Return the size of what lies there, a link's own; 0 where nothing does."""
    try:
        return path.lstat().st_size
    except OSError:
        return 0


def open_file(path: Path) -> BinaryIO | None:
    """Open a regular file to read it; None for anything else, and where nothing can be read."""
    # to open a device may set something off already; what takes the file's place after this look
    # is neither followed nor waited for
    if not is_file(path):
        return None
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY)
    except OSError:
        return None
    stream = os.fdopen(handle, "rb")
    if stat.S_ISREG(os.fstat(handle).st_mode):
        # a program that inherits it reads as from any file
        os.set_blocking(handle, True)
        return stream
    stream.close()
    return None


def open_below(folder: Path, name: str) -> BinaryIO | None:
    """Open a regular file below a folder; no link is followed, neither there nor on the way.

    Args:
        folder: Ours.
        name: Relative, its parts separated by `/`, none of them `..`.
    """
    *parents, last = name.split("/")
    try:
        with _enter(folder, parents) as path:
            return open_file(path / last)
    except OSError:
        return None


def move_below(folder: Path, name: str, target: Path) -> bool:
    """Move a regular file from below a folder; no link is followed, neither there nor on the way.

    Args:
        folder: Ours.
        name: Relative, as of `open_below`.
        target: On the same file system; its folder is ours.

    Returns:
        Whether such a file was there, and is at the target now.
    """
    *parents, last = name.split("/")
    try:
        with _enter(folder, parents) as path:
            if not is_file(path / last):
                return False
            (path / last).rename(target)
    except OSError:
        return False
    # a workload that outlived its end may have put something else there since that look
    return is_file(target)


def list_below(folder: Path, name: str, most: int) -> list[tuple[str, bool]]:
    """Yield the names in a subfolder, and whether each is a folder; no link is followed.

    Args:
        folder: Ours.
        name: Relative, as of `open_below`.
        most: So many names at most.

    Raises:
        OSError: There is no such folder, or it cannot be read.
    """
    with _enter(folder, name.split("/")) as path, os.scandir(path) as listing:
        entries = islice(listing, most)
        return [(entry.name, entry.is_dir(follow_symlinks=False)) for entry in entries]


@contextmanager
def _enter(folder: Path, parts: Sequence[str]) -> Iterator[Path]:
    """Return a path through a folder's own handle, which no link can redirect.

    Raises:
        OSError: A part is no folder.
    """
    flags = os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW
    handle = os.open(folder, flags)
    try:
        for part in parts:
            inner = os.open(part, flags, dir_fd=handle)
            os.close(handle)
            handle = inner
        yield Path(f"/proc/self/fd/{handle}")
    finally:
        os.close(handle)


def remove(folder: Path) -> None:
    """Remove a folder and all below it, however deep it is and whatever modes its folders have.

    A folder below is moved up before it is emptied, so that neither Python's stack nor the length
    of a path nor the number of open files limits the depth.

    A link or a file in its place is removed itself.

    Raises:
        OSError: Something cannot be removed, for example what another user owns.
    """
    if not stat.S_ISDIR(folder.lstat().st_mode):
        folder.unlink()
        return
    # without the module `secrets`, which takes as long to import as all of this
    token, numbers = os.urandom(8).hex(), count()
    top = _open_folder(str(folder), None)
    try:
        waiting = _unlink_files(top)
        while waiting:
            name = waiting.pop()
            inner = _open_folder(name, top)
            try:
                for below in _unlink_files(inner):
                    moved = f"{token}-{next(numbers)}"
                    _permit(below, inner)
                    os.rename(below, moved, src_dir_fd=inner, dst_dir_fd=top)
                    waiting.append(moved)
            finally:
                os.close(inner)
            os.rmdir(name, dir_fd=top)
    finally:
        os.close(top)
    folder.rmdir()


def set_mode(path: Path, mode: int) -> None:
    """Set the permissions of a file or folder; a link in its place is not followed.

    Raises:
        OSError: It is gone, a link, or another user's.
    """
    handle = os.open(path, os.O_PATH | os.O_NOFOLLOW)
    try:
        os.chmod(f"/proc/self/fd/{handle}", mode)  # noqa: PTH101 - no path of ours
    finally:
        os.close(handle)


def _unlink_files(folder: int) -> list[str]:
    """Remove whatever is no folder; the names of the folders."""
    with os.scandir(folder) as listing:
        entries = list(listing)
    for entry in entries:
        if not entry.is_dir(follow_symlinks=False):
            os.unlink(entry.name, dir_fd=folder)
    return [entry.name for entry in entries if entry.is_dir(follow_symlinks=False)]


def _open_folder(name: str, within: int | None) -> int:
    _permit(name, within)
    return os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=within)


def _permit(name: str, within: int | None) -> None:
    """Let this user read, change and move a folder of theirs whose mode forbids it."""
    # a handle of this kind can be had whatever the mode is, and its mode be set by way of /proc
    handle = os.open(name, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=within)
    try:
        if stat.S_IMODE(os.fstat(handle).st_mode) & stat.S_IRWXU != stat.S_IRWXU:
            with suppress(PermissionError):
                os.chmod(f"/proc/self/fd/{handle}", stat.S_IRWXU)  # noqa: PTH101 - no path of ours
    finally:
        os.close(handle)
