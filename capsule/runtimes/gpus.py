"""GPUs and driver of this machine, and their match with an image."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any, Literal, TypeVar

from capsule.errors import CannotRunError
from capsule.image import Image
from capsule.inventory.gpu import INTEL_CARD
from capsule.schema import parse

# CUDA Toolkit release notes, table "minimum required driver version for CUDA minor version
# compatibility" (Linux)
_MINIMUM_DRIVER = {11: "450.80.02", 12: "525.60.13", 13: "580.65.06"}
_DRIVER = re.compile(r"Kernel Module(?: for \S+)?\s+(\d+(?:\.\d+)+)")
_CUDA = re.compile(r"(?:cuda>=)?(\d+)\.(\d+)")
_CUDA_VARIABLES = ("CUDA_VERSION", "NVIDIA_REQUIRE_CUDA")
_CUDA_LABEL = "com.nvidia.cuda.version"

Vendor = Literal["nvidia", "amd", "intel"]
_T = TypeVar("_T")

TITLES: dict[Vendor, str] = {"nvidia": "NVIDIA", "amd": "AMD", "intel": "Intel"}


@dataclass(frozen=True, kw_only=True)
class Devices:
    """The GPUs of this machine; `driver` is None where no version could be read."""

    vendor: Vendor
    count: int
    driver: str | None


def find(root: Path = Path("/")) -> Devices | None:
    """Look for GPUs below the root of a machine's file tree; None when there are none."""
    nvidia = root / "proc/driver/nvidia"
    if cards := _entries(nvidia / "gpus"):
        return Devices(vendor="nvidia", count=len(cards), driver=_driver(nvidia / "version"))
    nodes = _entries(root / "sys/class/kfd/kfd/topology/nodes")
    # a node that is a CPU has the id 0
    if count := sum(_first_line(node / "gpu_id") not in ("", "0") for node in nodes):
        version = _first_line(root / "sys/module/amdgpu/version") or None
        return Devices(vendor="amd", count=count, driver=version)
    cards = _entries(root / "sys/bus/pci/devices")
    if count := sum(map(is_intel_card, cards)):
        return Devices(vendor="intel", count=count, driver=None)
    return _by_library() if root == Path("/") else None


def is_intel_card(folder: Path) -> bool:
    """Return whether a PCI device is a GPU of Intel for data centres, unlike integrated GPUs."""
    return (_first_line(folder / "vendor"), _first_line(folder / "class")) == INTEL_CARD


def ask_nvml(ask: Callable[[ModuleType], _T]) -> _T | None:
    """Return the result of a function of NVIDIA's library, None if the library is unusable."""
    import pynvml

    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError:
        return None
    try:
        with suppress(pynvml.NVMLError):
            return ask(pynvml)
    finally:
        pynvml.nvmlShutdown()
    return None


def require(count: int, image: Image | None, root: Path = Path("/")) -> Devices:
    """Stop unless this machine has GPUs, and a driver new enough for the image's CUDA.

    Whether `count` of them are visible is for `visible` to say.

    Raises:
        CannotRunError: Says what is missing; of a driver that is too old, both versions.
    """
    devices = find(root)
    if devices is None:
        raise CannotRunError(
            f"{_devices(count)} requested; this machine has no GPU with a driver",
            where="/resources/gpus_per_rank",
            advice="install the GPU driver, use a machine with a GPU, or set gpus_per_rank to 0",
        )
    if image is not None and devices.vendor == "nvidia":
        _require_driver(devices, cuda_version(image))
    return devices


def _require_driver(devices: Devices, cuda: tuple[int, int] | None) -> None:
    if cuda is None:
        return
    # a CUDA newer than the table needs at least what the newest one in it needs
    known = [minimum for major, minimum in _MINIMUM_DRIVER.items() if major <= cuda[0]]
    if not known:
        return
    wanted = f"the image has CUDA {cuda[0]}.{cuda[1]}, which needs driver {known[-1]} or newer"
    if devices.driver is None:
        raise CannotRunError(
            f"{wanted}; this machine's driver version is unreadable",
            advice="check the driver with `nvidia-smi`, or use an image without CUDA",
        )
    if _numbers(devices.driver) < _numbers(known[-1]):
        raise CannotRunError(
            f"{wanted}; this machine has driver {devices.driver}",
            advice="update the driver, or use an image with an older CUDA",
        )


def cuda_version(image: Image) -> tuple[int, int] | None:
    """Return major and minor CUDA version that an image says it holds; None when it says
    nothing.
    """
    if image.config is None:
        return None
    config = parse(image.config, where="image configuration").get("config") or {}
    for text in _statements(config):
        if match := _CUDA.match(text):
            return int(match[1]), int(match[2])
    return None


def _statements(config: Mapping[str, Any]) -> list[str]:
    variables = dict(str(item).partition("=")[::2] for item in config.get("Env") or [])
    labels = config.get("Labels") or {}
    versions = [variables.get(name, "") for name in _CUDA_VARIABLES]
    return [*versions, str(labels.get(_CUDA_LABEL, ""))]


def _devices(count: int) -> str:
    return "1 GPU is" if count == 1 else f"{count} GPUs are"


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split("."))


def _driver(path: Path) -> str | None:
    match = _DRIVER.search(_first_line(path))
    return match[1] if match else None


def _first_line(path: Path) -> str:
    try:
        return path.read_text(errors="replace").partition("\n")[0].strip()
    except OSError:
        return ""


def _entries(folder: Path) -> list[Path]:
    try:
        return sorted(folder.iterdir())
    except OSError:
        return []


def _by_library() -> Devices | None:
    """Query NVIDIA's library, for systems whose driver has no entry in /proc (WSL)."""
    known = ask_nvml(
        lambda nvml: (int(nvml.nvmlDeviceGetCount()), str(nvml.nvmlSystemGetDriverVersion()))
    )
    if known is None or not known[0]:
        return None
    return Devices(vendor="nvidia", count=known[0], driver=known[1])
