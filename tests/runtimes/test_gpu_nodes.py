"""Nodes of many kinds: their GPUs, the share and the CPUs of each rank, and what is refused."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from capsule import inventory
from capsule.errors import CannotRunError
from capsule.inventory import gpu
from capsule.inventory.tree import Tree, compress
from capsule.runtimes import gpus, slots, visible
from capsule.runtimes.base import GPUS, GpuShare, Invocation, Prepared
from capsule.runtimes.host import Host
from capsule.runtimes.slots import Slot
from tests.support.gpu_trees import (
    FOUR_GH200,
    FOUR_H100,
    GH200,
    GIB,
    MAX_1550,
    MI250X,
    MI300A,
    ONE_H100,
    FakeNvml,
    Node,
    amd_uuid,
    build,
    nvidia_uuid,
)

NODES = {
    "one H100": ONE_H100,
    "four H100": FOUR_H100,
    "MI250X": MI250X,
    "MI300A": MI300A,
    "Max 1550": MAX_1550,
    "GH200": GH200,
    "four GH200": FOUR_GH200,
}
VARIABLES = (*visible.LISTS, "CUDA_DEVICE_ORDER", slots.HIERARCHY, slots.PCI_ORDER)
MIG = "MIG-41b3359c-e721-56e5-8009-12e5797ed514"
OTHER_MIG = "MIG-41b3359c-e721-56e5-8009-12e5797ed515"
OLD_MIG = f"MIG-{nvidia_uuid(0x42)}/1/0"
FOREIGN = nvidia_uuid(0xFFFF)


@pytest.fixture(autouse=True)
def bare(monkeypatch: pytest.MonkeyPatch) -> None:
    """No scheduler said anything."""
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)


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


@dataclass(frozen=True, kw_only=True)
class Case:
    """A start of ranks on two nodes of one kind.

    Attributes:
        node: The kind of node.
        ranks: How many, as many on the first node as on the second or one more.
        first, second: Variables of each node.
        count: GPUs of each rank.
        threads: Of each rank; None for as many as its share of the CPUs.
        expected: GPUs and CPUs of each rank, by rank; no CPUs for one that is not bound.
    """

    node: Node
    ranks: int
    first: Mapping[str, str] = field(default_factory=dict)
    second: Mapping[str, str] = field(default_factory=dict)
    count: int = 1
    threads: int | None = None
    expected: Sequence[tuple[str, str]]


H0, H1 = FOUR_H100.cpus
M0, M1, M2, M3 = MI250X.cpus
A0, A1, A2, A3 = MI300A.cpus
X0, X1 = MAX_1550.cpus[:2]
G0, G1, G2, G3 = FOUR_GH200.cpus[:4]
REVERSED = {"CUDA_VISIBLE_DEVICES": "3,2,1,0"}
BY_UUID = {"CUDA_VISIBLE_DEVICES": ",".join(nvidia_uuid(0x40 + n) for n in (2, 0))}
CASES = {
    # the threads of one rank, or of two on one socket, outnumber its CPUs
    "1 H100": Case(node=FOUR_H100, ranks=1, expected=[("0", "")]),
    "2 H100": Case(node=FOUR_H100, ranks=2, second=REVERSED, expected=[("0", ""), ("3", "")]),
    "3 H100": Case(node=FOUR_H100, ranks=3, expected=[("0", ""), ("1", ""), ("0", "")]),
    "4 H100": Case(
        node=FOUR_H100,
        ranks=4,
        first=BY_UUID,
        second=REVERSED,
        expected=[(nvidia_uuid(0x42), H1), (nvidia_uuid(0x40), H0), ("3", ""), ("2", "")],
    ),
    "5 H100": Case(
        node=FOUR_H100,
        ranks=5,
        second=REVERSED,
        expected=[("0", ""), ("1", ""), ("2", H1), ("3", ""), ("2", "")],
    ),
    "6 H100": Case(
        node=FOUR_H100,
        ranks=6,
        second=REVERSED,
        expected=[("0", ""), ("1", ""), ("2", H1), ("3", ""), ("2", ""), ("1", H0)],
    ),
    "7 H100": Case(
        node=FOUR_H100,
        ranks=7,
        second=REVERSED,
        expected=[("0", H0), ("1", H0), ("2", H1), ("3", H1), ("3", H1), ("2", H1), ("1", H0)],
    ),
    "8 H100": Case(
        node=FOUR_H100,
        ranks=8,
        second=REVERSED,
        expected=[
            *(("0", H0), ("1", H0), ("2", H1), ("3", H1)),
            *(("3", H1), ("2", H1), ("1", H0), ("0", H0)),
        ],
    ),
    "few threads": Case(
        node=FOUR_H100, ranks=2, threads=8, second=REVERSED, expected=[("0", H0), ("3", H1)]
    ),
    "two GPUs a rank": Case(
        node=FOUR_H100, ranks=4, count=2, threads=8, expected=[("0,1", H0), ("2,3", H1)] * 2
    ),
    # near either socket is anywhere
    "GPUs of both sockets": Case(
        node=FOUR_H100,
        ranks=2,
        count=2,
        threads=8,
        first={"CUDA_VISIBLE_DEVICES": "1,2"},
        expected=[("1,2", ""), ("0,1", H0)],
    ),
    "order by speed": Case(
        node=FOUR_H100,
        ranks=2,
        threads=8,
        first={"CUDA_DEVICE_ORDER": "FASTEST_FIRST"},
        second={"CUDA_DEVICE_ORDER": "FASTEST_FIRST", **BY_UUID},
        expected=[("0", ""), (nvidia_uuid(0x42), H1)],
    ),
    "unknown NUMA node": Case(node=ONE_H100, ranks=2, threads=1, expected=[("0", "")] * 2),
    "MIG": Case(
        node=FOUR_H100,
        ranks=2,
        threads=8,
        first={"CUDA_VISIBLE_DEVICES": OLD_MIG},
        second={"CUDA_VISIBLE_DEVICES": MIG},
        expected=[(OLD_MIG, H1), (MIG, "")],
    ),
    "MIG of one card": Case(
        node=GH200,
        ranks=4,
        threads=1,
        first={"CUDA_VISIBLE_DEVICES": f"{MIG},{OTHER_MIG}"},
        second={"CUDA_VISIBLE_DEVICES": f"{OTHER_MIG},{MIG}"},
        expected=[(MIG, ""), (OTHER_MIG, ""), (OTHER_MIG, ""), (MIG, "")],
    ),
    "8 MI250X": Case(
        node=MI250X,
        ranks=8,
        threads=16,
        second={"ROCR_VISIBLE_DEVICES": "4,5,6,7"},
        expected=[
            *(("0", M3), ("1", M3), ("2", M1), ("3", M1)),
            *(("4", M0), ("5", M0), ("6", M2), ("7", M2)),
        ],
    ),
    "16 MI250X": Case(
        node=MI250X,
        ranks=16,
        expected=[
            *(("0", M3), ("1", M3), ("2", M1), ("3", M1)),
            *(("4", M0), ("5", M0), ("6", M2), ("7", M2)),
        ]
        * 2,
    ),
    "MI250X by UUID": Case(
        node=MI250X,
        ranks=2,
        threads=7,
        first={"ROCR_VISIBLE_DEVICES": amd_uuid(0xABC7)},
        second={"ROCR_VISIBLE_DEVICES": "2,3", "HIP_VISIBLE_DEVICES": "1"},
        expected=[(amd_uuid(0xABC7), M2), ("3", M1)],
    ),
    "8 MI300A": Case(
        node=MI300A,
        ranks=8,
        expected=[("0", A0), ("1", A1), ("2", A2), ("3", A3)] * 2,
    ),
    "6 MI300A": Case(
        node=MI300A,
        ranks=6,
        threads=48,
        second={"GPU_DEVICE_ORDINAL": "3,1,2"},
        expected=[("0", A0), ("1", A1), ("2", A2), ("3", A3), ("1", A1), ("2", A2)],
    ),
    # three ranks on a socket have too many threads, and the fourth has its own
    "8 Max 1550": Case(
        node=MAX_1550, ranks=8, expected=[("0", ""), ("1", ""), ("2", ""), ("3", X1)] * 2
    ),
    "12 Max 1550": Case(
        node=MAX_1550,
        ranks=12,
        expected=[*((name, X0) for name in "012"), *((name, X1) for name in "345")] * 2,
    ),
    "tiles": Case(
        node=MAX_1550,
        ranks=8,
        threads=26,
        first={"ZE_FLAT_DEVICE_HIERARCHY": "FLAT"},
        second={
            "ZE_FLAT_DEVICE_HIERARCHY": "FLAT",
            "ZE_AFFINITY_MASK": "5,6,10,11",
            "ZE_ENABLE_PCI_ID_DEVICE_ORDER": "1",
        },
        expected=[
            *(("0", X0), ("1", X0), ("2", X0), ("3", X0)),
            *(("5", X0), ("6", X1), ("10", X1), ("11", X1)),
        ],
    ),
    "tiles of cards": Case(
        node=MAX_1550,
        ranks=4,
        threads=1,
        first={
            "ZE_FLAT_DEVICE_HIERARCHY": "COMPOSITE",
            "ZE_AFFINITY_MASK": "0.1,5.0",
            "ZE_ENABLE_PCI_ID_DEVICE_ORDER": "1",
        },
        # which card an entry is, is not said
        second={"ZE_AFFINITY_MASK": "0.1,5.0"},
        expected=[("0.1", X0), ("5.0", X1), ("0.1", ""), ("5.0", "")],
    ),
    "order of cards unknown": Case(
        node=MAX_1550,
        ranks=4,
        threads=1,
        first={"ZE_FLAT_DEVICE_HIERARCHY": "COMPOSITE", "ZE_AFFINITY_MASK": "3,0"},
        # where devices are tiles, they have none
        second={
            "ZE_FLAT_DEVICE_HIERARCHY": "FLAT",
            "ZE_AFFINITY_MASK": "0.1,1",
            "ZE_ENABLE_PCI_ID_DEVICE_ORDER": "1",
        },
        expected=[("3", ""), ("0", ""), ("0.1", ""), ("1", X0)],
    ),
    "GH200": Case(node=GH200, ranks=2, expected=[("0", "")] * 2),
    "8 GH200": Case(
        node=FOUR_GH200,
        ranks=8,
        expected=[("0", G0), ("1", G1), ("2", G2), ("3", G3)] * 2,
    ),
}


def invocation(folder: Path, share: GpuShare, *command: str) -> Invocation:
    folder.mkdir(parents=True, exist_ok=True)
    return Invocation(
        command=command,
        environment={"HOME": str(folder)},
        mounts=(),
        cwd=str(folder),
        gpus=share,
        label=f"test-{folder}",
        stdout=folder / "stdout",
        stderr=folder / "stderr",
    )


@pytest.mark.parametrize("name", CASES)
def test_ranks_of_two_nodes_have_gpus_and_the_cpus_near_them(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    case = CASES[name]
    root = build(case.node, tmp_path / "root")
    cpus = case.node.all_cpus
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(cpus))
    width = -(-case.ranks // 2)
    threads = case.threads or len(cpus) // width
    dealt = []
    for rank in range(case.ranks):
        with monkeypatch.context() as own:
            for variable, listed in (case.second if rank >= width else case.first).items():
                own.setenv(variable, listed)
            share = GpuShare(
                count=case.count, local_rank=rank % width, local_ranks=width, threads=threads
            )
            asked = invocation(tmp_path / str(rank), share)
            chosen = visible.assign(asked, root)
        dealt.append((",".join(chosen.devices), compress(list(chosen.cpus))))
    assert dealt == list(case.expected)


def test_there_are_forty_cases_of_nodes_and_variables() -> None:
    assert len(NODES) + len(CASES) + len(GIVEN) + len(REFUSED) >= 40


# node, variables of a scheduler or a user, and those that the second of two ranks gets
GIVEN: dict[str, tuple[Node, dict[str, str], dict[str, str]]] = {
    "none": (FOUR_H100, {}, {"CUDA_VISIBLE_DEVICES": "1", "CUDA_DEVICE_ORDER": "PCI_BUS_ID"}),
    "indices": (
        FOUR_H100,
        {"CUDA_VISIBLE_DEVICES": "3, 2,-1,0"},
        {"CUDA_VISIBLE_DEVICES": "2", "CUDA_DEVICE_ORDER": "PCI_BUS_ID"},
    ),
    "UUIDs": (
        FOUR_H100,
        {"CUDA_VISIBLE_DEVICES": f"{nvidia_uuid(0x41)},GPU-00000043,{FOREIGN}"},
        {"CUDA_VISIBLE_DEVICES": "GPU-00000043", "CUDA_DEVICE_ORDER": "PCI_BUS_ID"},
    ),
    "MIG": (
        GH200,
        {"CUDA_VISIBLE_DEVICES": f"{MIG},{OTHER_MIG}", "CUDA_DEVICE_ORDER": "FASTEST_FIRST"},
        {"CUDA_VISIBLE_DEVICES": OTHER_MIG, "CUDA_DEVICE_ORDER": "FASTEST_FIRST"},
    ),
    "another vendor's": (
        FOUR_H100,
        {"ROCR_VISIBLE_DEVICES": "3", "ZE_AFFINITY_MASK": "3", "GPU_DEVICE_ORDINAL": "3"},
        {"CUDA_VISIBLE_DEVICES": "1", "CUDA_DEVICE_ORDER": "PCI_BUS_ID"},
    ),
    "ROCm": (MI250X, {"ROCR_VISIBLE_DEVICES": "6,4"}, {"ROCR_VISIBLE_DEVICES": "4"}),
    "HIP": (MI250X, {"HIP_VISIBLE_DEVICES": "7,5"}, {"ROCR_VISIBLE_DEVICES": "5"}),
    "CUDA's name": (MI300A, {"CUDA_VISIBLE_DEVICES": "3,1"}, {"ROCR_VISIBLE_DEVICES": "1"}),
    "OpenCL": (MI300A, {"GPU_DEVICE_ORDINAL": "2,0"}, {"ROCR_VISIBLE_DEVICES": "0"}),
    "HIP counts what ROCm left": (
        MI250X,
        {"ROCR_VISIBLE_DEVICES": "4,5,6", "HIP_VISIBLE_DEVICES": "2,0"},
        {"ROCR_VISIBLE_DEVICES": "4"},
    ),
    "Slurm's copies": (
        MI250X,
        {"ROCR_VISIBLE_DEVICES": "4,5", "HIP_VISIBLE_DEVICES": "4,5", "GPU_DEVICE_ORDINAL": "4,5"},
        {"ROCR_VISIBLE_DEVICES": "5"},
    ),
    "no mask": (
        MAX_1550,
        {},
        {
            "ZE_AFFINITY_MASK": "1",
            "ZE_FLAT_DEVICE_HIERARCHY": "COMPOSITE",
            "ZE_ENABLE_PCI_ID_DEVICE_ORDER": "1",
        },
    ),
    "an empty mask": (
        MAX_1550,
        {"ZE_AFFINITY_MASK": "", "ZE_FLAT_DEVICE_HIERARCHY": "FLAT"},
        {
            "ZE_AFFINITY_MASK": "1",
            "ZE_FLAT_DEVICE_HIERARCHY": "FLAT",
            "ZE_ENABLE_PCI_ID_DEVICE_ORDER": "1",
        },
    ),
    "a mask": (MAX_1550, {"ZE_AFFINITY_MASK": "5,3"}, {"ZE_AFFINITY_MASK": "3"}),
    "tiles": (
        MAX_1550,
        {"ZE_AFFINITY_MASK": "0.0,0.1", "ZE_FLAT_DEVICE_HIERARCHY": "COMPOSITE"},
        {"ZE_AFFINITY_MASK": "0.1", "ZE_FLAT_DEVICE_HIERARCHY": "COMPOSITE"},
    ),
}


@pytest.mark.parametrize("name", GIVEN)
def test_a_rank_gets_one_variable_of_its_vendor(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    node, environment, expected = GIVEN[name]
    root = build(node, tmp_path / "root")
    for variable, listed in environment.items():
        monkeypatch.setenv(variable, listed)
    second = GpuShare(count=1, local_rank=1, local_ranks=2)
    chosen = visible.assign(invocation(tmp_path / "rank", second), root)
    assert visible.variables(chosen.devices, root) == expected


ASK = "from the scheduler, or lower ranks_per_node or gpus_per_rank"
ONE, TWO = GpuShare(count=1), GpuShare(count=1, local_rank=1, local_ranks=2)
REFUSED: dict[str, tuple[Node, dict[str, str], GpuShare, str]] = {
    "empty": (
        FOUR_H100,
        {"CUDA_VISIBLE_DEVICES": ""},
        ONE,
        "node n1: no GPU is visible (CUDA_VISIBLE_DEVICES=), but a rank needs 1: request 1 on"
        f" each node {ASK}",
    ),
    "-1": (
        FOUR_H100,
        {"CUDA_VISIBLE_DEVICES": "-1,0"},
        ONE,
        "node n1: no GPU is visible (CUDA_VISIBLE_DEVICES=-1,0), but a rank needs 1: request 1 on"
        f" each node {ASK}",
    ),
    "one for two": (
        GH200,
        {},
        TWO,
        "node n1: 1 GPU is visible, but 2 ranks need 1 each: request 2 on each node " + ASK,
    ),
    "no such index": (
        FOUR_H100,
        {"CUDA_VISIBLE_DEVICES": "0,4,1"},
        TWO,
        "node n1: 1 GPU is visible (CUDA_VISIBLE_DEVICES=0,4,1), but 2 ranks need 1 each: request"
        f" 2 on each node {ASK}",
    ),
    "a UUID of another node": (
        FOUR_H100,
        {"CUDA_VISIBLE_DEVICES": FOREIGN},
        ONE,
        f"node n1: no GPU is visible (CUDA_VISIBLE_DEVICES={FOREIGN}), but a rank needs 1: request"
        f" 1 on each node {ASK}",
    ),
    # what many UUIDs begin with names none
    "a UUID cut too short": (
        FOUR_H100,
        {"CUDA_VISIBLE_DEVICES": "GPU-000"},
        ONE,
        "node n1: no GPU is visible (CUDA_VISIBLE_DEVICES=GPU-000), but a rank needs 1: request 1"
        f" on each node {ASK}",
    ),
    "an index and its UUID": (
        FOUR_H100,
        {"CUDA_VISIBLE_DEVICES": f"1,{nvidia_uuid(0x41)}"},
        TWO,
        f"CUDA_VISIBLE_DEVICES=1,{nvidia_uuid(0x41)} lists GPU {nvidia_uuid(0x41)} twice",
    ),
    "two instances for a rank": (
        GH200,
        {"CUDA_VISIBLE_DEVICES": f"{MIG},{OTHER_MIG}"},
        GpuShare(count=2),
        "node n1: 2 MIG instances requested for one rank, but a process can use 1: set"
        " gpus_per_rank to 1",
    ),
    "HIP beyond ROCm": (
        MI250X,
        {"ROCR_VISIBLE_DEVICES": "4,5", "HIP_VISIBLE_DEVICES": "4"},
        ONE,
        "node n1: no GPU is visible (ROCR_VISIBLE_DEVICES=4,5, HIP_VISIBLE_DEVICES=4), but a rank"
        f" needs 1: request 1 on each node {ASK}",
    ),
    "more than there are": (
        MI300A,
        {},
        GpuShare(count=1, local_rank=4, local_ranks=8),
        "node n1: 4 GPUs are visible, but 8 ranks need 1 each: request 8 on each node " + ASK,
    ),
    "a card and its tile": (
        MAX_1550,
        {"ZE_AFFINITY_MASK": "3,03.1"},
        TWO,
        "ZE_AFFINITY_MASK=3,03.1 lists GPU 3.1 twice",
    ),
    "no such tile": (
        MAX_1550,
        {"ZE_AFFINITY_MASK": "11,12", "ZE_FLAT_DEVICE_HIERARCHY": "FLAT"},
        TWO,
        "node n1: 1 GPU is visible (ZE_AFFINITY_MASK=11,12), but 2 ranks need 1 each: request 2 on"
        f" each node {ASK}",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_wrong_is_refused_with_what_mends_it(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    node, environment, share, words = REFUSED[name]
    root = build(node, tmp_path / "root")
    monkeypatch.setattr("socket.gethostname", lambda: "n1")
    for variable, listed in environment.items():
        monkeypatch.setenv(variable, listed)
    with pytest.raises(CannotRunError) as caught:
        visible.assign(invocation(tmp_path / "rank", share), root)
    assert caught.value.what == words
    assert not (tmp_path / "rank" / GPUS).exists()


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
        visible.share(found, ONE, "n1")


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


def test_a_mig_instance_is_near_the_cpus_of_its_card(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = build(FOUR_H100, tmp_path)
    monkeypatch.setitem(sys.modules, "pynvml", FakeNvml(FOUR_H100, instances={2: [MIG]}))
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: FOUR_H100.all_cpus)
    known = slots.find("nvidia") or ()
    located = slots.locate("nvidia", [MIG, OTHER_MIG], known, {})
    assert [one and one.address for one in located] == ["0000:9b:00.0", None]
    assert compress(list(slots.choose_cpus(0, [located[:1]], 8, root))) == H1
    assert slots.choose_cpus(0, [located[1:]], 8, root) == ()


@pytest.mark.parametrize(
    ("allowed", "gpu_index", "expected"),
    [
        # of a launcher that binds each rank
        (range(1, 8), 4, ""),
        (range(48, 56), 4, ""),
        # of a job that has a part of the node
        (range(64), 4, "0-15"),
        (range(8, 24), 4, "8-15"),
        # too few CPUs for its threads are near
        (range(12, 28), 4, ""),
    ],
)
def test_a_rank_is_bound_within_what_it_may_use(
    allowed: range,
    gpu_index: int,
    expected: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    root = build(MI250X, tmp_path)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(allowed))
    slot = (slots.find("amd", root) or ())[gpu_index]
    assert compress(list(slots.choose_cpus(0, [[slot]], 7, root))) == expected


def one_cpu(root: Path) -> int:
    """Put the GPUs of a tree near one CPU that this process may use; returns the CPU."""
    cpu = max(os.sched_getaffinity(0))
    for path in root.glob("sys/devices/system/node/node*/cpulist"):
        path.write_text(f"{cpu}\n")
    return cpu


def test_a_rank_runs_on_the_cpus_of_its_gpu_and_says_so(tmp_path: Path) -> None:
    root = build(FOUR_H100, tmp_path / "root")
    cpu = one_cpu(root)
    before = os.sched_getaffinity(0)
    shows = "import os; print(sorted(os.sched_getaffinity(0)))"
    asked = invocation(tmp_path / "rank", ONE, sys.executable, "-c", shows)
    ended = Host(root).start(Prepared(handle=""), asked).wait(60)
    assert ended is not None
    assert ended.exit_code == 0
    assert json.loads((tmp_path / "rank/stdout").read_text()) == [cpu]
    assert os.sched_getaffinity(0) == before
    bound = str(cpu) if before != {cpu} else None
    facts = json.loads((tmp_path / "rank" / GPUS).read_text())
    assert facts == {"pci_addresses": ["0000:19:00.0"], "cpus": bound}


def test_a_rank_without_gpus_is_not_bound(tmp_path: Path) -> None:
    root = build(FOUR_H100, tmp_path / "root")
    one_cpu(root)
    asked = invocation(tmp_path / "rank", GpuShare())
    assert visible.assign(asked, root) == asked
    assert not (tmp_path / "rank" / GPUS).exists()


def test_an_engine_that_cannot_bind_leaves_a_rank_as_it_is(tmp_path: Path) -> None:
    root = build(FOUR_H100, tmp_path / "root")
    one_cpu(root)
    chosen = visible.assign(invocation(tmp_path / "rank", ONE), root, can_bind=False)
    assert (chosen.devices, chosen.cpus) == (("0",), ())
    facts = json.loads((tmp_path / "rank" / GPUS).read_text())
    assert facts == {"pci_addresses": ["0000:19:00.0"], "cpus": None}


@pytest.mark.parametrize("known", [None, (Slot(address=""), Slot(address=""))])
def test_of_a_gpu_of_unknown_place_nothing_is_said(
    known: tuple[Slot, ...] | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = build(FOUR_H100, tmp_path / "root")
    monkeypatch.setattr(slots, "find", lambda *_: known)
    chosen = visible.assign(invocation(tmp_path / "rank", ONE), root)
    assert (chosen.devices, chosen.cpus) == (("0",), ())
    facts = json.loads((tmp_path / "rank" / GPUS).read_text())
    assert facts == {"pci_addresses": [None], "cpus": None}


def test_a_choice_that_cannot_be_written_down_is_refused(tmp_path: Path) -> None:
    root = build(FOUR_H100, tmp_path / "root")
    asked = invocation(tmp_path / "rank", ONE)
    (tmp_path / "rank" / GPUS).mkdir()
    with pytest.raises(CannotRunError, match=r"cannot write .*gpus\.json: Is a directory"):
        visible.assign(asked, root)


def test_of_one_card_every_name_is_that_card_of_nvidias(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its instances included, whose card only a library can tell, and whatever the order is."""
    monkeypatch.setattr(gpus, "ask_nvml", lambda _: None)
    one = (Slot(address="0000:06:00.0", uuid=nvidia_uuid(0x10)),)
    fastest = {"CUDA_DEVICE_ORDER": "FASTEST_FIRST"}
    assert slots.locate("nvidia", [MIG, OTHER_MIG, "0"], one, fastest) == one * 3
    assert slots.locate("nvidia", [MIG, "0"], one * 2, fastest) == (None, None)
    assert slots.locate("amd", ["1", FOREIGN], one, {}) == (None, None)


@pytest.mark.parametrize("gone", ["numa_node", "cpulist"])
def test_a_gpu_without_known_cpus_leaves_its_rank_unbound(
    gone: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = build(FOUR_H100, tmp_path)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: FOUR_H100.all_cpus)
    placed = [[slot] for slot in slots.find("nvidia", root) or ()]
    assert slots.choose_cpus(0, placed, 1, root)
    for path in root.glob(f"sys/**/{gone}"):
        path.unlink()
    assert slots.choose_cpus(0, placed, 1, root) == ()


def test_a_mask_without_a_hierarchy_names_no_known_card() -> None:
    cards = tuple(Slot(address=card.address, tiles=2) for card in MAX_1550.cards)
    masked = {"ZE_AFFINITY_MASK": "1", slots.PCI_ORDER: "1"}
    assert slots.locate("intel", ["1"], cards, masked) == (None,)
    known = {**masked, slots.HIERARCHY: "COMPOSITE"}
    assert slots.locate("intel", ["1", "9"], cards, known) == (cards[1], None)
    # capsule sets both where there is no mask
    assert slots.locate("intel", ["1"], cards, {}) == (cards[1],)
    assert slots.locate("intel", ["1"], cards, {slots.PCI_ORDER: "0"}) == (None,)
