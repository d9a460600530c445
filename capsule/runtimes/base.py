"""The small interface that every engine fulfils: say whether you are there, fetch, start, clean up."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from capsule.image import Image


@dataclass(frozen=True, kw_only=True)
class Mount:
    """A host path that the workload sees at `target`."""

    source: Path
    target: str
    writable: bool = False


@dataclass(frozen=True, kw_only=True)
class Invocation:
    """One process start inside an image.

    Attributes:
        command: Argument list; nothing in it is ever read by a shell.
        environment: The whole environment of the workload besides what the image sets.
        mounts: Everything of the host that it can see.
        cwd: Working folder, as the workload sees it.
        gpus: Number of devices to expose; 0 exposes none.
        network: Whether it may use the network.
        label: Marks every process and container of this run, so that a later process can find them.
        stdout: File that its standard output is appended to.
        stderr: File that its standard error is appended to.
    """

    command: tuple[str, ...]
    environment: Mapping[str, str]
    mounts: tuple[Mount, ...]
    cwd: str
    gpus: int = 0
    network: bool = False
    label: str
    stdout: Path
    stderr: Path


@dataclass(frozen=True, kw_only=True)
class Ended:
    """How a process start ended.

    Attributes:
        exit_code: 0 to 255, None when a signal ended it.
        signal: Number of the signal that ended it.
        out_of_memory: The kernel's out-of-memory killer ended it.
        engine_fault: The engine's own message when the workload never started, else None.
    """

    exit_code: int | None
    signal: int | None
    out_of_memory: bool = False
    engine_fault: str | None = None


class Running(Protocol):
    """A started process."""

    def wait(self, timeout_seconds: float) -> Ended | None:
        """Wait at most so long; None while it still runs."""

    def stop(self) -> None:
        """End it and everything it started: terminate, then kill; returns when nothing is left."""


@dataclass(frozen=True, kw_only=True)
class Prepared:
    """An image that this engine can start now.

    Attributes:
        handle: What the engine calls it: a SIF path, an image id; empty for `host`.
        observations: Facts of this copy, which prove nothing: engine version, SIF digest, image id.
    """

    handle: str
    observations: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Availability:
    """Whether an engine can be used here.

    Attributes:
        usable: It can.
        version: Its version text, None when it is missing.
        reason: Why not, and what would do; empty when it is usable.
    """

    usable: bool
    version: str | None
    reason: str = ""


class Runtime(Protocol):
    """What starts the image."""

    name: str
    contained: bool

    def available(self) -> Availability:
        """Look whether the engine can be used, without changing anything."""

    def prepare(self, image: Image | None, *, cache: Path) -> Prepared:
        """Fetch the image by digest, or find it in the cache.

        Raises:
            DamagedError: What was fetched is not what the digest names.
            CannotRunError: It cannot be had here.
        """

    def check_gpus(self, count: int, prepared: Prepared, image: Image | None) -> None:
        """Stop unless `count` devices can be exposed to this image.

        Raises:
            CannotRunError: No device, no driver, no container toolkit, or a driver older than the
                image's CUDA, with both versions named.
        """

    def inside(self, mount: Mount) -> str:
        """The path at which the workload sees a mount."""

    def start(self, prepared: Prepared, invocation: Invocation) -> Running:
        """Start it and return at once."""

    def reap(self, label: str) -> int:
        """End whatever a dead run with this label left running; returns how many were ended."""
