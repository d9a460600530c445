"""Inventory of this machine: hardware, software, and the reason of each missing field.

`node` describes one node as plain JSON values in four parts:

    identity   which machine it is (names, serials, UUIDs, addresses): salted hashes, never compared
    class      what kind it is (models, counts, sizes, rates): compared
    state      how it is set (versions, clocks, governors, limits): compared, reported beside a
               verdict; `state.momentary` is what it happened to be doing, and is not compared
    missing    JSON pointer -> "absent | not permitted | tool missing: detail" for each null

Everything but NVIDIA's driver library is read from files below a root, so that the recorded tree of
another machine is read by the same code.
"""

from __future__ import annotations

import hashlib
from pathlib import Path

from capsule.inventory.compare import differences, outliers
from capsule.inventory.tree import Fact, Part, Tree, Unread, settle
from capsule.inventory.words import at, busy, describe, entries_at
from capsule.jsons import Json

__all__ = ["at", "busy", "describe", "differences", "entries_at", "node", "outliers"]

_HASH_DIGITS = 16


def node(
    root: Path = Path("/"), *, salt: str, keep_hosts: bool = False, scheduled_as: str | None = None
) -> dict[str, Json]:
    """Describe one node; the fields of each section are documented with its reader.

    `class` holds `machine`, `cpu`, `memory`, `network`, `gpus`; `state` holds `machine`, `cpu`,
    `memory`, `system`, `limits`, `network`, `gpu_driver`, `gpus`, `momentary`; `identity` holds
    `machine`, `network`, `gpus`. Without a GPU `class.gpus` is
    null, and the other lists of GPUs are left out. What a scheduler calls it is its identity, too.

    Args:
        root: `/`, or a folder with another machine's `proc`, `sys` and `etc`.
        salt: Goes into every identity hash. Whoever knows it can test guesses of a host's name.
        keep_hosts: Keep identity values as they are.
        scheduled_as: What a scheduler calls this node, None where none does.

    Returns:
        {"identity", "class", "state", "missing"} of dicts, lists, strings, numbers, booleans, None.
    """
    # whoever reads a capsule describes its nodes, and takes no inventory
    from capsule.inventory import cpu, gpu, memory, network, system

    tree = Tree(root)
    driver, devices = gpu.read(tree)
    parts = {
        "machine": system.machine(tree),
        "cpu": cpu.read(tree),
        "memory": memory.read(tree),
        "system": system.software(tree),
        "limits": system.limits(tree),
        "network": network.read(tree),
        "gpu_driver": driver,
    }
    sections: dict[str, dict[str, Fact]] = {
        "identity": {name: part.identity for name, part in parts.items() if part.identity},
        "class": {name: part.klass for name, part in parts.items() if part.klass},
        "state": {name: part.state for name, part in parts.items() if part.state},
    }
    momentary: dict[str, Fact] = {n: part.momentary for n, part in parts.items() if part.momentary}
    _add_devices(sections, momentary, devices)
    sections["state"]["momentary"] = momentary
    missing: dict[str, str] = {}
    identity, kind, state = (
        {
            part: settle(facts, f"/{section}/{part}", missing)
            for part, facts in sections[section].items()
        }
        for section in ("identity", "class", "state")
    )
    if scheduled_as is not None:
        identity["scheduler"] = {"node": scheduled_as}
    if not keep_hosts:
        identity = {part: _hash(value, salt) for part, value in identity.items()}
    return {
        "identity": identity,
        "class": kind,
        "state": state,
        "missing": dict(sorted(missing.items())),
    }


def _add_devices(
    sections: dict[str, dict[str, Fact]], momentary: dict[str, Fact], devices: list[Part] | Unread
) -> None:
    if isinstance(devices, Unread):
        sections["class"]["gpus"] = devices
        return
    sections["identity"]["gpus"] = [device.identity for device in devices]
    sections["class"]["gpus"] = [device.klass for device in devices]
    sections["state"]["gpus"] = [device.state for device in devices]
    momentary["gpus"] = [device.momentary for device in devices]


def _hash(value: Json, salt: str) -> Json:
    if isinstance(value, dict):
        return {name: _hash(item, salt) for name, item in value.items()}
    if isinstance(value, list):
        return [_hash(item, salt) for item in value]
    if value is None:
        return None
    return hashlib.sha256(f"{salt}\n{value}".encode()).hexdigest()[:_HASH_DIGITS]
