"""What a session of tests starts, and how everything of it is found again and ended.

All that a session writes lies in one folder, whose name is like no other. A process or container
is the session's when its `TMPDIR` lies there (what tests start inherits it, and capsule hands it on
to its engines and to workloads on the host), or when it sees files of that folder and capsule
started it. A shell that somebody opened in the folder is neither.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO

from capsule import process, processes
from tests.support.patience import PATIENCE_SECONDS

_PREFIX = "capsule-tests-"
_KEPT_FOLDERS = 3
_SOURCES = "{{range .Mounts}}{{.Source}}\n{{end}}"


@dataclass(frozen=True, kw_only=True)
class Session:
    """One session of tests; made by `begin`.

    Attributes:
        folder: Everything that it writes, readable by the ordinary user too.
        lock: Held for as long as the session lives, whatever ends it.
    """

    folder: Path
    lock: TextIO

    @property
    def temporary(self) -> Path:
        """The `TMPDIR` of the session, where the ordinary user may write too."""
        return self.folder / "tmp"

    def end(self, *, passed: bool) -> list[str]:
        """End what is left of the session; returns what that was, in words.

        The folder of a session that passed is removed.
        """
        left = _end_all(self.folder)
        if passed and not left:
            shutil.rmtree(self.folder, ignore_errors=True)
        self.lock.close()
        return left


def begin() -> Session:
    """Begin a session, after ending what dead ones left: those whose lock nobody holds."""
    with _one_at_a_time():
        stale = _clear()
        folder = Path(tempfile.mkdtemp(prefix=_PREFIX))
        folder.chmod(0o755)
        (folder / "tmp").mkdir()
        (folder / "tmp").chmod(0o1777)
        lock = (folder / "lock").open("w")
        fcntl.flock(lock, fcntl.LOCK_EX)
    # of many files, which takes minutes: other sessions need not wait for it
    for one in stale:
        shutil.rmtree(one, ignore_errors=True)
    return Session(folder=folder, lock=lock)


@contextmanager
def _one_at_a_time() -> Iterator[None]:
    """Of the sessions of one user: else one could take another for dead that is being made."""
    with Path(tempfile.gettempdir(), f".{_PREFIX}{os.getuid()}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _clear() -> list[Path]:
    """End what dead sessions left running; returns those of their folders that are not kept."""
    folders = Path(tempfile.gettempdir()).glob(f"{_PREFIX}*")
    dead = [(began, folder) for folder in folders if (began := _died(folder)) is not None]
    for _, folder in dead:
        _end_all(folder)
    return [folder for _, folder in sorted(dead, reverse=True)[_KEPT_FOLDERS:]]


def _died(folder: Path) -> float | None:
    """When a dead session began; None for a living one, and for another user's."""
    try:
        with (folder / "lock").open("r+") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return os.fstat(lock.fileno()).st_mtime
    except OSError:
        return None


def _end_all(folder: Path) -> list[str]:
    left = [*end_processes(lambda pid: _is_of(pid, folder)), *_end_containers(folder)]
    for mounted in _mounts(folder):
        subprocess.run(["umount", mounted], check=False)
        left.append(f"mount {mounted}")
    return left


def end_processes(belongs: Callable[[int], bool]) -> list[str]:
    """Kill them until none is left: a dying one may have started another.

    Args:
        belongs: Whether a process is one of them; it may raise `OSError` of one that is gone, or
            another user's. This process and its parents never are.

    Returns:
        What each of them was, in words.
    """
    own = processes.read_lineage()
    words: dict[int, str] = {}
    deadline = time.monotonic() + PATIENCE_SECONDS
    while pids := set(processes.list_living(lambda pid, _: belongs(pid))) - set(own):
        for pid in pids:
            words.setdefault(pid, f"process {pid}: {_command(pid)}")
            try:
                os.kill(pid, signal.SIGKILL)
            except (ProcessLookupError, PermissionError):
                continue
        assert time.monotonic() < deadline, f"these outlive SIGKILL: {list(words.values())}"
        time.sleep(0.02)
    return list(words.values())


def _is_of(pid: int, folder: Path) -> bool:
    """Whether it is the session's.

    Raises:
        OSError: It is gone meanwhile, or another user's.
    """
    variables = processes.read_variables(pid)
    # a session that a test began has its folder in that of the test's session
    if any(setting.startswith(f"TMPDIR={folder}/tmp".encode()) for setting in variables):
        return True
    if not any(setting.startswith(f"{process.RUN_MARK}=".encode()) for setting in variables):
        return False
    name = folder.name.encode()
    return any(name in setting for setting in variables) or name in _bound(pid)


def _bound(pid: int) -> bytes:
    """Where the files lie that a container's process sees; not what is mounted on the host."""
    lines = Path(f"/proc/{pid}/mountinfo").read_bytes().splitlines()
    return b"\n".join(line.split()[3] for line in lines)


def _command(pid: int) -> str:
    try:
        words = Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode().strip()
        return f"{words[:200]} (in {Path(f'/proc/{pid}/cwd').readlink()})"
    except OSError:
        return "(gone)"


def _end_containers(folder: Path) -> list[str]:
    if "DOCKER_HOST" not in os.environ:
        return []
    left = []
    for program in filter(shutil.which, ("docker", "podman")):
        for container in _ask(program, "ps", "--all", "--quiet", "--no-trunc").split():
            sources = _ask(program, "inspect", "--format", _SOURCES, container)
            if any(Path(source).is_relative_to(folder) for source in sources.split("\n")):
                name = _ask(
                    program, "inspect", "--format", "{{.Name}} {{.Config.Labels}}", container
                )
                left.append(f"container {name.strip()}")
                _ask(program, "rm", "--force", container)
    return left


def _ask(*command: str) -> str:
    # a container may be gone meanwhile
    return subprocess.run(
        command, capture_output=True, text=True, check=False, timeout=PATIENCE_SECONDS
    ).stdout


def _mounts(folder: Path) -> list[str]:
    lines = Path("/proc/self/mounts").read_text().splitlines()
    points = [line.split()[1] for line in lines]
    return [point for point in points if Path(point).is_relative_to(folder)]
