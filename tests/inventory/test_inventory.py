"""What the inventory reads from recorded machines, from this one, and from broken ones."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from capsule import inventory
from capsule.inventory.compare import Difference
from capsule.inventory.tree import compress, expand
from capsule.jsons import Json
from tests.support import machines
from tests.support.properties import examples

GIB = 1 << 30
Node = dict[str, Any]


def take(root: Path = Path("/"), *, salt: str = "", keep_hosts: bool = False) -> Node:
    return inventory.node(root, salt=salt, keep_hosts=keep_hosts)


def read(name: str, folder: Path, *, keep_hosts: bool = False) -> Node:
    return take(machines.unfold(name, folder), salt="pepper", keep_hosts=keep_hosts)


def at(node: Node, pointer: str) -> Any:
    value: Any = node
    for part in pointer.strip("/").split("/"):
        value = value[int(part)] if isinstance(value, list) else value[part]
    return value


def test_two_sockets_eight_numa_nodes_with_smt(tmp_path: Path) -> None:
    node = read("epyc", tmp_path)
    cpu = node["class"]["cpu"]
    assert cpu["model"] == "AMD EPYC 7251 8-Core Processor"
    assert cpu["architecture"] == "x86_64"
    assert cpu["revision"] == "family 23 model 1 stepping 2"
    assert (cpu["sockets"], cpu["cores"], cpu["threads"], cpu["threads_per_core"]) == (2, 16, 32, 2)
    assert cpu["frequency_max_hertz"] == 2_100_000_000
    assert cpu["caches"] == [
        {"level": 1, "type": "data", "size_bytes": 32 << 10, "instances": 16},
        {"level": 1, "type": "instruction", "size_bytes": 64 << 10, "instances": 16},
        {"level": 2, "type": "unified", "size_bytes": 512 << 10, "instances": 16},
        {"level": 3, "type": "unified", "size_bytes": 4 << 20, "instances": 16},
    ]
    nodes = node["class"]["memory"]["numa_nodes"]
    assert len(nodes) == 8
    assert nodes[5] == {
        "cpus": "10-11,26-27",
        "total_bytes": 32982095 * 1024,
        "distances": [32, 32, 32, 32, 16, 10, 16, 16],
    }
    assert node["state"]["cpu"]["boost"] is True
    assert node["state"]["cpu"]["smt"] == "on"
    assert node["state"]["cpu"]["governor"] == "performance,powersave"
    assert node["state"]["momentary"]["cpu"]["frequency_current_hertz"] == {
        "min": 1_197_000_000,
        "median": 1_347_000_000,
        "max": 1_507_000_000,
    }


def test_a_job_of_a_scheduler_sees_its_own_limits(tmp_path: Path) -> None:
    limits = read("epyc", tmp_path)["state"]["limits"]
    assert limits["cpu_quota"] == 8.0
    assert limits["memory_bytes"] == 64 * GIB
    assert (limits["cpus"], limits["cpu_count"]) == ("0-3,16-19", 8)  # 32-63 are not plugged in
    assert limits["locked_memory_bytes"] is None
    assert limits["open_files"] == 131072


def test_the_kernel_command_line_is_not_kept_whole(tmp_path: Path) -> None:
    node = read("epyc", tmp_path)
    assert node["state"]["system"]["kernel_options"] == ["isolcpus=30-31", "mitigations=off"]
    assert "node17" not in json.dumps(node)


def test_network_hardware(tmp_path: Path) -> None:
    node = read("epyc", tmp_path)
    assert node["class"]["network"] == {
        "interfaces": {
            "ens1f0": {
                "driver": "mlx5_core",
                "pci_id": "15B3:1015",
                "speed_bits_per_second": 25_000_000_000,
            }
        },
        "infiniband": {
            "mlx5_0": {
                "type": "MT4123",
                "board": "MT_0000000223",
                "ports": {"1": {"rate": "200 Gb/sec (4X HDR)", "link_layer": "InfiniBand"}},
            }
        },
    }
    state = node["state"]["network"]["infiniband"]["mlx5_0"]
    assert state == {"firmware": "20.35.1012", "ports": {"1": {"state": "4: ACTIVE"}}}


def test_an_amd_gpu_from_sysfs(tmp_path: Path) -> None:
    node = read("epyc", tmp_path)
    assert node["class"]["gpus"] == [
        {
            "vendor": "AMD",
            "model": "AMD Instinct MI210",
            "pci_id": "1002:740F",
            "memory_bytes": 68702699520,
            "power_limit_max_watts": 300.0,
        }
    ]
    assert node["state"]["gpus"][0]["power_limit_watts"] == 300.0
    assert node["state"]["gpu_driver"]["amdgpu_version"] == "6.8.5"


def test_an_arm_machine_has_a_model_without_a_model_name(tmp_path: Path) -> None:
    node = read("grace", tmp_path)
    cpu = node["class"]["cpu"]
    assert (cpu["model"], cpu["vendor"]) == ("Neoverse-V2", "Arm")
    assert cpu["architecture"] == "aarch64"
    assert cpu["revision"] == "variant 0x0 revision 0"
    assert (cpu["sockets"], cpu["cores"], cpu["threads_per_core"]) == (1, 72, 1)
    assert "sve2" in cpu["features"]
    assert node["state"]["memory"]["page_bytes"] == 65536
    assert node["state"]["momentary"]["cpu"]["frequency_current_hertz"]["median"] == 3_411_000_000
    assert node["class"]["memory"]["numa_nodes"][1]["cpus"] == ""
    assert node["missing"]["/state/cpu/microcode"].startswith("absent: ")


def test_an_unknown_arm_core_keeps_its_numbers(tmp_path: Path) -> None:
    root = machines.unfold("grace", tmp_path)
    cpuinfo = root / "proc/cpuinfo"
    cpuinfo.write_text(cpuinfo.read_text().replace("0xd4f", "0xfff").replace("0x41", "0x99"))
    assert take(root)["class"]["cpu"]["model"] == "implementer 0x99 part 0xfff"


def test_a_gpu_that_nvml_does_not_tell_is_not_lost(tmp_path: Path) -> None:
    node = read("grace", tmp_path)
    (gpu,) = node["class"]["gpus"]
    assert (gpu["vendor"], gpu["model"]) == ("NVIDIA", "NVIDIA GH200 480GB")
    assert gpu["memory_bytes"] is None
    assert "NVML" in node["missing"]["/class/gpus/0/memory_bytes"]
    assert node["state"]["gpu_driver"]["nvidia_version"] == "565.57.01"


def test_a_small_virtual_machine(tmp_path: Path) -> None:
    node = read("microvm", tmp_path)
    assert node["class"]["machine"]["virtual"] is True
    assert node["class"]["cpu"]["cores"] == 2
    assert node["state"]["system"]["distribution"] == "debian"
    assert node["state"]["limits"]["memory_bytes"] is None
    assert node["missing"]["/state/limits/memory_bytes"] == "absent: no limit set"
    assert node["class"]["gpus"] is None
    reason = node["missing"]["/class/gpus"]
    assert reason.startswith("absent: /sys/bus/pci/devices has no NVIDIA, AMD or Intel accelerator")


def test_the_limit_of_an_old_control_group(tmp_path: Path) -> None:
    root = machines.unfold("microvm", tmp_path)
    (root / "sys/fs/cgroup/memory/jobs/memory.limit_in_bytes").write_text(f"{3 * GIB}\n")
    (root / "sys/fs/cgroup/cpu/cpu.cfs_quota_us").write_text("150000\n")
    limits = take(root)["state"]["limits"]
    assert (limits["memory_bytes"], limits["cpu_quota"]) == (3 * GIB, 1.5)


def test_identity_is_hashed_unless_asked_otherwise(tmp_path: Path) -> None:
    hashed = read("grace", tmp_path / "a")["identity"]
    clear = read("grace", tmp_path / "b", keep_hosts=True)["identity"]
    other = take(machines.unfold("grace", tmp_path / "c"), salt="salt")["identity"]
    assert clear["machine"]["host_name"] == "gh200-3"
    assert clear["gpus"][0]["uuid"] == "GPU-00000000-1111-2222-3333-444444444444"
    assert clear["network"]["addresses"] == {"enP5p9s0": "5c:25:73:00:00:01"}
    for section, name in (("machine", "host_name"), ("machine", "machine_id")):
        values = {identity[section][name] for identity in (hashed, clear, other)}
        assert len(values) == 3
        assert len(hashed[section][name]) == 16
    assert "gh200" not in json.dumps(hashed)
    assert "5c:25" not in json.dumps(hashed)


@contextmanager
def unprivileged() -> Iterator[None]:
    """Root may read everything: become nobody for a while."""
    if os.geteuid() != 0:
        yield
        return
    os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(0)


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that another user may enter; pytest's own may not be."""
    folder = Path(tempfile.mkdtemp())
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder)


def test_what_may_not_be_read_says_so(open_folder: Path) -> None:
    root = machines.unfold("epyc", open_folder)
    entry = root / "sys/firmware/dmi/entries/17-0/raw"
    entry.parent.mkdir(parents=True)
    entry.write_bytes(b"")
    locked = [
        entry,
        root / "sys/class/dmi/id/product_serial",
        root / "proc/cmdline",
        root / "sys/devices/system/cpu/cpu3/topology/thread_siblings_list",
        root / "sys/devices/system/cpu/vulnerabilities",
    ]
    for path in locked:
        path.chmod(0)
    with unprivileged():
        node = take(root)
    locked[-1].chmod(0o755)
    expected = {
        "/identity/machine/product_serial": "not permitted: /sys/class/dmi/id/product_serial",
        "/class/memory/modules": "not permitted: /sys/firmware/dmi/entries/17-0/raw",
        "/state/system/kernel_options": "not permitted: /proc/cmdline",
        "/class/cpu/cores": "not permitted:"
        " /sys/devices/system/cpu/cpu3/topology/thread_siblings_list",
        "/state/system/mitigations": "not permitted: /sys/devices/system/cpu/vulnerabilities",
    }
    assert {pointer: node["missing"][pointer] for pointer in expected} == expected
    assert all(at(node, pointer) is None for pointer in expected)


def test_every_null_has_a_reason_and_every_reason_a_null(tmp_path: Path) -> None:
    def nulls(value: Json, pointer: str) -> set[str]:
        if value is None:
            return {pointer}
        items: Iterable[tuple[str | int, Json]] = value.items() if isinstance(value, dict) else ()
        items = enumerate(value) if isinstance(value, list) else items
        return set().union(*(nulls(item, f"{pointer}/{name}") for name, item in items))

    for name in ("microvm", "epyc", "grace"):
        node = read(name, tmp_path / name)
        missing = node.pop("missing")
        assert nulls(node, "") == set(missing)
        kinds = {reason.partition(":")[0] for reason in missing.values()}
        assert kinds <= {"absent", "not permitted", "tool missing"}


def test_this_machine() -> None:
    node = take(salt="pepper")
    assert json.loads(json.dumps(node)) == node
    assert node["class"]["cpu"]["threads"] >= node["state"]["limits"]["cpu_count"] > 0
    assert (
        node["class"]["memory"]["total_bytes"]
        > node["state"]["momentary"]["memory"]["available_bytes"]
    )
    assert node["state"]["limits"]["cpu_count"] == len(os.sched_getaffinity(0))
    assert node["state"]["memory"]["page_bytes"] == os.sysconf("SC_PAGE_SIZE")
    assert set(node["missing"]) == set(take(salt="pepper")["missing"])


def test_an_empty_machine_is_all_reasons(tmp_path: Path) -> None:
    node = take(tmp_path)
    assert node["class"]["cpu"]["model"] is None
    assert node["missing"]["/class/memory/total_bytes"] == "absent: /proc/meminfo"


@examples(25, times=100)
@given(data=st.data())
def test_no_content_of_a_file_can_break_the_inventory(data: st.DataObject) -> None:
    with tempfile.TemporaryDirectory() as folder:
        root = machines.unfold("microvm", Path(folder))
        paths = sorted(path for path in root.rglob("*") if path.is_file())
        for path in data.draw(st.lists(st.sampled_from(paths), min_size=1, max_size=8)):
            lines = path.read_bytes().splitlines() or [b""]
            cut = data.draw(st.integers(0, len(lines[0])))
            junk = data.draw(st.binary(max_size=12) | st.sampled_from([b"-1", b"1.5", b":", b"K"]))
            path.write_bytes(lines[0][:cut] + junk)
        json.dumps(take(root), allow_nan=False)


def test_importing_the_inventory_imports_no_driver_library() -> None:
    code = "import sys, capsule.inventory; print({'pynvml', 'psutil', 'numpy'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"


@given(st.sets(st.integers(0, 300), min_size=1))
def test_kernel_lists_round_trip(numbers: set[int]) -> None:
    assert expand(compress(sorted(numbers))) == sorted(numbers)


def test_a_machine_does_not_differ_from_itself(tmp_path: Path) -> None:
    a = read("epyc", tmp_path)
    (tmp_path / "proc/loadavg").write_text("31.00 30.00 29.00 9/9 9\n")
    (tmp_path / "etc/machine-id").write_text("11111111111111111111111111111111\n")
    assert inventory.differences(a, take(tmp_path, salt="other")) == []


def test_what_differs_is_named_with_both_values(tmp_path: Path) -> None:
    a = read("epyc", tmp_path)
    boost = tmp_path / "sys/devices/system/cpu/cpufreq/boost"
    boost.write_text("0\n")
    cpuinfo = tmp_path / "proc/cpuinfo"
    cpuinfo.write_text(cpuinfo.read_text().replace(" sha_ni sev", " sha_ni avx512f"))
    (tmp_path / "sys/class/net/ens1f0/speed").unlink()
    assert inventory.differences(a, take(tmp_path)) == [
        ("/class/cpu/features", ["sev"], ["avx512f"]),
        ("/class/network/interfaces/ens1f0/speed_bits_per_second", 25_000_000_000, None),
        ("/state/cpu/boost", True, False),
    ]


def test_two_kinds_of_machine_differ_in_both_directions(tmp_path: Path) -> None:
    a, b = read("epyc", tmp_path / "a"), read("grace", tmp_path / "b")
    there, back = inventory.differences(a, b), inventory.differences(b, a)
    assert {(p, y, x) for p, x, y in map(_to_text, there)} == set(map(_to_text, back))
    assert ("/class/cpu/cores", 16, 72) in there
    gone = a["class"]["memory"]["numa_nodes"][2]
    assert ("/class/memory/numa_nodes/2", gone, None) in there


def _to_text(difference: Difference) -> tuple[str, str, str]:
    pointer, x, y = difference
    return pointer, json.dumps(x), json.dumps(y)
