"""Nodes of many kinds: the inventory of their GPUs, and the order that an index counts in."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from capsule import inventory
from capsule.errors import CannotRunError
from capsule.inventory import gpu
from capsule.inventory.tree import Tree
from capsule.runtimes import gpus, slots, visible
from capsule.runtimes.base import GpuShare
from capsule.runtimes.slots import Slot
from tests.support.gpu_trees import (
    FOUR_H100,
    GIB,
    MAX_1550,
    MI250X,
    MI300A,
    MIG,
    NODES,
    OTHER_MIG,
    FakeNvml,
    amd_uuid,
    build,
    nvidia_uuid,
)

# what the inventory has to say of one GPU of each node without NVIDIA's library
MODELS = {
    "one H100": ("NVIDIA", "NVIDIA H100 80GB HBM3", "10DE:2330", None),
    "four H100": ("NVIDIA", "NVIDIA H100 80GB HBM3", "10DE:2330", None),
    "MI250X": ("AMD", "AMD Instinct MI250X", "1002:7408", 64 * GIB),
    "MI300A": ("AMD", "AMD Instinct MI300A", "1002:74A0", 128 * GIB),
    "Max 1550": ("Intel", "Intel Data Center GPU Max 1550", "8086:0BD5", None),
    "GH200": ("NVIDIA", "NVIDIA GH200 480GB", "10DE:2342", None),
    "four GH200": ("NVIDIA", "NVIDIA GH200 120GB", "10DE:2342", None),
}


@pytest.mark.parametrize("name", NODES)
def test_the_inventory_has_every_gpu_in_the_order_of_addresses(name: str, tmp_path: Path) -> None:
    node = NODES[name]
    found: dict[str, Any] = inventory.node(build(node, tmp_path), salt="", keep_hosts=True)
    kinds = [
        tuple(one[fact] for fact in ("vendor", "model", "pci_id", "memory_bytes"))
        for one in found["class"]["gpus"]
    ]
    assert kinds == [MODELS[name]] * len(node.cards)
    addresses = [card.address for card in node.cards]
    assert [one["pci_address"] for one in found["state"]["gpus"]] == addresses
    uuids = [card.uuid.removeprefix("GPU-") for card in node.cards if card.uuid]
    named = [str(one["uuid"]) for one in found["identity"]["gpus"] if "uuid" in one]
    assert [one.removeprefix("GPU-") for one in named] == uuids


def test_the_inventory_of_nvidias_library_has_memory_and_instances(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    nvml = FakeNvml(FOUR_H100, [2, 3], instances={3: [MIG, OTHER_MIG]})
    monkeypatch.setitem(sys.modules, "pynvml", nvml)
    driver, devices = gpu.read(Tree(Path("/")))
    assert driver.state["cuda_version"] == "13.0"
    assert isinstance(devices, list)
    whole, divided = devices
    assert (whole.klass["model"], whole.klass["pci_id"]) == ("NVIDIA H100 80GB HBM3", "10DE:2330")
    assert whole.klass["memory_bytes"] == 80 * GIB
    assert (whole.state["pci_address"], whole.state["mig"]) == ("0000:9b:00.0", False)
    assert divided.state["pci_address"] == "0000:cb:00.0"
    assert divided.state["mig_instances"] == ["NVIDIA H100 80GB HBM3 MIG 1g.10gb"] * 2
    assert divided.identity["uuid"] == nvidia_uuid(0x43)


@pytest.mark.parametrize("name", NODES)
def test_slots_follow_the_runtimes_index(name: str, tmp_path: Path) -> None:
    node = NODES[name]
    found = slots.find(node.vendor, build(node, tmp_path))
    assert found is not None
    assert [one.address for one in found] == [card.address for card in node.cards]
    assert [one.uuid or "" for one in found] == [card.uuid for card in node.cards]
    assert {one.tiles for one in found} == {2 if node is MAX_1550 else 0}
    devices = gpus.find(tmp_path)
    assert devices is not None
    assert (devices.vendor, devices.count) == (node.vendor, len(node.cards))


def test_nodes_of_the_kernel_are_counted_as_numbers(tmp_path: Path) -> None:
    """Of twelve nodes the tenth comes after the ninth."""
    found = slots.find("amd", build(MI250X, tmp_path)) or ()
    assert found[6].address == "0000:d9:00.0"


def test_a_withheld_gpu_has_no_index(tmp_path: Path) -> None:
    """In a control group the kernel gives no number of a GPU that a job may not use."""
    root = build(MI250X, tmp_path)
    (root / "sys/class/kfd/kfd/topology/nodes/4/gpu_id").write_text("")
    found = slots.find("amd", root) or ()
    assert found[0] == Slot(address="0000:c6:00.0", uuid=amd_uuid(0xABC1))
    assert gpus.find(root) == gpus.Devices(vendor="amd", count=7, driver="6.8.5")


def test_bits_of_a_partition_are_no_address(tmp_path: Path) -> None:
    root = build(MI300A, tmp_path)
    nodes = root / "sys/class/kfd/kfd/topology/nodes"
    for number, location in (("5", (1 << 8) | 2), ("6", (3 << 28) | (1 << 8)), ("7", 0)):
        path = nodes / number / "properties"
        path.write_text(path.read_text().replace("location_id 256", f"location_id {location}"))
    addresses = [one.address for one in slots.find("amd", root) or ()]
    assert addresses == ["0000:01:00.0", "0001:01:00.0", "0002:01:00.0", ""]


def test_indices_count_what_the_control_group_of_a_job_lets_through(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", FakeNvml(FOUR_H100, [1, 3]))
    known = slots.find("nvidia") or ()
    assert [one.address for one in known] == ["0000:4c:00.0", "0000:cb:00.0"]
    machine = gpus.Devices(vendor="nvidia", count=4, driver=None)
    assert visible.read(machine, {}, known).names == ("0", "1")
    assert visible.read(machine, {"CUDA_VISIBLE_DEVICES": "1,2"}, known).names == ("1",)
    (second,) = slots.locate("nvidia", ["1"], known, {})
    assert second == Slot(address="0000:cb:00.0", uuid=nvidia_uuid(0x43))


def test_a_job_without_gpus_sees_none_of_the_machines(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", FakeNvml(FOUR_H100, []))
    known = slots.find("nvidia")
    assert known == ()
    machine = gpus.Devices(vendor="nvidia", count=4, driver=None)
    found = visible.read(machine, {}, known)
    with pytest.raises(CannotRunError, match="node n1: no GPU is visible, but a rank needs 1"):
        visible.share(found, GpuShare(count=1), "n1")


def test_without_nvidias_library_the_machines_gpus_count(monkeypatch: pytest.MonkeyPatch) -> None:
    nvml = FakeNvml(FOUR_H100)
    monkeypatch.setattr(nvml, "nvmlInit", nvml.nvmlDeviceGetSerial)
    monkeypatch.setitem(sys.modules, "pynvml", nvml)
    assert slots.find("nvidia") is None
    machine = gpus.Devices(vendor="nvidia", count=4, driver=None)
    assert visible.read(machine, {}, None).names == ("0", "1", "2", "3")


def test_a_gpu_that_may_not_be_opened_has_no_index(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", FakeNvml(FOUR_H100, forbidden=[0, 2]))
    found = slots.find("nvidia") or ()
    assert [one.address for one in found] == ["0000:4c:00.0", "0000:cb:00.0"]
