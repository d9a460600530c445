"""A container that is followed: its end, how that is judged, and its removal."""

from __future__ import annotations

import posixpath
import signal
import time
from abc import ABC, abstractmethod
from contextlib import suppress

from capsule import memory, process
from capsule.errors import CapsuleError
from capsule.memory import Memory
from capsule.runtimes import descendants
from capsule.runtimes.answers import ContainerFacts
from capsule.runtimes.base import Ended, Invocation, lacks_tasks, split_status, tail_since
from capsule.runtimes.client import explain
from capsule.sizes import size

_GONE_SECONDS = 60.0
_PAUSE_SECONDS = 0.05
# what the first process of a container says of a program that it cannot start: tini in Docker,
# catatonit in Podman
_WORDS = ("[FATAL tini", "ERROR (catatonit")
_USUAL_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
# the PATH is the image's, and each folder of it costs a question
_MOST_FOLDERS = 50


class Container(ABC):
    """A container that was started, and is removed at its end."""

    title: str

    def __init__(self, name: str, invocation: Invocation, *, limits_memory: bool) -> None:
        self._name = name
        self._invocation = invocation
        self._limits_memory = limits_memory
        log = invocation.stderr
        self._before = log.stat().st_size if log.exists() else 0
        self._memory_before = memory.read()
        self._ended: Ended | None = None
        self._pid = 0
        self._fault = ""

    @abstractmethod
    def _wait_for_output(self, timeout_seconds: float) -> bool:
        """Wait at most so long for the end of its output; return whether it has come."""

    @abstractmethod
    def _inspect(self) -> ContainerFacts:
        """Ask the engine what became of it."""

    @abstractmethod
    def _end(self) -> None:
        """Have the engine send SIGTERM, and SIGKILL after `process.STOP_SECONDS`."""

    @abstractmethod
    def _abandon(self) -> None:
        """Stop following its output."""

    @abstractmethod
    def _is_program(self, path: str) -> bool:
        """Return whether an executable file lies at a path inside, now that it has ended."""

    @abstractmethod
    def _remove(self) -> None:
        """End and forget it."""

    def wait(self, timeout_seconds: float) -> Ended | None:
        """Wait at most so long; None while it still runs."""
        if self._ended is None and self._wait_for_output(timeout_seconds):
            self._ended = self._finish()
        return self._ended

    def tasks(self) -> int:
        """Return the number of threads as this machine counts them; 0 for a remote engine."""
        pid = self._find_pid()
        return descendants.count(pid) if pid else 0

    def memory_bytes(self, most: int) -> int:
        """Return the memory as this machine counts it; 0 if the engine limits it."""
        pid = 0 if self._limits_memory else self._find_pid()
        return descendants.count_memory(pid, most) if pid else 0

    def describe(self) -> str:
        """Describe the activity of its processes; empty for a remote engine."""
        pid = self._find_pid()
        return descendants.describe(pid) if pid else ""

    def _find_pid(self) -> int:
        """Return the first process of it, 0 where that cannot be told."""
        with suppress(CapsuleError):
            self._pid = self._pid or self._inspect().pid
        return self._pid

    def stop(self) -> None:
        """SIGTERM, after 5 s SIGKILL to the container, which takes everything in it along."""
        if self._ended is not None:
            return
        patience = _GONE_SECONDS
        try:
            self._end()
        except CapsuleError as error:
            self._fault, patience = error.what, process.STOP_SECONDS
        if self.wait(patience) is None:
            self._abandon()
            self._ended = self._finish()

    def _finish(self) -> Ended:
        """Judge the end, and remove the container."""
        try:
            if self._fault:
                self._remove()
                return self._lost(self._fault)
            try:
                return self._judge(self._wait_for_end())
            finally:
                self._remove()
        except CapsuleError as error:
            return self._lost(self._fault or error.what)

    def _lost(self, why: str) -> Ended:
        fault = f"{self.title} lost the container: {why}"
        return Ended(exit_code=None, signal=None, engine_fault=fault)

    def _wait_for_end(self) -> ContainerFacts:
        """Wait for the end; the output may end a moment before the engine records it."""
        deadline = time.monotonic() + process.STOP_SECONDS
        facts = self._inspect()
        while facts.running and time.monotonic() < deadline:
            time.sleep(_PAUSE_SECONDS)
            facts = self._inspect()
        return facts

    def _judge(self, facts: ContainerFacts) -> Ended:
        """Tell how it ended by what its engine and its output say."""
        output = tail_since(self._invocation.stderr, self._before)
        if not facts.begun:
            fault = explain(output) or f"{self.title} did not start the container"
            return Ended(exit_code=None, signal=None, engine_fault=fault)
        if facts.running:
            return self._lost("the container still runs, but its output has ended")
        if (missing := self._missing_program(facts, output)) is not None:
            return Ended(
                exit_code=facts.status, signal=None, engine_fault=missing, lacks_program=True
            )
        code, number = split_status(facts.status)
        now = memory.read()
        counted = number == signal.SIGKILL and now.has_killed_since(self._memory_before)
        killed = facts.status != 0 and (facts.out_of_memory or counted)
        limited = facts.status != 0 and self._invocation.pids is not None
        return Ended(
            exit_code=code,
            signal=number,
            out_of_memory=killed,
            memory=self._describe(now, killed=killed) if number == signal.SIGKILL else "",
            out_of_tasks=limited and lacks_tasks(output),
        )

    def _describe(self, now: Memory, *, killed: bool) -> str:
        most = self._invocation.memory
        if killed and most is not None and self._limits_memory:
            return (
                f"{self.title} limited the process start to the {size(most)} that --memory allows"
            )
        told = now.describe_since(self._memory_before)
        none = "" if killed else f"{self.title} reports no kill for lack of memory; "
        return f"{none}{told}"

    def _missing_program(self, facts: ContainerFacts, output: str) -> str | None:
        """Return the first process's message about a missing or invalid program.

        A program can say the same words. But one that says them is there, which the engine knows.
        """
        place = max(output.rfind(words) for words in _WORDS)
        if facts.status == 0 or place < 0 or self._has_program(facts.path or _USUAL_PATH):
            return None
        return f"cannot start {self._invocation.command[0]}: {output[place:].strip()}"

    def _has_program(self, path: str) -> bool:
        """Return whether a program lies where the command names one, or in the PATH of the
        image.
        """
        command = self._invocation.command[0]
        folders = path.split(":")[:_MOST_FOLDERS]
        places = (
            [posixpath.join(self._invocation.cwd, command)]
            if "/" in command
            else [f"{folder}/{command}" for folder in folders if folder]
        )
        return any(self._is_program(place) for place in places)
