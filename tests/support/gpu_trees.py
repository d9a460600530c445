# ruff: noqa: N802 - names of NVIDIA's library
"""Trees of `/proc` and `/sys` of nodes with GPUs, and a fake of NVIDIA's library.

They are written after public captures and documentation, which each node names; no file of one is
copied. Fields that stand in none of them are invented: serial numbers and UUIDs of all nodes, and
what a node marks so.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

from capsule.inventory.tree import expand
from capsule.runtimes import slots, visible
from capsule.runtimes.base import GpuShare, Invocation
from capsule.runtimes.gpus import Vendor

GIB = 1 << 30
VARIABLES = (*visible.LISTS, "CUDA_DEVICE_ORDER", slots.HIERARCHY, slots.PCI_ORDER)
"""Variables by which schedulers and users choose GPUs."""
MIG = "MIG-41b3359c-e721-56e5-8009-12e5797ed514"
OTHER_MIG = "MIG-41b3359c-e721-56e5-8009-12e5797ed515"


@dataclass(frozen=True, kw_only=True)
class Card:
    """A GPU: PCI address, its NUMA node (-1 as the kernel writes it for unknown) and its UUID."""

    address: str
    numa: int
    uuid: str = ""


@dataclass(frozen=True, kw_only=True)
class Node:
    """A node.

    Attributes:
        vendor: Whose GPUs it has.
        model: What the driver calls them; empty where sysfs has no name.
        pci_id: `VENDOR:DEVICE`, as `uevent` has it.
        pci_class: As `class` has it.
        cards: By index, as the vendor's runtime counts.
        cpus: Kernel list of the CPUs of each NUMA node, empty for one of memory alone.
        memory_bytes: Of each GPU of AMD.
        target: `gfx_target_version` of AMD.
        tiles: Of each GPU of Intel.
    """

    vendor: Vendor
    model: str
    pci_id: str
    pci_class: str
    cards: tuple[Card, ...]
    cpus: tuple[str, ...]
    memory_bytes: int = 0
    target: int = 0
    tiles: int = 1

    @property
    def all_cpus(self) -> set[int]:
        return {cpu for listed in self.cpus for cpu in expand(listed)}


def nvidia_uuid(number: int) -> str:
    return f"GPU-{number:08x}-1111-2222-3333-444444444444"


def amd_uuid(number: int) -> str:
    return f"GPU-{number:016x}"


# CPUs of a NUMA node and their GPUs as `nvidia-smi topo -m` prints them on Dell's XE9680, of whose
# eight GPUs the second, fourth, sixth and eighth are left out here (addresses invented).
FOUR_H100 = Node(
    vendor="nvidia",
    model="NVIDIA H100 80GB HBM3",
    pci_id="10DE:2330",
    pci_class="0x030200",
    cards=tuple(
        Card(address=f"0000:{bus}:00.0", numa=numa, uuid=nvidia_uuid(0x40 + index))
        for index, (bus, numa) in enumerate((("19", 0), ("4c", 0), ("9b", 1), ("cb", 1)))
    ),
    cpus=("0-51,104-155", "52-103,156-207"),
)

# A virtual machine with one H100, whose firmware states no NUMA node (model and PCI ID: "NVIDIA
# Supported GPUs"; address invented).
ONE_H100 = replace(
    FOUR_H100,
    cards=(Card(address="0000:06:00.0", numa=-1, uuid=nvidia_uuid(0x10)),),
    cpus=("0-15",),
)

# OLCF, Frontier User Guide: "Frontier Compute Nodes" (CPUs and GPUs of each NUMA node), and the
# addresses that its hello_jobstep prints. Kernel: `kfd_topology.c` (numbers of GPUs invented).
MI250X = Node(
    vendor="amd",
    model="AMD Instinct MI250X",
    pci_id="1002:7408",
    pci_class="0x038000",
    cards=tuple(
        Card(address=f"0000:{bus}:00.0", numa=numa, uuid=amd_uuid(0xABC0 + index))
        for index, (bus, numa) in enumerate(
            zip(
                ("c1", "c6", "c9", "ce", "d1", "d6", "d9", "de"),
                (3, 3, 1, 1, 0, 0, 2, 2),
                strict=True,
            )
        )
    ),
    cpus=("0-15,64-79", "16-31,80-95", "32-47,96-111", "48-63,112-127"),
    memory_bytes=64 * GIB,
    target=90010,
)

# AMD, "CDNA 3 architecture": four processors with 24 cores and one GPU each (addresses invented;
# that each has a PCI domain of its own, too).
MI300A = Node(
    vendor="amd",
    model="AMD Instinct MI300A",
    pci_id="1002:74A0",
    pci_class="0x120000",
    cards=tuple(
        Card(address=f"{domain:04x}:01:00.0", numa=domain, uuid=amd_uuid(0x300A0 + domain))
        for domain in range(4)
    ),
    cpus=("0-23,96-119", "24-47,120-143", "48-71,144-167", "72-95,168-191"),
    memory_bytes=128 * GIB,
    target=90402,
)

# ALCF, Aurora User Guide: "Aurora Machine Overview", and its `lscpu`, where the high-bandwidth
# memory of each socket is a NUMA node without CPUs (addresses invented).
MAX_1550 = Node(
    vendor="intel",
    model="",
    pci_id="8086:0BD5",
    pci_class="0x038000",
    cards=tuple(
        Card(address=f"{domain:04x}:{bus}:00.0", numa=domain)
        for domain in range(2)
        for bus in ("18", "42", "6c")
    ),
    cpus=("0-51,104-155", "52-103,156-207", "", ""),
    tiles=2,
)

# `nvidia-smi` of a GH200 and NVIDIA, "Grace Hopper Superchip tuning guide": the memory of the GPU
# is NUMA nodes without CPUs.
GH200 = Node(
    vendor="nvidia",
    model="NVIDIA GH200 480GB",
    pci_id="10DE:2342",
    pci_class="0x030200",
    cards=(Card(address="0009:01:00.0", numa=0, uuid=nvidia_uuid(0x9)),),
    cpus=("0-71", "", "", "", "", "", "", "", ""),
)

# CSCS, Alps: "Architecture" (four of them in a node of 288 cores; domains invented).
FOUR_GH200 = replace(
    GH200,
    model="NVIDIA GH200 120GB",
    cards=tuple(
        Card(address=f"00{index}9:01:00.0", numa=index, uuid=nvidia_uuid(0x90 + index))
        for index in range(4)
    ),
    cpus=("0-71", "72-143", "144-215", "216-287", "", "", "", ""),
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


def invocation(folder: Path, share: GpuShare, *command: str) -> Invocation:
    """Return the invocation of a rank whose output goes to a folder, which is made."""
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


def build(node: Node, root: Path) -> Path:
    """Write the tree of a node below a folder; returns the folder."""
    files: dict[str, object] = {}
    for number, listed in enumerate(node.cpus):
        files[f"sys/devices/system/node/node{number}/cpulist"] = listed
    for card in node.cards:
        folder = f"sys/bus/pci/devices/{card.address}"
        files[f"{folder}/vendor"] = f"0x{node.pci_id[:4].lower()}"
        files[f"{folder}/class"] = node.pci_class
        files[f"{folder}/numa_node"] = card.numa
        files[f"{folder}/uevent"] = f"PCI_ID={node.pci_id}\nPCI_SLOT_NAME={card.address}"
    # what a server has besides: a management controller's display
    files["sys/bus/pci/devices/0000:02:00.0/vendor"] = "0x1a03"
    files["sys/bus/pci/devices/0000:02:00.0/class"] = "0x030000"
    files["sys/class/drm/card0/device/vendor"] = "0x1a03"
    match node.vendor:
        case "nvidia":
            files |= _of_nvidia(node)
        case "amd":
            files |= _of_amd(node)
        case "intel":
            files |= _of_intel(node)
    for name, content in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{content}\n")
    return root


def _of_nvidia(node: Node) -> dict[str, object]:
    files: dict[str, object] = {
        "proc/driver/nvidia/version": "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64"
        "  580.65.06  Release Build",
        "sys/module/nvidia/version": "580.65.06",
    }
    for index, card in enumerate(node.cards):
        files[f"proc/driver/nvidia/gpus/{card.address}/information"] = (
            f"Model: \t\t {node.model}\nIRQ:   \t\t 264\nGPU UUID: \t {card.uuid}\n"
            f"Bus Location: \t {card.address}\nDevice Minor: \t {index}"
        )
    return files


def _of_amd(node: Node) -> dict[str, object]:
    """Write CPUs and GPUs as the nodes of KFD, and the GPUs as cards of DRM."""
    kfd = "sys/class/kfd/kfd/topology/nodes"
    files: dict[str, object] = {"sys/module/amdgpu/version": "6.8.5"}
    for number in range(len(node.cpus)):
        files[f"{kfd}/{number}/gpu_id"] = 0
        files[f"{kfd}/{number}/properties"] = "cpu_cores_count 16\nsimd_count 0\nlocation_id 0"
    for index, card in enumerate(node.cards):
        domain, bus, _ = card.address.split(":")
        number = len(node.cpus) + index
        files[f"{kfd}/{number}/gpu_id"] = 1000 + index
        files[f"{kfd}/{number}/properties"] = (
            f"cpu_cores_count 0\nsimd_count 440\ngfx_target_version {node.target}\n"
            f"vendor_id 4098\nlocation_id {int(bus, 16) << 8}\ndomain {int(domain, 16)}\n"
            f"unique_id {int(card.uuid.removeprefix('GPU-'), 16)}"
        )
        # DRM can have found them in another order
        folder = f"sys/class/drm/card{len(node.cards) - index}/device"
        files[f"{folder}/vendor"] = "0x1002"
        files[f"{folder}/uevent"] = f"PCI_ID={node.pci_id}\nPCI_SLOT_NAME={card.address}"
        files[f"{folder}/unique_id"] = card.uuid.removeprefix("GPU-")
        files[f"{folder}/product_name"] = node.model
        files[f"{folder}/mem_info_vram_total"] = node.memory_bytes
        files[f"{folder}/current_compute_partition"] = "SPX"
    return files


def _of_intel(node: Node) -> dict[str, object]:
    """Write the folders of i915, which has one of a graphics engine (gt) for each tile."""
    return {
        f"sys/bus/pci/devices/{card.address}/drm/card{index}/gt/gt{tile}/id": tile
        for index, card in enumerate(node.cards)
        for tile in range(node.tiles)
    }


@dataclass(frozen=True)
class _Handle:
    """Handle of NVML: a card, or an instance of one."""

    card: Card
    instance: str | None = None


class FakeNvml(ModuleType):
    """NVIDIA's library on a node; as in a job's control group, it counts what that lets through.

    Args:
        node: The node.
        indices: The cards that the job may use; None for all.
        instances: MIG instances, `MIG-...`, of the card with each index.
        forbidden: Indices that `nvmlDeviceGetHandleByIndex` refuses although they are counted.
    """

    NVML_CLOCK_SM, NVML_CLOCK_MEM, NVML_TEMPERATURE_GPU = 1, 2, 0
    NVML_ERROR_NOT_SUPPORTED, NVML_ERROR_NO_PERMISSION, NVML_ERROR_NOT_FOUND = 3, 4, 6
    NVML_ERROR_LIBRARY_NOT_FOUND, NVML_ERROR_FUNCTION_NOT_FOUND = 12, 13

    class NVMLError(Exception):
        value = 3

    class NVMLError_NoPermission(NVMLError):  # noqa: N801 - as the library has it
        value = 4

    class NVMLError_NotFound(NVMLError):  # noqa: N801
        value = 6

    def __init__(
        self,
        node: Node,
        indices: Sequence[int] | None = None,
        *,
        instances: Mapping[int, Sequence[str]] = {},
        forbidden: Sequence[int] = (),
    ) -> None:
        super().__init__("pynvml")
        chosen = range(len(node.cards)) if indices is None else indices
        self._node = node
        self._cards = [node.cards[index] for index in chosen]
        self._instances = {
            node.cards[index].address: tuple(names) for index, names in instances.items()
        }
        self._forbidden = forbidden

    def __getattr__(self, name: str) -> Callable[..., Any]:
        """Return a call that a device does not support, for all that is not written out here."""
        if not name.startswith("nvml"):
            raise AttributeError(name)

        def refuse(*_: object) -> object:
            raise self.NVMLError("Not Supported")

        return refuse

    def nvmlInit(self) -> None:
        pass

    def nvmlShutdown(self) -> None:
        pass

    def nvmlSystemGetCudaDriverVersion_v2(self) -> int:
        return 13000

    def nvmlDeviceGetCount(self) -> int:
        return len(self._cards)

    def nvmlDeviceGetHandleByIndex(self, index: int) -> _Handle:
        if index in self._forbidden:
            raise self.NVMLError_NoPermission("Insufficient Permissions")
        return _Handle(self._cards[index])

    def nvmlDeviceGetHandleByUUID(self, uuid: str) -> _Handle:
        for card in self._cards:
            if uuid == card.uuid:
                return _Handle(card)
            if uuid in self._instances.get(card.address, ()):
                return _Handle(card, uuid)
        raise self.NVMLError_NotFound("Not Found")

    def nvmlDeviceGetDeviceHandleFromMigDeviceHandle(self, handle: _Handle) -> _Handle:
        return _Handle(handle.card)

    def nvmlDeviceGetPciInfo(self, handle: _Handle) -> SimpleNamespace:
        vendor, device = self._node.pci_id.split(":")
        return SimpleNamespace(
            busId=f"0000{handle.card.address}".upper().encode(),
            pciDeviceId=int(device + vendor, 16),
        )

    def nvmlDeviceGetUUID(self, handle: _Handle) -> str:
        return handle.instance or handle.card.uuid

    def nvmlDeviceGetName(self, handle: _Handle) -> str:
        return self._node.model + (" MIG 1g.10gb" if handle.instance else "")

    def nvmlDeviceGetMemoryInfo(self, handle: _Handle) -> SimpleNamespace:
        return SimpleNamespace(total=80 * GIB)

    def nvmlDeviceGetMigMode(self, handle: _Handle) -> list[int]:
        is_on = int(handle.card.address in self._instances)
        return [is_on, is_on]

    def nvmlDeviceGetMaxMigDeviceCount(self, handle: _Handle) -> int:
        return 7

    def nvmlDeviceGetMigDeviceHandleByIndex(self, handle: _Handle, index: int) -> _Handle:
        names = self._instances.get(handle.card.address, ())
        if index >= len(names):
            raise self.NVMLError_NotFound("Not Found")
        return _Handle(handle.card, names[index])
