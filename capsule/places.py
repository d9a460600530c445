"""Places of a run and its capsule, checked to be free before anything runs."""

from __future__ import annotations

import errno
import fcntl
import os
import re
import stat
import tempfile
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import BinaryIO

from capsule import leavings, localpaths
from capsule.errors import CannotRunError, ExecutionError, UsageError

_NO_SPACE = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH
_OTHERS_ENTER = stat.S_IXGRP | stat.S_IXOTH
_OF_NETWORKS = {
    *("9p", "afs", "beegfs", "ceph", "cifs", "coda", "gfs2", "glusterfs", "gpfs", "lustre", "nfs"),
    *("nfs4", "ocfs2", "orangefs", "panfs", "pvfs2", "s3fs", "smb3", "smbfs", "sshfs", "wekafs"),
}
# what locks fail with on Lustre without `flock`, and on some NFS mounts
_NO_LOCKS = (errno.ENOSYS, errno.ENOLCK, errno.EOPNOTSUPP)
# endings of what is not to be seen: a folder that is being made, and one that is being removed
_PARTIAL, _DONE = ".capsule-partial", ".capsule-done"


class NoLocksError(OSError):
    """A file system without file locks."""


def check(*, output: Path | None, work: Path | None = None, flag: str = "--output") -> None:
    """Stop before a day of measuring rather than after it, if what comes of it has no place.

    Args:
        output: The capsule to write, None for a new name in the current folder.
        work: The run folder to make, None for a new name in the current folder.
        flag: By which the output is named.

    Raises:
        UsageError: Something lies there already, or there is no such folder.
        ExecutionError: The folder cannot be written.
    """
    if output is not None and os.path.lexists(output):
        raise UsageError(
            "already exists, and is not overwritten",
            where=str(output),
            advice=f"name another file with {flag}, or move the existing file away",
        )
    if work is not None and os.path.lexists(work):
        raise UsageError(
            "the run folder already exists",
            where=str(work),
            advice="continue the run with --resume, or name another folder with --work",
        )
    if output is not None and work is not None and output.absolute() == work.absolute():
        raise UsageError(
            f"{flag} and --work name the same path",
            where=str(output),
            advice=f"name another path with {flag} or --work",
        )
    folder = output.parent if output else Path()
    if not folder.is_dir():
        raise UsageError(
            f"the folder for {output or 'the capsule'} does not exist",
            where=str(folder),
            advice=f"make the folder, or name a file in another folder with {flag}",
        )
    # the longest name that sealing will use; a file without a name, so that no kill leaves it there
    name = f".{output.name if output else ''}.{uuid.uuid4().hex[:8]}.capsule.partial"
    try:
        with suppress(FileNotFoundError):
            (folder / name).lstat()
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        if error.errno == errno.ENAMETOOLONG:
            raise UsageError(
                "file name too long for this file system",
                where=str(output),
                advice=f"choose a shorter name with {flag}",
            ) from None
        raise ExecutionError(
            f"cannot write a capsule to this folder: {error.strerror}",
            where=str(folder.absolute()),
            advice=f"name a file in another folder with {flag}",
        ) from None


def refuse_inside(output: Path, folder: Path) -> None:
    """Stop where a capsule would lie in the folder of its own run, and be removed with it.

    Raises:
        UsageError: It would.
    """
    if folder.resolve() in output.absolute().resolve().parents:
        raise UsageError(
            f"the capsule's path is in the run folder {folder}, which capsule removes after"
            " sealing",
            where=str(output),
            advice="name a path outside of the run folder",
        )


def near(path: Path) -> Path:
    """Return the same path, as short as the current folder allows."""
    here = Path.cwd()
    return path.relative_to(here) if path.is_relative_to(here) else path


def shorten(path: Path) -> str:
    """Return a path for people, with `.` for the current folder and `~` for their home."""
    for top, name in ((Path.cwd(), "."), (localpaths.home(), "~")):
        if path.is_relative_to(top):
            return f"{name}/{path.relative_to(top)}"
    return str(path)


def weak_spot(path: Path, *, whosever: bool = False) -> Path | None:
    """Return the first part of a path, from the root on, that others may replace; or None.

    Args:
        path: A file or folder, which need not exist.
        whosever: Its owner, and that of each folder above it, may be anybody.
    """
    own = (0, os.geteuid())
    # which says nothing of a circle of links, and leaves it to be seen as one
    path = Path(os.path.realpath(path))
    for part in (*reversed(path.parents), path):
        try:
            status = part.lstat()
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError:
            return part
        mode = status.st_mode
        is_sticky = stat.S_ISDIR(mode) and mode & stat.S_ISVTX
        is_foreign = status.st_uid not in own and not whosever
        if is_foreign or (mode & _OTHERS_WRITE and not is_sticky):
            return part
        if stat.S_ISDIR(mode) and status.st_uid == own[1] and not mode & _OTHERS_ENTER:
            # nobody else gets below it
            return None
    return None


def is_of_network(path: Path) -> bool:
    """Return whether other machines see what is written there; not where that cannot be told."""
    return file_system(path).removeprefix("fuse.") in _OF_NETWORKS


def make_private(folder: Path, *, advice: str) -> None:
    """Make a folder that is open to nobody else, or require that it is one.

    One that cannot be made is left to whoever writes there.

    Args:
        folder: To make; its parent is as others made it.
        advice: What to do if something else lies there.

    Raises:
        CannotRunError: It is a link or no folder, belongs to somebody else, or others may write it.
    """
    try:
        # or the user's mask might let a group exchange what is made here
        for parent in reversed(folder.parents):
            parent.mkdir(mode=0o755, exist_ok=True)
        folder.mkdir(mode=0o700, exist_ok=True)
        status = folder.lstat()
    except FileExistsError:
        raise _not_private(folder, "is not a folder", advice) from None
    except OSError:
        return
    if not stat.S_ISDIR(status.st_mode):
        raise _not_private(folder, "is a link", advice)
    if status.st_uid != os.geteuid():
        raise _not_private(folder, f"belongs to user {status.st_uid}", advice)
    if status.st_mode & _OTHERS_WRITE:
        raise _not_private(folder, "is writable by other users", advice)
    if stat.S_IMODE(status.st_mode) & 0o777 != 0o700:
        with suppress(OSError):
            folder.chmod(0o700)


def _not_private(folder: Path, fault: str, advice: str) -> CannotRunError:
    return CannotRunError(
        f"{fault}, expected a private folder of user {os.geteuid()}",
        where=str(folder),
        advice=advice,
    )


@contextmanager
def new_folder(folder: Path) -> Iterator[Path]:
    """Make a folder to fill, which is named when complete, and removed otherwise.

    Only this user can enter it, whatever the umask is.

    Raises:
        CannotRunError: Its file system has no locks.
        ExecutionError: It cannot be written.
    """
    try:
        partial, lock = _make_partial(folder)
        with lock:
            yield partial
            partial.rename(folder)
    except ExecutionError as error:
        raise _failure(error.what, folder) from None
    except NoLocksError as error:
        raise locks_error(
            error, folder, "name a folder on another file system with --work (nothing has run yet)"
        ) from None
    except OSError as error:
        where = folder if error.errno in _NO_SPACE else error.filename or folder
        raise _failure(f"cannot write: {error.strerror}", where) from None
    finally:
        sweep(folder.parent)


@contextmanager
def scratch(parent: Path | None = None) -> Iterator[Path]:
    """Make a private temporary folder; the next process removes it if this one cannot.

    Args:
        parent: Where, None for the system's temporary folder.

    Raises:
        CannotRunError: Its file system has no locks.
        ExecutionError: There is no place for it.
    """
    parent = Path(tempfile.gettempdir()) if parent is None else parent
    _sweep_once(parent)
    try:
        folder, lock = _make_partial(parent / "capsule")
    except NoLocksError as error:
        raise locks_error(
            error,
            parent,
            "set TMPDIR to a folder on another file system, or start capsule in such a folder",
        ) from None
    except OSError as error:
        raise ExecutionError(
            f"cannot make a temporary folder: {error.strerror}",
            where=str(parent),
            advice=f"free some space in {parent}, or set TMPDIR to another folder",
        ) from None
    with lock:
        try:
            yield folder
        finally:
            # as everywhere, what cannot be removed stays out of sight
            with suppress(OSError):
                leavings.remove(folder)


def locks_error(error: NoLocksError, where: Path, advice: str) -> CannotRunError:
    """Return the error of a folder that cannot be locked, with what to do about it."""
    return CannotRunError(
        f"this file system has no file locks (flock: {error.strerror}); capsule needs locks to"
        " keep two processes apart",
        where=str(where),
        advice=advice,
    )


def _failure(fault: str, where: object) -> ExecutionError:
    return ExecutionError(
        f"cannot make the run folder: {fault}",
        where=str(where),
        advice="free some space, or name another folder with --work (nothing has run yet)",
    )


def hold(folder: Path) -> BinaryIO | None:
    """Lock a folder, by its file `lock`, until that is closed or this process dies.

    Returns:
        The open file; None while another process has locked the folder.

    Raises:
        NoLocksError: Its file system has no locks.
        OSError: The folder is not there, or cannot be written.
    """
    path = folder / "lock"
    handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK, 0o644)
    stream = os.fdopen(handle, "rb")
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        # between these calls another process may have finished with the folder
        if os.path.samestat(os.fstat(handle), path.lstat()):
            return stream
    except BlockingIOError:
        pass
    except OSError as error:
        stream.close()
        if error.errno in _NO_LOCKS:
            raise NoLocksError(error.errno, error.strerror, str(path)) from None
        raise
    except BaseException:
        stream.close()
        raise
    stream.close()
    return None


def wait_to_hold(folder: Path) -> tuple[BinaryIO, bool]:
    """Make a folder where it is missing, and lock it as by `hold`, once nobody else has it.

    Returns:
        The open file, and whether another process had it.

    Raises:
        OSError: The folder cannot be made, or written, or its file system has no locks.
    """
    waited = False
    while True:
        folder.mkdir(parents=True, exist_ok=True)
        # whoever had it removes it, with the file that was waited for
        with suppress(FileNotFoundError):
            if (lock := hold(folder)) is not None:
                return lock, waited
            waited = True
            handle = os.open(folder / "lock", os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
            with os.fdopen(handle, "rb") as stream:
                fcntl.flock(stream, fcntl.LOCK_EX)


def remove_and_release(folder: Path) -> None:
    """Remove a folder that this process holds, and let go of it by that: its lock goes last.

    Or what the next process to hold it has begun to write would be removed with the rest.
    """
    with suppress(OSError):
        for path in [path for path in folder.iterdir() if path.name != "lock"]:
            leavings.remove(path)
        (folder / "lock").unlink()
        folder.rmdir()


def discard(folder: Path) -> None:
    """Remove a folder, out of sight in one step: half of it must not be taken for the whole.

    What cannot be removed, for example because a container's root owns it, stays out of sight.
    """
    with suppress(OSError):
        folder.rename(_aside(folder, _DONE))
    sweep(folder.parent)


def find_leftovers(parent: Path) -> Iterator[Path]:
    """Yield folders that killed processes of this user left half made, each locked meanwhile."""
    for path in sorted(parent.glob(f".*{_PARTIAL}")):
        with suppress(OSError):
            if path.lstat().st_uid == os.geteuid() and (lock := hold(path)):
                with lock:
                    yield path


def sweep(parent: Path) -> None:
    """Remove the folders that killed processes left half made or half removed below another one."""
    try:
        names = [name for name in os.listdir(parent) if name.endswith((_PARTIAL, _DONE))]  # noqa: PTH208
    except OSError:
        return
    for path in (parent / name for name in names if name.startswith(".")):
        with suppress(OSError):
            if path.lstat().st_uid != os.geteuid():
                continue
            if path.name.endswith(_DONE):
                leavings.remove(path)
            elif lock := hold(path):
                with lock:
                    leavings.remove(path)


@cache
def _sweep_once(parent: Path) -> None:
    """`sweep` where many small folders are made, and others may keep thousands of files."""
    sweep(parent)


def _make_partial(folder: Path) -> tuple[Path, BinaryIO]:
    """Return a private, empty folder beside another one, locked for as long as this process
    lives.
    """
    while True:
        partial = _aside(folder, _PARTIAL)
        partial.mkdir(0o700, parents=True)
        try:
            # some umasks take rights from the owner, too
            partial.chmod(0o700)
            lock = hold(partial)
        except FileNotFoundError:
            continue  # before it was locked, another process took it for a killed one's
        except OSError:
            leavings.remove(partial)
            raise
        if lock is not None:
            return partial, lock


def _aside(folder: Path, ending: str) -> Path:
    # its own name: what a killed process left must not be in the way of the next one
    return folder.with_name(f".{folder.name}.{uuid.uuid4().hex[:8]}{ending}")


def file_system(path: Path, table: Path = Path("/proc/self/mountinfo")) -> str:
    """Return the kind of file system that a path is on, as the kernel calls it.

    Args:
        path: Need not exist.
        table: What is mounted.
    """
    place, kind, longest = Path(os.path.realpath(path)), "an unknown file system", -1
    try:
        lines = table.read_bytes().decode(errors="surrogateescape").splitlines()
    except OSError:
        return kind
    for line in lines:
        before, _, after = line.partition(" - ")
        name = re.sub(r"\\([0-7]{3})", lambda code: chr(int(code[1], 8)), before.split(" ")[4])
        # what is mounted later covers what was there before
        if len(name) >= longest and place.is_relative_to(name):
            kind, longest = after.split(" ")[0], len(name)
    return kind
