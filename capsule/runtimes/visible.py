"""GPUs that a scheduler left visible on a node, and the share of each rank.

The variables are read as the vendors' runtimes read them: CUDA Programming Guide, "CUDA Environment
Variables"; ROCm, "GPU isolation techniques"; oneAPI Level Zero specification, "Affinity Mask".
"""

from __future__ import annotations

import json
import math
import os
import re
import socket
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from capsule.errors import CannotRunError
from capsule.image import Image
from capsule.inventory.tree import compress
from capsule.runtimes import gpus, slots
from capsule.runtimes.base import GPUS, GpuShare, Invocation
from capsule.runtimes.gpus import Devices, Vendor
from capsule.runtimes.slots import HIERARCHY, PCI_ORDER, TILES_AS_DEVICES, Slot

VARIABLES: dict[Vendor, str] = {
    "nvidia": "CUDA_VISIBLE_DEVICES",
    "amd": "ROCR_VISIBLE_DEVICES",
    "intel": "ZE_AFFINITY_MASK",
}
"""The variable by which capsule gives devices of a vendor to a process."""

_HIP = ("HIP_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES", "GPU_DEVICE_ORDINAL")
LISTS = tuple(dict.fromkeys((*VARIABLES.values(), *_HIP)))
"""Variables that list GPUs by names that mean other GPUs on another node."""
_ORDER = "CUDA_DEVICE_ORDER"
_UUID = re.compile(r"GPU-[0-9a-fA-F-]{1,36}")
_MIG = re.compile(r"MIG-[0-9A-Za-z/-]+")
_TILE = re.compile(r"([0-9]+)((?:\.[0-9]+)?)")


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


def read(
    devices: Devices, environment: Mapping[str, str], known: Sequence[Slot] | None = None
) -> Visible:
    """Return the GPUs that the environment leaves visible.

    A variable that is unset means all devices, an empty one none.

    Args:
        devices: The GPUs of the machine.
        environment: Variables of a process.
        known: The GPUs that the process may use, by index; None if unknown.

    Raises:
        CannotRunError: A variable names a device twice.

    >>> four = Devices(vendor="nvidia", count=4, driver=None)
    >>> read(four, {"CUDA_VISIBLE_DEVICES": "3,1,-1,0"}).names
    ('3', '1')
    >>> read(four, {"CUDA_VISIBLE_DEVICES": ""}).names
    ()
    """
    # a control group can withhold some of the machine's, and indices count the others
    count = devices.count if known is None else len(known)
    known = known or ()
    match devices.vendor:
        case "nvidia":
            names, heard = _nvidia(count, known, environment)
        case "amd":
            names, heard = _amd(count, known, environment)
        case "intel":
            names, heard = _intel(count, known, environment)
    source = ", ".join(f"{name}={environment[name]}" for name in heard)
    _require_distinct(names, source)
    if devices.vendor != "intel":
        _require_distinct(_uuids(devices.vendor, names, known, environment), source)
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


def assign(invocation: Invocation, root: Path = Path("/"), *, can_bind: bool = True) -> Invocation:
    """Return the invocation with its devices and CPUs, by the environment of this process.

    Call it on the node on which the invocation starts. What it chose is written beside the
    invocation's standard output, in the file `GPUS`: whoever started the ranks of all nodes reads
    it there.

    Args:
        invocation: One without devices.
        root: The root of the machine's file tree.
        can_bind: True if the engine can bind the invocation to CPUs.

    Raises:
        CannotRunError: The node has no GPU, or too few GPUs are visible; or the file cannot be
            written.
    """
    wanted = invocation.gpus
    if not wanted.count:
        return invocation
    devices = gpus.require(wanted.count, None, root)
    known = slots.find(devices.vendor, root)
    found = read(devices, os.environ, known)
    names = share(found, wanted, socket.gethostname())
    dealt = found.names[: wanted.count * wanted.local_ranks]
    located = slots.locate(devices.vendor, dealt, known or (), os.environ)
    placed = [
        located[first : first + wanted.count] for first in range(0, len(located), wanted.count)
    ]
    rank = wanted.local_rank
    cpus = slots.choose_cpus(rank, placed, wanted.threads, root) if can_bind else ()
    _report(invocation.stdout.with_name(GPUS), placed[rank], cpus)
    return replace(invocation, devices=names, cpus=cpus)


def require(count: int, image: Image | None, root: Path = Path("/")) -> Visible:
    """Stop unless this node shows `count` GPUs, with a driver new enough for the image's CUDA.

    Raises:
        CannotRunError: Says what is missing.
    """
    devices = gpus.require(count, image, root)
    found = read(devices, os.environ, slots.find(devices.vendor, root))
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
        # without a mask, capsule counted cards, by their addresses
        usual = {HIERARCHY: "COMPOSITE", PCI_ORDER: "1"}
        counted = {} if os.environ.get(VARIABLES["intel"]) else usual
        own = {name: os.environ[name] for name in usual if name in os.environ}
        chosen |= {**counted, **own}
    return chosen


def _report(path: Path, placed: Sequence[Slot | None], cpus: Sequence[int]) -> None:
    addresses = [slot.address or None if slot else None for slot in placed]
    facts = {"pci_addresses": addresses, "cpus": compress(list(cpus)) or None}
    try:
        path.write_text(json.dumps(facts))
    except OSError as error:
        raise CannotRunError(f"cannot write {path}: {error.strerror}") from None


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


def _nvidia(
    count: int, known: Sequence[Slot], environment: Mapping[str, str]
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    variable = VARIABLES["nvidia"]
    listed = environment.get(variable)
    if listed is None:
        return _all(count), ()
    return _until_invalid(listed, count, known, _UUID, _MIG), (variable,)


def _amd(
    count: int, known: Sequence[Slot], environment: Mapping[str, str]
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Read the variable of the ROCm runtime, and that of HIP, which counts among what ROCm left."""
    lower = VARIABLES["amd"]
    names, heard = _all(count), tuple[str, ...]()
    if (listed := environment.get(lower)) is not None:
        names, heard = _until_invalid(listed, count, known, _UUID), (lower,)
    written = [name for name in _HIP if name in environment]
    # HIP skips an empty variable of its own for that of CUDA
    upper = next((name for name in written if environment[name]), written[0] if written else None)
    # Slurm writes one list into all variables; capsule passes on only the lower one
    if upper is None or environment[upper] == listed:
        return names, heard
    chosen = _until_invalid(environment[upper], len(names), known, _UUID)
    return tuple(names[int(one)] if one.isdigit() else one for one in chosen), (*heard, upper)


def _intel(
    count: int, known: Sequence[Slot], environment: Mapping[str, str]
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Read entries of the form CARD or CARD.TILE; all that are invalid are skipped."""
    variable = VARIABLES["intel"]
    hierarchy = environment.get(HIERARCHY)
    tiles = sum(slot.tiles for slot in known)
    if hierarchy in TILES_AS_DEVICES:
        # an entry counts tiles
        count = tiles or count
    # the specification has an empty mask mean the same as none
    if not (listed := environment.get(variable)):
        return _all(count), ()
    matches = (_TILE.fullmatch(entry.strip()) for entry in listed.split(","))
    entries = ((int(match[1]), match[2]) for match in matches if match is not None)
    is_counted = hierarchy == "COMPOSITE" or (hierarchy in TILES_AS_DEVICES and tiles)
    most = count if is_counted else math.inf
    return tuple(f"{index}{tile}" for index, tile in entries if index < most), (variable,)


def _all(count: int) -> tuple[str, ...]:
    return tuple(map(str, range(count)))


def _until_invalid(
    listed: str, count: int, known: Sequence[Slot], *forms: re.Pattern[str]
) -> tuple[str, ...]:
    """Return the entries before the first that names no device; the runtimes ignore the rest."""
    are_named = bool(known) and all(slot.uuid for slot in known)
    names = list[str]()
    for entry in (entry.strip() for entry in listed.split(",")):
        is_index = entry.isascii() and entry.isdigit() and int(entry) < count
        if not is_index and not any(form.fullmatch(entry) for form in forms):
            break
        # such as one of the node on which a list was written
        if are_named and _UUID.fullmatch(entry) and slots.find_by_uuid(entry, known) is None:
            break
        names.append(str(int(entry)) if is_index else entry)
    return tuple(names)


def _uuids(
    vendor: Vendor, names: Sequence[str], known: Sequence[Slot], environment: Mapping[str, str]
) -> list[str]:
    """Return the whole devices that are named, as far as they can be told apart."""
    if len({slot.uuid for slot in known}) < len(known):
        return []  # parts of one card
    whole = [name for name in names if not _MIG.fullmatch(name)]
    located = slots.locate(vendor, whole, known, environment)
    return [slot.uuid for slot in located if slot is not None and slot.uuid]


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
