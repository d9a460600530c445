"""A command in a forked process, struck just before its N-th call that changes something."""

from __future__ import annotations

import errno
import io
import os
import signal
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from types import FrameType

from capsule import cli, verbs
from tests.support.command import User

Strike = Callable[[], None]

# what changes a file system, locks a file or starts a process: these functions, these methods of
# a file that is open for writing, and each open for writing, of which an audit hook learns
_MODULES = ("posix", "fcntl", "_posixsubprocess")
_FUNCTIONS = frozenset(
    {"mkdir", "rename", "replace", "link", "unlink", "remove", "rmdir", "chmod", "fchmod"}
    | {"truncate", "ftruncate", "fsync", "sendfile", "flock", "fork_exec"}
)
_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT
_METHODS = frozenset({"write", "truncate", "flush", "close", "__exit__"})

# imported once, before the forks
for _module in ("api", "console", "report", "verdict"):
    import_module(f"capsule.{_module}")
for _verb in ("run", "verify", "pair"):
    verbs.load(_verb)


@dataclass(frozen=True, kw_only=True)
class Ending:
    """How a command ended.

    Attributes:
        status: Exit status, negative for a signal.
        calls: The calls it made that change something, by name; none where it was killed.
        output: What it said.
    """

    status: int
    calls: tuple[str, ...]
    output: str


def kill() -> None:
    """End this process as kill -9 does."""
    os.kill(os.getpid(), signal.SIGKILL)


def fill_disk() -> None:
    """Have the call fail as on a full disk."""
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def perform(user: User, words: Sequence[str | Path], at: int = 0, strike: Strike = kill) -> Ending:
    """Run a command of capsule's to its end, or to its call number `at`, counted from 1."""
    tally = user.home / "calls"
    tally.unlink(missing_ok=True)
    pid = os.fork()
    if pid == 0:
        try:
            _act(user, list(map(str, words)), tally, at, strike)
        finally:
            os._exit(99)
    _, status = os.waitpid(pid, 0)
    return Ending(
        status=os.waitstatus_to_exitcode(status),
        calls=tuple(tally.read_text().split()) if tally.exists() else (),
        output=user.talk.read_text(errors="replace"),
    )


def _act(user: User, words: list[str], tally: Path, at: int, strike: Strike) -> None:
    """What the forked process does; it never returns."""
    os.chdir(user.folder)
    os.environ.clear()
    os.environ.update(user.environment())
    nothing = os.open(os.devnull, os.O_RDONLY)
    talk = os.open(user.talk, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
    for source, target in ((nothing, 0), (talk, 1), (talk, 2)):
        os.dup2(source, target)
    counter = _Counter(at, strike)
    # a Python that answers at once, for the author's commands and for our own program
    sys.executable = str(user.home / "bin" / "python3")
    os.environ["PATH"] = os.pathsep.join((str(user.home / "bin"), os.defpath))
    sys.addaudithook(counter.audit)
    sys.setprofile(counter.profile)
    status: object = 0
    try:
        status = cli.main(words)
    except SystemExit as end:
        status = end.code
    finally:
        counter.rest()
    tally.write_text(" ".join(counter.calls))
    sys.stdout.flush()
    os._exit(status if isinstance(status, int) else 1)


class _Counter:
    """Counts, and strikes once."""

    def __init__(self, at: int, strike: Strike) -> None:
        self.calls: list[str] = []
        self._at = at
        self._strike = strike
        self._rests = False

    def audit(self, event: str, arguments: tuple[object, ...]) -> None:
        if event != "open" or arguments[0] == os.devnull:
            return
        if isinstance(flags := arguments[2], int) and flags & _WRITING:
            self._count("open")

    def profile(self, frame: FrameType, event: str, function: object) -> None:
        if event == "c_call" and _changes(function):
            self._count(getattr(function, "__name__", ""))

    def rest(self) -> None:
        sys.setprofile(None)
        self._rests = True

    def _count(self, name: str) -> None:
        if self._rests:
            return
        self.calls.append(name)
        if len(self.calls) == self._at:
            self._strike()


def _changes(function: object) -> bool:
    name = getattr(function, "__name__", "")
    if name in _FUNCTIONS and getattr(function, "__module__", "") in _MODULES:
        return True
    owner = getattr(function, "__self__", None)
    return (
        name in _METHODS
        and isinstance(owner, io.IOBase)
        and not owner.closed
        and owner.writable()
        and not isinstance(owner, io.BytesIO | io.StringIO)
    )
