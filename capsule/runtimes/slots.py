"""PCI slots of a node's GPUs, by the index that the vendors' runtimes give them, and CPUs nearby.

Sources: NVML API reference, "Device Queries" (indices follow PCI addresses, devices that a process
may not use are left out); Linux, `kfd_topology.c` (`location_id`, `domain`, `unique_id`) and
Documentation/ABI, `sysfs-bus-pci` (`numa_node`); oneAPI Level Zero specification, "Environment
Variables".
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

from capsule.inventory.gpu import decode, kernel_address
from capsule.inventory.tree import Tree, Unread, expand
from capsule.runtimes import gpus
from capsule.runtimes.gpus import Vendor

PCI_ORDER = "ZE_ENABLE_PCI_ID_DEVICE_ORDER"
HIERARCHY = "ZE_FLAT_DEVICE_HIERARCHY"
TILES_AS_DEVICES = ("FLAT", "COMBINED")
_NVIDIA_ORDER = "CUDA_DEVICE_ORDER"
_PCI = "sys/bus/pci/devices"
_KFD = "sys/class/kfd/kfd/topology/nodes"
_NODES = "sys/devices/system/node"
_NVIDIA = "proc/driver/nvidia/gpus"
# of an older MIG instance the name begins with that of its card
_CARD = re.compile(r"(?:MIG-)?(GPU-[0-9A-Fa-f-]+)(?:/\d+/\d+)?")
# of the drivers xe and i915
_TILE = re.compile(r"tile\d+|gt\d+")


@dataclass(frozen=True, kw_only=True)
class Slot:
    """A GPU of this node.

    Attributes:
        address: PCI address, as `sys/bus/pci/devices` has it; empty if unreadable.
        uuid: Its name, `GPU-...`, which is the same in every job; None if unreadable.
        tiles: Number of its tiles, which Intel's runtime can count as devices; 0 if unknown.
    """

    address: str
    uuid: str | None = None
    tiles: int = 0


def find(vendor: Vendor, root: Path = Path("/")) -> tuple[Slot, ...] | None:
    """Return the GPUs that this process may use, by index; None if unknown."""
    tree = Tree(root)
    match vendor:
        case "nvidia" if tree.live:
            return gpus.ask_nvml(_ask)
        case "nvidia":
            return tuple(_read_nvidia(tree, address) for address in tree.names(_NVIDIA))
        case "amd":
            nodes = sorted((name for name in tree.names(_KFD) if name.isdecimal()), key=int)
            return tuple(_read_kfd(tree, f"{_KFD}/{node}") for node in nodes if _is_gpu(tree, node))
        case "intel":
            cards = filter(lambda card: gpus.is_intel_card(root / _PCI / card), tree.names(_PCI))
            return tuple(Slot(address=card, tiles=_count_tiles(tree, card)) for card in cards)


def locate(
    vendor: Vendor, names: Sequence[str], slots: Sequence[Slot], environment: Mapping[str, str]
) -> tuple[Slot | None, ...]:
    """Return the slot of each named GPU, None for an unknown slot.

    Args:
        vendor: Whose they are.
        names: As `visible.read` returns them.
        slots: All that the process may use, by index.
        environment: What `visible.read` read, which can hold another order of the indices.

    >>> card = Slot(address="0000:c1:00.0", uuid="GPU-1d2c")
    >>> locate("amd", ["0", "GPU-1d2c", "1"], [card], {}) == (card, card, None)
    True
    """
    if vendor == "intel":
        return tuple(_locate_tile(name, slots, environment) for name in names)
    if len(slots) == 1 and vendor == "nvidia":
        # whichever of its instances it is
        return tuple(slots[0] for _ in names)
    is_ordered = vendor == "amd" or environment.get(_NVIDIA_ORDER, "PCI_BUS_ID") == "PCI_BUS_ID"
    return tuple(_locate(name, slots, is_ordered=is_ordered) for name in names)


def find_by_uuid(uuid: str, slots: Sequence[Slot]) -> Slot | None:
    """Return the only GPU whose name begins so, as the vendors' runtimes look for it."""
    wanted = uuid.lower()
    found = [slot for slot in slots if slot.uuid and slot.uuid.lower().startswith(wanted)]
    return found[0] if len(found) == 1 else None


def find_index(slot: Slot, root: Path = Path("/")) -> int | None:
    """Return the index of an NVIDIA GPU among all of this machine, in whatever job this is."""
    addresses = Tree(root).names(_NVIDIA)
    return addresses.index(slot.address) if slot.address in addresses else None


def choose_cpus(
    rank: int,
    placed: Sequence[Sequence[Slot | None]],
    threads: int,
    root: Path = Path("/"),
) -> tuple[int, ...]:
    """Return the CPUs near the GPUs of a rank, to which it is bound; empty for no binding.

    A rank stays unbound if a NUMA node is unknown, if it may use no other CPUs anyway, and if the
    threads of all ranks near these CPUs outnumber the CPUs.

    Args:
        rank: Number of the rank on its node, from 0.
        placed: The GPUs of each rank of the node.
        threads: Threads of each rank.
        root: The root of the machine's file tree.
    """
    allowed = os.sched_getaffinity(0)
    near = [_find_cpus(slots, root) & allowed for slots in placed]
    own = near[rank]
    neighbours = sum(not own.isdisjoint(cpus) for cpus in near)
    if own == allowed or threads * neighbours > len(own):
        return ()
    return tuple(sorted(own))


def _find_cpus(slots: Collection[Slot | None], root: Path) -> set[int]:
    """Return the CPUs of the NUMA nodes of some GPUs; empty if one is unknown."""
    tree = Tree(root)
    cpus = set[int]()
    for slot in slots:
        node = tree.number(f"{_PCI}/{slot.address}/numa_node") if slot else None
        # the kernel writes -1 where the firmware does not say it, and no such node is there
        listed = tree.text(f"{_NODES}/node{node}/cpulist") if isinstance(node, int) else None
        if not isinstance(listed, str):
            return set()
        cpus.update(expand(listed))
    return cpus


def _ask(nvml: ModuleType) -> tuple[Slot, ...]:
    slots = []
    for index in range(nvml.nvmlDeviceGetCount()):
        try:
            handle = nvml.nvmlDeviceGetHandleByIndex(index)
        except nvml.NVMLError_NoPermission:
            continue
        address = kernel_address(nvml.nvmlDeviceGetPciInfo(handle).busId)
        slots.append(Slot(address=address, uuid=decode(nvml.nvmlDeviceGetUUID(handle))))
    return tuple(slots)


def _read_nvidia(tree: Tree, address: str) -> Slot:
    fields = tree.fields(f"{_NVIDIA}/{address}/information", ":")
    uuid = None if isinstance(fields, Unread) else fields.get("GPU UUID")
    return Slot(address=address, uuid=uuid)


def _is_gpu(tree: Tree, node: str) -> bool:
    # 0 is a CPU; of a GPU that a control group withholds the kernel gives no number
    number = tree.number(f"{_KFD}/{node}/gpu_id")
    return isinstance(number, int) and number != 0


def _read_kfd(tree: Tree, node: str) -> Slot:
    fields = tree.fields(f"{node}/properties", " ")
    known = {} if isinstance(fields, Unread) else fields
    facts = {name: int(text) for name, text in known.items() if text.isdecimal()}
    address = ""
    if location := facts.get("location_id"):
        # bus and device; other bits can number a partition, and the function of a GPU is 0
        bus, device = location >> 8 & 0xFF, location >> 3 & 0x1F
        address = f"{facts.get('domain', 0):04x}:{bus:02x}:{device:02x}.0"
    unique = facts.get("unique_id")
    return Slot(address=address, uuid=f"GPU-{unique:016x}" if unique else None)


def _count_tiles(tree: Tree, card: str) -> int:
    folders = [f"{_PCI}/{card}"]
    folders += [f"{_PCI}/{card}/drm/{name}/gt" for name in tree.names(f"{_PCI}/{card}/drm")]
    return max(sum(map(bool, map(_TILE.fullmatch, tree.names(one)))) for one in folders)


def _locate(name: str, slots: Sequence[Slot], *, is_ordered: bool) -> Slot | None:
    if name.isdecimal():
        return slots[int(name)] if is_ordered and int(name) < len(slots) else None
    if match := _CARD.fullmatch(name):
        return find_by_uuid(match[1], slots)
    address = gpus.ask_nvml(lambda nvml: _find_card(nvml, name))
    return next((slot for slot in slots if slot.address == address), None)


def _find_card(nvml: ModuleType, instance: str) -> str:
    handle = nvml.nvmlDeviceGetHandleByUUID(instance)
    card = nvml.nvmlDeviceGetDeviceHandleFromMigDeviceHandle(handle)
    return kernel_address(nvml.nvmlDeviceGetPciInfo(card).busId)


def _locate_tile(name: str, slots: Sequence[Slot], environment: Mapping[str, str]) -> Slot | None:
    """Return the card of an entry of Intel's mask, where its order is that of PCI addresses."""
    counted_here = not environment.get("ZE_AFFINITY_MASK")
    if environment.get(PCI_ORDER, "1" if counted_here else None) != "1":
        return None
    hierarchy = environment.get(HIERARCHY, "COMPOSITE" if counted_here else None)
    index, _, tile = name.partition(".")
    devices = list(slots)
    if hierarchy in TILES_AS_DEVICES:
        devices = [slot for slot in slots for _ in range(slot.tiles)]
        if tile or not all(slot.tiles for slot in slots):
            return None
    elif hierarchy != "COMPOSITE":
        return None
    return devices[int(index)] if int(index) < len(devices) else None
