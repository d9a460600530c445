"""What the inventory reads of GPUs by NVML, and of memory modules by SMBIOS."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

import pytest
from hypothesis import given
from hypothesis import strategies as st

from capsule import inventory
from capsule.inventory import gpu
from capsule.inventory.gpu import gpu_record
from capsule.inventory.memory import module_record
from capsule.inventory.tree import Fact, Part, Tree, Unread, settle
from capsule.jsons import Json
from tests.support import machines
from tests.support.gpu_trees import FOUR_H100, MI250X, ONE_H100, FakeNvml, build

GIB = 1 << 30


# as NVML answers on an A100 with MIG on; energy, serial and NVLink were refused
A100: dict[str, Fact] = {
    "name": "NVIDIA A100-SXM4-40GB",
    "uuid": "GPU-5b3cf2c1-0000-0000-0000-000000000000",
    "serial": Unread(reason="absent", detail="NVML: Not Supported"),
    "pci_id": 0x20B010DE,
    "pci_address": "00000000:4B:00.0",
    "memory_bytes": 42949672960,
    "compute_capability": (8, 0),
    "cores": 6912,
    "sm_clock_max": 1410,
    "memory_clock_max": 1215,
    "power_limits": [100_000, 400_000],
    "power_limit_default": 400_000,
    "pcie_generation_max": 4,
    "pcie_lanes_max": 16,
    "vbios": "92.00.45.00.03",
    "power_limit": 300_000,
    "ecc": [1, 1],
    "mig": [1, 1],
    "mig_instances": ["NVIDIA A100-SXM4-40GB MIG 3g.20gb"],
    "persistence": 1,
    "application_sm_clock": 1095,
    "application_memory_clock": 1215,
    "sm_clock": 210,
    "memory_clock": 1215,
    "power": Unread(reason="not permitted", detail="NVML: Insufficient Permissions"),
    "temperature": 31,
    "clock_event_reasons": 1,
}


def test_an_nvidia_gpu() -> None:
    part = gpu_record(A100)
    assert part.klass == {
        "vendor": "NVIDIA",
        "model": "NVIDIA A100-SXM4-40GB",
        "pci_id": "10DE:20B0",
        "memory_bytes": 40 * GIB,
        "compute_capability": "8.0",
        "cores": 6912,
        "sm_clock_max_hertz": 1_410_000_000,
        "memory_clock_max_hertz": 1_215_000_000,
        "power_limit_min_watts": 100.0,
        "power_limit_max_watts": 400.0,
        "power_limit_default_watts": 400.0,
        "pcie_generation_max": 4,
        "pcie_lanes_max": 16,
    }
    assert part.state["pci_address"] == "0000:4b:00.0"
    assert part.state["power_limit_watts"] == 300.0
    assert part.state["ecc"] is part.state["mig"] is part.state["persistence"] is True
    assert part.state["mig_instances"] == ["NVIDIA A100-SXM4-40GB MIG 3g.20gb"]
    missing: dict[str, str] = {}
    facts = settle([part.identity, part.momentary], "", missing)
    assert inventory.at(inventory.entries_at(facts)[1], "sm_clock_hertz") == 210_000_000
    assert missing == {
        "/0/serial": "absent: NVML: Not Supported",
        "/1/power_watts": "not permitted: NVML: Insufficient Permissions",
    }


def test_a_gpu_that_answers_nothing_is_all_reasons() -> None:
    part = gpu_record({})
    missing: dict[str, str] = {}
    state = settle(part.state, "", missing)
    assert isinstance(state, dict)
    assert set(state.values()) == {None}
    assert set(missing.values()) == {"absent: NVML gave no answer"}


def smbios(
    size: int,
    kind: int = 0x1A,
    speed: int = 3200,
    configured: int = 2933,
    extended: int = 0,
    strings: tuple[str, str] = ("Samsung", "M393"),
) -> bytes:
    area = bytearray(0x28)
    area[0], area[1] = 17, len(area)
    area[0x0C:0x0E] = size.to_bytes(2, "little")
    area[0x12] = kind
    area[0x15:0x17] = speed.to_bytes(2, "little")
    area[0x17], area[0x1A] = 1, 2
    area[0x1C:0x20] = extended.to_bytes(4, "little")
    area[0x20:0x22] = configured.to_bytes(2, "little")
    return bytes(area) + b"\0".join(text.encode() for text in strings) + b"\0\0"


def test_memory_modules_are_counted(tmp_path: Path) -> None:
    root = machines.unfold("epyc", tmp_path)
    for slot, raw in enumerate([smbios(16384)] * 8 + [smbios(0)] * 8):
        file = root / f"sys/firmware/dmi/entries/17-{slot}/raw"
        file.parent.mkdir(parents=True)
        file.write_bytes(raw)
    node: dict[str, Any] = inventory.node(root, salt="")
    assert node["class"]["memory"]["modules"] == [
        {
            "type": "DDR4",
            "size_bytes": 16 * GIB,
            "rated_transfers_per_second": 3_200_000_000,
            "configured_transfers_per_second": 2_933_000_000,
            "manufacturer": "Samsung",
            "part_number": "M393",
            "count": 8,
        }
    ]


def test_a_memory_module_of_64_gibibytes_uses_the_longer_field() -> None:
    module = module_record(smbios(0x7FFF, kind=0x22, extended=65536))
    assert module is not None
    assert (module["type"], module["size_bytes"]) == ("DDR5", 64 * GIB)


@given(st.binary(max_size=120))
def test_any_bytes_are_a_module_or_none(raw: bytes) -> None:
    module = module_record(raw)
    if module is not None:
        size = module["size_bytes"]
        assert isinstance(size, int)
        assert size > 0


def ask(monkeypatch: pytest.MonkeyPatch, library: object) -> tuple[Part, list[Part] | Unread]:
    """Read the GPUs of a machine whose files show none, by a library in NVML's place."""
    monkeypatch.setitem(sys.modules, "pynvml", library)
    monkeypatch.setattr(Tree, "names", lambda *_: [])
    return gpu.read(Tree(Path("/")))


def refuse_with(nvml: FakeNvml, code: int) -> Callable[..., NoReturn]:
    def refuse(*_: object) -> NoReturn:
        error = nvml.NVMLError("Refused")
        error.value = code
        raise error

    return refuse


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        (FakeNvml.NVML_ERROR_NO_PERMISSION, "not permitted"),
        (FakeNvml.NVML_ERROR_LIBRARY_NOT_FOUND, "tool missing"),
        (FakeNvml.NVML_ERROR_FUNCTION_NOT_FOUND, "tool missing"),
        (FakeNvml.NVML_ERROR_NOT_FOUND, "absent"),
    ],
)
@pytest.mark.parametrize("question", ["nvmlInit", "nvmlDeviceGetCount"])
def test_a_library_that_refuses_is_the_reason(
    monkeypatch: pytest.MonkeyPatch, question: str, code: int, reason: str
) -> None:
    nvml, closed = FakeNvml(ONE_H100), []
    monkeypatch.setattr(nvml, question, refuse_with(nvml, code))
    monkeypatch.setattr(nvml, "nvmlShutdown", lambda: closed.append(1))
    driver, devices = ask(monkeypatch, nvml)
    assert driver.state["cuda_version"] == Unread(reason=reason, detail="NVML: Refused")  # type: ignore[arg-type]
    assert isinstance(devices, Unread)
    assert devices.detail.endswith(f"; {reason}: NVML: Refused")
    # only what was opened is closed
    assert len(closed) == (question != "nvmlInit")


def test_so_is_a_missing_one(monkeypatch: pytest.MonkeyPatch) -> None:
    driver, devices = ask(monkeypatch, None)
    found = driver.state["cuda_version"]
    assert isinstance(found, Unread)
    assert found.reason == "tool missing"
    assert found.detail.startswith("Python package nvidia-ml-py: ")
    assert isinstance(devices, Unread)
    assert "tool missing: Python package nvidia-ml-py" in devices.detail


def test_a_machine_whose_library_counts_no_gpu_has_none(monkeypatch: pytest.MonkeyPatch) -> None:
    driver, devices = ask(monkeypatch, FakeNvml(ONE_H100, []))
    assert driver.state["cuda_version"] == "13.0"
    assert isinstance(devices, Unread)
    assert devices.detail.count(";") == 0


def test_one_fact_that_is_refused_costs_itself_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    nvml = FakeNvml(ONE_H100)
    monkeypatch.setattr(nvml, "nvmlDeviceGetUUID", lambda handle: b"GPU-1")
    monkeypatch.setattr(nvml, "nvmlDeviceGetPowerUsage", refuse_with(nvml, 4))
    _, devices = ask(monkeypatch, nvml)
    assert isinstance(devices, list)
    (card,) = devices
    assert card.identity["uuid"] == "GPU-1"
    assert card.momentary["power_watts"] == Unread(reason="not permitted", detail="NVML: Refused")
    assert card.klass["memory_bytes"] == 80 * GIB


def test_a_recorded_machine_is_not_asked_for_by_the_library(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", FakeNvml(FOUR_H100))
    driver, devices = gpu.read(Tree(tmp_path))
    assert isinstance(driver.state["cuda_version"], Unread)
    assert isinstance(devices, Unread)
    assert "NVML describes the running machine only" in devices.detail


def test_only_displays_of_nvidia_on_the_bus_are_its_gpus(tmp_path: Path) -> None:
    for number, (vendor, kind) in enumerate(
        [("0x10de", "0x030200"), ("0x10de", "0x040300"), ("0x8086", "0x030000"), ("0x10de", None)]
    ):
        folder = tmp_path / f"sys/bus/pci/devices/0000:0{number}:00.0"
        folder.mkdir(parents=True)
        (folder / "vendor").write_text(vendor)
        if kind is not None:
            (folder / "class").write_text(kind)
    _, devices = gpu.read(Tree(tmp_path))
    assert isinstance(devices, list)
    (card,) = devices
    assert card.state["pci_address"] == "0000:00:00.0"
    # without the driver's file the kernel knows no name of a model
    assert card.klass["model"] == Unread(
        reason="absent", detail="NVML describes the running machine only"
    )


def test_an_intel_gpu_without_a_known_name_says_so(tmp_path: Path) -> None:
    folder = tmp_path / "sys/bus/pci/devices/0000:03:00.0"
    folder.mkdir(parents=True)
    (folder / "vendor").write_text("0x8086")
    (folder / "class").write_text("0x038000")
    _, unnamed = gpu.read(Tree(tmp_path))
    (folder / "uevent").write_text("PCI_ID=8086:FFFF")
    _, unknown = gpu.read(Tree(tmp_path))
    models = [part.klass["model"] for found in (unnamed, unknown) for part in found]  # type: ignore[union-attr]
    first, second = models
    assert isinstance(first, Unread)
    assert "uevent" in first.detail
    assert second == Unread(reason="absent", detail="no name is known for PCI ID 8086:FFFF")


def test_an_amd_gpu_has_the_power_limits_of_its_sensors(tmp_path: Path) -> None:
    build(MI250X, tmp_path)
    device = tmp_path / "sys/class/drm/card1/device"
    sensors = device / "hwmon/hwmon7"
    sensors.mkdir(parents=True)
    (sensors / "power1_cap").write_text("250000000")
    _, devices = gpu.read(Tree(tmp_path))
    assert isinstance(devices, list)
    limits = [card.state["power_limit_watts"] for card in devices]
    assert [one for one in limits if not isinstance(one, Unread)] == [250.0]
    assert len(limits) == 8
    addresses = [str(card.state["pci_address"]) for card in devices]
    assert addresses == sorted(addresses)
    # a connector of a monitor is no card, and a card of another vendor is not AMD's
    connector = tmp_path / "sys/class/drm/card1-DP-1/device"
    connector.mkdir(parents=True)
    (connector / "vendor").write_text("0x1002")
    (device / "vendor").write_text("0x1af4")
    _, devices = gpu.read(Tree(tmp_path))
    assert isinstance(devices, list)
    assert len(devices) == 7


def test_a_node_is_described_with_its_gpus_named_or_not() -> None:
    gpus: list[Json] = [{"model": "A"}, {}, {"model": "A"}, {"model": ""}]
    node: dict[str, Json] = {"class": {"cpu": {"model": "Example"}, "gpus": gpus}}
    assert inventory.describe(node) == "Example, 2 x A, 2 x unknown GPU"
