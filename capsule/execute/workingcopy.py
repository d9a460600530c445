"""The inputs that workloads may write in, as they were sealed at every process start.

No workload is handed the copies in the run's own `inputs/`, but read-only in a container. Where it
may write among its inputs it has another copy of them, which is used again as long as nothing in it
changed. Size, times, inode and mode tell that; bytes are read again only where one of them did.
On tmpfs a page that was read and is then written through a shared mapping moves no time: such a
change is not seen.
"""

from __future__ import annotations

import fcntl
import os
import stat
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath
from typing import BinaryIO

from capsule import archive, leavings
from capsule.digest import Digest, of_pieces
from capsule.execute.log import cannot_write

_FICLONE = 0x40049409  # ioctl_ficlone(2); where the machine has another number, bytes are copied
_CACHE = "__pycache__"
_CHUNK_BYTES = 1 << 20
_TOP = "."
_PAUSE_SECONDS = 0.001
# the clocks of file systems go in steps of up to 2 s
_LONGEST_STEP_SECONDS = 3.0


@dataclass(frozen=True)
class _Stamp:
    """Fingerprint of an unchanged file or folder: `lstat` without the access time."""

    mode: int
    owner: tuple[int, int]
    inode: int
    names: int
    size: int
    modified_ns: int
    changed_ns: int

    @classmethod
    def of(cls, status: os.stat_result) -> _Stamp:
        return cls(
            status.st_mode,
            (status.st_uid, status.st_gid),
            status.st_ino,
            # by another name a file could be changed later; a folder has one for each folder in it
            0 if stat.S_ISDIR(status.st_mode) else status.st_nlink,
            status.st_size,
            status.st_mtime_ns,
            status.st_ctime_ns,
        )


class WorkingCopy:
    """A copy of some of a run's inputs; nothing else may write in it while a method works.

    Args:
        folder: Where it is made; what lies there is removed first.
        pristine: Folder of the files as they were sealed, which is only read.
        digests: Digests of the files to copy, by their paths below that folder.
        folders: Which are there, too, whether or not they have files.

    Raises:
        DamagedError: A file in `pristine` is not what its digest says.
        ExecutionError: Something cannot be written, or removed.
    """

    def __init__(
        self,
        folder: Path,
        pristine: Path,
        digests: Mapping[str, Digest],
        folders: Iterable[str] = (),
    ) -> None:
        self._folder = folder
        self._pristine = pristine
        self._digests = digests
        named = [PurePosixPath(name) for name in digests]
        above = {str(parent) for path in named for parent in path.parents}
        # a folder comes before what lies in it
        self._parents = sorted({_TOP, *above, *folders}, key=lambda name: (name != _TOP, name))
        self._entries: dict[str, set[str]] = {name: set() for name in self._parents}
        for name in {*digests, *self._parents} - {_TOP}:
            parent, _, last = name.rpartition("/")
            self._entries[parent or _TOP].add(last)
        # of the pristine files, and of the files and folders here; a file without one is new
        self._sources = {name: _look(pristine / name) for name in digests}
        self._stamps: dict[str, _Stamp] = {}
        with _writing(folder):
            if os.path.lexists(folder):
                leavings.remove(folder)
            folder.mkdir(mode=stat.S_IRWXU, parents=True)
            leavings.set_mode(folder, stat.S_IRWXU)
        self.restore()

    def restore(self) -> list[str]:
        """Make every file and folder what it was, and remove what else there is.

        Returns:
            Paths of what had been changed, removed or added since the last call, in order;
            `__pycache__` is not among them, nor is a file whose times alone had changed.

        Raises:
            DamagedError, ExecutionError: As for the class.
        """
        wrong: list[str] = []
        noted = dict(self._stamps)
        with _writing(self._folder):
            for name in self._parents:
                self._restore_folder(name, wrong)
            for name in reversed(self._parents):
                self._settle_folder(name)
            if self._stamps != noted:
                self._await_later(max(stamp.changed_ns for stamp in self._stamps.values()))
        return sorted(wrong)

    def _restore_folder(self, name: str, wrong: list[str]) -> None:
        """Restore one folder and its files; the folders above it are restored already."""
        path, known = self._folder / name, self._stamps.get(name)
        if not path.is_dir() or path.is_symlink():
            if os.path.lexists(path):
                leavings.remove(path)
            path.mkdir()
            leavings.set_mode(path, stat.S_IMODE(path.lstat().st_mode) | stat.S_IRWXU)
            if known:
                wrong.append(name)
        elif known and stat.S_IMODE(path.lstat().st_mode) != stat.S_IMODE(known.mode):
            leavings.set_mode(path, stat.S_IMODE(known.mode))
            wrong.append(name)
        with os.scandir(path) as listing:
            entries = [(one.name, one.is_dir(follow_symlinks=False)) for one in listing]
        for entry, is_folder in entries:
            if entry not in self._entries[name]:
                leavings.remove(path / entry)
                if not (is_folder and entry == _CACHE):
                    wrong.append(_join(name, entry))
        for entry in self._entries[name]:
            if (file := _join(name, entry)) in self._digests:
                self._restore_file(file, wrong)

    def _restore_file(self, name: str, wrong: list[str]) -> None:
        path, known = self._folder / name, self._stamps.get(name)
        now = _look(path)
        if now is not None and now == known:
            return
        if now and known and self._is_alike(name, now, known):
            os.utime(path, ns=(known.modified_ns, known.modified_ns))
        else:
            if now:
                leavings.remove(path)
            if known:
                wrong.append(name)
            self._copy(name)
        self._stamps[name] = _Stamp.of(path.lstat())

    def _is_alike(self, name: str, now: _Stamp, known: _Stamp) -> bool:
        """Return whether a file differs from what it was by its times alone."""
        path = self._folder / name
        timed = replace(now, modified_ns=known.modified_ns, changed_ns=known.changed_ns)
        # attributes can be read by the next start
        if timed != known or _find_attributes(path):
            return False
        stream = leavings.open_file(path)
        if stream is None:
            return False
        with stream:
            return of_pieces(_read(stream)) == self._digests[name]

    def _settle_folder(self, name: str) -> None:
        """Note a folder, of which the entries are right; its time is what it was at first."""
        path, known = self._folder / name, self._stamps.get(name)
        now = _Stamp.of(path.lstat())
        if now == known:
            return
        if known is not None and now.modified_ns != known.modified_ns:
            os.utime(path, ns=(known.modified_ns, known.modified_ns))
        for attribute in _find_attributes(path):
            os.removexattr(path, attribute, follow_symlinks=False)
        self._stamps[name] = _Stamp.of(path.lstat())

    def _copy(self, name: str) -> None:
        source, target = self._pristine / name, self._folder / name
        is_unchanged = _look(source) == self._sources[name]
        stream = leavings.open_file(source)
        if stream is None:
            raise archive.change_error(name, source)
        made = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
        # a capsule carries no modes: a script can be started in any run of it
        with stream, os.fdopen(os.open(target, made, 0o777), "wb") as copy:
            # whatever the umask says
            os.fchmod(copy.fileno(), stat.S_IMODE(os.fstat(copy.fileno()).st_mode) | stat.S_IRWXU)
            shares = is_unchanged and _clone(stream.fileno(), copy.fileno())
            if not shares and of_pieces(_write(_read(stream), copy)) != self._digests[name]:
                raise archive.change_error(name, source)
            copy.flush()
            modified_ns = os.fstat(stream.fileno()).st_mtime_ns
            os.utime(copy.fileno(), ns=(modified_ns, modified_ns))

    def _await_later(self, changed_ns: int) -> None:
        """Wait until what changes from now on has a later time than what has been noted."""
        deadline = time.monotonic() + _LONGEST_STEP_SECONDS
        with tempfile.TemporaryFile(dir=self._folder.parent) as probe:
            while time.monotonic() < deadline:
                os.utime(probe.fileno())
                if os.fstat(probe.fileno()).st_ctime_ns > changed_ns:
                    break
                time.sleep(_PAUSE_SECONDS)


def _look(path: Path) -> _Stamp | None:
    with suppress(OSError):
        return _Stamp.of(path.lstat())
    return None


def _join(folder: str, name: str) -> str:
    return name if folder == _TOP else f"{folder}/{name}"


def _read(stream: BinaryIO) -> Iterator[bytes]:
    while chunk := stream.read(_CHUNK_BYTES):
        yield chunk


def _write(pieces: Iterable[bytes], copy: BinaryIO) -> Iterator[bytes]:
    for piece in pieces:
        copy.write(piece)
        yield piece


def _clone(source: int, target: int) -> bool:
    """Let a file share another one's blocks, until one of them is written; whether it does."""
    try:
        fcntl.ioctl(target, _FICLONE, source)
    except OSError:
        return False
    return True


def _find_attributes(path: Path) -> list[str]:
    """Extended attributes that a program of this user may set."""
    with suppress(OSError):
        names = os.listxattr(path, follow_symlinks=False)
        return [name for name in names if name.startswith("user.")]
    return []


@contextmanager
def _writing(folder: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise cannot_write(Path(error.filename or folder), error) from None
