"""An unpacked capsule: the same files in a folder, followed through no link."""

from __future__ import annotations

import os
import shlex
import stat
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from weakref import finalize

from capsule.archive.container import CHUNK
from capsule.archive.limits import MOST_ENTRIES
from capsule.errors import DamagedError

MAX_DEPTH = 100
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
# O_NONBLOCK: opening a named pipe must not wait for its other end
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


class Folder:
    """The regular files below a folder, each opened from its parent's descriptor.

    Args:
        path: The folder; it may itself be reached through links.

    Raises:
        DamagedError: There is a link, device, pipe or empty folder below it.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._root = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        self.close = finalize(self, os.close, self._root)
        sizes = dict(islice(self._walk(self._root, ""), MOST_ENTRIES + 1))
        if len(sizes) > MOST_ENTRIES:
            raise self._damage(f"the folder has more than {MOST_ENTRIES} files, the limit")
        self._sizes = dict(sorted(sizes.items()))

    @property
    def sizes(self) -> dict[str, int]:
        """Return every file's path and size in bytes, sorted by path."""
        return self._sizes

    def chunks(self, name: str, most: int = CHUNK) -> Iterator[bytes]:
        """Yield the bytes of a file, at most so many at a time.

        Raises:
            DamagedError: It is no longer a regular file that can be read.
        """
        try:
            file = self._open(name)
            with os.fdopen(file, "rb", buffering=0) as stream:
                while chunk := stream.read(most):
                    yield chunk
        except OSError as error:
            raise DamagedError(f"{name}: {error.strerror}", where=str(self._path)) from None

    def _walk(self, folder: int, prefix: str) -> Iterator[tuple[str, int]]:
        children = sorted(os.listdir(folder))
        if not children:
            name = str(self._path / prefix)
            raise DamagedError(
                f"{prefix or './'} is an empty folder, expected only folders with files",
                where=str(self._path),
                advice=f"remove the folder: rmdir {shlex.quote(name)}",
            )
        for child in children:
            name = prefix + child
            facts = os.stat(child, dir_fd=folder, follow_symlinks=False)
            if stat.S_ISDIR(facts.st_mode):
                if name.count("/") > MAX_DEPTH:
                    raise self._damage(
                        f"{name[:200]!r} is nested deeper than {MAX_DEPTH} folders, the limit"
                    )
                inner = os.open(child, _FOLDER, dir_fd=folder)
                try:
                    yield from self._walk(inner, f"{name}/")
                finally:
                    os.close(inner)
            elif stat.S_ISREG(facts.st_mode):
                yield name, facts.st_size
            else:
                raise self._damage(
                    f"{name!r} is a link or a special file, expected a file or a folder"
                )

    def _open(self, name: str) -> int:
        folder = os.dup(self._root)
        try:
            *parents, last = name.split("/")
            for parent in parents:
                inner = os.open(parent, _FOLDER, dir_fd=folder)
                os.close(folder)
                folder = inner
            file = os.open(last, _FILE, dir_fd=folder)
        finally:
            os.close(folder)
        if not stat.S_ISREG(os.fstat(file).st_mode):
            os.close(file)
            raise self._damage(f"{name!r} changed its type, expected a regular file")
        return file

    def _damage(self, what: str) -> DamagedError:
        return DamagedError(what, where=str(self._path))
