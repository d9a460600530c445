"""The small interface that every engine fulfils: are you there, fetch, start, clean up."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol, runtime_checkable

from capsule import leavings, process
from capsule.digest import Digest
from capsule.image import Image
from capsule.process import Exit, Process
from capsule.runtimes import keyring
from capsule.runtimes.keyring import Keyring

NETWORK = "network_isolation"
GPUS = "gpus.json"
"""Name of the file, beside a rank's standard output, that says which GPUs and CPUs it got."""
_TAIL_BYTES = 1 << 16
_STANDARD_SIGNALS = range(1, 32)
# what the C library, and Python, say of a fork or thread that was refused
_EXHAUSTED = ("Resource temporarily unavailable", "can't start new thread")


@dataclass(frozen=True, kw_only=True)
class Mount:
    """A host path that the workload sees at `target`."""

    source: Path
    target: str
    writable: bool = False


@dataclass(frozen=True, kw_only=True)
class Scratch:
    """HOME and temporary folder of a process whose engine provides none.

    Attributes:
        start: Number of the process start, from 1.
        rank: Its rank there.
        is_first: True if it finds them empty; else as an earlier process of this start left them.
        is_last: True if they are removed when it has ended; they are in any case if it failed.
    """

    start: int
    rank: int = 0
    is_first: bool = True
    is_last: bool = True


@dataclass(frozen=True, kw_only=True)
class GpuShare:
    """The GPUs that one rank wants among those of its node.

    Attributes:
        count: Devices of each rank; 0 if the rank gets none.
        local_rank: Number of the rank on its node, from 0.
        local_ranks: Ranks on the node.
        threads: Threads of each rank, and so the fewest CPUs that a rank is bound to.
    """

    count: int = 0
    local_rank: int = 0
    local_ranks: int = 1
    threads: int = 1


@dataclass(frozen=True, kw_only=True)
class Invocation:
    """One process start inside an image.

    Attributes:
        command: Argument list; nothing in it is ever read by a shell.
        environment: The whole environment of the workload besides what the image sets.
        mounts: Everything of the host that it can see.
        cwd: Working folder, as the workload sees it.
        gpus: The GPUs that it wants. Which ones they are is decided on its node.
        devices: Names of the devices to expose, as `visible.assign` chose them; none exposes none.
        cpus: CPUs near these devices, to which it is bound; empty for the CPUs of this process.
        network: True if it may use the network.
        label: Marks every process and container of this run, so that a later process can find them.
        pids: Processes and threads that it may have, None for as many as it likes; an engine that
            cannot hold it to that leaves it to whoever watches `Running.tasks`.
        memory: Bytes of memory that it may use, None for as much as there is; an engine that cannot
            hold it to that leaves it to whoever watches `Running.memory_bytes`.
        stdin: File on this machine that it reads as its standard input, None for nothing.
        stdout: File that its standard output is appended to.
        stderr: File that its standard error is appended to.
        telemetry: File for samples of its devices, see `capsule.telemetry`; None for no samples.
        joins: True if MPI is to join it with other ranks, which it then reaches by process id and
            shared memory where they are on its node.
        handles: File descriptors of this process that it inherits under their numbers.
        scratch: Its own HOME and temporary folder where nothing is contained; None for HOME as the
            environment has it, and the temporary folder of this process.
    """

    command: tuple[str, ...]
    environment: Mapping[str, str]
    mounts: tuple[Mount, ...]
    cwd: str
    gpus: GpuShare = GpuShare()
    devices: tuple[str, ...] = ()
    cpus: tuple[int, ...] = ()
    network: bool = False
    label: str
    pids: int | None = None
    memory: int | None = None
    stdin: Path | None = None
    stdout: Path
    stderr: Path
    telemetry: Path | None = None
    joins: bool = False
    handles: tuple[int, ...] = ()
    scratch: Scratch | None = None


@dataclass(frozen=True, kw_only=True)
class Ended:
    """End of a process start.

    Attributes:
        exit_code: 0 to 255, None when a signal ended it.
        signal: Number of the signal that ended it.
        out_of_memory: The kernel's out-of-memory killer ended it.
        memory: Of one that SIGKILL ended, what is known of memory before and after.
        out_of_tasks: It failed and said that it could start no more processes or threads, which its
            limit explains.
        over_memory: Whoever watched it ended it, for it used more memory than it may; `memory` says
            how much.
        engine_fault: The engine's own message when the workload never started, else None.
        lacks_program: The command's program is why: it is missing or cannot be executed, so that
            no second start can help.
    """

    exit_code: int | None
    signal: int | None
    out_of_memory: bool = False
    memory: str = field(default="", compare=False)
    out_of_tasks: bool = False
    over_memory: bool = False
    engine_fault: str | None = None
    lacks_program: bool = False


@dataclass(frozen=True, kw_only=True)
class Wrapped:
    """A command on the host that enters the image and runs an invocation there.

    Attributes:
        command: Argument list.
        environment: The whole environment of the command.
        cwd: Working folder of the command.
    """

    command: tuple[str, ...]
    environment: Mapping[str, str]
    cwd: Path


class Running(Protocol):
    """A started process."""

    def wait(self, timeout_seconds: float) -> Ended | None:
        """Wait at most so long; None while it still runs."""

    def tasks(self) -> int:
        """Return the current number of processes and threads; 0 if unknown."""

    def memory_bytes(self, most: int) -> int:
        """Return the memory that its processes use now, as exactly as tells whether it is beyond
        `most`.

        0 where that cannot be told, or where the engine holds it to its limit.
        """

    def describe(self) -> str:
        """Describe the activity of its processes, see `processes.describe`; empty if unknown."""

    def stop(self) -> None:
        """End it and everything it started: terminate, then kill; returns when nothing is left."""


@dataclass(frozen=True, kw_only=True)
class Library:
    """A library of this machine's own that programs in containers load.

    Attributes:
        path: Where they see it.
        name: By which they ask for it: its SONAME.
        place: Whose part of the machine it is of.
        digest: Digest of the file.
    """

    path: str
    name: str
    place: str
    digest: Digest


@dataclass(frozen=True, kw_only=True)
class Prepared:
    """An image that this engine can start now.

    Attributes:
        handle: What the engine calls it: a SIF path, an image id; empty for `host`.
        observations: Facts of this copy, which prove nothing: engine version, SIF digest, image id.
        open_network: Why the engine cannot keep workloads off the network here, None where it can.
        hashing_seconds: What it took to know that its copy is the one that was made here, 0 where
            the engine keeps its copies itself.
        python: What starts our own program there.
        programs: Where each of this machine's own programs lies that runs without a container, by
            name; sealed nowhere.
        tree: Digest of the image's root file system, None where it was not taken.
        binds: What of this machine every container is shown besides, as its site file says.
        libraries: Of these the machine's own MPI, and after it what that needs; none for the
            image's.
        keyring: Where calls about the user's keys are refused to workloads. Docker and Podman
            see to that by themselves.
    """

    handle: str
    observations: Mapping[str, str] = field(default_factory=dict)
    open_network: str | None = None
    hashing_seconds: float = 0.0
    python: str = "python3"
    programs: Mapping[str, str] = field(default_factory=dict)
    tree: Digest | None = None
    binds: tuple[Mount, ...] = ()
    libraries: tuple[Library, ...] = ()
    keyring: Keyring = "kept"


@dataclass(frozen=True, kw_only=True)
class Availability:
    """Usability of an engine on this machine.

    Attributes:
        usable: It can.
        version: Its version text, None when it is missing.
        reason: Why not, and what would do; empty when it is usable.
    """

    usable: bool
    version: str | None
    reason: str = ""


class Runtime(Protocol):
    """Engine that starts the image."""

    name: str
    contained: bool

    def available(self) -> Availability:
        """Look whether the engine can be used, without changing anything."""

    def prepare(
        self, image: Image | None, *, cache: Path, keep_keyring: bool = False, own: bool = True
    ) -> Prepared:
        """Fetch the image by digest, or find it in the cache.

        Args:
            image: None without one.
            cache: Folder of images that are kept.
            keep_keyring: True if workloads may reach the user's keys.
            own: True if the code is this user's; an untrusted image is no help in keeping
                its workload from anything.

        Raises:
            DamagedError: What was fetched is not what the digest names.
            CannotRunError: It cannot be had here.
        """

    def keeps(self, image: Image, *, cache: Path) -> bool:
        """Return whether `prepare` would most likely find the image here: a look that hashes
        nothing.
        """

    def check_gpus(self, count: int, prepared: Prepared, image: Image | None) -> None:
        """Stop unless `count` devices can be exposed to this image.

        Raises:
            CannotRunError: No device, no driver, no container toolkit, or a driver older than the
                image's CUDA, with both versions named.
        """

    def inside(self, mount: Mount) -> str:
        """Return the path at which the workload sees a mount."""

    def start(self, prepared: Prepared, invocation: Invocation) -> Running:
        """Start it and return at once."""

    def reap(self, label: str) -> int:
        """End whatever a dead run with this label left running; returns how many were ended."""

    def limits_memory(self) -> bool:
        """Return whether the kernel holds what it starts to a limit of memory, which needs no
        watching.

        Raises:
            CannotRunError: The engine cannot be asked.
        """


@runtime_checkable
class Wraps(Protocol):
    """An engine whose start is a command on the host, so that a launcher can start it, too."""

    def wrap(self, prepared: Prepared, invocation: Invocation) -> Wrapped:
        """Return the command that would start the invocation.

        Raises:
            CannotRunError: The engine is gone, or something that it needs.
        """


@runtime_checkable
class KeepsImages(Protocol):
    """An engine that keeps images under names of its own, and hands them out.

    Attributes:
        title: Its name in messages.
    """

    title: str

    def identify(self, name: str) -> Digest:
        """Return what the engine calls an image.

        Raises:
            CannotRunError: The engine is not here, or has no image of this name.
        """

    def save(self, name: str, target: Path) -> None:
        """Write an archive as of `docker save` of an image.

        Raises:
            CannotRunError: The engine is not here, or cannot.
        """


@runtime_checkable
class KeepsScratch(Protocol):
    """An engine whose processes have their HOME and temporary folders on this machine itself."""

    def scratch(self, label: str) -> Iterable[Path]:
        """Return the existing scratch folders of a run with this label."""

    def clear_scratch(self, label: str) -> None:
        """Remove them."""

    def find_homes(self, label: str, scratch: Scratch) -> Iterable[Path]:
        """Return possible HOMEs of a rank, which are removed after its end."""


@runtime_checkable
class Rehearses(Protocol):
    """An engine that can try, without any image, whether it starts a container here."""

    def rehearse(self) -> str | None:
        """Start one of this machine's own files; why it has a network, None where it has none.

        Raises:
            CannotRunError: No container can be started here.
        """


class Started:
    """A process that `capsule.process` looks after, as a `Running`."""

    def __init__(self, process: Process, judge: Callable[[Exit], Ended]) -> None:
        self._process = process
        self._judge = judge

    def wait(self, timeout_seconds: float) -> Ended | None:
        """Wait at most so long; None while it still runs."""
        process_exit = self._process.wait(timeout_seconds)
        return None if process_exit is None else self._judge(process_exit)

    def tasks(self) -> int:
        """Return the number of tasks of its session, including those that left it."""
        return self._process.tasks()

    def memory_bytes(self, most: int) -> int:
        """Return the memory of the same processes in bytes."""
        return self._process.memory_bytes(most)

    def describe(self) -> str:
        """Describe the activity of the same processes."""
        return self._process.describe()

    def stop(self) -> None:
        """End it and everything it started."""
        self._process.stop()


class Followed:
    """A started process, and the work that follows its end.

    Args:
        running: The process.
        follow: Called with the end that `wait` returns, and with None after `stop`.
    """

    def __init__(self, running: Running, follow: Callable[[Ended | None], None]) -> None:
        self._running = running
        self._follow = follow

    def wait(self, timeout_seconds: float) -> Ended | None:
        """Wait at most so long; None while it still runs."""
        ended = self._running.wait(timeout_seconds)
        if ended is not None:
            self._follow(ended)
        return ended

    def tasks(self) -> int:
        """Return the number of tasks of the process."""
        return self._running.tasks()

    def memory_bytes(self, most: int) -> int:
        """Return the memory of the process in bytes."""
        return self._running.memory_bytes(most)

    def describe(self) -> str:
        """Describe the activity of the process."""
        return self._running.describe()

    def stop(self) -> None:
        """End it and everything it started, then do the work."""
        try:
            self._running.stop()
        finally:
            self._follow(None)


def start_command(prepared: Prepared, wrapped: Wrapped, invocation: Invocation) -> Process:
    """Start the command of an invocation on this node.

    Raises:
        CannotRunError: The program is not there, or what it reads.
    """
    return process.start(
        wrapped.command,
        env=wrapped.environment,
        cwd=wrapped.cwd,
        stdin=invocation.stdin,
        stdout=invocation.stdout,
        stderr=invocation.stderr,
        kept=invocation.handles,
        guard=_guard(prepared.keyring, invocation.cpus),
    )


def _guard(kind: Keyring, cpus: tuple[int, ...]) -> Callable[[], None] | None:
    isolate = keyring.guard(kind)
    if not cpus:
        return isolate

    def prepare() -> None:
        # of the thread that starts the command and ends
        os.sched_setaffinity(0, cpus)
        if isolate is not None:
            isolate()

    return prepare


class NeverStarted:
    """A start that failed, as a `Running` that is over already."""

    def __init__(self, fault: str, *, lacks_program: bool = False) -> None:
        self._ended = Ended(
            exit_code=None, signal=None, engine_fault=fault, lacks_program=lacks_program
        )

    def wait(self, timeout_seconds: float) -> Ended | None:  # noqa: ARG002 - the protocol's
        """Return why it never started."""
        return self._ended

    def tasks(self) -> int:
        """Return 0: no process runs."""
        return 0

    def memory_bytes(self, most: int) -> int:  # noqa: ARG002
        """Return 0: no process runs."""
        return 0

    def describe(self) -> str:
        """Return an empty text: no process runs."""
        return ""

    def stop(self) -> None:
        """Do nothing: no process is left."""


def split_status(status: int) -> tuple[int | None, int | None]:
    """Exit code and signal from the status that a container's first process ends with.

    Engines tell a death by signal N as the exit status 128 + N. A program that itself exits with
    such a number is therefore told as killed by that signal, under every engine but `host`.
    Beyond the standard signals it is the program that does: real-time ones hardly ever kill.

    >>> split_status(1), split_status(137), split_status(171)
    ((1, None), (None, 9), (171, None))
    """
    number = status - 128
    return (None, number) if number in _STANDARD_SIGNALS else (status, None)


def tail_since(path: Path, offset_bytes: int) -> str:
    """Return the text appended to a log since a length, at most its last 64 KiB."""
    stream = leavings.open_file(path)
    if stream is None:
        return ""
    with stream:
        stream.seek(max(offset_bytes, stream.seek(0, os.SEEK_END) - _TAIL_BYTES))
        return stream.read(_TAIL_BYTES).decode(errors="replace")


def lacks_tasks(output: str) -> bool:
    """Return whether a program said that it could start no more processes or threads."""
    return any(words in output for words in _EXHAUSTED)
