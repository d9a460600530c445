"""torch on a CUDA device, for whose functions others stand: facts, memory, generators."""

from __future__ import annotations

import gc
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("torch")

import torch

from capsule.levels import frameworks
from capsule.levels.frameworks.base import FrameworkError
from capsule.levels.frameworks.torch import Torch, create, modules, precision, transfer


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Calls of `torch.cuda` that change something."""
    asked: list[Any] = []
    answers: dict[str, Any] = {
        "get_device_name": lambda device: f"card {device}",
        "is_available": lambda: True,
        "max_memory_allocated": lambda device: 900,
        "mem_get_info": lambda device: (100, 1000),
        "memory_allocated": lambda device: 20,
        "memory_reserved": lambda device: 50,
        "reset_peak_memory_stats": lambda device: asked.append(("reset", device)),
        "get_device_properties": lambda device: SimpleNamespace(L2_cache_size=10),
    }
    for name, answer in answers.items():
        monkeypatch.setattr(torch.cuda, name, answer)
    return asked


@pytest.mark.parametrize(
    ("device", "is_there", "is_refused"),
    [
        ("cpu", False, False),
        ("cuda", True, False),
        ("cuda", False, True),
        ("mps", True, True),
    ],
)
def test_a_device_that_torch_does_not_see_is_refused(
    calls: list[Any],
    monkeypatch: pytest.MonkeyPatch,
    device: str,
    is_there: bool,
    is_refused: bool,
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: is_there)
    if is_refused:
        with pytest.raises(FrameworkError, match=f"finds no device '{device}'"):
            create(device, None, "default")
    else:
        assert create(device, None, "default").settings()["device"] == device


def test_settings_name_the_card(calls: list[Any]) -> None:
    assert Torch("cuda").settings()["device_name"] == "card cuda"
    assert "device_name" not in Torch("cpu").settings()


def test_only_a_device_has_a_clock_a_memory_copies_and_waits(calls: list[Any]) -> None:
    for device in ("cpu", "cuda"):
        framework = Torch(device)
        own = (
            *(framework.synchronize, framework.device_clock),
            *(framework.memory, framework.transfer),
        )
        assert [one is not None for one in own] == [device == "cuda"] * 4
    assert Torch("cuda").synchronize is torch.cuda.synchronize


def test_what_torch_keeps_unused_is_free(calls: list[Any]) -> None:
    memory = Torch("cuda").memory
    assert memory is not None
    assert memory.free() == 100 + 50 - 20


def test_a_peak_begins_without_garbage_and_leaves_out_the_buffer_that_empties_caches(
    calls: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gc, "collect", lambda: calls.append("collect"))
    monkeypatch.setattr(torch, "empty", lambda size, dtype, device: torch.zeros(size, dtype=dtype))
    framework: Any = Torch("cuda")
    framework.memory.reset_peak()
    assert calls == ["collect", ("reset", torch.device("cuda"))]
    assert framework.memory.peak() == 900
    framework.device_clock.flush()
    assert framework.memory.peak() == 900 - 4 * 10
    # once it is there, no other one is made
    monkeypatch.setattr(torch, "empty", None)
    framework.device_clock.flush()
    assert framework.device_clock.kept_bytes == 40


def test_the_generator_of_the_device_is_kept_and_set(
    calls: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    state = torch.tensor([1, 2, 3], dtype=torch.uint8)
    monkeypatch.setattr(torch.cuda, "get_rng_state", lambda device: state + device)
    monkeypatch.setattr(
        torch.cuda, "set_rng_state", lambda state, device: calls.append((state.tolist(), device))
    )
    on_device: Any = SimpleNamespace(is_cuda=True, device=7)
    kept = modules._read_generators(on_device)
    assert kept["generator/device"].tolist() == [8, 9, 10]
    modules._set_generators(kept, on_device)
    assert calls == [([8, 9, 10], 7)]


def test_a_cpu_has_no_generator_of_a_device(calls: list[Any]) -> None:
    like = torch.ones(1)
    kept = modules._read_generators(like)
    assert "generator/device" not in kept
    first = torch.rand(3)
    modules._set_generators(kept, like)
    assert torch.equal(torch.rand(3), first)
    assert calls == []


def test_strict_turns_off_what_times_kernels(
    calls: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in {"benchmark": True, "deterministic": False}.items():
        monkeypatch.setattr(torch.backends.cudnn, name, value)
    was = torch.are_deterministic_algorithms_enabled()
    try:
        # which restores what was set before
        with precision.fix(tf32=True):
            known = frameworks.load("torch", "cuda", None, "strict").settings()
    finally:
        torch.use_deterministic_algorithms(was)
    assert (known["cudnn_benchmark"], known["cudnn_deterministic"]) == (False, True)
    assert known["cuda_matmul_allow_tf32"] is known["cudnn_allow_tf32"] is False
    assert known["deterministic_algorithms"] is True


@pytest.mark.parametrize("name", ["numpy", "jax", "onnxruntime", "tensorflow"])
def test_other_frameworks_refuse_the_device(name: str) -> None:
    pytest.importorskip(name)
    with pytest.raises(FrameworkError, match=f"{name} has no device 'cuda': .* on CPUs only"):
        frameworks.load(name, "cuda", None, "default")


def test_places_of_classes_take_8_bits_where_these_hold_all(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(transfer, "find_stream", lambda _: None)
    made = transfer.CudaTransfer(torch.device("cuda"), {})
    for classes, kind in ((256, torch.uint8), (257, torch.int32)):
        places = made.choose(torch.eye(classes)[[0, classes - 1]])
        assert (places.dtype, places.tolist()) == (kind, [0, classes - 1])
