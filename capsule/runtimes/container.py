"""A container that an attached client follows: its output, its end, and its removal."""

from __future__ import annotations

import posixpath
import signal
import time
from contextlib import suppress

from capsule import memory
from capsule.errors import CapsuleError
from capsule.memory import Memory
from capsule.runtimes import answers, descendants
from capsule.runtimes.answers import ContainerFacts
from capsule.runtimes.base import Ended, Invocation, lacks_tasks, split_status, tail_since
from capsule.runtimes.client import Client, explain
from capsule.sizes import size

_STOP_SECONDS = 5
_GONE_SECONDS = 60.0
_PAUSE_SECONDS = 0.05
# what the first process of a container says of a program that it cannot start: tini in Docker,
# catatonit in Podman
_WORDS = ("[FATAL tini", "ERROR (catatonit")
_USUAL_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
# the PATH is the image's, and each folder of it costs a question
_MOST_FOLDERS = 50


class Container:
    """A created container, started on the spot and removed at its end.

    Raises:
        CannotRunError: The engine's program is gone.
    """

    def __init__(
        self, client: Client, name: str, invocation: Invocation, *, limits_memory: bool
    ) -> None:
        self._client = client
        self._name = name
        self._invocation = invocation
        self._limits_memory = limits_memory
        log = invocation.stderr
        self._before = log.stat().st_size if log.exists() else 0
        self._memory_before = memory.read()
        self._ended: Ended | None = None
        self._pid = 0
        self._attached = client.attach(name, invocation)

    def wait(self, timeout_seconds: float) -> Ended | None:
        """Wait at most so long; None while it still runs."""
        if self._ended is None and self._attached.wait(timeout_seconds) is not None:
            self._ended = self._finish()
        return self._ended

    def tasks(self) -> int:
        """Its threads, as this machine counts them; 0 where the engine is on another one."""
        pid = self._find_pid()
        return descendants.count(pid) if pid else 0

    def memory_bytes(self, most: int) -> int:
        """Its memory, likewise; 0 where the engine limits it."""
        pid = 0 if self._limits_memory else self._find_pid()
        return descendants.count_memory(pid, most) if pid else 0

    def describe(self) -> str:
        """What its processes do, likewise; empty where the engine is on another machine."""
        pid = self._find_pid()
        return descendants.describe(pid) if pid else ""

    def _find_pid(self) -> int:
        """The first process of it, 0 where that cannot be told."""
        with suppress(CapsuleError):
            self._pid = self._pid or self._inspect().pid
        return self._pid

    def stop(self) -> None:
        """SIGTERM, after 5 s SIGKILL to the container, which takes everything in it along."""
        if self._ended is not None:
            return
        with suppress(CapsuleError):
            # a stop before the start would be no stop at all
            while not self._inspect().begun and self._attached.wait(_PAUSE_SECONDS) is None:
                pass
            self._client.try_to("stop", "--time", str(_STOP_SECONDS), self._name)
        if self.wait(_GONE_SECONDS) is None:
            self._attached.stop()
            self._ended = self._finish()

    def _inspect(self) -> ContainerFacts:
        return answers.read_container(self._client.ask("container", "inspect", self._name))

    def _finish(self) -> Ended:
        """Judge the end, and remove the container."""
        try:
            try:
                return self._judge(self._wait_for_end())
            finally:
                self._client.remove(self._name)
        except CapsuleError as error:
            fault = f"{self._client.title} lost the container: {error.what}"
            return Ended(exit_code=None, signal=None, engine_fault=fault)

    def _wait_for_end(self) -> ContainerFacts:
        """What became of it; the client may be a moment ahead of the engine's books."""
        deadline = time.monotonic() + _STOP_SECONDS
        facts = self._inspect()
        while facts.running and time.monotonic() < deadline:
            time.sleep(_PAUSE_SECONDS)
            facts = self._inspect()
        return facts

    def _judge(self, facts: ContainerFacts) -> Ended:
        output = tail_since(self._invocation.stderr, self._before)
        if not facts.begun:
            fault = explain(output) or f"{self._client.title} did not start the container"
            return Ended(exit_code=None, signal=None, engine_fault=fault)
        if facts.running:
            fault = f"{self._client.title} lost the container: it runs, and its output is lost"
            return Ended(exit_code=None, signal=None, engine_fault=fault)
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
            return f"{self._client.title} held it to the {size(most)} that --memory allows"
        told = now.describe_since(self._memory_before)
        none = "" if killed else f"{self._client.title} tells of no kill for want of memory; "
        return f"{none}{told}"

    def _missing_program(self, facts: ContainerFacts, output: str) -> str | None:
        """What the first process said of a program that is not there, or is none.

        A program can say the same words. But one that says them is there, which the engine knows.
        """
        place = max(output.rfind(words) for words in _WORDS)
        if facts.status == 0 or place < 0 or self._has_program(facts.path or _USUAL_PATH):
            return None
        return f"cannot start {self._invocation.command[0]}: {output[place:].strip()}"

    def _has_program(self, path: str) -> bool:
        """Whether a program lies where the command names one, or in the PATH of the image."""
        command = self._invocation.command[0]
        folders = path.split(":")[:_MOST_FOLDERS]
        places = (
            [posixpath.join(self._invocation.cwd, command)]
            if "/" in command
            else [f"{folder}/{command}" for folder in folders if folder]
        )
        return any(self._client.has_program(self._name, place) for place in places)
