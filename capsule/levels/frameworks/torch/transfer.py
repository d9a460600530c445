"""Copies to and from a CUDA device that computes meanwhile."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

import torch

from ..base import NativeTensor

if TYPE_CHECKING:
    from numpy.typing import NDArray


class _Sent(NamedTuple):
    """Copies of one minibatch.

    Attributes:
        tensors: On the device, there once `ended` is reached.
        ended: Event on the stream of copies.
    """

    tensors: dict[str, NativeTensor]
    ended: Any


class CudaTransfer:
    """See `base.Transfer`: copies on a stream of their own, timed by events."""

    def __init__(self, device: torch.device, types: Mapping[str, torch.dtype]) -> None:
        """Prepare copies to a device.

        Args:
            device: A CUDA device.
            types: Type of the tensors for each dtype's word.
        """
        self._device, self._types = device, types
        self._stream = find_stream(device)
        self._under_way: deque[tuple[Any, Any]] = deque()
        self._milliseconds = 0.0

    def pin(self, array: NDArray[Any], dtype: str) -> NativeTensor:
        """Convert on the host, as a copy to the device would, into page-locked memory."""
        tensor = torch.from_numpy(array)
        if tensor.is_floating_point():
            tensor = tensor.to(self._types[dtype])
        return tensor.pin_memory()

    def send(self, pinned: Mapping[str, NativeTensor]) -> _Sent:
        """Copy on the stream of copies; torch keeps the pinned memory until that is done."""
        began, ended = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        with torch.cuda.stream(self._stream):
            began.record()
            tensors = {
                name: one.to(self._device, non_blocking=True) for name, one in pinned.items()
            }
            ended.record()
        self._under_way.append((began, ended))
        self._count_ended()
        return _Sent(tensors, ended)

    def receive(self, sent: _Sent) -> dict[str, NativeTensor]:
        """Have the present stream wait; the copies' memory stays theirs until it is done."""
        present = torch.cuda.current_stream(self._device)
        present.wait_event(sent.ended)
        for one in sent.tensors.values():
            one.record_stream(present)
        return sent.tensors

    def choose(self, scores: NativeTensor) -> NativeTensor:
        """`torch.argmax`, in 8 bits where these hold every place."""
        places = torch.argmax(scores, 1)
        return places.to(torch.uint8 if scores.shape[1] <= 1 << 8 else torch.int32)

    def read(self, tensors: Sequence[NativeTensor]) -> list[NDArray[Any]]:
        """Copy the bytes of all tensors at once; bfloat16 becomes float32, which is exact."""
        plain = [one.detach() for one in tensors]
        plain = [one.float() if one.dtype == torch.bfloat16 else one for one in plain]
        parts = [one.contiguous().reshape(-1).view(torch.uint8) for one in plain]
        whole = torch.cat(parts).cpu().numpy()
        arrays, first = [], 0
        for one, part in zip(plain, parts):
            last = first + part.numel()
            kind = str(one.dtype).rpartition(".")[2]
            arrays.append(whole[first:last].view(kind).reshape(one.shape))
            first = last
        return arrays

    def measure_copies(self) -> float:
        """Return the sum over the events of all copies, in seconds."""
        self._count_ended()
        return self._milliseconds / 1e3

    def _count_ended(self) -> None:
        """Add up the copies that are done, so that no more events exist than copies under way."""
        while self._under_way and self._under_way[0][1].query():
            began, ended = self._under_way.popleft()
            self._milliseconds += began.elapsed_time(ended)


@cache
def find_stream(device: torch.device) -> Any:
    """Return the stream of copies to a device: one, whose memory torch can use again."""
    return torch.cuda.Stream(device)
