"""Placement of ranks on nodes, GPUs and CPUs, and the inventory of these nodes."""

from __future__ import annotations

import json
import re
import secrets
from pathlib import Path

from capsule import inventory, leavings
from capsule.execute.workspace import Start, Workspace
from capsule.jsons import Json, JsonObject
from capsule.launch.base import Launcher, Surveys
from capsule.runtimes.base import GPUS

_MOST_BYTES = 1 << 16
_ADDRESS = re.compile(r"[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]")
_CPUS = re.compile(r"[0-9]+(?:[-,][0-9]+)*")


def this_node(workspace: Workspace) -> JsonObject:
    """Return the inventory of this node."""
    header = workspace.header
    return inventory.node(salt=header.salt, keep_hosts=header.keep_hosts)


def place(workspace: Workspace, launcher: Launcher, ranks: int) -> tuple[int, ...]:
    """Keep the inventory of every node of the ranks that is new; the index of that of each rank.

    Raises:
        CannotRunError: The launcher cannot start ranks, or not where they are to be.
    """
    if not isinstance(launcher, Surveys):
        return (workspace.add_node(this_node(workspace)),) * ranks
    header = workspace.header
    inventories = launcher.survey(
        salt=header.salt,
        keep_hosts=header.keep_hosts,
        folder=workspace.folder / f"survey-{secrets.token_hex(4)}",
    )
    return tuple(map(workspace.add_node, inventories))


def read_gpus(start: Start) -> list[Json] | None:
    """Return the GPUs and CPUs of each rank, as its node dealt them out; None if no rank has any.

    An entry is null if its rank did not start, or if a workload without a container changed its
    file. A PCI address leads to the UUID: the inventory of the rank's node has both.
    """
    dealt: list[Json] = [_read_gpus(files.stdout.with_name(GPUS)) for files in start.rank_files()]
    return dealt if any(dealt) else None


def _read_gpus(path: Path) -> JsonObject | None:
    stream = leavings.open_file(path)
    if stream is None:
        return None
    with stream:
        data = stream.read(_MOST_BYTES)
    try:
        facts = json.loads(data)
        addresses, cpus = list(facts["pci_addresses"]), facts["cpus"]
    except (ValueError, TypeError, KeyError, RecursionError):
        return None
    are_addresses = all(one is None or _fits(_ADDRESS, one) for one in addresses)
    if not are_addresses or not (cpus is None or _fits(_CPUS, cpus)):
        return None
    return {"pci_addresses": addresses, "cpus": cpus}


def _fits(form: re.Pattern[str], value: object) -> bool:
    return isinstance(value, str) and form.fullmatch(value) is not None
