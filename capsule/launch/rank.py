"""Starter of one rank, which a launcher runs on the rank's node.

    python -P -m capsule.launch.rank FOLDER RANK_VARIABLE SIZE_VARIABLE

It finds which rank it is in what its launcher says, and how that is started in the launch folder.
Of the launcher's variables exactly those by which ranks of MPI find each other, and Slurm's name of
the node, are handed on into the rank's environment, which is clean otherwise. It exits with 0
whatever becomes of the rank, and says so in the folder: launchers end the others each in a way of
its own, and mostly at once.
"""

from __future__ import annotations

import os
import random
import re
import signal
import socket
import sys
import types
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from capsule import memory, runtimes
from capsule.errors import CapsuleError
from capsule.launch.base import RENDEZVOUS
from capsule.launch.folder import Begin, Call, LaunchFolder
from capsule.runtimes.base import Ended, Invocation, Running
from capsule.telemetry import watched

MPI = ("PMI_", "PMIX_", "OMPI_", "PRTE_", "MPI_LOCAL", "HYDI_")
"""Prefixes of the variables by which ranks of MPI find each other."""
END = signal.SIGURG
"""Signals that also ask a wrapper to end its rank; programs without a handler ignore them."""
_HANDLES = re.compile(r"PMI_FD|HYDI_CONTROL_FD")
# by this alone a rank can tell that it is where it was to be
_NODE = "SLURMD_NODENAME"
_STOPPED = Ended(exit_code=None, signal=signal.SIGTERM)
_LOOK_SECONDS = 1.0
_PORTS = Path("/proc/sys/net/ipv4/ip_local_port_range")
_LOWEST_PORT = 10_000
_LOOPBACK = ("127.", "::1")
_ANYWHERE = "198.51.100.1"  # RFC 5737: belongs to nobody


class _Stopped(Exception):
    """Somebody wants all ranks to end."""


class _Asked:
    """Handler of the signals that ask for the end, of which the first alone raises `_Stopped`.

    A second one would leave half done what the first one ends. The handler stays, and its fields
    change: while Python replaces a handler, the next signal comes, and handlers that interrupt each
    other without end are a RecursionError.
    """

    def __init__(self) -> None:
        self.heard = False
        self._is_put_off = False

    def __call__(self, _number: int, _frame: types.FrameType | None) -> None:
        if self.heard:
            return
        self.heard = True
        if not self._is_put_off:
            raise _Stopped

    @contextmanager
    def put_off(self) -> Iterator[None]:
        """Raise only afterwards: a process that is being started is known to nobody yet."""
        self._is_put_off = True
        try:
            yield
        finally:
            self._is_put_off = False
        self.check()

    def check(self) -> None:
        """Raise `_Stopped` if anybody asked: Python drops what is raised within a `__del__`."""
        if self.heard:
            raise _Stopped


def main(folder: LaunchFolder, rank: int, size: int) -> None:
    """Start one rank, and say how it ended."""
    asked = _Asked()
    _handle(asked)
    try:
        ended = _start(folder, rank, size, asked)
        # who is asked to end when its rank just has still says how
        asked.heard = True
    except _Stopped:
        ended = _STOPPED
    folder.note_end(rank, ended)
    # Python's own handlers are gone before it is
    _handle(signal.SIG_IGN)


def node_name() -> str:
    """Return the scheduler's name of this node, else its host name."""
    return os.environ.get(_NODE) or socket.gethostname()


def mpi_variables(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the variables by which ranks of MPI find each other.

    >>> mpi_variables({"PMI_RANK": "1", "SLURM_PROCID": "1", "HOME": "/root"})
    {'PMI_RANK': '1'}
    """
    return {name: value for name, value in environ.items() if name.startswith(MPI)}


def _start(folder: LaunchFolder, rank: int, size: int, asked: _Asked) -> Ended:
    try:
        call = folder.read_call(rank)
        folder.note_begin(rank, Begin(node=node_name(), step=_step()))
        if size != call.ranks:
            raise CapsuleError(f"the launcher started {size} ranks, expected {call.ranks}")
        return _run(folder, rank, call, asked)
    except (CapsuleError, OSError) as error:
        fault = f"rank {rank} on {node_name()}: {error}"
        return Ended(exit_code=None, signal=None, engine_fault=fault)


def _run(folder: LaunchFolder, rank: int, call: Call, asked: _Asked) -> Ended:
    invocation = _complete(folder, rank, call)
    running: Running | None = None
    ended: Ended | None = None
    samplers = watched.begin([invocation])
    try:
        with asked.put_off():
            runtime = runtimes.make(call.runtime)
            running = watched.start(runtime, call.prepared, invocation, *samplers)
        ended = _wait(running, invocation, asked)
    except _Stopped:
        # before it is gone: for want of it others fail, and look like the cause
        folder.note_end(rank, _STOPPED)
        folder.note_stop(rank, running.describe() if running is not None else "")
        raise
    finally:
        if ended is None and running is not None:
            running.stop()
        watched.stop(samplers)
    return ended


def _complete(folder: LaunchFolder, rank: int, call: Call) -> Invocation:
    """Return the invocation with what only this node knows."""
    variables = dict(call.invocation.environment)
    handles: tuple[int, ...] = ()
    if name := os.environ.get(_NODE):
        variables[_NODE] = name
    if call.invocation.joins:
        own = mpi_variables(os.environ)
        handles = tuple(int(own[name]) for name in own if _HANDLES.fullmatch(name))
        variables |= own
    if call.far and RENDEZVOUS in variables:
        if rank == 0:
            folder.publish_meeting(f"tcp://{_own_address()}:{_free_port()}")
        variables[RENDEZVOUS] = folder.await_meeting()
    return replace(call.invocation, environment=variables, handles=handles)


def _wait(running: Running, invocation: Invocation, asked: _Asked) -> Ended:
    while (ended := running.wait(_LOOK_SECONDS)) is None:
        asked.check()
        if invocation.pids is not None and running.tasks() > invocation.pids:
            running.stop()
            return Ended(exit_code=None, signal=signal.SIGKILL, out_of_tasks=True)
        most = invocation.memory
        if most is not None and (used := running.memory_bytes(most)) > most:
            running.stop()
            fault = memory.describe_excess(used, most)
            return Ended(exit_code=None, signal=signal.SIGKILL, over_memory=True, memory=fault)
    return ended


def _own_address() -> str:
    """Return the address at which other nodes reach this one.

    Its own on the way to where all was started; where that is itself and says no more than that,
    its own on the way to anywhere.
    """
    places = (os.environ.get("SLURM_LAUNCH_NODE_IPADDR"), _ANYWHERE)
    addresses = [_address_towards(place) for place in places if place]
    address = next((one for one in addresses if one and not one.startswith(_LOOPBACK)), "127.0.0.1")
    return f"[{address}]" if ":" in address else address


def _address_towards(place: str) -> str | None:
    """Return this node's address on the way to another node, or None."""
    family = socket.AF_INET6 if ":" in place else socket.AF_INET
    try:
        with socket.socket(family, socket.SOCK_DGRAM) as probe:
            # nothing is sent
            probe.connect((place, 9))
            address: str = probe.getsockname()[0]
    except OSError:
        return None
    return address


def _free_port() -> int:
    """Return one that nobody listens on, and that no outgoing connection is given until rank 0
    does.
    """
    highest = int(_PORTS.read_text().split()[0]) - 1
    while True:
        port = random.randint(_LOWEST_PORT, max(highest, _LOWEST_PORT))  # noqa: S311 - no secret
        with socket.socket() as probe:
            try:
                probe.bind(("", port))
            except OSError:
                continue
            return port


def _step() -> str:
    job, step = (os.environ.get(f"SLURM_{name}", "") for name in ("JOB_ID", "STEP_ID"))
    return f"{job}.{step}" if job and step else ""


def _handle(handler: _Asked | signal.Handlers) -> None:
    # SIGHUP comes where a launcher's connection to this node is lost
    for number in (signal.SIGTERM, signal.SIGHUP, END):
        signal.signal(number, handler)


if __name__ == "__main__":
    main(
        LaunchFolder(Path(sys.argv[1])),
        *(int(os.environ[variable]) for variable in sys.argv[2:4]),
    )
