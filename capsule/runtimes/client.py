"""One engine's command line: asked, told to remove, and left attached to a container."""

from __future__ import annotations

import os
import shutil
import tarfile
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from capsule import plain, process
from capsule.errors import CannotRunError, CapsuleError, ExecutionError
from capsule.process import Process
from capsule.runtimes.base import Invocation

_PATIENCE_SECONDS = 600.0  # an engine that unpacks, or a busy machine, takes long to answer
_REMOVAL_SECONDS = 60.0
_PREFIXES = ("Error response from daemon: ", "Error: ", "docker: ")


@dataclass(frozen=True, kw_only=True)
class Client:
    """A program that understands `create`, `start`, `inspect`, `cp` and `rm`.

    Attributes:
        program: Its name on the PATH.
        title: Its name in messages.
        removal: `rm` with what makes it end and forget a container at once.
        copying: `cp` with what makes it follow links.
        dropped: Variables of the caller that it does not get to see.
    """

    program: str
    title: str
    removal: tuple[str, ...]
    copying: tuple[str, ...]
    dropped: frozenset[str] = frozenset()

    def require(self) -> None:
        """Stop where there is no such program.

        Raises:
            CannotRunError: It is not on the PATH.
        """
        if shutil.which(self.program) is None:
            raise CannotRunError(
                f"{self.program} is not on the PATH", advice=f"install {self.title}'s client"
            )

    def ask(self, *words: str, timeout_seconds: float = _PATIENCE_SECONDS) -> bytes:
        """Run it to its end; returns what it printed.

        Raises:
            CannotRunError: It is not there, refuses, or does not come back; in its own words.
        """
        try:
            answer = process.run(
                [self.program, *words],
                env=self._environment(),
                timeout_seconds=timeout_seconds,
                limit_bytes=64 << 20,
            )
        except ExecutionError as error:
            raise CannotRunError(error.what) from None
        if answer.exit_code != 0:
            message = explain(answer.stderr.decode(errors="replace"))
            raise CannotRunError(message or f"{self.program} {words[0]} fails")
        return answer.stdout

    def try_to(self, *words: str) -> bytes | None:
        """As `ask`, and None where it refuses."""
        try:
            return self.ask(*words)
        except CannotRunError:
            return None

    def remove(self, container: str) -> None:
        """End and forget a container; one that is gone already is no fault.

        Raises:
            CannotRunError: It stays.
        """
        deadline = time.monotonic() + _REMOVAL_SECONDS
        while True:
            try:
                self.ask(*self.removal, container)
            except CannotRunError:
                # gone, or somebody else is removing it
                if self.try_to("container", "inspect", container) is None:
                    return
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.1)
            else:
                return

    def attach(self, container: str, invocation: Invocation) -> Process:
        """Start a created container; the process ends with it, and hands on what it prints.

        Raises:
            CannotRunError: The program is gone, or what the container reads.
        """
        # no bytes of what it reads are the client's own, not even those that would detach it
        reading = ("--interactive", "--detach-keys", "") if invocation.stdin is not None else ()
        return process.start(
            [self.program, "start", "--attach", *reading, container],
            env={**self._environment(), process.RUN_MARK: invocation.label},
            # where Podman's monitor leaves a note of a container that ran out of memory
            cwd=invocation.stdout.parent,
            stdin=invocation.stdin,
            stdout=invocation.stdout,
            stderr=invocation.stderr,
        )

    def has_program(self, container: str, path: str) -> bool:
        """Whether an executable file lies at a path of an ended container: one look at its head."""
        with tempfile.TemporaryDirectory(prefix="capsule-look-") as work:
            pipe = Path(work) / "head"
            os.mkfifo(pipe)
            # not waiting for whoever writes, who would wait for us
            reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
            copying: Process | None = None
            try:
                copying = process.start(
                    [self.program, *self.copying, f"{container}:{path}", "-"],
                    env=self._environment(),
                    cwd=None,
                    stdout=pipe,
                    stderr=Path(os.devnull),
                )
                os.set_blocking(reader, True)
                with (
                    open(reader, "rb", closefd=False) as stream,
                    tarfile.open(fileobj=stream, mode="r|") as archive,
                ):
                    entry = archive.next()
                return entry is not None and entry.isfile() and bool(entry.mode & 0o111)
            except (CapsuleError, tarfile.TarError, OSError):
                # nothing there, or nothing that can be looked at
                return False
            finally:
                os.close(reader)
                if copying is not None:
                    copying.stop(grace_seconds=0.0)

    def _environment(self) -> dict[str, str]:
        return {name: text for name, text in os.environ.items() if name not in self.dropped}


def explain(words: str) -> str:
    """What an engine said, without what it says before everything."""
    text = words.strip()
    for prefix in _PREFIXES:
        text = text.removeprefix(prefix)
    return plain.last_lines(text, 1000)
