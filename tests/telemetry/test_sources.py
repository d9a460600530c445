"""Readings of devices, from a library with scripted answers and from trees of files."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from capsule import process, processes
from capsule.telemetry import sources
from capsule.telemetry.sources import Facts, Sample
from tests.support.nvml import Card, FakeNvml, NVMLError


@pytest.fixture
def library(monkeypatch: pytest.MonkeyPatch) -> FakeNvml:
    """Two cards, listed against the order of their buses."""
    cards = Card(bus=0xC1, uuid="GPU-c1aa"), Card(bus=0x3B, uuid="GPU-3baa")
    nvml = FakeNvml(*cards, instances={"MIG-1": cards[0]})
    monkeypatch.setitem(sys.modules, "pynvml", nvml)
    return nvml


def never(pid: int) -> bool:
    return False


def test_a_card_is_read_in_units_of_the_record(library: FakeNvml) -> None:
    (card,), close = sources.find_nvidia(["0"], never)
    assert card.facts == Facts(
        device="0000:3b:00.0",
        source="nvml",
        wrap_joules=2.0**64 / 1000,
        limit_watts=700.0,
        is_mig=False,
    )
    assert card.read() == Sample(
        joules=1000.0,
        memory_bytes=4 << 20,
        memory_clock_hertz=2.619e9,
        power_watts=70.0,
        sm_clock_hertz=345e6,
        temperature_celsius=31,
        utilization=0.0,
        reasons=1,
        own=0,
        others=0,
    )
    assert library.is_open
    close()
    assert not library.is_open


@pytest.mark.parametrize(
    ("names", "addresses"),
    [
        (["0", "1"], ["0000:3b:00.0", "0000:c1:00.0"]),
        (["1"], ["0000:c1:00.0"]),
        (["GPU-c1"], ["0000:c1:00.0"]),
        (["GPU-3baa", "GPU-c1aa"], ["0000:3b:00.0", "0000:c1:00.0"]),
        # both cards have this beginning, and none has that one
        (["GPU-"], []),
        (["GPU-3baa", "GPU-7"], []),
        (["2"], []),
        (["MIG-2"], []),
    ],
)
def test_devices_are_found_by_every_kind_of_name(
    library: FakeNvml, names: list[str], addresses: list[str]
) -> None:
    found, _ = sources.find_nvidia(names, never)
    assert [one.facts.device for one in found] == addresses


def test_of_an_instance_only_the_memory_is_its_own(library: FakeNvml) -> None:
    whole = library.cards[0]
    whole.answers |= {"instance_used": 1 << 30, "mig": (1, 1), "pids": (1, 2)}
    (one,), _ = sources.find_nvidia(["MIG-1"], never)
    assert one.facts.is_mig
    sample = one.read()
    assert (sample.memory_bytes, sample.power_watts) == (1 << 30, 70.0)
    assert (sample.own, sample.others, sample.utilization) == (None, None, None)
    (card,), _ = sources.find_nvidia(["1"], never)
    assert card.facts.is_mig


def test_a_refusal_costs_one_reading_alone(library: FakeNvml) -> None:
    card = library.cards[1]
    (one,), _ = sources.find_nvidia(["0"], never)
    card.answers |= {"power": NVMLError(), "pids": NVMLError(), "energy": NVMLError()}
    sample = one.read()
    assert (sample.power_watts, sample.own, sample.others, sample.joules) == (None,) * 4
    assert (sample.sm_clock_hertz, sample.memory_bytes) == (345e6, 4 << 20)
    card.answers["energy"] = 2_000
    assert one.read().joules == 2.0


def test_a_card_without_a_counter_says_so(library: FakeNvml) -> None:
    library.cards[1].answers |= {"energy": NVMLError(), "power_limit": NVMLError()}
    (one,), _ = sources.find_nvidia(["0"], never)
    assert (one.facts.wrap_joules, one.facts.limit_watts) == (None, None)


def test_a_process_keeps_its_owner_until_it_is_listed_no_more(library: FakeNvml) -> None:
    known = {7}
    (one,), _ = sources.find_nvidia(["0"], known.__contains__)
    pids = library.cards[1].answers
    pids["pids"] = (7, 8, 7)
    assert one.read()[-2:] == (1, 1)
    # it has ended, and the driver still lists it
    known.clear()
    assert one.read()[-2:] == (1, 1)
    pids["pids"] = (8,)
    assert one.read()[-2:] == (0, 1)
    pids["pids"] = (7,)
    assert one.read()[-2:] == (0, 1)


def test_without_comparable_process_ids_no_process_is_counted(library: FakeNvml) -> None:
    library.cards[1].answers["pids"] = (1, 2)
    (one,), _ = sources.find_nvidia(["0"], None)
    assert one.read()[-2:] == (None, None)


@pytest.mark.parametrize("fault", ["missing", "no driver"])
def test_a_missing_library_is_no_error(monkeypatch: pytest.MonkeyPatch, fault: str) -> None:
    nvml = FakeNvml(Card())

    def refuse() -> None:
        raise NVMLError(12)

    monkeypatch.setattr(nvml, "nvmlInit", refuse)
    monkeypatch.setitem(sys.modules, "pynvml", None if fault == "missing" else nvml)
    found, close = sources.find("nvidia", ["0"], never)
    close()
    assert found == []


def test_own_processes_are_marked_or_descend() -> None:
    pid = os.getpid()
    namespace = str(Path("/proc/self/ns/pid").readlink())
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sources, "INITIAL_NAMESPACE", namespace)
        parent = processes.read_stat(pid).parent
        descends = sources.tell_own("no-such-run", parent)
        assert descends is not None
        assert (descends(pid), descends(parent), descends(1)) == (True, True, parent == 1)
        stranger = sources.tell_own("no-such-run", 2**22 + 1)
        assert stranger is not None
        assert not stranger(pid)
        patch.setattr(processes, "read_variables", lambda _: [b"A=1", b"CAPSULE_RUN=label"])
        marked = sources.tell_own("label", 2**22 + 1)
        assert marked is not None
        assert marked(pid)
    assert process.RUN_MARK == "CAPSULE_RUN"


@pytest.mark.parametrize("namespace", ["pid:[4026532000]", None])
def test_in_another_namespace_no_process_is_told(tmp_path: Path, namespace: str | None) -> None:
    if namespace is not None:
        place = tmp_path / "proc/self/ns/pid"
        place.parent.mkdir(parents=True)
        place.symlink_to(namespace)
    assert sources.tell_own("label", 1, tmp_path) is None


def lay_out(root: Path, files: dict[str, object]) -> None:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{text}\n")


KFD, CARD = "sys/class/kfd/kfd/topology/nodes", "sys/bus/pci/devices/0000:c1:00.0"


def test_an_amd_device_is_read_from_sysfs(tmp_path: Path) -> None:
    lay_out(
        tmp_path,
        {
            f"{KFD}/0/gpu_id": 0,
            f"{KFD}/0/properties": "cpu_cores_count 64\nlocation_id 0",
            f"{KFD}/1/gpu_id": 4711,
            f"{KFD}/1/properties": f"domain 0\nlocation_id {0xC1 << 8}\nunique_id {0xABC}",
            f"{KFD}/2/gpu_id": 4712,
            f"{KFD}/2/properties": f"domain 0\nlocation_id {0xC9 << 8}\nunique_id {0xABD}",
            f"{CARD}/hwmon/hwmon3/power1_average": 250_000_000,
            f"{CARD}/hwmon/hwmon3/freq1_input": 1_700_000_000,
            f"{CARD}/hwmon/hwmon3/freq2_input": 1_600_000_000,
            f"{CARD}/hwmon/hwmon3/temp1_input": 45_000,
            f"{CARD}/gpu_busy_percent": 98,
            f"{CARD}/mem_info_vram_used": 10 << 30,
        },
    )
    for name in ("0", "GPU-0000000000000abc"):
        (card,) = sources.find_amd([name], tmp_path)
        assert card.facts == Facts(device="0000:c1:00.0", source="amdgpu")
        assert card.read() == Sample(
            memory_bytes=10 << 30,
            memory_clock_hertz=1.6e9,
            power_watts=250.0,
            sm_clock_hertz=1.7e9,
            temperature_celsius=45.0,
            utilization=0.98,
        )
    # an MI300 has only the power of the moment
    (tmp_path / f"{CARD}/hwmon/hwmon3/power1_average").rename(
        tmp_path / f"{CARD}/hwmon/hwmon3/power1_input"
    )
    (card,) = sources.find_amd(["0"], tmp_path)
    assert card.read().power_watts == pytest.approx(250.0)
    assert [one.facts.device for one in sources.find_amd(["1", "0"], tmp_path)] == [
        "0000:c9:00.0",
        "0000:c1:00.0",
    ]
    assert sources.find_amd(["0", "2"], tmp_path) == []


RAPL = "sys/class/powercap/intel-rapl:"


def packages(root: Path) -> None:
    for number in (0, 1):
        lay_out(
            root,
            {
                f"{RAPL}{number}/name": f"package-{number}",
                f"{RAPL}{number}/energy_uj": 5_000_000,
                f"{RAPL}{number}/max_energy_range_uj": 262_143_328_850,
                f"{RAPL}{number}/constraint_0_power_limit_uw": 185_000_000,
                f"{RAPL}{number}/constraint_1_power_limit_uw": 222_000_000,
                f"{RAPL}{number}:0/name": "dram",
                f"{RAPL}{number}:0/energy_uj": 1,
            },
        )
    lay_out(root, {f"{RAPL}2/name": "psys", f"{RAPL}2/energy_uj": 1})
    lay_out(
        root, {"sys/class/powercap/intel-rapl-mmio:0/name": "package-0", f"{RAPL}2/energy_uj": 1}
    )


def test_only_packages_are_read_and_each_once(tmp_path: Path) -> None:
    packages(tmp_path)
    found = sources.find_packages(tmp_path)
    assert [one.facts.device for one in found] == ["package-0", "package-1"]
    assert found[0].facts.wrap_joules == pytest.approx(262143.32885)
    assert found[0].facts.limit_watts == pytest.approx(222.0)
    assert found[0].read().joules == pytest.approx(5.0)


@pytest.mark.parametrize("text", [None, "", "many"])
def test_all_packages_can_be_read_or_none_is(tmp_path: Path, text: str | None) -> None:
    packages(tmp_path)
    counter = tmp_path / f"{RAPL}0/energy_uj"
    counter.unlink() if text is None else counter.write_text(text)
    assert sources.find_packages(tmp_path) == []
    assert sources.find_packages(tmp_path / "nowhere") == []


def test_a_card_of_another_job_is_no_card(library: FakeNvml) -> None:
    """CUDA counts from 0 among those that a scheduler left."""
    first = library.nvmlDeviceGetHandleByIndex

    def refuse(index: int) -> Card:
        if library.cards[index].bus == 0x3B:
            raise NVMLError(4)
        return first(index)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(library, "nvmlDeviceGetHandleByIndex", refuse)
        (card,), _ = sources.find_nvidia(["0"], never)
        assert card.facts.device == "0000:c1:00.0"
        assert sources.find_nvidia(["1"], never)[0] == []


def test_a_vendor_decides_how_devices_are_found(library: FakeNvml, tmp_path: Path) -> None:
    amd_card(tmp_path)
    (card,), _ = sources.find("nvidia", ["1"], never, tmp_path)
    assert card.facts.device == "0000:c1:00.0"
    (card,), close = sources.find("amd", ["0"], None, tmp_path)
    assert card.facts == Facts(device="0000:c1:00.0", source="amdgpu")
    close()
    for vendor, names in (("intel", ["0"]), (None, ["0"]), ("nvidia", []), ("amd", ["9"])):
        found, close = sources.find(vendor, names, never, tmp_path)
        close()
        assert found == []


def test_without_a_named_device_no_library_is_opened(library: FakeNvml) -> None:
    assert sources.find("nvidia", [], never)[0] == []
    assert not library.is_open


def amd_card(root: Path, properties: str = f"location_id {0xC1 << 8}") -> None:
    """Write a card about which the kernel says little."""
    files = {f"{KFD}/1/gpu_id": 4711, f"{KFD}/1/properties": properties}
    lay_out(root, {**files, f"{CARD}/mem_info_vram_used": 5})


def test_an_amd_card_without_sensors_has_what_its_folder_says(tmp_path: Path) -> None:
    amd_card(tmp_path)
    (card,) = sources.find_amd(["0"], tmp_path)
    assert card.read() == Sample(memory_bytes=5)
    # and no name of its own
    for name in ("GPU-0000000000000000", "GPU-", "", "None"):
        assert sources.find_amd([name], tmp_path) == []


@pytest.mark.parametrize("properties", ["location_id", "location_id x", "domain 0", ""])
def test_a_card_of_an_unknown_place_is_not_counted(tmp_path: Path, properties: str) -> None:
    amd_card(tmp_path, properties)
    assert sources.find_amd(["0"], tmp_path) == []


def test_a_withheld_card_is_not_counted(tmp_path: Path) -> None:
    amd_card(tmp_path)
    (tmp_path / KFD / "1/gpu_id").write_text("")
    assert sources.find_amd(["0"], tmp_path) == []
    (tmp_path / KFD / "1/gpu_id").write_text("7")
    (tmp_path / KFD / "1/properties").unlink()
    assert sources.find_amd(["0"], tmp_path) == []


def test_a_library_that_fails_once_open_is_closed(library: FakeNvml) -> None:
    def refuse() -> int:
        raise NVMLError

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(library, "nvmlDeviceGetCount", refuse)
        found, close = sources.find_nvidia(["0"], never)
    assert (found, library.is_open) == ([], True)
    close()
    assert not library.is_open
    # so is one that does not close
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(library, "nvmlShutdown", refuse)
        close()


def test_names_may_come_encoded_or_not(library: FakeNvml) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(library, "nvmlDeviceGetUUID", lambda card: card.uuid)
        (card,), _ = sources.find_nvidia(["GPU-c1aa"], never)
    assert card.facts.device == "0000:c1:00.0"


def test_a_counter_of_unknown_range_has_none(tmp_path: Path) -> None:
    packages(tmp_path)
    for name in ("max_energy_range_uj", "constraint_0_power_limit_uw"):
        (tmp_path / f"{RAPL}0/{name}").unlink()
    (tmp_path / f"{RAPL}0/constraint_1_power_limit_uw").write_text("many")
    first, second = sources.find_packages(tmp_path)
    assert (first.facts.wrap_joules, first.facts.limit_watts) == (None, None)
    assert second.facts.limit_watts == pytest.approx(222.0)


def test_a_process_that_is_gone_is_nobodys(monkeypatch: pytest.MonkeyPatch) -> None:
    namespace = str(Path("/proc/self/ns/pid").readlink())
    monkeypatch.setattr(sources, "INITIAL_NAMESPACE", namespace)

    def vanish(pid: int) -> list[bytes]:
        raise ProcessLookupError

    monkeypatch.setattr(processes, "read_variables", vanish)
    is_own = sources.tell_own("label", os.getpid())
    assert is_own is not None
    assert not is_own(os.getpid())
