"""See, before the first trial, that ranks which start together are the world that was planned.

A launcher's exit code proves nothing: ranks that do not meet go on alone without a word, and their
numbers look as any others do. So one rank is started first, then all: each says who it is, and an
array of 8 MiB is added up over all of them, to which each rank adds numbers of its own.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from capsule import leavings, plain
from capsule.errors import CannotRunError, ExecutionError
from capsule.launch import diagnosis, libraries, rendezvous, worldreports
from capsule.launch.base import Joins, Launched, Launcher
from capsule.launch.faults import Fault
from capsule.launch.worldreports import Report
from capsule.runtimes.base import Ended, Invocation, Prepared, Runtime, tail_since

PATIENCE_SECONDS = 180.0
"""Longest silence of all ranks in seconds: importing torch from a cold disk takes a minute."""

_LOOK_SECONDS = 0.05
_LOOK_SECONDS_PER_RANK = 0.001
_SAID = 500


@dataclass(frozen=True, kw_only=True)
class Request:
    """The world that is to be.

    Attributes:
        invocations: How to start the program of `capsule.levels.preflight`, by rank; what its
            environment says of a rank is what the rank has to say.
        reports: What each appends to.
        nodes: Index of the node that each is to run on.
    """

    invocations: tuple[Invocation, ...]
    reports: tuple[Path, ...]
    nodes: tuple[int, ...]


@dataclass(frozen=True, kw_only=True)
class Reached:
    """A world of pre-flight's program in which every rank has reached all others.

    Attributes:
        hosts: Name of the machine of each rank.
        means: How they reached each other: `gloo`, `sockets`, and `mpi` after one of these.
        bytes: That each rank added up with the others.
        seconds: From the start to the end of all ranks.
    """

    hosts: tuple[str, ...]
    means: tuple[str, ...]
    bytes: int
    seconds: float


def probe(
    launcher: Launcher,
    runtime: Runtime,
    prepared: Prepared,
    request: Request,
    patience_seconds: float = PATIENCE_SECONDS,
) -> str | None:
    """Start one rank by the engine alone, with no launcher between.

    Args:
        launcher: What is to start all of them.
        runtime: The engine.
        prepared: The image.
        request: Request of the one rank, with the nodes of all.
        patience_seconds: How long it may take.

    Returns:
        Why the image cannot say anything of a world, None where it can: a program of ranks need not
        be in Python.

    Raises:
        CannotRunError: It would look for the others where none can come, or it says of an MPI that
            the launcher's ranks could never be a world of it.
    """
    (invocation,) = request.invocations
    running = runtime.start(prepared, invocation)
    try:
        ended = running.wait(patience_seconds)
    finally:
        running.stop()
    (report,) = _read(request)
    if report.arrived:
        family = launcher.family if isinstance(launcher, Joins) else ""
        are_apart = len(set(request.nodes)) > 1
        fault = rendezvous.find_change(report, invocation, are_apart=are_apart)
        fault = fault or libraries.find_stranger(report, family, launcher.name, prepared.libraries)
        if fault:
            raise CannotRunError(fault.what, where="pre-flight", advice=fault.advice)
        return None
    return "no end of it" if ended is None else _words(ended, invocation)


def check(
    launcher: Launcher,
    runtime: Runtime,
    prepared: Prepared,
    request: Request,
    patience_seconds: float = PATIENCE_SECONDS,
) -> Reached:
    """Start all ranks and hold what they say to the request; nothing of them is left running.

    Raises:
        CannotRunError: It can be no world, which is seen before a rank is started.
        ExecutionError: It is another world, or none; the message says what most likely is at fault.
    """
    if fault := rendezvous.find_obstacle(request.invocations, request.nodes):
        raise CannotRunError(fault.what, where="pre-flight", advice=fault.advice)
    seconds, ended = _run(launcher, runtime, prepared, request, patience_seconds)
    reports = _read(request)
    words = [_words(end, one) for end, one in zip(ended, request.invocations, strict=True)]
    if any(report.message for report in reports):
        # it took the others with it, some before they were there
        _refuse(diagnosis.find_dropout(reports, words, launcher.name))
    if missing := [rank for rank, report in enumerate(reports) if not report.arrived]:
        # of those that ended because another one had, none is the cause
        causes = [rank for rank in missing if not _is_taken_along(ended[rank])] or missing
        fault = diagnosis.explain_absence(causes, words[causes[0]])
        if len(missing) == len(reports) and all(one.engine_fault for one in ended):
            raise CannotRunError(fault.what, where="pre-flight", advice=fault.advice)
        _refuse(fault)
    _refuse(diagnosis.find_dropout(reports, words, launcher.name))
    return Reached(
        hosts=tuple(report.node for report in reports),
        means=tuple(one.means for one in reports[0].sums),
        bytes=reports[0].sums[0].bytes,
        seconds=seconds,
    )


def _run(
    launcher: Launcher,
    runtime: Runtime,
    prepared: Prepared,
    request: Request,
    patience_seconds: float,
) -> tuple[float, tuple[Ended, ...]]:
    """Start all ranks, and wait for their end, or for the first wrong word of one.

    Raises:
        ExecutionError: A rank said something wrong, or none says anything for too long.
    """
    began = time.monotonic()
    launched = launcher.start(runtime, prepared, request.invocations)
    try:
        ended = _follow(launched, request, launcher.name, patience_seconds)
    finally:
        launched.stop()
    return time.monotonic() - began, ended


def _follow(
    launched: Launched, request: Request, launcher: str, patience_seconds: float
) -> tuple[Ended, ...]:
    look_seconds = max(_LOOK_SECONDS, _LOOK_SECONDS_PER_RANK * len(request.invocations))
    since, sizes = time.monotonic(), 0
    while True:
        ended = launched.wait(look_seconds)
        size = sum(map(leavings.size_bytes, request.reports))
        if size != sizes:
            since, sizes = time.monotonic(), size
            reports = _read(request)
            _refuse(diagnosis.find_fault(reports, request.invocations, request.nodes, launcher))
        if ended is not None:
            return ended
        if time.monotonic() - since > patience_seconds:
            _refuse(diagnosis.explain_silence(_read(request), launcher, patience_seconds))


def _refuse(fault: Fault | None) -> None:
    if fault is not None:
        raise ExecutionError(fault.what, where="pre-flight", advice=fault.advice)


def _read(request: Request) -> Sequence[Report]:
    return [worldreports.read(path) for path in request.reports]


def _is_taken_along(ended: Ended) -> bool:
    """Return whether it ended because another one had."""
    return ended.engine_fault is None and ended.signal is not None


def _words(ended: Ended, invocation: Invocation) -> str:
    """Return the last output of a rank that has ended."""
    text = ended.engine_fault or tail_since(invocation.stderr, 0).strip()
    if not text and ended.exit_code:
        text = f"exit code {ended.exit_code}"
    return plain.last_lines(text, _SAID)
