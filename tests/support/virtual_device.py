"""A CUDA device of virtual time: tensors in host memory, streams and waits by a clock of tests.

Nothing sleeps and nothing reads a real clock. `VirtualDevice` stands for `torch.cuda`: a copy to
the device takes `copy_seconds` on the present stream, and a read of a value waits for that stream.
`Pool` stands for the threads that gather minibatches.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import pytest
import torch

# which the first optimizer would import while a device stands in
import torch._dynamo
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_leaves

from capsule.levels import level2
from capsule.levels.frameworks.torch import transfer
from capsule.levels.level2 import ahead, feeding

READS = ("cpu", "item", "tolist", "__bool__", "__float__", "__int__", "__index__", "nonzero")
"""Methods of tensors that wait for the device."""


class Clock:
    """Seconds of the host."""

    def __init__(self) -> None:
        self.now = 0.0

    def read(self) -> float:
        return self.now

    def spend(self, seconds: float) -> None:
        self.now += seconds

    def reach(self, time: float) -> None:
        self.now = max(self.now, time)


class Stream:
    """Operations that the device runs one after the other.

    Attributes:
        ends: When all of them are done.
        count: How many were called.
        seen: How many of another stream's have to be done before those that come now.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.ends = 0.0
        self.count = 0
        self.seen: dict[Stream, int] = {}

    def launch(self, seconds: float) -> None:
        self.ends = max(self.ends, self._clock.now) + seconds
        self.count += 1

    def wait_event(self, event: Event) -> None:
        assert event.stream is not None, "no event was recorded"
        self.ends = max(self.ends, event.time)
        self.seen[event.stream] = max(self.seen.get(event.stream, 0), event.count)


class Event:
    """A place in a stream."""

    def __init__(self, device: VirtualDevice, *, enable_timing: bool) -> None:
        self._device, self._times = device, enable_timing
        self.stream: Stream | None = None
        self.time, self.count = 0.0, 0

    def record(self) -> None:
        # a stream that is idle reaches it at once
        self.stream = self._device.present
        self.time = max(self.stream.ends, self._device.clock.now)
        self.count = self.stream.count

    def query(self) -> bool:
        return self._device.clock.now >= self.time

    def synchronize(self) -> None:
        self._device.clock.reach(self.time)

    def elapsed_time(self, other: Event) -> float:
        assert self._times, "an event without a time"
        assert self.query() and other.query(), "an event that is not reached yet"
        return 1e3 * (other.time - self.time)


@dataclass(eq=False)
class Place:
    """Where a tensor of the device was made, and which streams its memory is kept for."""

    stream: Stream
    count: int
    kept_for: set[Stream] = field(default_factory=set)


class VirtualDevice(TorchFunctionMode):
    """Replace torch's CUDA, as a context.

    Attributes:
        log: Each wait of the host by the name of what waited, and whatever tests add.
        races: Functions that read what another stream may not have written yet.
        lent: Tensors that another stream has read.
    """

    def __init__(self, copy_seconds: float = 0.0) -> None:
        super().__init__()
        self.clock = Clock()
        self.copy_seconds = copy_seconds
        self.main = self.present = Stream(self.clock)
        self.log: list[str] = []
        self.races: list[str] = []
        self.lent: dict[Place, Stream] = {}

    @property
    def unkept(self) -> int:
        """How many tensors another stream has read whose memory was not kept for it."""
        return sum(stream not in place.kept_for for place, stream in self.lent.items())

    def wait(self, name: str) -> None:
        self.log.append(name)
        self.clock.reach(self.present.ends)

    def synchronize(self, device: Any = None) -> None:
        self.wait("synchronize")

    @contextmanager
    def stream(self, chosen: Stream) -> Iterator[None]:
        before, self.present = self.present, chosen
        try:
            yield
        finally:
            self.present = before

    def __torch_function__(
        self, function: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        kwargs, name = dict(kwargs or {}), function.__name__
        given = [one for one in tree_leaves((args, kwargs)) if is_placed(one)]
        if name == "to" and any(map(is_cuda, (*args[1:], *kwargs.values()))):
            return self._copy(args, kwargs)
        if given and name == "numpy":
            raise TypeError("a tensor of the device has no array")
        if given and name in READS:
            self._check(name, given)
            self.wait(name)
            plain = args[0].detach().clone()
            return plain if name == "cpu" else function(plain, *args[1:], **kwargs)
        result = function(*args, **kwargs)
        made = [one for one in tree_leaves(result) if isinstance(one, torch.Tensor)]
        if given and made:
            self._check(name, given)
            self.take_in(made)
        return result

    def _copy(self, args: Any, kwargs: Any) -> Any:
        tensor, *rest = args
        is_asynchronous = kwargs.pop("non_blocking", False) and hasattr(tensor, "pinned")
        kwargs = {name: one for name, one in kwargs.items() if not is_cuda(one)}
        rest = [one for one in rest if not is_cuda(one)]
        changed = tensor.to(*rest, **kwargs) if rest or kwargs else tensor
        if is_placed(tensor):
            return changed
        copied = changed.detach().clone()
        self.present.launch(self.copy_seconds)
        if not is_asynchronous:
            self.wait("copy")
        self.take_in([copied])
        return copied

    def take_in(self, made: Iterable[Any]) -> None:
        """Let tensors be of the device, written by the present stream."""
        self.present.count += 1
        for one in made:
            one.place = Place(self.present, self.present.count)

    def _check(self, name: str, given: list[Any]) -> None:
        for one in given:
            place = one.place
            if place.stream is self.present:
                continue
            self.lent[place] = self.present
            if place.count > self.present.seen.get(place.stream, 0):
                self.races.append(name)


def is_placed(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and hasattr(value, "place")


def is_cuda(value: Any) -> bool:
    return isinstance(value, torch.device) and value.type == "cuda"


class Pool:
    """Workers of virtual time, in the place of a `ThreadPoolExecutor`."""

    def __init__(self, clock: Clock, workers: int) -> None:
        self._clock = clock
        self._free = [clock.now] * workers

    def submit(self, function: Callable[[Any], Any], item: Any) -> Future:
        """Run it now, as if the first worker that is free had begun as soon as it could."""
        worker = self._free.index(min(self._free))
        present, self._clock.now = self._clock.now, max(self._clock.now, self._free[worker])
        result = function(item)
        self._free[worker], self._clock.now = self._clock.now, present
        return Future(self._clock, result, self._free[worker])

    def shutdown(self, *, cancel_futures: bool) -> None:
        assert cancel_futures


@dataclass
class Future:
    """The result of a worker, there at a time."""

    clock: Clock
    value: Any
    time: float

    def result(self) -> Any:
        self.clock.reach(self.time)
        return self.value


def record_graphs(
    device: VirtualDevice, function: Any, samples: tuple[Any, ...], *, allow_unused_input: bool
) -> Callable[..., Any]:
    """Stand in for `torch.cuda.make_graphed_callables`, with calls in place of replays.

    As there, results and gradients of each call lie in the memory of those before.
    """
    moving = [one for one in samples if one.requires_grad]
    state: dict[str, Any] = {}

    def run() -> None:
        with torch.enable_grad():
            state["results"] = function(*samples)

    def differentiate(upstream: Any) -> Any:
        how = {"allow_unused": allow_unused_input}
        return torch.autograd.grad(state["results"], moving, upstream, **how)

    for _ in range(3):
        run()
        first = differentiate([torch.ones_like(one) for one in state["results"]])
    results = [one.detach().clone() for one in state["results"]]
    gradients = [None if one is None else one.clone() for one in first]
    device.log.append("record")

    class Graphed(torch.autograd.Function):
        @staticmethod
        def forward(context: Any, *given: Any) -> Any:
            for own, one in zip(samples, given, strict=True):
                if own.data_ptr() != one.data_ptr():
                    own.copy_(one)
            run()
            for own, one in zip(results, state["results"], strict=True):
                own.copy_(one.detach())
            return tuple(one.detach() for one in results)

        @staticmethod
        def backward(context: Any, *upstream: Any) -> Any:
            for own, one in zip(gradients, differentiate(upstream), strict=True):
                if own is not None:
                    own.copy_(one)
            made = iter(gradients)
            return tuple(
                one if one is None else one.detach()
                for one in (next(made) if own.requires_grad else None for own in samples)
            )

    def replay(*given: Any) -> Any:
        made = Graphed.apply(*given)
        device.take_in(made)
        return made

    return replay


def install(patch: pytest.MonkeyPatch, copy_seconds: float = 0.0) -> VirtualDevice:
    """Put a device in the place of torch's own; it has to be entered, too."""
    device = VirtualDevice(copy_seconds)

    def pin_memory(tensor: Any) -> Any:
        assert not is_placed(tensor)
        copy = tensor.clone()
        copy.pinned = True
        return copy

    def record_stream(tensor: Any, stream: Stream) -> None:
        tensor.place.kept_for.add(stream)

    for name, value in {
        "is_available": lambda: True,
        "get_device_name": lambda _: "virtual",
        "synchronize": device.synchronize,
        "current_stream": lambda _=None: device.present,
        "stream": device.stream,
        "Stream": lambda _=None: Stream(device.clock),
        "Event": lambda *, enable_timing=False: Event(device, enable_timing=enable_timing),
        "is_current_stream_capturing": lambda: False,
        "make_graphed_callables": partial(record_graphs, device),
        "mem_get_info": lambda _: (78 << 30, 80 << 30),
        "memory_reserved": lambda _: 0,
        "memory_allocated": lambda _: 0,
        "reset_peak_memory_stats": lambda _: None,
        "max_memory_allocated": lambda _: 1 << 20,
    }.items():
        patch.setattr(torch.cuda, name, value)
    patch.setattr(torch.Tensor, "pin_memory", pin_memory)
    patch.setattr(torch.Tensor, "record_stream", record_stream)
    copies = Stream(device.clock)
    patch.setattr(transfer, "find_stream", lambda _: copies)
    for module in (level2, feeding):
        patch.setattr(module, "perf_counter", device.clock.read)
    patch.setattr(ahead, "ThreadPoolExecutor", lambda workers, _: Pool(device.clock, workers))
    return device
