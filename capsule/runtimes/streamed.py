"""A container of Docker, whose output comes over a socket."""

from __future__ import annotations

import base64
import json
import struct
import threading
from collections.abc import Callable
from contextlib import ExitStack, closing, suppress
from pathlib import Path
from socket import SHUT_RDWR, SHUT_WR
from typing import Any, BinaryIO

from docker import APIClient
from docker.errors import NotFound

from capsule import leavings, process
from capsule.errors import CannotRunError, CapsuleError
from capsule.runtimes import answers
from capsule.runtimes.answers import ContainerFacts
from capsule.runtimes.base import Invocation
from capsule.runtimes.container import Container
from capsule.runtimes.daemon import Daemon, asked

_PIECE_BYTES = 1 << 20
_HEAD = struct.Struct(">BxxxL")  # of a frame: its stream, and how long it is
_STANDARD_ERROR = 2
# bits of a mode as Go has them: what is no regular file, and what can be executed
_NOT_REGULAR = 0x8F280000
_EXECUTABLE = 0o111


class Streamed(Container):
    """A created container: attached, started, and followed by threads.

    Raises:
        CannotRunError: The daemon does not start it, or what it reads cannot be read.
        OSError: A log cannot be written.
    """

    title = "Docker"

    def __init__(
        self,
        daemon: Daemon,
        remove: Callable[[str], None],
        name: str,
        invocation: Invocation,
        *,
        limits_memory: bool,
    ) -> None:
        super().__init__(name, invocation, limits_memory=limits_memory)
        self._daemon = daemon
        self._forget = remove
        with ExitStack() as opened:
            source = _open_input(invocation.stdin)
            if source is not None:
                opened.enter_context(source)
            outputs = [
                opened.enter_context(path.open("ab", 0))
                for path in (invocation.stdout, invocation.stderr)
            ]
            # before the start, so that no byte is printed to nobody, nor behind the answer's head
            self._stream = opened.enter_context(closing(_attach(daemon.api, name, source)))
            # a TLS socket is one already
            self._socket = getattr(self._stream, "_sock", self._stream)
            # its life ends a read, and no request's time limit
            self._socket.settimeout(None)
            opened.pop_all()
        self._follower = threading.Thread(target=self._follow, args=(outputs,), daemon=True)
        self._follower.start()
        if source is not None:
            threading.Thread(target=self._feed, args=(source,), daemon=True).start()
        try:
            with asked():
                daemon.api.start(name)
        except BaseException:
            self._abandon()
            raise

    def _wait_for_output(self, timeout_seconds: float) -> bool:
        self._follower.join(max(0.0, timeout_seconds))
        return not self._follower.is_alive()

    def _inspect(self) -> ContainerFacts:
        with asked():
            return answers.read_container(self._daemon.api.inspect_container(self._name))

    def _end(self) -> None:
        self._daemon.require_life()
        with asked():
            self._daemon.api.stop(self._name, timeout=process.STOP_SECONDS)

    def _abandon(self) -> None:
        # which wakes who reads
        with suppress(OSError):
            self._socket.shutdown(SHUT_RDWR)
        self._follower.join()

    def _is_program(self, path: str) -> bool:
        with suppress(CapsuleError), asked():
            mode = find_mode(self._daemon, self._name, path)
            return mode is not None and not mode & _NOT_REGULAR and bool(mode & _EXECUTABLE)
        return False

    def _remove(self) -> None:
        self._forget(self._name)

    def _follow(self, outputs: list[BinaryIO]) -> None:
        try:
            self._copy(outputs)
        except (CapsuleError, OSError) as error:
            why = error.what if isinstance(error, CapsuleError) else error.strerror or str(error)
            self._fault = f"cannot read the output: {why}"
        finally:
            # a TLS socket is closed with the answer that it belongs to
            answer = getattr(self._socket, "_response", self._socket)
            for stream in (*outputs, self._stream, self._socket, answer):
                stream.close()

    def _copy(self, outputs: list[BinaryIO]) -> None:
        """Write each stream to its file as it comes."""
        head, left, target = b"", 0, outputs[0]
        while data := self._receive():
            view = memoryview(data)
            while view:
                if left:
                    written = target.write(view[:left])
                    left -= written
                    view = view[written:]
                    continue
                missing = _HEAD.size - len(head)
                head += view[:missing]
                view = view[missing:]
                if len(head) == _HEAD.size:
                    stream, left = _HEAD.unpack(head)
                    head, target = b"", outputs[stream == _STANDARD_ERROR]
        if head or left:
            missing = left or _HEAD.size - len(head)
            raise CannotRunError(
                f"Docker's daemon closed the connection {missing} bytes before the end of a message"
            )

    def _receive(self) -> bytes:
        self._daemon.wait_for_bytes(self._socket)
        data: bytes = self._socket.recv(_PIECE_BYTES)
        return data

    def _feed(self, source: BinaryIO) -> None:
        # a program that does not read it ends all the same
        with source, suppress(OSError):
            while piece := source.read(_PIECE_BYTES):
                self._socket.sendall(piece)
            self._socket.shutdown(SHUT_WR)


def _open_input(path: Path | None) -> BinaryIO | None:
    if path is None:
        return None
    source = leavings.open_file(path)
    if source is None:
        raise CannotRunError(
            f"cannot read {path} as standard input, expected a readable regular file"
        )
    return source


def _attach(api: APIClient, name: str, source: BinaryIO | None) -> Any:
    # without the keys of the user's settings, by which bytes of an input would detach
    wanted = {"stdin": int(source is not None), "detachKeys": ""}
    with asked():
        return api.attach_socket(name, {"stream": 1, "stdout": 1, "stderr": 1, **wanted})


def find_mode(daemon: Daemon, container: str, path: str) -> int | None:
    """Return the mode of a file in a container that does not run, None where there is none.

    Raises:
        Exception: One of those that `asked` translates.
    """
    for _ in range(2):
        try:
            with daemon.fetch(f"/containers/{container}/archive", head=True, path=path) as answer:
                facts = json.loads(base64.b64decode(answer.headers["X-Docker-Container-Path-Stat"]))
        except NotFound:
            return None
        if not facts["linkTarget"]:
            return int(facts["mode"])
        # where all of its links lead
        path = facts["linkTarget"]
    return None
