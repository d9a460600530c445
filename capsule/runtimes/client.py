"""Podman's command line: asked, told to remove, and left attached to a container."""

from __future__ import annotations

import os
import shutil
import tarfile
import tempfile
import time
from pathlib import Path

from capsule import plain, process
from capsule.errors import CannotRunError, CapsuleError, ExecutionError
from capsule.process import Process
from capsule.runtimes.base import Invocation

_PROGRAM = "podman"
_PATIENCE_SECONDS = 600.0  # an engine that unpacks, or a busy machine, takes long to answer
_REMOVAL_SECONDS = 60.0
# else it waits ten seconds for each that does not end by itself
_REMOVAL = ("rm", "--force", "--volumes", "--time", "0")


def require() -> None:
    """Stop where there is no such program.

    Raises:
        CannotRunError: It is not on the PATH.
    """
    if shutil.which(_PROGRAM) is None:
        raise CannotRunError(f"{_PROGRAM} is not on the PATH", advice="install Podman")


def ask(*words: str, timeout_seconds: float = _PATIENCE_SECONDS) -> bytes:
    """Run it to its end; returns what it printed.

    Raises:
        CannotRunError: It is not there, refuses, or does not come back; in its own words.
    """
    try:
        answer = process.run(
            [_PROGRAM, *words], timeout_seconds=timeout_seconds, limit_bytes=64 << 20
        )
    except ExecutionError as error:
        raise CannotRunError(error.what) from None
    if answer.exit_code != 0:
        message = explain(answer.stderr.decode(errors="replace"))
        raise CannotRunError(message or f"{_PROGRAM} {words[0]} failed")
    return answer.stdout


def try_to(*words: str) -> bytes | None:
    """Run the command as `ask` does, but return None if it fails."""
    try:
        return ask(*words)
    except CannotRunError:
        return None


def remove(container: str) -> None:
    """End and forget a container; one that is gone already is no fault.

    Raises:
        CannotRunError: It stays.
    """
    deadline = time.monotonic() + _REMOVAL_SECONDS
    while True:
        try:
            ask(*_REMOVAL, container)
        except CannotRunError:
            # gone, or somebody else is removing it
            if try_to("container", "inspect", container) is None:
                return
            if time.monotonic() > deadline:
                raise
            time.sleep(0.1)
        else:
            return


def attach(container: str, invocation: Invocation) -> Process:
    """Start a created container; the process ends with it, and hands on what it prints.

    Raises:
        CannotRunError: The program is gone, or what the container reads.
    """
    # no bytes of what it reads are the client's own, not even those that would detach it
    reading = ("--interactive", "--detach-keys", "") if invocation.stdin is not None else ()
    return process.start(
        [_PROGRAM, "start", "--attach", *reading, container],
        env={**os.environ, process.RUN_MARK: invocation.label},
        # where Podman's monitor leaves a note of a container that ran out of memory
        cwd=invocation.stdout.parent,
        stdin=invocation.stdin,
        stdout=invocation.stdout,
        stderr=invocation.stderr,
    )


def is_program(container: str, path: str) -> bool:
    """Return whether an executable file lies in an ended container: one look at its head."""
    with tempfile.TemporaryDirectory(prefix="capsule-look-") as work:
        pipe = Path(work) / "head"
        os.mkfifo(pipe)
        # not waiting for whoever writes, who would wait for us
        reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
        copying: Process | None = None
        try:
            copying = process.start(
                [_PROGRAM, "cp", f"{container}:{path}", "-"],
                env=os.environ,
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


def explain(words: str) -> str:
    """Return what Podman said, without what it says before everything."""
    return plain.last_lines(words.strip().removeprefix("Error: "), 1000)
