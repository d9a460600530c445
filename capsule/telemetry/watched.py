"""Workloads that are started together with a sampler of their devices."""

from __future__ import annotations

import os
import select
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from capsule.errors import CannotRunError
from capsule.runtimes import gpus, visible
from capsule.runtimes.base import Followed, Invocation, Prepared, Running, Runtime
from capsule.telemetry import sources
from capsule.telemetry.sampler import READY, Request

# Python starts from a cold disk, and a driver without persistence wakes up
_READY_SECONDS = 5.0
_LAST_SAMPLE_SECONDS = 2.0
_KILL_SECONDS = 1.0
_ORDER = "CUDA_DEVICE_ORDER"


def begin(invocations: Sequence[Invocation], root: Path = Path("/")) -> list[Sampler | None]:
    """Start a sampler for the devices of each workload, and wait until those of GPUs sample.

    The memory of a GPU before the workload tells whether the workload used it.

    Args:
        invocations: Workloads that will be started on this node; `telemetry` says where the
            samples go. Only the first rank of a node samples the processor packages.
        root: Root of the machine's file tree.

    Returns:
        None for a workload without anything to sample, or without a place for the samples.
    """
    requests = [_request(invocation, root) for invocation in invocations]
    samplers = list[Sampler | None]()
    try:
        for request in requests:
            samplers.append(None if request is None else Sampler(request))
        deadline = time.monotonic() + _READY_SECONDS
        for sampler in (one for one in samplers if one is not None and one.has_gpus):
            sampler.wait_until_ready(deadline - time.monotonic())
    except BaseException:
        stop(samplers)
        raise
    return samplers


def start(
    runtime: Runtime, prepared: Prepared, invocation: Invocation, sampler: Sampler | None
) -> Running:
    """Start a workload whose end also ends its sampler, if it has one."""
    if sampler is None:
        return runtime.start(prepared, invocation)
    sampler.mark("begin")
    return Followed(runtime.start(prepared, invocation), lambda _: sampler.stop())


def stop(samplers: Sequence[Sampler | None]) -> None:
    """Stop samplers, whether or not their workloads were started."""
    for sampler in filter(None, samplers):
        sampler.stop()


def _request(invocation: Invocation, root: Path) -> Request | None:
    if invocation.telemetry is None:
        return None
    names: tuple[str, ...] = ()
    devices = None
    if invocation.gpus.count:
        # the engine itself reports what is missing
        with suppress(CannotRunError):
            names = visible.assign(invocation, root).devices
            devices = gpus.find(root)
    vendor = None if devices is None else devices.vendor
    in_pci_order = os.environ.get(_ORDER, "PCI_BUS_ID") == "PCI_BUS_ID"
    if vendor == "nvidia" and not in_pci_order and any(name.isdigit() for name in names):
        # in the order of CUDA an index is that of an unknown card
        names = ()
    has_packages = not invocation.gpus.local_rank and bool(sources.find_packages(root))
    if not names and not has_packages:
        return None
    return Request(
        path=str(invocation.telemetry),
        vendor=vendor,
        names=names,
        has_packages=has_packages,
        label=invocation.label,
        ancestor=os.getpid(),
        root=str(root),
    )


class Sampler:
    """A running sampler. A sampler that fails to start, dies or hangs leaves the workload alone."""

    def __init__(self, request: Request) -> None:
        """Start the process."""
        self.has_gpus = bool(request.names)
        command = [sys.executable, "-P", "-m", "capsule.telemetry.sampler", request.to_word()]
        self._process: subprocess.Popen[bytes] | None = None
        with suppress(OSError):
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                # a signal to the terminal's group is none to it
                start_new_session=True,
                bufsize=0,
            )

    def wait_until_ready(self, timeout_seconds: float) -> None:
        """Wait for the first samples, at most so many seconds."""
        if self._process is None or self._process.stdout is None:
            return
        with self._process.stdout as stream:
            readable, _, _ = select.select([stream], [], [], max(0.0, timeout_seconds))
            if readable:
                stream.read(len(READY))

    def mark(self, word: str) -> None:
        """Send a mark with the time, after which the sampler samples at once."""
        if self._process is not None and self._process.stdin is not None:
            with suppress(OSError):
                self._process.stdin.write(f"{word} {time.monotonic()!r}\n".encode())

    def stop(self) -> None:
        """Ask for a last sample and the end, and kill a sampler that hangs."""
        self.mark("end")
        process, self._process = self._process, None
        if process is None:
            return
        with suppress(OSError):
            assert process.stdin is not None
            process.stdin.close()
        try:
            process.wait(_LAST_SAMPLE_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            # one that hangs inside the driver ends when the driver lets it
            with suppress(subprocess.TimeoutExpired):
                process.wait(_KILL_SECONDS)
