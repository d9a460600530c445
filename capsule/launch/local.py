"""Ranks on this node: the engine starts each by itself."""

from __future__ import annotations

import signal
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor

from capsule.runtimes.base import Ended, Invocation, Prepared, Running, Runtime
from capsule.telemetry import watched

_LOOK_SECONDS = 0.005
_STOPPERS = 32
# of so many ranks it is looked what they do when they are ended
_DESCRIBED = 8


class Local:
    """Starts one process or container for each rank, with nothing between it and the engine."""

    name = "local"

    def observations(self) -> Mapping[str, str]:
        """Return no observations: nothing stands between ranks and engine."""
        return {}

    def start(
        self, runtime: Runtime, prepared: Prepared, invocations: Sequence[Invocation]
    ) -> LocalRanks:
        """Start them in the order of the ranks, or none of them."""
        running: list[Running] = []
        samplers = watched.begin(invocations)
        try:
            for invocation, sampler in zip(invocations, samplers, strict=True):
                running.append(watched.start(runtime, prepared, invocation, sampler))
        except BaseException:
            # an interrupt, while nobody else knows those that run already
            _stop(running)
            watched.stop(samplers)
            raise
        return LocalRanks(running)


class LocalRanks:
    """Ranks that run side by side on this node."""

    def __init__(self, running: Sequence[Running]) -> None:
        self._running = running
        self._ended: list[Ended | None] = [None] * len(running)
        self._stopped: Mapping[int, str] = {}

    def wait(self, timeout_seconds: float) -> tuple[Ended, ...] | None:
        """Wait at most so long; None while one still runs.

        Those that one takes with it are told as ended by SIGTERM, whatever they made of that: the
        cause is the other one's.
        """
        deadline = time.monotonic() + timeout_seconds
        while left := self._find_running():
            seconds = max(0.0, deadline - time.monotonic())
            # the last one is waited for without looking again and again
            look = seconds if len(left) == 1 else min(seconds, _LOOK_SECONDS / len(left))
            for rank in left:
                self._ended[rank] = self._running[rank].wait(look)
            if any(ended is not None and _is_failure(ended) for ended in self._ended):
                self._end_the_others()
            elif time.monotonic() >= deadline and self._find_running():
                return None
        return tuple(ended for ended in self._ended if ended is not None)

    def tasks(self) -> int:
        """Return the number of processes and threads of all ranks."""
        return sum(running.tasks() for running in self._running)

    def memory_bytes(self, most: int) -> int:
        """Return the memory of all ranks in bytes."""
        return sum(running.memory_bytes(most) for running in self._running)

    def stop(self) -> None:
        """End every rank and everything it started."""
        left = self._find_running()
        self._stopped = {
            rank: self._running[rank].describe() if place < _DESCRIBED else ""
            for place, rank in enumerate(left)
        }
        _stop(self._running)

    def stopped(self) -> Mapping[int, str]:
        """Return the ranks that still ran when all were stopped, and what the first of them did."""
        return self._stopped

    def _find_running(self) -> list[int]:
        """Return the ranks that run, as far as was seen."""
        return [rank for rank, ended in enumerate(self._ended) if ended is None]

    def _end_the_others(self) -> None:
        for rank in self._find_running():
            # one that has ended by itself by now says so
            self._ended[rank] = self._running[rank].wait(0)
        others = self._find_running()
        _stop([self._running[rank] for rank in others])
        for rank in others:
            self._ended[rank] = Ended(exit_code=None, signal=signal.SIGTERM)


def _stop(running: Sequence[Running]) -> None:
    """End all of them at once: each may take its time to go."""
    if len(running) == 1:
        running[0].stop()
    elif running:
        with ThreadPoolExecutor(min(len(running), _STOPPERS)) as pool:
            # every one is waited for, and only then what one of them raised is passed on
            for stopping in [pool.submit(one.stop) for one in running]:
                stopping.result()


def _is_failure(ended: Ended) -> bool:
    return ended.exit_code != 0 or ended.engine_fault is not None
