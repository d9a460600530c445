"""GPUs that a scheduler left visible on a node, and the share of each rank.

The variables are read as the vendors' runtimes read them: CUDA Programming Guide, "CUDA Environment
Variables"; ROCm, "GPU isolation techniques"; oneAPI Level Zero specification, "Affinity Mask".
"""

from __future__ import annotations

import math
import os
import re
import socket
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from capsule.errors import CannotRunError
from capsule.image import Image
from capsule.runtimes import gpus
from capsule.runtimes.base import GpuShare, Invocation
from capsule.runtimes.gpus import Devices, Vendor

VARIABLES: dict[Vendor, str] = {
    "nvidia": "CUDA_VISIBLE_DEVICES",
    "amd": "ROCR_VISIBLE_DEVICES",
    "intel": "ZE_AFFINITY_MASK",
}
"""The variable by which capsule gives devices of a vendor to a process."""

_HIP = ("HIP_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES", "GPU_DEVICE_ORDINAL")
_ORDER = "CUDA_DEVICE_ORDER"
_HIERARCHY = "ZE_FLAT_DEVICE_HIERARCHY"
_UUID = re.compile(r"GPU-[0-9a-fA-F-]{1,36}")
_MIG = re.compile(r"MIG-[0-9A-Za-z/-]+")
_TILE = re.compile(r"(\d+)(?:\.\d+)?")


@dataclass(frozen=True, kw_only=True)
class Visible:
    """The GPUs of a node that a process may use.

    Attributes:
        vendor: Whose they are.
        names: One for each device, as the vendor's variable in `VARIABLES` takes it.
        source: The variables that left out devices, with their values; empty if none did.
    """

    vendor: Vendor
    names: tuple[str, ...]
    source: str


def read(devices: Devices, environment: Mapping[str, str]) -> Visible:
    """Return the GPUs that the environment leaves visible.

    A variable that is unset means all devices, an empty one none.

    Raises:
        CannotRunError: A variable names a device twice.

    >>> four = Devices(vendor="nvidia", count=4, driver=None)
    >>> read(four, {"CUDA_VISIBLE_DEVICES": "3,1,-1,0"}).names
    ('3', '1')
    >>> read(four, {"CUDA_VISIBLE_DEVICES": ""}).names
    ()
    """
    match devices.vendor:
        case "nvidia":
            names, heard = _nvidia(devices.count, environment)
        case "amd":
            names, heard = _amd(devices.count, environment)
        case "intel":
            names, heard = _intel(devices.count, environment)
    source = ", ".join(f"{name}={environment[name]}" for name in heard)
    _require_distinct(names, source)
    return Visible(vendor=devices.vendor, names=names, source=source)


def share(visible: Visible, wanted: GpuShare, node: str) -> tuple[str, ...]:
    """Return the names of the devices of one rank of a node; no two ranks share one.

    Local rank r takes the entries from r * count on. A list that a scheduler gave to one task is
    too short for several ranks, and so is refused: the variables by which schedulers announce such
    lists stand in jobs without them too.

    Args:
        visible: What `read` found in the rank's environment.
        wanted: The rank's share.
        node: Name of the node, for messages.

    Raises:
        CannotRunError: Fewer devices are visible than the ranks of this node need.

    >>> visible = Visible(vendor="nvidia", names=("3", "5", "7"), source="")
    >>> share(visible, GpuShare(count=1, local_rank=1, local_ranks=2), "n1")
    ('5',)
    """
    count, ranks = wanted.count, wanted.local_ranks
    if len(visible.names) < count * ranks:
        each = f"{ranks} ranks need {count} each" if ranks > 1 else f"a rank needs {count}"
        raise CannotRunError(f"node {node}: {_refusal(visible, each, count * ranks)}")
    if count > 1 and any(_MIG.fullmatch(name) for name in visible.names):
        raise CannotRunError(
            f"node {node}: {count} MIG instances requested for one rank, but a process can use 1:"
            " set gpus_per_rank to 1"
        )
    return visible.names[wanted.local_rank * count : (wanted.local_rank + 1) * count]


def assign(invocation: Invocation, root: Path = Path("/")) -> Invocation:
    """Return the invocation with the names of its devices, by the environment of this process.

    Call it on the node on which the invocation starts.

    Args:
        invocation: One without names.
        root: The root of the machine's file tree.

    Raises:
        CannotRunError: The node has no GPU, or too few GPUs are visible.
    """
    wanted = invocation.gpus
    if not wanted.count:
        return invocation
    found = read(gpus.require(wanted.count, None, root), os.environ)
    return replace(invocation, devices=share(found, wanted, socket.gethostname()))


def require(count: int, image: Image | None, root: Path = Path("/")) -> Visible:
    """Stop unless this node shows `count` GPUs, with a driver new enough for the image's CUDA.

    Raises:
        CannotRunError: Says what is missing.
    """
    found = read(gpus.require(count, image, root), os.environ)
    if len(found.names) < count:
        raise CannotRunError(
            _refusal(found, f"the ranks of this node need {count}", count),
            where="/resources/gpus_per_rank",
        )
    return found


def variables(names: Sequence[str], root: Path = Path("/")) -> dict[str, str]:
    """Return the variables by which a process sees these devices only.

    Without a name, they hide the GPUs of NVIDIA and AMD; Intel's runtime has no such value.
    """
    if not names:
        return {"CUDA_VISIBLE_DEVICES": "", "HIP_VISIBLE_DEVICES": "", "ROCR_VISIBLE_DEVICES": ""}
    found = gpus.find(root)
    vendor = "nvidia" if found is None else found.vendor
    chosen = {VARIABLES[vendor]: ",".join(names)}
    if vendor == "nvidia":
        # indices count in this order, which by default is not that of the driver
        chosen[_ORDER] = os.environ.get(_ORDER, "PCI_BUS_ID")
    elif vendor == "intel":
        # without a mask, capsule counted cards
        counted = None if os.environ.get(VARIABLES["intel"]) else "COMPOSITE"
        if hierarchy := os.environ.get(_HIERARCHY, counted):
            chosen[_HIERARCHY] = hierarchy
    return chosen


def _refusal(visible: Visible, needed: str, count: int) -> str:
    found = _number(len(visible.names))
    why = f" ({visible.source})" if visible.source else ""
    # the way out in the sentence itself: of a rank on another node nothing else arrives
    return (
        f"{found} visible{why}, but {needed}: request {count} on each node from the scheduler, or"
        " lower ranks_per_node or gpus_per_rank"
    )


def _number(count: int) -> str:
    return "1 GPU is" if count == 1 else f"{count} GPUs are" if count else "no GPU is"


def _nvidia(count: int, environment: Mapping[str, str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    variable = VARIABLES["nvidia"]
    listed = environment.get(variable)
    if listed is None:
        return _all(count), ()
    return _until_invalid(listed, count, _UUID, _MIG), (variable,)


def _amd(count: int, environment: Mapping[str, str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Read the variable of the ROCm runtime, and that of HIP, which counts among what ROCm left."""
    lower = VARIABLES["amd"]
    names, heard = _all(count), tuple[str, ...]()
    if (listed := environment.get(lower)) is not None:
        names, heard = _until_invalid(listed, count, _UUID), (lower,)
    written = [name for name in _HIP if name in environment]
    # HIP skips an empty variable of its own for that of CUDA
    upper = next((name for name in written if environment[name]), written[0] if written else None)
    # Slurm writes one list into all variables; capsule passes on only the lower one
    if upper is None or environment[upper] == listed:
        return names, heard
    chosen = _until_invalid(environment[upper], len(names), _UUID)
    return tuple(names[int(one)] if one.isdigit() else one for one in chosen), (*heard, upper)


def _intel(count: int, environment: Mapping[str, str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Read entries of the form CARD or CARD.TILE; all that are invalid are skipped."""
    variable = VARIABLES["intel"]
    # the specification has an empty mask mean the same as none
    if not (listed := environment.get(variable)):
        return _all(count), ()
    entries = (entry.strip() for entry in listed.split(","))
    valid = ((entry, _TILE.fullmatch(entry)) for entry in entries)
    # only in this hierarchy does an entry count cards, else tiles, whose number is unknown here
    most = count if environment.get(_HIERARCHY) == "COMPOSITE" else math.inf
    names = (entry for entry, match in valid if match is not None and int(match[1]) < most)
    return tuple(names), (variable,)


def _all(count: int) -> tuple[str, ...]:
    return tuple(map(str, range(count)))


def _until_invalid(listed: str, count: int, *forms: re.Pattern[str]) -> tuple[str, ...]:
    """Return the entries before the first that names no device; the runtimes ignore the rest."""
    names = list[str]()
    for entry in (entry.strip() for entry in listed.split(",")):
        is_index = entry.isascii() and entry.isdigit() and int(entry) < count
        if not is_index and not any(form.fullmatch(entry) for form in forms):
            break
        names.append(str(int(entry)) if is_index else entry)
    return tuple(names)


def _require_distinct(names: Sequence[str], source: str) -> None:
    for index, name in enumerate(names):
        if any(_overlap(name, other) for other in names[:index]):
            raise CannotRunError(
                f"{source} lists GPU {name} twice",
                advice="list each GPU once",
            )


def _overlap(name: str, other: str) -> bool:
    """Return whether two names mean one device, or a card and its tile."""
    if name.startswith("GPU-") or other.startswith("GPU-"):
        return name.startswith(other) or other.startswith(name)
    return name == other or name.startswith(f"{other}.") or other.startswith(f"{name}.")
