"""A HOME and a temporary folder of a process start's own, on a disk of its node.

    /tmp/.c1a2b3c-1f.2/h   HOME
    /tmp/.c1a2b3c-1f.2/t   TMPDIR

Their paths are short, since the path of a socket has 107 bytes at most, and DataLoader makes its
own below TMPDIR. The name says whose they are, so that whatever ends a run can remove them.
"""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from capsule import leavings, places
from capsule.errors import CannotRunError
from capsule.runtimes.base import Scratch

MAX_PATH = 40
_USUAL = (Path("/tmp"), Path("/var/tmp"))  # noqa: S108 - what is made there is this user's alone
_MARK_LETTERS = 6


@dataclass(frozen=True)
class Folders:
    """The folders of one rank of a process start.

    Attributes:
        top: What both lie in.
    """

    top: Path

    @property
    def home(self) -> Path:
        """Return the folder for HOME."""
        return self.top / "h"

    @property
    def temporary(self) -> Path:
        """Return the folder for TMPDIR."""
        return self.top / "t"

    def remove(self) -> None:
        """Remove all of it; what cannot be removed stays."""
        with suppress(OSError):
            leavings.remove(self.top)


def make(label: str, scratch: Scratch) -> Folders:
    """Make the folders, empty unless an earlier process of the same start has used them.

    What other starts of this run left on this node is removed: a launcher or a node was killed.

    Args:
        label: Label of the run.
        scratch: Scratch folder of the rank of a start.

    Raises:
        CannotRunError: They cannot be made anywhere here.
    """
    for left in find(label):
        if not left.name.startswith(f"{_prefix(label)}{scratch.start:x}."):
            Folders(left).remove()
    faults = []
    for folders in choose(label, scratch):
        try:
            if scratch.is_first and os.path.lexists(folders.top):
                leavings.remove(folders.top)
            _make_own(folders)
        except OSError as error:
            faults.append(f"{folders.top.parent}: {error.strerror}")
        else:
            return folders
    raise CannotRunError(
        f"cannot make a temporary folder for a process start: {'; '.join(faults)}",
        advice="set TMPDIR to a folder on a disk of this machine that you can write",
    )


def choose(label: str, scratch: Scratch) -> list[Folders]:
    """Return possible folders: short paths on a disk of the node, TMPDIR first."""
    name = f"{_prefix(label)}{scratch.start:x}.{scratch.rank:x}"
    chosen = [Folders(base / name) for base in dict.fromkeys((*_asked(), *_USUAL))]

    def fault(folders: Folders) -> tuple[bool, bool]:
        is_long = len(os.fsencode(folders.home)) > MAX_PATH
        return is_long, places.is_of_network(folders.top.parent)

    return sorted(chosen, key=fault)


def find(label: str) -> Iterator[Path]:
    """Yield the folders of a run's starts on this node, which are this user's own."""
    for base in dict.fromkeys((*_asked(), *_USUAL)):
        try:
            names = [name for name in os.listdir(base) if name.startswith(_prefix(label))]  # noqa: PTH208
        except OSError:
            continue
        for path in (base / name for name in names):
            with suppress(OSError):
                if path.lstat().st_uid == os.geteuid():
                    yield path


def clear(label: str) -> None:
    """Remove the folders of a run's starts on this node."""
    for path in find(label):
        Folders(path).remove()


def _prefix(label: str) -> str:
    mark = hashlib.sha256(label.encode()).hexdigest()[:_MARK_LETTERS]
    return f".c{mark}-"


def _asked() -> tuple[Path, ...]:
    """Return the folder that TMPDIR names."""
    asked = Path(os.environ.get("TMPDIR", ""))
    return (asked,) if asked.is_absolute() else ()


def _make_own(folders: Folders) -> None:
    """Make what is missing, for this user alone.

    Raises:
        OSError: Something else is in the way.
    """
    for path in (folders.top, folders.home, folders.temporary):
        with suppress(FileExistsError):
            path.mkdir(mode=stat.S_IRWXU)
        status = path.lstat()
        if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.geteuid():
            name = path.relative_to(folders.top.parent)
            fault = f"{name} is a file, a link or another user's folder"
            raise FileExistsError(0, fault, str(path))
        leavings.set_mode(path, stat.S_IRWXU)
