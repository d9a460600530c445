"""Run the command in a fork of a process that has imported it, for a tenth of a start's cost.

One server a process of tests: an interpreter that has imported the host's modules and run nothing,
with one thread. Each command is a child of it that gets arguments, folder, environment and streams
from the caller, and ends as an interpreter does.
"""

from __future__ import annotations

import atexit
import gc
import importlib
import json
import os
import re
import resource
import runpy
import select
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple, TypedDict

ROOT = Path(__file__).parents[2]
_SIZE = struct.Struct("!q")
_END = struct.Struct("!qq")
_PID = struct.Struct("!q")
# what interpreters and libraries read when they start, and never again
_READ_ONCE = re.compile("PYTHON|LC_|LANG|LD_|MALLOC|GLIBC|OMP_|OPENBLAS|MKL|NPY_|TZ$")
# what most commands import inside functions; libraries that read the environment are not here
_LATE = (
    *("concurrent.futures", "ctypes", "difflib", "ipaddress", "jsonschema_rs", "platform", "re2"),
    *("rich.console", "rich.progress", "rich.table", "rich.text", "zstandard"),
)


class _Request(TypedDict):
    arguments: list[str]
    folder: str
    environment: dict[str, str]
    first: str | None


class Ended(NamedTuple):
    """How a command ended.

    Attributes:
        status: Exit status, negative for a signal.
        peak_kib: Its memory at most, what it has of the server included; its children's where one
            took more.
    """

    status: int
    peak_kib: int


class Server:
    """Starts one command at a time."""

    def __init__(self) -> None:
        self._control, theirs = socket.socketpair()
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, __file__, str(theirs.fileno())],
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
            )
        self._lock = threading.Lock()
        self._given = (_read_once(os.environ), _inherited())

    @contextmanager
    def take(self, environment: Mapping[str, str]) -> Iterator[bool]:
        """Take the server for one command.

        Yields:
            False where another thread has it, or where an interpreter would start otherwise than
            the server did: with other limits, another umask, other ignored signals, or other values
            of variables that are read once.
        """
        is_alike = self._given == (_read_once(environment), _inherited())
        if not is_alike or not self._lock.acquire(blocking=False):
            yield False
            return
        try:
            yield True
        finally:
            self._lock.release()

    def start(
        self,
        arguments: Sequence[str | Path],
        *,
        folder: Path,
        environment: Mapping[str, str],
        out: int,
        err: int,
        first: Path | None = None,
    ) -> int:
        """Start the command, by whoever has taken the server; returns its process id.

        Args:
            arguments: Of the command.
            folder: Its current folder.
            environment: The whole of it.
            out: Descriptor of its standard output.
            err: Descriptor of its standard error.
            first: A Python program that is executed before.
        """
        request = _Request(
            arguments=[str(argument) for argument in arguments],
            folder=str(folder),
            environment=dict(environment),
            first=None if first is None else str(first),
        )
        text = json.dumps(request).encode()
        socket.send_fds(self._control, [_SIZE.pack(len(text))], [out, err])
        self._control.sendall(text)
        (pid,) = _PID.unpack(_receive(self._control, _PID.size))
        assert isinstance(pid, int)
        return pid

    def wait(self, seconds: float) -> Ended | None:
        """Wait for its end at most so long; None where it still runs."""
        if not select.select([self._control], [], [], max(0.0, seconds))[0]:
            return None
        return Ended(*_END.unpack(_receive(self._control, _END.size)))

    def stop(self) -> None:
        """End the server, and a command that still runs."""
        self._control.close()
        self._process.wait()


_servers: list[Server] = []
_real_starts = [os.environ.get("CAPSULE_TEST_START") == "process"]


@contextmanager
def take(environment: Mapping[str, str]) -> Iterator[Server | None]:
    """Take the server of this process for one command, None where the command is to be started."""
    if _real_starts[-1]:
        yield None
        return
    if not _servers:
        _servers.append(Server())
    with _servers[0].take(environment) as is_taken:
        yield _servers[0] if is_taken else None


@contextmanager
def real_starts(is_due: bool) -> Iterator[None]:
    """Have commands be started and not forked, where that is due."""
    _real_starts.append(_real_starts[-1] or is_due)
    try:
        yield
    finally:
        _real_starts.pop()


@atexit.register
def stop() -> None:
    """End the server of this process, where there is one."""
    while _servers:
        _servers.pop().stop()


def _read_once(environment: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in environment.items() if _READ_ONCE.match(name)}


def _inherited() -> tuple[object, ...]:
    """What a process has of its parent, beside environment, folder and streams."""
    limits = [getattr(resource, name) for name in dir(resource) if name.startswith("RLIMIT_")]
    status = Path("/proc/self/status").read_text().splitlines()
    kept = [line for line in status if line.startswith(("Umask", "SigBlk", "SigIgn"))]
    return (*map(resource.getrlimit, limits), *kept, os.sched_getaffinity(0), os.nice(0))


def _receive(control: socket.socket, size: int) -> bytes:
    received = b""
    while len(received) < size:
        if not (part := control.recv(size - len(received))):
            raise EOFError("the other end of the fork server is gone")
        received += part
    return received


def _serve(control: socket.socket) -> _Request:
    """Fork for each request; returns in each child, and exits once the tests are gone."""
    while True:
        head, descriptors, _, _ = socket.recv_fds(control, _SIZE.size, 2)
        if not head:
            sys.exit()
        request: _Request = json.loads(_receive(control, *_SIZE.unpack(head)))
        if not (pid := os.fork()):
            for standard, descriptor in enumerate(descriptors, start=1):
                os.dup2(descriptor, standard)
                os.close(descriptor)
            control.close()
            return request
        for descriptor in descriptors:
            os.close(descriptor)
        control.sendall(_PID.pack(pid))
        _follow(control, pid)


def _follow(control: socket.socket, pid: int) -> None:
    """Wait for a child and tell how it ended; kill it once the tests are gone."""
    handle = os.pidfd_open(pid)
    waiting = select.poll()
    waiting.register(handle, select.POLLIN)
    waiting.register(control, 0)
    is_gone = handle not in dict(waiting.poll())
    if is_gone:
        os.kill(pid, signal.SIGKILL)
    os.close(handle)
    _, status, usage = os.wait4(pid, 0)
    if is_gone:
        sys.exit()
    control.sendall(_END.pack(os.waitstatus_to_exitcode(status), usage.ru_maxrss))


def _import_host() -> None:
    """Import what runs on the host; the rest of `levels` runs inside images."""
    package = ROOT / "capsule"
    for path in sorted(package.rglob("*.py")):
        parts = path.relative_to(ROOT).with_suffix("").parts
        if path.name != "__main__.py" and parts[1] != "levels":
            importlib.import_module(".".join(parts).removesuffix(".__init__"))
    for name in _LATE:
        importlib.import_module(name)


def _become(request: _Request) -> None:
    """Have this process be the one that the request asks for."""
    os.chdir(request["folder"])
    os.environ.clear()
    os.environ.update(request["environment"])
    # `python -m` puts the current folder first, which was the folder of this file
    sys.path[0] = str(Path.cwd())
    sys.argv[1:] = request["arguments"]
    tempfile.tempdir = None
    if request["first"] is not None:
        runpy.run_path(request["first"])


def _main(descriptor: int) -> None:
    folder = sys.path.pop(0)
    _import_host()
    sys.path.insert(0, folder)
    gc.freeze()
    with socket.socket(fileno=descriptor) as control:
        request = _serve(control)
    _become(request)


if __name__ == "__main__":
    _main(int(sys.argv[1]))
    runpy.run_module("capsule", run_name="__main__", alter_sys=True)
