"""Exchanges of ranks on GPUs, each of which is waited for; without a GPU."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy
import pytest

pytest.importorskip("torch")

import torch
import torch.distributed as dist

from capsule.levels.level3.overtorch import OverTorch

DEVICES = pytest.mark.parametrize("device", ["cpu", "cuda"])


@pytest.fixture
def log(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Names of what torch was asked to do; a tensor on the device is a copy in host memory."""
    names: list[str] = []
    for name in ("all_reduce", "broadcast", "send", "recv", "barrier", "destroy_process_group"):
        monkeypatch.setattr(dist, name, partial(note, names, name))
    monkeypatch.setattr(torch.cuda, "synchronize", partial(note, names, "synchronize"))

    def to(tensor: Any, device: str) -> Any:
        return tensor if device == "cpu" else tensor.clone()

    monkeypatch.setattr(torch.Tensor, "to", to)
    return names


def note(names: list[str], name: str, *_: Any) -> None:
    names.append(name)


def test_arrays_are_copied_to_a_device_and_back(log: list[str]) -> None:
    over, array = OverTorch("cuda"), numpy.zeros(3, dtype="float32")
    native = over.place(array)
    array[:] = 5
    assert native.tolist() == [0, 0, 0]
    over.put(array, native)
    assert native.tolist() == [5, 5, 5]
    native.fill_(7)
    over.get(native, array)
    assert array.tolist() == [7, 7, 7]


def test_a_tensor_of_a_cpu_is_the_array_and_nothing_is_copied(log: list[str]) -> None:
    over, array = OverTorch("cpu"), numpy.zeros(3, dtype="float32")
    native = over.place(array)
    array[:] = 5
    assert native.tolist() == [5, 5, 5]
    other = torch.ones(3)
    over.put(array, other)
    over.get(other, array)
    assert (other.tolist(), array.tolist()) == ([1, 1, 1], [5, 5, 5])


@DEVICES
@pytest.mark.parametrize(
    ("name", "called"), [("all-reduce", "all_reduce"), ("broadcast", "broadcast")]
)
def test_an_exchange_ends_when_the_device_has_done_it(
    log: list[str], device: str, name: str, called: str
) -> None:
    own, obtained = torch.ones(2), torch.ones(2)
    call = OverTorch(device).prepare(name, own, obtained)
    assert log == []
    # on a CPU nothing goes around what is timed
    assert isinstance(call, partial) == (device == "cpu")
    call()
    assert log == [called, *ends(device)]


@DEVICES
def test_so_do_messages_and_barriers(log: list[str], device: str) -> None:
    over = OverTorch(device)
    over.prepare_send(torch.ones(2), 1)()
    over.prepare_receive(torch.ones(2), 1)()
    over.barrier()
    assert log == [word for name in ("send", "recv", "barrier") for word in (name, *ends(device))]


def ends(device: str) -> list[str]:
    """Return the names of the waits behind each exchange."""
    return ["synchronize"] if device == "cuda" else []
