"""What the inventory reads of GPUs by NVML, and of memory modules by SMBIOS."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from capsule import inventory
from capsule.inventory.gpu import gpu_record
from capsule.inventory.memory import module_record
from capsule.inventory.tree import Fact, Unread, settle
from tests.support import machines

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
