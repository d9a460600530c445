"""Run one command well: its own session, two log files, a deadline, and nothing left over."""

from __future__ import annotations

import errno
import os
import secrets
import select
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from capsule import leavings, memory, places, processes, segments
from capsule.errors import CannotRunError, ExecutionError, ProgramError
from capsule.sizes import size

RUN_MARK = "CAPSULE_RUN"
STOP_SECONDS = 5
"""Grace after SIGTERM before a process is killed."""

_START_MARK = "CAPSULE_START"
_T = TypeVar("_T")
_LEFTOVER_GRACE_SECONDS = 0.5
# on a machine that is busy or out of memory, a killed process takes long to go
_KILL_SECONDS = 60.0
_WAY_OUT = "check the disk or device that the process waits for, or restart the machine"
# what the kernel says of a program for good; a lack of memory or processes passes
_NO_PROGRAM = {
    *(errno.ENOENT, errno.ENOTDIR, errno.EACCES, errno.EPERM, errno.ENOEXEC, errno.ELOOP),
    *(errno.EISDIR, errno.ENAMETOOLONG, errno.EINVAL, errno.ELIBBAD),
}


@dataclass(frozen=True, kw_only=True)
class Exit:
    """End of a process.

    Attributes:
        code: 0 to 255, None when a signal ended it.
        signal: Number of the signal that ended it.
        out_of_memory: It was killed while the kernel counted an out-of-memory kill on this machine.
            On a shared node that kill may have hit a neighbour in the same seconds.
        memory: Of one that SIGKILL ended, what is known of memory before and after.
    """

    code: int | None
    signal: int | None
    out_of_memory: bool = False
    memory: str = field(default="", compare=False)


@dataclass(frozen=True, kw_only=True)
class Completed:
    """A short command's answer; exactly one of `exit_code` and `signal` is set."""

    stdout: bytes
    stderr: bytes
    exit_code: int | None
    signal: int | None


class Process:
    """A started command: the leader of a session of its own. Made by `start`."""

    def __init__(self, popen: subprocess.Popen[bytes], mark: str) -> None:
        self._popen = popen
        self._mark = f"{_START_MARK}={mark}".encode()
        self._memory_before = memory.read()
        self._exit: Exit | None = None
        self._handle = _open_handle(popen.pid)

    @property
    def pid(self) -> int:
        """Process id of the leader, which is also the id of its group and session."""
        return self._popen.pid

    def wait(self, timeout_seconds: float) -> Exit | None:
        """Wait at most so long; None while it still runs.

        What it left running in the background is ended before the answer: it would disturb
        whatever is measured next.
        """
        if self._exit is None and self._wait_for_leader(timeout_seconds):
            # the leader is still a zombie here, so its id cannot name another session yet
            self._end_members(_LEFTOVER_GRACE_SECONDS)
            self._exit = self._reap()
        return self._exit

    def stop(self, grace_seconds: float | None = None) -> Exit:
        """End it and everything it started: SIGTERM, then SIGKILL; nothing is left on return.

        Args:
            grace_seconds: Between the two, None for `STOP_SECONDS`.

        Raises:
            ExecutionError: A process outlived SIGKILL (it hangs inside the kernel).
        """
        if self._exit is None:
            self._end_members(STOP_SECONDS if grace_seconds is None else grace_seconds)
            if not _until(self._has_ended, _KILL_SECONDS):
                state = processes.describe([self.pid])
                raise ExecutionError(f"{state} does not end, even after SIGKILL", advice=_WAY_OUT)
            self._exit = self._reap()
        return self._exit

    def tasks(self) -> int:
        """Return the number of threads of the process and its descendants."""
        count = 0
        for pid in self._members():
            with suppress(OSError):
                count += processes.read_stat(pid).threads
        return count

    def describe(self) -> str:
        """Describe the activity of the process and its descendants, see `processes.describe`."""
        return processes.describe(self._members())

    def memory_bytes(self, most: int) -> int:
        """Return the memory of it and everything that it started, see `processes.count_memory`."""
        return processes.count_memory(self._members(), most)

    def _wait_for_leader(self, timeout_seconds: float) -> bool:
        if self._handle is None:
            return _until(self._has_ended, timeout_seconds)
        waiting = select.poll()
        waiting.register(self._handle, select.POLLIN)
        return bool(waiting.poll(max(0.0, 1000 * timeout_seconds)))

    def _has_ended(self) -> bool:
        # WNOWAIT: looks without reaping
        flags = os.WEXITED | os.WNOHANG | os.WNOWAIT
        return os.waitid(os.P_PID, self.pid, flags) is not None

    def _reap(self) -> Exit:
        status = self._popen.wait()
        if self._handle is not None:
            os.close(self._handle)
            self._handle = None
        code, number = (status, None) if status >= 0 else (None, -status)
        # a shell or an engine between us and the victim turns SIGKILL into 128 + 9
        killed = number == signal.SIGKILL or code == 128 + signal.SIGKILL
        if not killed:
            return Exit(code=code, signal=number)
        now = memory.read()
        return Exit(
            code=code,
            signal=number,
            out_of_memory=now.has_killed_since(self._memory_before),
            memory=now.describe_since(self._memory_before),
        )

    def _members(self) -> list[int]:
        try:
            # what it started is no older than itself, so that others cost one look each
            oldest = processes.read_stat(self.pid).started
        except OSError:
            return []

        def belongs(pid: int, stat: processes.Stat) -> bool:
            return stat.session == self.pid or self._mark in processes.read_variables(pid)

        return processes.list_living(belongs, oldest)

    def _end_members(self, grace_seconds: float) -> None:
        left = _end(self._members, grace_seconds)
        if left:
            raise ExecutionError(
                f"processes {left} do not end, even after SIGKILL", advice=_WAY_OUT
            )


def start(
    argv: Sequence[str],
    *,
    env: Mapping[str, str],
    cwd: Path | None,
    stdout: Path,
    stderr: Path,
    stdin: Path | None = None,
    kept: Sequence[int] = (),
    guard: Callable[[], None] | None = None,
) -> Process:
    """Start a command in a session of its own.

    Args:
        argv: Argument list; the program is looked up in the PATH of `env`.
        env: The whole environment, to which one variable is added that marks descendants.
        cwd: Working folder, None for the current one.
        stdout: File that standard output is appended to.
        stderr: File that standard error is appended to.
        stdin: Regular file that standard input is read from, None for an empty one.
        kept: Open descriptors that it has too, such as a lock that is to last as long as it does.
        guard: Called in a thread that then starts the command and ends: the command inherits what
            it changes of that thread, such as its keyring.

    Raises:
        ProgramError: The program does not exist, or cannot be executed.
        CannotRunError: The folder or the input does not exist or may not be used, or the machine
            can start no more processes; or the guard's own.
    """
    opened = nullcontext() if stdin is None else leavings.open_file(stdin)
    if opened is None:
        raise CannotRunError(f"cannot read {stdin} as standard input, expected a regular file")
    mark = secrets.token_hex(16)
    with opened as source, stdout.open("ab") as out, stderr.open("ab") as err:

        def spawn() -> subprocess.Popen[bytes]:
            if guard is not None:
                guard()
            return subprocess.Popen(
                list(argv),
                env={**env, _START_MARK: mark},
                cwd=cwd,
                stdin=source or subprocess.DEVNULL,
                stdout=out,
                stderr=err,
                start_new_session=True,
                pass_fds=kept,
                preexec_fn=_restore_signals if _ignored_signals() else None,  # noqa: PLW1509
            )

        with _put_off_signals() as asked:
            try:
                popen = spawn() if guard is None else in_thread(spawn)
            except (OSError, ValueError) as error:
                # ValueError: a null byte in a word or a variable
                raise _explain(error, argv[0], cwd) from None
            started = Process(popen, mark)
    try:
        for came in asked[:1]:
            signal.raise_signal(came)
    except BaseException:
        started.stop(grace_seconds=0.0)
        raise
    return started


@contextmanager
def _put_off_signals() -> Iterator[list[int]]:
    """Have handlers wait that would raise: a process that is being started is known to nobody yet.

    Yields:
        The signals that came, which are to be sent again. Other threads get none.
    """
    asked = list[int]()
    handlers: dict[int, Any] = {}
    if threading.current_thread() is threading.main_thread():
        for one in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            if callable(handler := signal.getsignal(one)):
                handlers[one] = handler
                signal.signal(one, lambda came, _: asked.append(came))
    try:
        yield asked
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)


def in_thread(work: Callable[[], _T]) -> _T:
    """Do some work in a thread of its own, of which nothing stays; returns what it returns."""
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(max_workers=1) as pool:
        return pool.submit(work).result()


def _explain(error: OSError | ValueError, program: str, cwd: Path | None) -> CannotRunError:
    what = f"cannot start {program}: {error}"
    if isinstance(error, OSError):
        # `Popen` names the folder where it could not change to it
        is_of_folder = cwd is not None and str(error.filename) == str(cwd) != program
        if is_of_folder or error.errno not in _NO_PROGRAM:
            return CannotRunError(what)
    return ProgramError(what)


def _ignored_signals() -> list[signal.Signals]:
    """Return signals that a started command would ignore as well, because this process was told to.

    nohup tells SIGHUP, and a script's `&` SIGINT: a workload must not run otherwise for it. What
    Python itself ignores, `Popen` restores.
    """
    return [
        number
        for number in signal.Signals
        if number not in (signal.SIGPIPE, signal.SIGXFSZ)
        and signal.getsignal(number) is signal.SIG_IGN
    ]


def _restore_signals() -> None:
    # between fork and exec, perhaps beside threads: nothing here takes a lock of Python's
    for number in _ignored_signals():
        signal.signal(number, signal.SIG_DFL)


def run(
    argv: Sequence[str],
    *,
    env: Mapping[str, str] | None = None,
    cwd: Path | None = None,
    timeout_seconds: float = 60.0,
    input_bytes: bytes = b"",
    limit_bytes: int = 4 << 20,
    kept: Sequence[int] = (),
    guard: Callable[[], None] | None = None,
) -> Completed:
    """Run a short command to its end and return what it said.

    Args:
        argv: Argument list.
        env: The whole environment; None hands on this process's own.
        cwd: Working folder, None for the current one.
        timeout_seconds: Past it the command and its children are ended.
        input_bytes: What it reads from standard input.
        limit_bytes: Longest answer that is taken; of standard error the last so many bytes.
        kept: As for `start`.
        guard: As for `start`.

    Raises:
        CannotRunError: It does not exist or cannot be started.
        ExecutionError: It ran past its time, said more than `limit_bytes`, or there is no place for
            what it says.

    >>> run(["printf", "ready"]).stdout
    b'ready'
    """
    with places.scratch() as folder:
        source, out, err = (folder / part for part in ("in", "out", "err"))
        source.write_bytes(input_bytes)
        process = start(
            argv,
            env=os.environ.copy() if env is None else env,
            cwd=cwd,
            stdout=out,
            stderr=err,
            stdin=source,
            kept=kept,
            guard=guard,
        )
        try:
            ended = process.wait(timeout_seconds)
        finally:
            process.stop(grace_seconds=1.0)
        if ended is None:
            what = f"{argv[0]} did not end within {timeout_seconds:g} s"
            raise ExecutionError(what, advice=f"run {argv[0]} by hand to find the cause")
        if out.stat().st_size > limit_bytes:
            what = f"{argv[0]} printed more than {size(limit_bytes)}"
            raise ExecutionError(what, advice=f"run {argv[0]} by hand to find the cause")
        with err.open("rb") as stream:
            stream.seek(max(0, err.stat().st_size - limit_bytes))
            errors = stream.read()
        return Completed(
            stdout=out.read_bytes(), stderr=errors, exit_code=ended.code, signal=ended.signal
        )


def find_marked(label: str) -> list[int]:
    """Return ids of the living processes whose environment says `CAPSULE_RUN=<label>`.

    Never this process nor one of its ancestors. Processes of other users cannot be read, and are
    not found.
    """
    mark = f"{RUN_MARK}={label}".encode()
    spared = processes.read_lineage()
    marked = processes.list_living(lambda pid, _: mark in processes.read_variables(pid))
    return [pid for pid in marked if pid not in spared]


def reap(label: str) -> int:
    """End every process that `find_marked` finds; returns how many there were.

    Raises:
        ExecutionError: One outlived SIGKILL.
    """
    pids = set(find_marked(label))

    def members() -> list[int]:
        now = find_marked(label)
        pids.update(now)
        return now

    left = _end(members, 1.0)
    if left:
        raise ExecutionError(
            f"processes {left} of the run {label} do not end, even after SIGKILL", advice=_WAY_OUT
        )
    return len(pids)


def _open_handle(pid: int) -> int | None:
    """Return a handle that can be waited for without polling; None before Linux 5.3."""
    try:
        return os.pidfd_open(pid)
    except OSError:
        return None


def _end(members: Callable[[], list[int]], grace_seconds: float) -> list[int]:
    """End all, and remove the shared memory that they leave; returns the survivors."""
    if not (pids := members()):
        return []
    mapped = segments.find(pids)
    left = _end_all(members, grace_seconds)
    segments.remove(mapped)
    return left


def _end_all(members: Callable[[], list[int]], grace_seconds: float) -> list[int]:
    """SIGTERM to all, then SIGKILL until none is left; returns the survivors."""
    _signal(members(), signal.SIGTERM)
    if _until(lambda: not members(), grace_seconds):
        return []

    def kill() -> bool:
        # again and again: a member may fork between two looks
        _signal(left := members(), signal.SIGKILL)
        return not left

    return [] if _until(kill, _KILL_SECONDS) else members()


def _signal(pids: Sequence[int], number: int) -> None:
    for pid in pids:
        try:
            os.kill(pid, number)
        except (ProcessLookupError, PermissionError):
            continue


def _until(condition: Callable[[], bool], timeout_seconds: float) -> bool:
    deadline = time.monotonic() + timeout_seconds
    pause = 0.001
    while not condition():
        left = deadline - time.monotonic()
        if left <= 0:
            return False
        time.sleep(min(pause, left))
        pause = min(2 * pause, 0.05)
    return True
