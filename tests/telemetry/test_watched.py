"""What a sampler beside a workload is asked for: devices of each vendor, by names that are sure."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from capsule.runtimes import slots, visible
from capsule.runtimes.base import GpuShare, Invocation
from capsule.telemetry import watched
from capsule.telemetry.sampler import Request
from tests.support.gpu_trees import FOUR_H100, MAX_1550, MI250X, Node, build, nvidia_uuid

PACKAGE = "sys/class/powercap/intel-rapl:0"


@pytest.fixture(autouse=True)
def bare(monkeypatch: pytest.MonkeyPatch) -> None:
    """No scheduler said anything."""
    for name in (*visible.LISTS, "CUDA_DEVICE_ORDER", slots.HIERARCHY, slots.PCI_ORDER):
        monkeypatch.delenv(name, raising=False)


class Fake:
    """A sampler that starts nothing, and notes that somebody waited for it."""

    def __init__(self, request: Request) -> None:
        self.request, self.has_gpus, self.waits = request, bool(request.names), 0

    def wait_until_ready(self, timeout_seconds: float) -> None:
        self.waits += 1


def ask(
    folder: Path, monkeypatch: pytest.MonkeyPatch, root: Path, share: GpuShare, **changes: Any
) -> Any:
    """Begin to watch a workload; returns its sampler, None if it has none."""
    monkeypatch.setattr(watched, "Sampler", Fake)
    invocation = Invocation(
        command=("true",),
        environment={},
        mounts=(),
        cwd="/",
        gpus=share,
        label="label",
        stdout=folder / "stdout",
        stderr=folder / "stderr",
        **{"telemetry": folder / "trace", **changes},
    )
    (sampler,) = watched.begin([invocation], root)
    return sampler


@pytest.mark.parametrize(
    ("node", "variables", "names"),
    [
        (FOUR_H100, {}, ("1",)),
        (FOUR_H100, {"CUDA_DEVICE_ORDER": "PCI_BUS_ID"}, ("1",)),
        (MI250X, {"ROCR_VISIBLE_DEVICES": "6,4"}, ("4",)),
        # the order of NVIDIA's devices is nothing to AMD's
        (MI250X, {"CUDA_DEVICE_ORDER": "FASTEST_FIRST"}, ("1",)),
        (
            FOUR_H100,
            {
                "CUDA_DEVICE_ORDER": "FASTEST_FIRST",
                "CUDA_VISIBLE_DEVICES": f"{nvidia_uuid(0x42)},{nvidia_uuid(0x40)}",
            },
            (nvidia_uuid(0x40),),
        ),
    ],
)
def test_the_devices_of_a_rank_are_sampled_by_their_names(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    node: Node,
    variables: dict[str, str],
    names: tuple[str, ...],
) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    second = GpuShare(count=1, local_rank=1, local_ranks=2)
    sampler = ask(tmp_path, monkeypatch, build(node, tmp_path / "root"), second)
    wanted = sampler.request
    assert (wanted.vendor, wanted.names, wanted.has_packages) == (node.vendor, names, False)
    assert sampler.waits == 1


def test_an_index_in_another_order_is_that_of_an_unknown_card(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CUDA_DEVICE_ORDER", "FASTEST_FIRST")
    root = build(FOUR_H100, tmp_path / "root")
    assert ask(tmp_path, monkeypatch, root, GpuShare(count=1)) is None


def test_the_first_rank_of_a_node_has_the_packages_sampled_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = build(MAX_1550, tmp_path / "root")
    folder = root / PACKAGE
    folder.mkdir(parents=True)
    for name, value in {"name": "package-0", "energy_uj": "1"}.items():
        (folder / name).write_text(value)
    first = ask(tmp_path, monkeypatch, root, GpuShare(count=1, local_ranks=2))
    assert (first.request.names, first.request.has_packages) == (("0",), True)
    # packages can be read at once
    alone = ask(tmp_path, monkeypatch, root, GpuShare())
    assert (alone.request.vendor, alone.request.names, alone.waits) == (None, (), 0)
    second = GpuShare(local_rank=1, local_ranks=2)
    assert ask(tmp_path, monkeypatch, root, second) is None
    # more GPUs than there are: the engine reports it
    many = ask(tmp_path, monkeypatch, root, GpuShare(count=9))
    assert (many.request.vendor, many.request.names) == (None, ())
    assert ask(tmp_path, monkeypatch, root, GpuShare(count=1), telemetry=None) is None
