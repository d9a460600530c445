"""Accelerators: NVIDIA's from its driver library, AMD's and Intel's from sysfs."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from types import ModuleType
from typing import Any

from capsule.inventory.tree import Fact, Part, Tree, Unread, pick

_PCI = "sys/bus/pci/devices"
_DRM = "sys/class/drm"
_NVIDIA, _AMD = "0x10de", "0x1002"
INTEL_CARD = ("0x8086", "0x038000")
"""Vendor and class of Intel's GPUs for data centres: display controllers without a monitor."""
# by the PCI ID database: sysfs has no name of a model
_INTEL_MODELS = {
    "8086:0BD5": "Intel Data Center GPU Max 1550",
    "8086:0BDA": "Intel Data Center GPU Max 1100",
}
_NVIDIA_PROC = "proc/driver/nvidia/gpus"
_SILENT = Unread(reason="absent", detail="NVML gave no answer")


def read(tree: Tree) -> tuple[Part, list[Part] | Unread]:
    """Return the driver versions, and one part for each accelerator of the node or why there is
    none.

    State of the first part: `nvidia_version`, `amdgpu_version` of the kernel drivers, and
    `cuda_version`, the newest CUDA that the NVIDIA driver can serve.
    """
    cuda, nvidia = _ask_nvml() if tree.live else (_out_of_reach(), _out_of_reach())
    if isinstance(nvidia, Unread):
        devices = _beyond_nvml(tree, nvidia)
    else:
        devices = [gpu_record(facts) for facts in nvidia]
    devices += [*_amd(tree), *_intel(tree)]
    driver = {
        "nvidia_version": tree.text("sys/module/nvidia/version"),
        "cuda_version": cuda,
        "amdgpu_version": tree.text("sys/module/amdgpu/version"),
    }
    return Part(state=driver), devices or _none(tree, nvidia)


def _none(tree: Tree, nvidia: object) -> Unread:
    nothing = tree.nothing(_PCI, "NVIDIA, AMD or Intel accelerator")
    refusal = f"; {nvidia}" if isinstance(nvidia, Unread) else ""
    return Unread(reason=nothing.reason, detail=nothing.detail + refusal)


def gpu_record(facts: Mapping[str, Fact]) -> Part:
    """Return one NVIDIA device, from the raw answers of NVML.

    Identity: `uuid`, `serial`.
    Class: `vendor`, `model`, `pci_id`, `memory_bytes`, `compute_capability`, `cores`,
    `sm_clock_max_hertz`, `memory_clock_max_hertz`, `power_limit_min_watts`,
    `power_limit_max_watts`, `power_limit_default_watts`, `pcie_generation_max`, `pcie_lanes_max`.
    State: `pci_address`, `firmware` (VBIOS), `power_limit_watts`, `ecc`, `mig`, `mig_instances`,
    `persistence`, `application_sm_clock_hertz`, `application_memory_clock_hertz`.
    Momentary: `sm_clock_hertz`, `memory_clock_hertz`, `power_watts`, `temperature_celsius`,
    `clock_event_reasons` (NVML's bit mask in hexadecimal).

    Args:
        facts: One value for each name of `_questions`, in NVML's own units (MHz, mW); an `Unread`
            where NVML refused, and nothing where it was not asked.
    """

    def fact(name: str, convert: Callable[[Any], Fact] = lambda value: value) -> Fact:
        value = facts.get(name, _SILENT)
        return value if isinstance(value, Unread) else convert(value)

    return Part(
        identity={"uuid": fact("uuid"), "serial": fact("serial")},
        klass={
            "vendor": "NVIDIA",
            "model": fact("name"),
            "pci_id": fact("pci_id", _nvml_pci_id),
            "memory_bytes": fact("memory_bytes"),
            "compute_capability": fact("compute_capability", _version),
            "cores": fact("cores"),
            "sm_clock_max_hertz": fact("sm_clock_max", _megahertz),
            "memory_clock_max_hertz": fact("memory_clock_max", _megahertz),
            "power_limit_min_watts": fact("power_limits", lambda pair: _watts(pair[0])),
            "power_limit_max_watts": fact("power_limits", lambda pair: _watts(pair[1])),
            "power_limit_default_watts": fact("power_limit_default", _watts),
            "pcie_generation_max": fact("pcie_generation_max"),
            "pcie_lanes_max": fact("pcie_lanes_max"),
        },
        state={
            "pci_address": fact("pci_address", kernel_address),
            "firmware": fact("vbios"),
            "power_limit_watts": fact("power_limit", _watts),
            "ecc": fact("ecc", lambda pair: bool(pair[0])),
            "mig": fact("mig", lambda pair: bool(pair[0])),
            "mig_instances": fact("mig_instances"),
            "persistence": fact("persistence", bool),
            "application_sm_clock_hertz": fact("application_sm_clock", _megahertz),
            "application_memory_clock_hertz": fact("application_memory_clock", _megahertz),
        },
        momentary={
            "sm_clock_hertz": fact("sm_clock", _megahertz),
            "memory_clock_hertz": fact("memory_clock", _megahertz),
            "power_watts": fact("power", _watts),
            "temperature_celsius": fact("temperature"),
            "clock_event_reasons": fact("clock_event_reasons", hex),
        },
    )


def _megahertz(value: int) -> int:
    return value * 1_000_000


def _watts(milliwatts: int) -> float:
    return milliwatts / 1000


def _version(pair: tuple[int, int]) -> str:
    return f"{pair[0]}.{pair[1]}"


def _nvml_pci_id(word: int) -> str:
    # NVML packs device and vendor in one word: 0x233510DE is device 2335 of vendor 10DE
    return f"{word & 0xFFFF:04X}:{word >> 16:04X}"


def kernel_address(text: str | bytes) -> str:
    """Return a PCI address of NVML, whose domain has eight digits, as the kernel writes it."""
    domain, _, rest = decode(text).lower().partition(":")
    return f"{int(domain, 16):04x}:{rest}"


def _questions(nvml: ModuleType) -> dict[str, Callable[[object], Fact]]:
    sm, memory = nvml.NVML_CLOCK_SM, nvml.NVML_CLOCK_MEM
    return {
        "name": nvml.nvmlDeviceGetName,
        "uuid": nvml.nvmlDeviceGetUUID,
        "serial": nvml.nvmlDeviceGetSerial,
        "pci_id": lambda handle: nvml.nvmlDeviceGetPciInfo(handle).pciDeviceId,
        "pci_address": lambda handle: decode(nvml.nvmlDeviceGetPciInfo(handle).busId),
        "memory_bytes": lambda handle: nvml.nvmlDeviceGetMemoryInfo(handle).total,
        "compute_capability": nvml.nvmlDeviceGetCudaComputeCapability,
        "cores": nvml.nvmlDeviceGetNumGpuCores,
        "sm_clock_max": lambda handle: nvml.nvmlDeviceGetMaxClockInfo(handle, sm),
        "memory_clock_max": lambda handle: nvml.nvmlDeviceGetMaxClockInfo(handle, memory),
        "power_limits": nvml.nvmlDeviceGetPowerManagementLimitConstraints,
        "power_limit_default": nvml.nvmlDeviceGetPowerManagementDefaultLimit,
        "pcie_generation_max": nvml.nvmlDeviceGetMaxPcieLinkGeneration,
        "pcie_lanes_max": nvml.nvmlDeviceGetMaxPcieLinkWidth,
        "vbios": nvml.nvmlDeviceGetVbiosVersion,
        "power_limit": nvml.nvmlDeviceGetEnforcedPowerLimit,
        "ecc": nvml.nvmlDeviceGetEccMode,
        "mig": nvml.nvmlDeviceGetMigMode,
        "mig_instances": lambda handle: _mig_instances(nvml, handle),
        "persistence": nvml.nvmlDeviceGetPersistenceMode,
        "application_sm_clock": lambda handle: nvml.nvmlDeviceGetApplicationsClock(handle, sm),
        "application_memory_clock": lambda handle: nvml.nvmlDeviceGetApplicationsClock(
            handle, memory
        ),
        "sm_clock": lambda handle: nvml.nvmlDeviceGetClockInfo(handle, sm),
        "memory_clock": lambda handle: nvml.nvmlDeviceGetClockInfo(handle, memory),
        "power": nvml.nvmlDeviceGetPowerUsage,
        "temperature": lambda handle: nvml.nvmlDeviceGetTemperature(
            handle, nvml.NVML_TEMPERATURE_GPU
        ),
        "clock_event_reasons": nvml.nvmlDeviceGetCurrentClocksEventReasons,
    }


def decode(text: str | bytes) -> str:
    """Return a text of NVML, which some versions of its package leave encoded."""
    return text.decode() if isinstance(text, bytes) else text


def _mig_instances(nvml: ModuleType, handle: object) -> list[str]:
    names = []
    for index in range(nvml.nvmlDeviceGetMaxMigDeviceCount(handle)):
        try:
            instance = nvml.nvmlDeviceGetMigDeviceHandleByIndex(handle, index)
        except nvml.NVMLError_NotFound:
            continue
        names.append(decode(nvml.nvmlDeviceGetName(instance)))
    return names


def _ask_nvml() -> tuple[str | Unread, list[dict[str, Fact]] | Unread]:
    """Return the newest CUDA of the driver, and the facts of each device; or why NVML gave
    neither.
    """
    try:
        import pynvml as nvml
    except ImportError as error:
        unread = Unread(reason="tool missing", detail=f"Python package nvidia-ml-py: {error}")
        return unread, unread
    try:
        nvml.nvmlInit()
    except nvml.NVMLError as error:
        return _refusal(nvml, error), _refusal(nvml, error)
    try:
        version = nvml.nvmlSystemGetCudaDriverVersion_v2()
        questions = _questions(nvml)
        devices = []
        for index in range(nvml.nvmlDeviceGetCount()):
            handle = nvml.nvmlDeviceGetHandleByIndex(index)
            devices.append({name: _answer(nvml, ask, handle) for name, ask in questions.items()})
        return f"{version // 1000}.{version % 1000 // 10}", devices
    except nvml.NVMLError as error:
        return _refusal(nvml, error), _refusal(nvml, error)
    finally:
        nvml.nvmlShutdown()


def _answer(nvml: ModuleType, ask: Callable[[object], Fact], handle: object) -> Fact:
    try:
        value = ask(handle)
    except nvml.NVMLError as error:
        return _refusal(nvml, error)
    return value.decode() if isinstance(value, bytes) else value


def _refusal(nvml: ModuleType, error: Exception) -> Unread:
    detail = f"NVML: {error}"
    code = getattr(error, "value", None)
    if code == nvml.NVML_ERROR_NO_PERMISSION:
        return Unread(reason="not permitted", detail=detail)
    missing = (nvml.NVML_ERROR_LIBRARY_NOT_FOUND, nvml.NVML_ERROR_FUNCTION_NOT_FOUND)
    return Unread(reason="tool missing" if code in missing else "absent", detail=detail)


def _out_of_reach() -> Unread:
    return Unread(reason="absent", detail="NVML describes the running machine only")


def _beyond_nvml(tree: Tree, reason: Unread) -> list[Part]:
    """NVIDIA devices on the bus that NVML does not tell, with what the kernel knows of them."""
    devices = []
    for address in tree.names(_PCI):
        folder = f"{_PCI}/{address}"
        kind = tree.text(f"{folder}/class")
        display = isinstance(kind, str) and kind.startswith("0x03")
        if not display or tree.text(f"{folder}/vendor") != _NVIDIA:
            continue
        path = f"{_NVIDIA_PROC}/{address}/information"
        known = tree.fields(path, ":")
        model, uuid = pick(known, "Model", path), pick(known, "GPU UUID", path)
        devices.append(
            Part(
                identity={"uuid": uuid},
                klass={
                    "vendor": "NVIDIA",
                    "model": reason if isinstance(model, Unread) else model,
                    "pci_id": _pci_id(tree, folder),
                    "memory_bytes": reason,
                },
                state={"pci_address": address},
            )
        )
    return devices


def _pci_id(tree: Tree, folder: str) -> str | Unread:
    path = f"{folder}/uevent"
    return pick(tree.fields(path, "="), "PCI_ID", path)


def _amd(tree: Tree) -> list[Part]:
    cards = [name for name in tree.names(_DRM) if re.fullmatch(r"card\d+", name)]
    folders = [f"{_DRM}/{card}/device" for card in cards]
    devices = [_amd_device(tree, f) for f in folders if tree.text(f"{f}/vendor") == _AMD]
    # numbers of cards follow the order in which the driver found them
    return sorted(devices, key=lambda device: str(device.state["pci_address"]))


def _amd_device(tree: Tree, folder: str) -> Part:
    sensors = next((f"{folder}/hwmon/{name}" for name in tree.names(f"{folder}/hwmon")), folder)
    path = f"{folder}/uevent"

    def watts(name: str) -> float | Unread:
        microwatts = tree.number(f"{sensors}/{name}")
        return microwatts if isinstance(microwatts, Unread) else microwatts / 1e6

    return Part(
        identity={"uuid": tree.text(f"{folder}/unique_id")},
        klass={
            "vendor": "AMD",
            "model": tree.text(f"{folder}/product_name"),
            "pci_id": _pci_id(tree, folder),
            "memory_bytes": tree.number(f"{folder}/mem_info_vram_total"),
            "power_limit_max_watts": watts("power1_cap_max"),
        },
        state={
            "pci_address": pick(tree.fields(path, "="), "PCI_SLOT_NAME", path),
            "firmware": tree.text(f"{folder}/vbios_version"),
            "power_limit_watts": watts("power1_cap"),
            "compute_partition": tree.text(f"{folder}/current_compute_partition"),
            "memory_partition": tree.text(f"{folder}/current_memory_partition"),
        },
    )


def _intel(tree: Tree) -> list[Part]:
    return [
        _intel_device(tree, address)
        for address in tree.names(_PCI)
        if (tree.text(f"{_PCI}/{address}/vendor"), tree.text(f"{_PCI}/{address}/class"))
        == INTEL_CARD
    ]


def _intel_device(tree: Tree, address: str) -> Part:
    folder = f"{_PCI}/{address}"
    pci_id = _pci_id(tree, folder)
    unnamed = Unread(reason="absent", detail=f"no name is known for PCI ID {pci_id}")
    unsized = Unread(reason="absent", detail=f"/{folder} states no size of memory")
    return Part(
        klass={
            "vendor": "Intel",
            "model": pci_id if isinstance(pci_id, Unread) else _INTEL_MODELS.get(pci_id, unnamed),
            "pci_id": pci_id,
            "memory_bytes": unsized,
        },
        state={"pci_address": address},
    )
