"""Ranks that one program starts on their nodes, each by `capsule.launch.rank`."""

from __future__ import annotations

import signal
import sys
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace

from capsule import plain, process
from capsule.errors import CannotRunError, ExecutionError
from capsule.launch.folder import Call, LaunchFolder, is_failure
from capsule.process import Process
from capsule.runtimes.base import Ended, Invocation, Prepared, Runtime, Wraps, tail_since

_LOOK_SECONDS = 0.02
_STOP_SECONDS = 20.0
# a launcher that is well ends at once when its last rank has
_SILENCE_SECONDS = 10.0
_COUNT_SECONDS = 1.0
# for what a launcher leaves on other nodes: while ranks may run there, and once all have ended
_SWEEP_SECONDS = (60.0, 2.0)
_TAIL_LETTERS = 600
_SILENT = "the rank's node did not answer"
_ENDED = Ended(exit_code=None, signal=signal.SIGTERM)
_KILLED = Ended(exit_code=None, signal=signal.SIGKILL)


def lay_out(
    runtime: Runtime,
    prepared: Prepared,
    invocations: Sequence[Invocation],
    *,
    far: bool,
    joins: bool,
) -> LaunchFolder:
    """Write how each rank is started, beside the logs of the first one.

    Args:
        runtime: The engine.
        prepared: The image.
        invocations: By rank.
        far: True if they are on several nodes.
        joins: True if MPI joins them.

    Raises:
        CannotRunError: The engine starts containers by a service of one machine.
    """
    if not isinstance(runtime, Wraps):
        raise CannotRunError(
            f"a launcher cannot start ranks in {runtime.name}, which starts containers through a"
            " service of each machine",
            advice="use --runtime apptainer, or remove the launcher from the site file and run on"
            " one node",
        )
    folder = LaunchFolder.create(invocations[0].stdout.with_name("launch"))
    for rank, invocation in enumerate(invocations):
        call = Call(
            runtime=runtime.name,
            ranks=len(invocations),
            prepared=prepared,
            invocation=replace(invocation, joins=joins),
            far=far,
        )
        folder.write_call(rank, call)
    return folder


def wrapper(folder: LaunchFolder, rank: str, size: str) -> tuple[str, ...]:
    """Return the command that the launcher starts once for each rank.

    Args:
        folder: Where each finds how it is started.
        rank: Name of the variable in which the launcher tells each which it is.
        size: Name of the one in which it tells how many there are.
    """
    return (sys.executable, "-P", "-m", "capsule.launch.rank", str(folder.path), rank, size)


class StartedRanks:
    """Ranks that a launcher started.

    Args:
        launcher: Its process, which ends when all ranks have ended.
        folder: Where they say how they are.
        ranks: World size.
        label: Marks the processes of their run.
        terminate: Asks all of them to end; whether there were any that could be asked.
        sweep: Ends what the launcher leaves on other nodes where it had to be killed, within so
            many seconds, or raises an ExecutionError.
    """

    def __init__(
        self,
        launcher: Process,
        folder: LaunchFolder,
        ranks: int,
        label: str,
        terminate: Callable[[LaunchFolder], bool],
        sweep: Callable[[float], None] = lambda _: None,
    ) -> None:
        self._launcher = launcher
        self._folder = folder
        self._ranks = ranks
        self._label = label
        self._terminate = terminate
        self._sweep = sweep
        self._ended: tuple[Ended, ...] | None = None
        # by what each rank's own node is told, with time to say how it ended
        self._is_asked = False
        self._is_stopped = False
        # since when every rank has reported its end, and the launcher runs on
        self._silent_since: float | None = None
        self._look_at = 0.0

    def wait(self, timeout_seconds: float) -> tuple[Ended, ...] | None:
        """Wait at most so long; None while one still runs.

        Those that one takes with it are told as ended by SIGTERM, as the local launcher tells them.
        A launcher that stays silent once every rank has reported its end is stopped: what started
        the ranks on another node may be dead, and their own results count.
        """
        deadline = time.monotonic() + timeout_seconds
        while self._ended is None:
            seconds = max(0.0, deadline - time.monotonic())
            if self._launcher.wait(min(seconds, _LOOK_SECONDS)) is not None:
                self._ended = self._judge(self._folder.ends())
            elif self._folder.find_failure():
                before = self._folder.ends()
                self.stop()
                self._ended = self._judge(before)
            elif self._is_silent():
                self._end_launcher()
                self._ended = self._judge(self._folder.ends())
            elif time.monotonic() >= deadline:
                return None
        return self._ended

    def _is_silent(self) -> bool:
        """Return whether every rank has reported its end some seconds ago."""
        now = time.monotonic()
        if self._silent_since is None and now >= self._look_at:
            # of thousands of ranks it is a long list, on a network disk
            self._look_at = now + _COUNT_SECONDS
            if self._folder.count_ends() == self._ranks:
                self._silent_since = now
        return self._silent_since is not None and now - self._silent_since >= _SILENCE_SECONDS

    def _end_launcher(self) -> None:
        """End the launcher, and what it leaves on other nodes.

        Raises:
            ExecutionError: Something of it does not end, and a rank may still run.
        """
        self._launcher.stop()
        # once all ranks have ended, what is left is a name that nobody may be left to take away
        is_over = self._folder.count_ends() == self._ranks
        try:
            self._sweep(_SWEEP_SECONDS[is_over])
        except ExecutionError:
            if not is_over:
                raise
        process.reap(self._label)

    def tasks(self) -> int:
        """Return 0: each node enforces the limit of its own rank."""
        return 0

    def memory_bytes(self, most: int) -> int:  # noqa: ARG002 - the protocol's
        """Return 0: each node enforces the limit of its own rank."""
        return 0

    def stop(self) -> None:
        """End every rank, on whatever node; what does not go by itself is killed."""
        self._is_stopped = True
        if self._launcher.wait(0) is None and self._terminate(self._folder):
            self._is_asked = True
            self._launcher.wait(_STOP_SECONDS)
        self._end_launcher()

    def stopped(self) -> Mapping[int, str]:
        """Return the ranks that were asked to end while they ran, and those that never answered."""
        begun, ended = self._folder.begins(), self._folder.ends()
        silent = {rank: _SILENT for rank in begun if rank not in ended}
        return {**silent, **self._folder.stops()} if self._is_stopped else {}

    def _judge(self, seen: Mapping[int, Ended]) -> tuple[Ended, ...]:
        """Judge the end of each rank.

        Args:
            seen: Those that had ended before the others were, or all.
        """
        late, begun = self._folder.ends(), self._folder.begins()
        if any(map(is_failure, seen.values())):
            return self._judge_failure(seen, late, begun)
        ended = []
        for rank in range(self._ranks):
            if rank in late:
                ended.append(late[rank])
            elif rank in begun:
                # nobody is left to say what became of it: its node went, or all of it was killed;
                # where it was this process that had all of it killed, the rank is not to blame
                ended.append(_ENDED if self._is_stopped else _KILLED)
            else:
                fault = f"rank {rank} never started: {self._words()}"
                ended.append(Ended(exit_code=None, signal=None, engine_fault=fault))
        return tuple(ended)

    def _judge_failure(
        self, seen: Mapping[int, Ended], late: Mapping[int, Ended], begun: Collection[int]
    ) -> tuple[Ended, ...]:
        """Judge the ends of ranks if one rank took the others with it.

        One that goes with its node or its job is the cause: others fail for want of it, and are
        seen first.
        """
        lost = set(begun).difference(late) if self._is_asked else set()
        is_lost = bool(lost) or any(one.signal == signal.SIGTERM for one in seen.values())
        ended = []
        for rank in range(self._ranks):
            if rank in lost:
                ended.append(_KILLED)
            elif rank in seen and not (is_lost and seen[rank].exit_code):
                ended.append(seen[rank])
            else:
                ended.append(late[rank] if self._ended_well(late.get(rank)) else _ENDED)
        return tuple(ended)

    def _ended_well(self, ended: Ended | None) -> bool:
        return ended is not None and not is_failure(ended)

    def _words(self) -> str:
        """Return the last output of the launcher."""
        words = plain.last_lines(tail_since(self._folder.stderr, 0).strip(), _TAIL_LETTERS)
        return words or "the launcher ended without output"
