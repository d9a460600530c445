"""No engine at all: the workload runs on the host itself, contained by nothing."""

from __future__ import annotations

import os
import platform
from pathlib import Path

from capsule import process
from capsule.errors import CannotRunError, ProgramError
from capsule.image import Image
from capsule.process import Exit
from capsule.runtimes import gpus, programs
from capsule.runtimes.base import (
    NETWORK,
    Availability,
    Ended,
    Invocation,
    Mount,
    NeverStarted,
    Prepared,
    Running,
    Started,
    Wrapped,
    start_command,
)

# what finds programs and libraries; everything else of the caller's environment stays outside
_KEPT = ("LD_LIBRARY_PATH", "VIRTUAL_ENV", "CONDA_PREFIX", "TMPDIR")
_NO_DEVICES = {"CUDA_VISIBLE_DEVICES": "", "HIP_VISIBLE_DEVICES": ""}


class Host:
    """The machine itself. Mounts are seen where they are, and their `writable` is not enforced."""

    name = "host"
    contained = False

    def __init__(self, root: Path = Path("/")) -> None:
        self._root = root

    def available(self) -> Availability:
        """Always usable; its version is the kernel's."""
        return Availability(usable=True, version=platform.release())

    def prepare(self, image: Image | None, *, cache: Path) -> Prepared:  # noqa: ARG002
        """Nothing to fetch: an image is not used."""
        return Prepared(
            handle="", observations={NETWORK: "none: the host runtime has no isolation"}
        )

    def keeps(self, image: Image, *, cache: Path) -> bool:  # noqa: ARG002
        """It starts no image."""
        return False

    def check_gpus(self, count: int, prepared: Prepared, image: Image | None) -> None:  # noqa: ARG002
        """Stop unless the machine has so many devices.

        Raises:
            CannotRunError: It has fewer, or no driver for them.
        """
        gpus.require(count, None, self._root)

    def inside(self, mount: Mount) -> str:
        """Where the mount's source lies."""
        return str(mount.source)

    def wrap(self, prepared: Prepared, invocation: Invocation) -> Wrapped:  # noqa: ARG002
        """The command itself.

        Raises:
            CannotRunError: A mount's source is not there.
        """
        missing = [mount.source for mount in invocation.mounts if not mount.source.exists()]
        if missing:
            raise CannotRunError(f"{missing[0]} does not exist")
        return Wrapped(
            command=invocation.command,
            environment=_environment(invocation),
            cwd=Path(invocation.cwd),
        )

    def start(self, prepared: Prepared, invocation: Invocation) -> Running:
        """Start the command; a program that is not there is an engine fault of the answer."""
        try:
            started = start_command(self.wrap(prepared, invocation), invocation)
        except CannotRunError as error:
            return NeverStarted(error.what, lacks_program=isinstance(error, ProgramError))
        return Started(started, _judge)

    def reap(self, label: str) -> int:
        """End the processes that a dead run with this label left."""
        return process.reap(label)


def _judge(process_exit: Exit) -> Ended:
    return Ended(
        exit_code=process_exit.code,
        signal=process_exit.signal,
        out_of_memory=process_exit.out_of_memory,
        memory=process_exit.memory,
    )


def _environment(invocation: Invocation) -> dict[str, str]:
    devices = dict(_NO_DEVICES)
    if invocation.devices:
        names = ",".join(invocation.devices)
        devices = {"CUDA_VISIBLE_DEVICES": names, "HIP_VISIBLE_DEVICES": names}
    return {
        # as the caller's own shell finds programs, wherever capsule itself is installed
        "PATH": programs.search_path(),
        **{name: os.environ[name] for name in _KEPT if name in os.environ},
        **devices,
        **invocation.environment,
        process.RUN_MARK: invocation.label,
    }
