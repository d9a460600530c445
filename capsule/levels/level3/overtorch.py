"""Tensors of torch that ranks exchange by its process group: of gloo, of NCCL on GPUs."""

from __future__ import annotations

from functools import partial

import torch
import torch.distributed as dist

from ..communicators import find_operation
from .collectives import Array, Call, Native


class OverTorch:
    """See `collectives.Library`: on the CPU a tensor is the array's own memory."""

    def __init__(self, device: str) -> None:
        """Take the default process group.

        Args:
            device: `cpu` or `cuda`.
        """
        self._device = device

    def place(self, array: Array) -> Native:
        """Return a tensor on the device."""
        return torch.from_numpy(array).to(self._device)

    def put(self, array: Array, native: Native) -> None:
        """Copy it to a device of its own."""
        if self._device != "cpu":
            native.copy_(torch.from_numpy(array))

    def get(self, native: Native, array: Array) -> None:
        """Copy it from there."""
        if self._device != "cpu":
            torch.from_numpy(array).copy_(native)

    def barrier(self) -> None:
        """Wait for all ranks, and for the device."""
        dist.barrier()
        self._wait()

    def prepare(self, name: str, own: Native, obtained: Native) -> Call:
        """Return one of torch's operations."""
        if name == "all-reduce":
            return self._finish(partial(dist.all_reduce, own))
        if name == "broadcast":
            return self._finish(partial(dist.broadcast, own, 0))
        return self._finish(partial(find_operation(name), obtained, own))

    def prepare_send(self, own: Native, peer: int) -> Call:
        """Return a blocking one."""
        return self._finish(partial(dist.send, own, peer))

    def prepare_receive(self, obtained: Native, peer: int) -> Call:
        """Return a blocking one."""
        return self._finish(partial(dist.recv, obtained, peer))

    def _finish(self, call: Call) -> Call:
        """Return the call and, of a device, its end."""
        if self._device == "cpu":
            return call

        def operate() -> None:
            call()
            self._wait()

        return operate

    def _wait(self) -> None:
        if self._device != "cpu":
            torch.cuda.synchronize()
