"""The small interface that every launcher fulfils: start all ranks, wait for all, end all."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Protocol, runtime_checkable

from capsule.jsons import JsonObject
from capsule.runtimes.base import Ended, Invocation, Prepared, Runtime

RENDEZVOUS = "CAPSULE_RENDEZVOUS"
"""Variable that says where the ranks of a start meet, as torch's `init_method` reads it.

Ranks of one node meet in a file of a folder that they share. For those of several nodes a launcher
puts the address of a free port of rank 0's node in its place: they need TCP among each other in any
case, while a file would need locks that hold between nodes, which not every file system has.
"""


class Launched(Protocol):
    """Ranks that were started together."""

    def wait(self, timeout_seconds: float) -> tuple[Ended, ...] | None:
        """Wait at most so long; None while a rank still runs, else how each ended, by rank."""

    def tasks(self) -> int:
        """Return the current number of processes and threads of all ranks."""

    def memory_bytes(self, most: int) -> int:
        """Return the memory that all ranks use now, see `Running.memory_bytes`."""

    def stop(self) -> None:
        """End every rank and all that they started; returns when nothing is left."""

    def stopped(self) -> Mapping[int, str]:
        """Return the ranks that still ran when all were stopped, and what each did; empty for
        unknown.
        """


class Launcher(Protocol):
    """Launcher of ranks.

    A rank that fails takes the others with it: they would wait for it in vain.
    """

    name: str

    def observations(self) -> Mapping[str, str]:
        """Return the observations about the launcher for a record; empty for capsule's own."""

    def start(
        self, runtime: Runtime, prepared: Prepared, invocations: Sequence[Invocation]
    ) -> Launched:
        """Start one process for each invocation, by rank, and return at once."""


@runtime_checkable
class Joins(Protocol):
    """A launcher whose ranks are a world of MPI's too, where the image has MPI of its family.

    Attributes:
        joins_all: True if all ranks that it starts are; else those that ask for it.
    """

    joins_all: bool

    @property
    def family(self) -> str:
        """Return the name of the launcher's own MPI.

        Raises:
            CannotRunError: There is no such launcher here.
        """


@runtime_checkable
class Surveys(Protocol):
    """A launcher that starts ranks on other nodes than this one."""

    def survey(self, *, salt: str, keep_hosts: bool, folder: Path) -> tuple[JsonObject, ...]:
        """Return the inventory of the node of each rank, by rank.

        Args:
            salt: Goes into every identity.
            keep_hosts: Keep names of hosts and serial numbers as they are.
            folder: Where all nodes see a new folder that is made for it.

        Raises:
            CannotRunError: Ranks cannot be started, or not on as many nodes as are asked for.
        """
