"""Memory: how much, in which modules, on which NUMA nodes, and how the kernel pages it."""

from __future__ import annotations

from collections import Counter

from capsule.inventory.tree import Fact, Part, Tree, Unread, pick, whole

_DMI = "sys/firmware/dmi/entries"
_NODES = "sys/devices/system/node"
_MEBI = 1 << 20

# SMBIOS 3.7, table 78: the memory types that servers and workstations still have
_MEMORY_TYPES = {
    0x18: "DDR3",
    0x1A: "DDR4",
    0x1B: "LPDDR",
    0x1C: "LPDDR2",
    0x1D: "LPDDR3",
    0x1E: "LPDDR4",
    0x20: "HBM",
    0x21: "HBM2",
    0x22: "DDR5",
    0x23: "LPDDR5",
    0x24: "HBM3",
}


def read(tree: Tree) -> Part:
    """Return the memory of one node.

    Class: `total_bytes` that the kernel manages; `modules`, equal ones counted, with `type`,
    `size_bytes`, `rated_transfers_per_second`, `configured_transfers_per_second`, `manufacturer`,
    `part_number` (only root may read them); `numa_nodes` with `cpus`, `total_bytes`, `distances`.

    State: `page_bytes`, `swap_bytes`, `swappiness`, `transparent_hugepages`,
    `reserved_hugepages_bytes`, `numa_balancing`.

    Momentary: `available_bytes`.
    """
    info = tree.fields("proc/meminfo", ":")
    return Part(
        klass={
            "total_bytes": _kibibytes(info, "MemTotal"),
            "modules": _modules(tree),
            "numa_nodes": _numa_nodes(tree),
        },
        state={
            "page_bytes": _page_bytes(tree),
            "swap_bytes": _kibibytes(info, "SwapTotal"),
            "swappiness": tree.number("proc/sys/vm/swappiness"),
            "transparent_hugepages": _choice(
                tree.text("sys/kernel/mm/transparent_hugepage/enabled")
            ),
            "reserved_hugepages_bytes": _kibibytes(info, "Hugetlb"),
            "numa_balancing": tree.number("proc/sys/kernel/numa_balancing"),
        },
        momentary={"available_bytes": _kibibytes(info, "MemAvailable")},
    )


def _kibibytes(fields: dict[str, str] | Unread, name: str) -> int | Unread:
    return _times_1024(pick(fields, name, "proc/meminfo"), name)


def _times_1024(text: str | Unread, where: str) -> int | Unread:
    number = whole(text, where)
    return number if isinstance(number, Unread) else number * 1024


def _choice(text: str | Unread) -> str | Unread:
    """Return the bracketed word of a choice: `always [madvise] never`."""
    if isinstance(text, Unread):
        return text
    return next((word[1:-1] for word in text.split() if word.startswith("[")), text)


def _page_bytes(tree: Tree) -> int | Unread:
    text = pick(tree.fields("proc/self/smaps", ":"), "KernelPageSize", "proc/self/smaps")
    return _times_1024(text, "KernelPageSize")


def _numa_nodes(tree: Tree) -> list[dict[str, Fact]] | Unread:
    names = [n for n in tree.names(_NODES) if n.startswith("node") and n[4:].isdigit()]
    if not names:
        return tree.nothing(_NODES, "node")
    return [_numa_node(tree, name) for name in sorted(names, key=lambda name: int(name[4:]))]


def _numa_node(tree: Tree, name: str) -> dict[str, Fact]:
    folder = f"{_NODES}/{name}"
    cpus = tree.text(f"{folder}/cpulist")
    if isinstance(cpus, Unread) and isinstance(tree.raw(f"{folder}/cpulist"), bytes):
        cpus = ""  # memory without processors, as a GPU's on Grace Hopper: the file is empty
    distances = tree.text(f"{folder}/distance")
    meminfo = tree.fields(f"{folder}/meminfo", "MemTotal:")
    total = next(iter(meminfo.values()), "") if isinstance(meminfo, dict) else meminfo
    hops = distances if isinstance(distances, Unread) else distances.split()
    return {
        "cpus": cpus,
        "total_bytes": _times_1024(total, f"/{folder}/meminfo"),
        "distances": hops
        if isinstance(hops, Unread)
        else [whole(hop, f"/{folder}/distance") for hop in hops],
    }


def _modules(tree: Tree) -> list[dict[str, Fact]] | Unread:
    entries = [name for name in tree.names(_DMI) if name.startswith("17-")]
    raws = [tree.raw(f"{_DMI}/{name}/raw") for name in entries]
    unread = next((raw for raw in raws if isinstance(raw, Unread)), None)
    if unread or not raws:
        return unread or tree.nothing(_DMI, "memory module")
    modules = [module_record(raw) for raw in raws if isinstance(raw, bytes)]
    counts = Counter(tuple(module.items()) for module in modules if module)
    ordered = sorted(counts.items(), key=lambda pair: str(pair[0]))
    return [{**dict(items), "count": count} for items, count in ordered]


def module_record(raw: bytes) -> dict[str, Fact] | None:
    """Return one SMBIOS type 17 structure (DSP0134 section 7.18) as a memory module.

    Args:
        raw: The formatted area followed by its NUL-terminated strings.

    Returns:
        Its facts, null for those that the firmware does not know; None for an empty slot or a
        structure too short to tell.
    """
    length = raw[1] if len(raw) > 1 else 0
    if length < 0x1B or len(raw) < length:
        return None
    strings = raw[length:].split(b"\0")

    def word(at: int, size: int = 2) -> int:
        return int.from_bytes(raw[at : at + size], "little") if at + size <= length else 0

    def string(at: int) -> str | None:
        number = raw[at]
        known = 0 < number <= len(strings)
        return strings[number - 1].decode("latin-1").strip() or None if known else None

    size = _module_bytes(word(0x0C), word(0x1C, 4))
    if not size:
        return None
    return {
        "type": _MEMORY_TYPES.get(raw[0x12], f"SMBIOS type {raw[0x12]:#x}"),
        "size_bytes": size,
        "rated_transfers_per_second": _transfers(word(0x15), word(0x54, 4)),
        "configured_transfers_per_second": _transfers(word(0x20), word(0x58, 4)),
        "manufacturer": string(0x17),
        "part_number": string(0x1A),
    }


def _module_bytes(size: int, extended: int) -> int | None:
    if size in (0, 0xFFFF):  # empty slot, unknown
        return None
    if size == 0x7FFF:
        return (extended & 0x7FFFFFFF) * _MEBI
    return (size & 0x7FFF) * (1024 if size & 0x8000 else _MEBI)


def _transfers(mega: int, extended: int) -> int | None:
    mega = extended if mega == 0xFFFF else mega
    return mega * 1_000_000 or None
