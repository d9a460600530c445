"""Devices that can be sampled: NVIDIA's by NVML, AMD's and processor packages by sysfs."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import ModuleType
from typing import Any, Literal, NamedTuple, Protocol

from capsule import process, processes
from capsule.inventory.tree import Tree, Unread

QUANTITIES = (
    "memory_bytes",
    "memory_clock_hertz",
    "power_watts",
    "sm_clock_hertz",
    "temperature_celsius",
    "utilization",
)
"""Quantities of a device that are kept as series; `utilization` is a share of the time."""

REASONS: Mapping[int, str] = {
    0x1: "idle",
    0x2: "application-clocks",
    0x4: "power-limit",
    0x8: "hardware-slowdown",
    0x10: "sync-boost",
    0x20: "thermal-limit",
    0x40: "hardware-thermal-slowdown",
    0x80: "power-brake",
    0x100: "display-clocks",
}
"""NVML's reasons for limited clocks (nvml.h, nvmlClocksEventReasons), by bit."""

IsOwn = Callable[[int], bool]
"""Returns whether a process belongs to the workload, by its id."""

INITIAL_NAMESPACE = "pid:[4026531836]"
"""The namespace of process ids in which drivers count (Linux, PROC_PID_INIT_INO)."""

_RAPL = "sys/class/powercap"
_ZONE, _PACKAGE = re.compile(r"intel-rapl:\d+"), re.compile(r"package-\d{1,4}")
_CONSTRAINTS = range(3)
_KFD = "sys/class/kfd/kfd/topology/nodes"
_PCI = "sys/bus/pci/devices"
# the energy counter of NVML has 64 bits of mJ
_NVML_JOULES = 2.0**64 / 1000


class Facts(NamedTuple):
    """Properties of a device that stay the same.

    Attributes:
        device: PCI address, or the name of a package.
        wrap_joules: Energy after which the counter starts again from 0; None without a counter.
        limit_watts: Highest power that the device may take; None if unknown.
        is_mig: True for an instance of a card with MIG, or such a card.
    """

    device: str
    source: Literal["nvml", "amdgpu", "rapl"]
    wrap_joules: float | None = None
    limit_watts: float | None = None
    is_mig: bool = False


class Sample(NamedTuple):
    """Readings of a device at one moment; None for those that failed.

    Attributes:
        joules: Energy counter.
        reasons: NVML's bit mask of `REASONS`.
        own: Number of the workload's processes that use the device.
        others: Number of other processes that use the device.
    """

    joules: float | None = None
    memory_bytes: float | None = None
    memory_clock_hertz: float | None = None
    power_watts: float | None = None
    sm_clock_hertz: float | None = None
    temperature_celsius: float | None = None
    utilization: float | None = None
    reasons: int | None = None
    own: int | None = None
    others: int | None = None


class Device(Protocol):
    """A device that can be sampled."""

    facts: Facts

    def read(self) -> Sample:
        """Read the device now; never raises."""


def find(
    vendor: str | None, names: Sequence[str], is_own: IsOwn | None, root: Path = Path("/")
) -> tuple[list[Device], Callable[[], None]]:
    """Return devices by the names that `visible` gives them, and the function that lets go of them.

    Args:
        vendor: Vendor of the devices, see `gpus.Vendor`; None for none.
        names: Names of the devices, as the vendor's variable takes them.
        is_own: Returns whether a process is the workload's; None if ids cannot be compared.
        root: Root of the machine's file tree.

    Returns:
        All of the devices, or none if one of them cannot be read.
    """
    if vendor == "nvidia" and names:
        return find_nvidia(names, is_own)
    return (find_amd(names, root) if vendor == "amd" else []), lambda: None


# processes


def tell_own(label: str, ancestor: int, root: Path = Path("/")) -> IsOwn | None:
    """Return a function that recognizes a run's processes, None if the driver counts others.

    Args:
        label: Label that marks the processes of the run.
        ancestor: Process that started the workload.
        root: Root of the machine's file tree.
    """
    try:
        namespace = str((root / "proc/self/ns/pid").readlink())
    except OSError:
        return None
    if namespace != INITIAL_NAMESPACE:
        return None
    mark = f"{process.RUN_MARK}={label}".encode()

    def is_own(pid: int) -> bool:
        try:
            if mark in processes.read_variables(pid):
                return True
            while pid > 1 and pid != ancestor:
                pid = processes.read_stat(pid).parent
        except OSError:
            return False
        return pid == ancestor

    return is_own


class _Owners:
    """Counts of processes by owner. The owner of a process holds as long as it is listed."""

    def __init__(self, is_own: IsOwn) -> None:
        self._is_own = is_own
        self._known: dict[int, bool] = {}

    def count(self, pids: set[int]) -> tuple[int, int]:
        """Return the numbers of the workload's processes and of others."""
        # one that ends can no longer be told while it is still listed
        self._known = {pid: self._known.get(pid) or self._is_own(pid) for pid in pids}
        own = sum(self._known.values())
        return own, len(pids) - own


# NVIDIA


def find_nvidia(
    names: Sequence[str], is_own: IsOwn | None
) -> tuple[list[Device], Callable[[], None]]:
    """Return NVIDIA's devices by index, UUID (also abbreviated) or UUID of a MIG instance."""
    try:
        import pynvml as nvml
    except ImportError:
        return [], lambda: None
    try:
        nvml.nvmlInit()
    except nvml.NVMLError:
        return [], lambda: None

    def close() -> None:
        with suppress(nvml.NVMLError):
            nvml.nvmlShutdown()

    try:
        # in this order capsule has CUDA count them, too
        cards = sorted(_list_cards(nvml), key=lambda card: _address(nvml, card))
        found = [_find_card(nvml, name, cards) for name in names]
        devices = [_NvidiaCard(nvml, *handles, is_own) for handles in found if handles]
    except nvml.NVMLError:
        return [], close
    return list[Device](devices) if len(devices) == len(names) else [], close


def _list_cards(nvml: ModuleType) -> list[Any]:
    """Return the handles of the cards that this process may use, as CUDA counts them."""
    cards = []
    for number in range(nvml.nvmlDeviceGetCount()):
        # one that a scheduler gave to another job is counted, and refused
        with suppress(nvml.NVMLError):
            cards.append(nvml.nvmlDeviceGetHandleByIndex(number))
    return cards


def _find_card(nvml: ModuleType, name: str, cards: Sequence[Any]) -> tuple[Any, Any] | None:
    """Return the handle of a card, and that of its MIG instance or None; None if there is none."""
    if name.startswith("MIG-"):
        instance = nvml.nvmlDeviceGetHandleByUUID(name)
        return nvml.nvmlDeviceGetDeviceHandleFromMigDeviceHandle(instance), instance
    if name.startswith("GPU-"):
        named = [card for card in cards if _text(nvml.nvmlDeviceGetUUID(card)).startswith(name)]
        return (named[0], None) if len(named) == 1 else None
    return (cards[int(name)], None) if name.isdigit() and int(name) < len(cards) else None


def _text(value: str | bytes) -> str:
    return value.decode() if isinstance(value, bytes) else value


def _address(nvml: ModuleType, card: Any) -> str:
    place = nvml.nvmlDeviceGetPciInfo(card)
    return f"{place.domain:04x}:{place.bus:02x}:{place.device:02x}.0"


class _NvidiaCard:
    """One card, or one MIG instance of it: then only the memory is that of the instance."""

    def __init__(
        self, nvml: ModuleType, card: Any, instance: Any | None, is_own: IsOwn | None
    ) -> None:
        self._nvml = nvml
        self._card = card
        self._memory_of = card if instance is None else instance
        self._owners = None if is_own is None else _Owners(is_own)
        is_split = instance is not None or self._is_split()
        limit = self._ask(nvml.nvmlDeviceGetEnforcedPowerLimit, card)
        counter = self._ask(nvml.nvmlDeviceGetTotalEnergyConsumption, card)
        self.facts = Facts(
            device=_address(nvml, card),
            source="nvml",
            wrap_joules=None if counter is None else _NVML_JOULES,
            limit_watts=None if limit is None else limit / 1000,
            is_mig=is_split,
        )

    def read(self) -> Sample:
        """Read the device now."""
        nvml, card = self._nvml, self._card
        millijoules = self._ask(nvml.nvmlDeviceGetTotalEnergyConsumption, card)
        memory = self._ask(nvml.nvmlDeviceGetMemoryInfo, self._memory_of)
        milliwatts = self._ask(nvml.nvmlDeviceGetPowerUsage, card)
        busy = None if self.facts.is_mig else self._ask(nvml.nvmlDeviceGetUtilizationRates, card)
        own, others = self._count_processes()
        return Sample(
            joules=None if millijoules is None else millijoules / 1000,
            memory_bytes=None if memory is None else float(memory.used),
            memory_clock_hertz=self._clock(nvml.NVML_CLOCK_MEM),
            power_watts=None if milliwatts is None else milliwatts / 1000,
            sm_clock_hertz=self._clock(nvml.NVML_CLOCK_SM),
            temperature_celsius=self._ask(
                nvml.nvmlDeviceGetTemperature, card, nvml.NVML_TEMPERATURE_GPU
            ),
            utilization=None if busy is None else busy.gpu / 100,
            reasons=self._ask(nvml.nvmlDeviceGetCurrentClocksEventReasons, card),
            own=own,
            others=others,
        )

    def _is_split(self) -> bool:
        mode = self._ask(self._nvml.nvmlDeviceGetMigMode, self._card)
        return mode is not None and bool(mode[0])

    def _clock(self, kind: int) -> float | None:
        megahertz = self._ask(self._nvml.nvmlDeviceGetClockInfo, self._card, kind)
        return None if megahertz is None else megahertz * 1e6

    def _count_processes(self) -> tuple[int | None, int | None]:
        # under MIG a card lists its instances' processes for root alone
        if self._owners is None or self.facts.is_mig:
            return None, None
        listed = self._ask(self._nvml.nvmlDeviceGetComputeRunningProcesses, self._card)
        if listed is None:
            return None, None
        return self._owners.count({one.pid for one in listed})

    def _ask(self, question: Callable[..., Any], *operands: Any) -> Any:
        """Return an answer, or None where NVML refuses."""
        with suppress(self._nvml.NVMLError):
            return question(*operands)
        return None


# AMD


def find_amd(names: Sequence[str], root: Path = Path("/")) -> list[Device]:
    """Return AMD's devices by their index, as the ROCm runtime counts, or by their unique id."""
    tree = Tree(root)
    nodes = sorted((name for name in tree.names(_KFD) if name.isdigit()), key=int)
    cards = [card for name in nodes if (card := _find_kfd_card(tree, f"{_KFD}/{name}"))]
    chosen = [
        address
        for name in names
        for place, (address, uuid) in enumerate(cards)
        if name in (str(place), uuid)
    ]
    devices = [_AmdCard(tree, address) for address in chosen]
    return list[Device](devices) if len(devices) == len(names) else []


def _find_kfd_card(tree: Tree, folder: str) -> tuple[str, str | None] | None:
    """Return PCI address and UUID of a node of the topology; None for a processor.

    The UUID is None where the device has no unique id.
    """
    text, number = tree.text(f"{folder}/properties"), tree.number(f"{folder}/gpu_id")
    # 0 is a processor; of a GPU that a control group withholds the kernel gives no number
    if isinstance(text, Unread) or isinstance(number, Unread) or not number:
        return None
    known = dict(line.split(maxsplit=1) for line in text.splitlines() if " " in line)
    if not known.get("location_id", "").isdigit():
        return None
    place, domain = int(known["location_id"]), int(known.get("domain", "0"))
    address = f"{domain:04x}:{place >> 8 & 0xFF:02x}:{place >> 3 & 0x1F:02x}.{place & 7}"
    unique_id = known.get("unique_id", "")
    return address, f"GPU-{int(unique_id):016x}" if unique_id.isdigit() else None


class _AmdCard:
    """One device of the kernel driver amdgpu; it has no counter of energy in sysfs."""

    def __init__(self, tree: Tree, address: str) -> None:
        self._tree = tree
        self._folder = f"{_PCI}/{address}"
        sensors = next(iter(tree.names(f"{self._folder}/hwmon")), "none")
        self._sensors = f"{self._folder}/hwmon/{sensors}"
        self.facts = Facts(device=address, source="amdgpu")

    def read(self) -> Sample:
        """Read the device now."""
        average = self._number(f"{self._sensors}/power1_average", 1e-6)
        now = self._number(f"{self._sensors}/power1_input", 1e-6) if average is None else average
        return Sample(
            memory_bytes=self._number(f"{self._folder}/mem_info_vram_used"),
            memory_clock_hertz=self._number(f"{self._sensors}/freq2_input"),
            power_watts=now,
            sm_clock_hertz=self._number(f"{self._sensors}/freq1_input"),
            temperature_celsius=self._number(f"{self._sensors}/temp1_input", 1e-3),
            utilization=self._number(f"{self._folder}/gpu_busy_percent", 1e-2),
        )

    def _number(self, path: str, scale: float = 1.0) -> float | None:
        value = self._tree.number(path)
        return None if isinstance(value, Unread) else value * scale


# processor packages


def find_packages(root: Path = Path("/")) -> list[Device]:
    """Return all processor packages, or none if one's energy counter cannot be read.

    On most systems root alone can read the counters.
    """
    tree = Tree(root)
    names = filter(_ZONE.fullmatch, tree.names(_RAPL))
    zones = [_Package(tree, f"{_RAPL}/{name}") for name in names]
    packages = [one for one in zones if _PACKAGE.fullmatch(one.facts.device)]
    is_whole = all(one.read().joules is not None for one in packages)
    return list[Device](packages) if is_whole else []


class _Package:
    """The energy counter of one processor package."""

    def __init__(self, tree: Tree, folder: str) -> None:
        self._tree = tree
        self._folder = folder
        powers = [
            value * 1e-6
            for number in _CONSTRAINTS
            for name in ("power_limit_uw", "max_power_uw")
            if isinstance(value := tree.number(f"{folder}/constraint_{number}_{name}"), int)
        ]
        most = tree.number(f"{folder}/max_energy_range_uj")
        self.facts = Facts(
            device=str(tree.text(f"{folder}/name")),
            source="rapl",
            wrap_joules=None if isinstance(most, Unread) else most * 1e-6,
            limit_watts=max(powers, default=None),
        )

    def read(self) -> Sample:
        """Read the counter now."""
        microjoules = self._tree.number(f"{self._folder}/energy_uj")
        return Sample(joules=None if isinstance(microjoules, Unread) else microjoules * 1e-6)
