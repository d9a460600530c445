"""Ranks on devices of virtual time, and what goes wrong there; see `ranks_plants`.

Tensors of a device lie in the host's memory, and are exchanged in a process group of their own. As
with NCCL, an operation is only in the device's queue when its call returns, whoever waits for it
has the present stream wait, and nothing but an abort ends the wait for a rank that has left.
"""

import os
from pathlib import Path
from threading import Event as Flag
from types import SimpleNamespace
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch.utils._pytree import tree_leaves

from capsule.levels import communicators, frameworks
from capsule.levels.communicators import Communicator
from capsule.levels.frameworks.torch.training import TorchTrainer
from capsule.levels.instruments import doubles
from capsule.levels.level3.exchanges import AllReduce
from tests.support import virtual_device
from tests.support.ranks_plants import Plant, change
from tests.support.virtual_device import Event, Stream, VirtualDevice, is_placed

EXCHANGE, COMPUTE, REST = 0.25, 1.0, 0.0625
"""Seconds of the device for an operation among ranks, for a step, and for what a step computes
while a bucket is under way."""

LOST = "CUDA error: device-side assert triggered"
STEP = 5
"""The step in which a rank leaves, of those that are judged and those of an epoch."""

_METHODS = ("allreduce", "allgather", "broadcast", "reduce", "send", "recv")
_LOOK_SECONDS = 0.005


class AcceleratorError(RuntimeError):
    """Stands for PyTorch's."""


class Queued:
    """An operation in a device's queue, as torch has them."""

    def __init__(self, device: VirtualDevice, work: Any, ended: Event) -> None:
        self._device, self._work, self._ended = device, work, ended

    def wait(self, *_: Any) -> bool:
        self._work.wait()
        self._device.present.wait_event(self._ended)
        return True

    def get_future(self) -> Any:
        return self

    def add_done_callback(self, callback: Any) -> None:
        stream = Stream(self._device.clock)
        stream.wait_event(self._ended)
        with self._device.stream(stream):
            callback(self)


class Nccl:
    """The process group of the devices.

    Attributes:
        meets: True if ranks wait for each other as devices do.
    """

    def __init__(self, device: VirtualDevice, rank: int, *, meets: bool) -> None:
        self.meets = meets
        self._device, self._rank = device, rank
        self._stream = Stream(device.clock)
        self._group: Any = None
        self._groups = self._operations = 0
        self._is_aborted = Flag()

    def install(self) -> None:
        change(dist, "init_process_group", self._replace_init)
        change(communicators, "_abort", self._replace_abort)
        for name in _METHODS:
            change(dist.ProcessGroup, name, self._replace)

    def _replace_init(self, sound: Any) -> Any:
        def begin(backend: str, *, device_id: Any = None, **where: Any) -> None:
            sound("gloo", **where)
            self._group = None
            if device_id is not None:
                assert backend == "cpu:gloo,cuda:nccl"
                self._group = dist.new_group(backend="gloo")
            self._groups, self._operations = self._groups + 1, 0
            self._is_aborted.clear()

        return begin

    def _replace_abort(self, sound: Any) -> Any:
        def abort() -> None:
            self._is_aborted.set()
            sound()

        return abort

    def _replace(self, sound: Any) -> Any:
        def operate(group: Any, *arguments: Any, **how: Any) -> Any:
            leaves = tree_leaves((arguments, how))
            own = [is_placed(one) for one in leaves if isinstance(one, torch.Tensor)]
            if not any(own):
                return sound(group, *arguments, **how)
            assert all(own), "tensors of two devices in one operation"
            self._meet()
            return self._queue(sound(self._group, *arguments, **how))

        return operate

    def _queue(self, work: Any) -> Queued:
        ready, ended = (Event(self._device, enable_timing=True) for _ in range(2))
        ready.record()
        with self._device.stream(self._stream):
            self._stream.wait_event(ready)
            self._stream.launch(EXCHANGE)
            ended.record()
        return Queued(self._device, work, ended)

    def _meet(self) -> None:
        if not self.meets:
            return
        self._operations += 1
        files = [self._find_file(rank) for rank in range(int(os.environ["CAPSULE_RANKS"]))]
        files[self._rank].touch()
        while not all(one.exists() for one in files):
            if self._is_aborted.wait(_LOOK_SECONDS):
                raise RuntimeError("NCCL communicator was aborted")

    def _find_file(self, rank: int) -> Path:
        meeting = Path(os.environ["CAPSULE_RENDEZVOUS"].partition("://")[2])
        return meeting.with_name(f"{meeting.name}-{self._groups}-{self._operations}-{rank}")


def stand_in(rank: int, *, meets: bool = False, uuid: str = "") -> None:
    """Put a device in the place of torch's own, for good."""
    device = virtual_device.install(pytest.MonkeyPatch())
    torch.cuda._sleep = lambda cycles: device.present.launch(cycles / 2e9)
    properties = SimpleNamespace(uuid=uuid or f"GPU-{rank}")
    torch.cuda.get_device_properties = lambda _: properties
    # a reference on the device rounds in another way than one in the host's memory
    doubles.choose = lambda *_: doubles.keep
    Nccl(device, rank, meets=meets).install()
    framework = frameworks.load("torch", "cuda", 1, "default")
    frameworks.load = lambda *_: framework

    def compute(sound: Any) -> Any:
        def step(trainer: TorchTrainer, inputs: Any, rate: float) -> Any:
            device.present.launch(COMPUTE)
            return sound(trainer, inputs, rate)

        return step

    def go_on(sound: Any) -> Any:
        def begin(communicator: Communicator, flat: Any) -> Any:
            under_way = sound(communicator, flat)
            device.present.launch(REST)
            return under_way

        return begin

    change(TorchTrainer, "step", compute)
    change(Communicator, "begin_all_reduce", go_on)
    device.__enter__()


def _lose_calls() -> None:
    """Have calls that need the device never return."""
    wait = Flag().wait
    change(communicators, "_abort", lambda _: wait)
    change(dist, "destroy_process_group", lambda _: lambda *_: wait())


def leave(error: Exception) -> Plant:
    """Have rank 1 leave in the middle of an epoch of the first trial."""

    def plant(rank: int) -> None:
        steps = 0

        def make(sound: Any) -> Any:
            def before_step(exchange: AllReduce) -> None:
                nonlocal steps
                steps += 1
                if rank == 1 and steps == STEP:
                    if isinstance(error, AcceleratorError):
                        _lose_calls()
                    raise error
                sound(exchange)

            return before_step

        change(AllReduce, "before_step", make)

    return plant


def leave_device(error: Exception) -> Plant:
    """Have the same happen on devices."""

    def plant(rank: int) -> None:
        stand_in(rank, meets=True)
        leave(error)(rank)

    return plant


PLANTS: dict[str, Plant] = {
    "devices": stand_in,
    "one device for all": lambda rank: stand_in(rank, uuid="GPU-0"),
    "a rank loses its device": leave_device(AcceleratorError(LOST)),
    "a rank beside devices leaves": leave_device(MemoryError("planted")),
    "a rank of CPUs loses its device": leave(AcceleratorError(LOST)),
}
