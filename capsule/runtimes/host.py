"""No engine at all: the workload runs on the host itself, contained by nothing."""

from __future__ import annotations

import os
import platform
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from capsule import process
from capsule.errors import CannotRunError, ProgramError
from capsule.image import Image
from capsule.process import Exit
from capsule.runtimes import programs, scratch, visible
from capsule.runtimes.base import (
    NETWORK,
    Availability,
    Ended,
    Followed,
    Invocation,
    Mount,
    NeverStarted,
    Prepared,
    Running,
    Scratch,
    Started,
    Wrapped,
    start_command,
)
from capsule.runtimes.scratch import Folders, choose

# what finds programs and libraries; everything else of the caller's environment stays outside
_KEPT = ("LD_LIBRARY_PATH", "VIRTUAL_ENV", "CONDA_PREFIX", "TMPDIR")


class Host:
    """The machine itself. Mounts are seen where they are, and their `writable` is not enforced."""

    name = "host"
    contained = False

    def __init__(self, root: Path = Path("/")) -> None:
        self._root = root

    def available(self) -> Availability:
        """Always usable; its version is the kernel's."""
        return Availability(usable=True, version=platform.release())

    def prepare(
        self,
        image: Image | None,  # noqa: ARG002
        *,
        cache: Path,  # noqa: ARG002
        keep_keyring: bool = False,  # noqa: ARG002
        own: bool = True,  # noqa: ARG002
    ) -> Prepared:
        """Do nothing: the host uses no image."""
        return Prepared(
            handle="", observations={NETWORK: "none: the host runtime has no isolation"}
        )

    def keeps(self, image: Image, *, cache: Path) -> bool:  # noqa: ARG002
        """Return False: the host starts no image."""
        return False

    def check_gpus(self, count: int, prepared: Prepared, image: Image | None) -> None:  # noqa: ARG002
        """Stop unless the machine has so many devices.

        Raises:
            CannotRunError: It has fewer, or no driver for them.
        """
        visible.require(count, None, self._root)

    def inside(self, mount: Mount) -> str:
        """Return the source of the mount."""
        return str(mount.source)

    def wrap(self, prepared: Prepared, invocation: Invocation) -> Wrapped:  # noqa: ARG002
        """Return the command itself.

        Raises:
            CannotRunError: A mount's source is not there.
        """
        missing = [mount.source for mount in invocation.mounts if not mount.source.exists()]
        if missing:
            raise CannotRunError(f"{missing[0]} does not exist")
        return Wrapped(
            command=invocation.command,
            environment=_environment(invocation, self._root),
            cwd=Path(invocation.cwd),
        )

    def start(self, prepared: Prepared, invocation: Invocation) -> Running:
        """Start the command; a program that is not there is an engine fault of the answer."""
        own: Folders | None = None
        try:
            invocation = visible.assign(invocation, self._root)
            if invocation.scratch is not None:
                own = scratch.make(invocation.label, invocation.scratch)
                invocation = _move_in(invocation, own)
            started = start_command(prepared, self.wrap(prepared, invocation), invocation)
        except CannotRunError as error:
            if own is not None:
                own.remove()
            return NeverStarted(error.what, lacks_program=isinstance(error, ProgramError))
        running = Started(started, _judge)
        if own is None or invocation.scratch is None:
            return running
        is_last, folders = invocation.scratch.is_last, own

        def follow(ended: Ended | None) -> None:
            # other processes of the same start need them after one that ended well
            if is_last or ended is None or ended.exit_code != 0:
                folders.remove()

        return Followed(running, follow)

    def limits_memory(self) -> bool:
        """Return False: nothing limits memory, so it is watched."""
        return False

    def reap(self, label: str) -> int:
        """End the processes that a dead run with this label left, and remove their folders."""
        ended = process.reap(label)
        scratch.clear(label)
        return ended

    def scratch(self, label: str) -> Iterator[Path]:
        """HOME and temporary folders of a run with this label that are on this machine."""
        return scratch.find(label)

    def clear_scratch(self, label: str) -> None:
        """Remove them."""
        scratch.clear(label)

    def find_homes(self, label: str, scratch: Scratch) -> Iterator[Path]:
        """Return possible HOMEs of a rank, which are removed after its end."""
        return (folders.home for folders in choose(label, scratch))


def _move_in(invocation: Invocation, own: Folders) -> Invocation:
    variables = {"HOME": str(own.home), "TMPDIR": str(own.temporary)}
    return replace(invocation, environment={**invocation.environment, **variables})


def _judge(process_exit: Exit) -> Ended:
    return Ended(
        exit_code=process_exit.code,
        signal=process_exit.signal,
        out_of_memory=process_exit.out_of_memory,
        memory=process_exit.memory,
    )


def _environment(invocation: Invocation, root: Path) -> dict[str, str]:
    return {
        # as the caller's own shell finds programs, wherever capsule itself is installed
        "PATH": programs.search_path(),
        **{name: os.environ[name] for name in _KEPT if name in os.environ},
        **visible.variables(invocation.devices, root),
        **invocation.environment,
        process.RUN_MARK: invocation.label,
    }
