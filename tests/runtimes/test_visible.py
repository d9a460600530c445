"""GPUs that variables of a scheduler or a user leave visible, and the share of each rank."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

import pytest

from capsule.errors import CannotRunError
from capsule.launch.folder import Call, LaunchFolder
from capsule.runtimes import gpus, visible
from capsule.runtimes.base import GpuShare, Invocation, Prepared
from capsule.runtimes.gpus import Devices, Vendor
from capsule.runtimes.host import Host
from capsule.runtimes.slots import Slot

UUID = "GPU-8932f937-d72c-4106-c12f-20bd9faed9f6"
OTHER_UUID = "GPU-02acb1de-3b1c-45c9-8e1e-1f6f3ba3b5a7"
MIG = "MIG-41b3359c-e721-56e5-8009-12e5797ed514"


def devices(vendor: Vendor, count: int) -> Devices:
    return Devices(vendor=vendor, count=count, driver=None)


def names(vendor: Vendor, count: int, **environment: str) -> str:
    return " ".join(visible.read(devices(vendor, count), environment).names)


@pytest.mark.parametrize(
    ("listed", "found"),
    [
        ("0", "0"),
        ("3,1", "3 1"),
        (" 3 , 1 ", "3 1"),
        ("", ""),
        ("-1", ""),
        ("0,-1,1", "0"),
        ("0,4,1", "0"),
        ("NoDevFiles", ""),
        ("void", ""),
        ("1,two,3", "1"),
        ("1,,3", "1"),
        ("\u0661", ""),
        (UUID, UUID),
        ("GPU-8932f937", "GPU-8932f937"),
        (f"{UUID},{OTHER_UUID}", f"{UUID} {OTHER_UUID}"),
        (f"{UUID},x,{OTHER_UUID}", UUID),
        (MIG, MIG),
        ("MIG-GPU-8932f937-d72c-4106-c12f-20bd9faed9f6/1/0",) * 2,
    ],
)
def test_nvidia_devices_are_listed_up_to_the_first_invalid_entry(listed: str, found: str) -> None:
    assert names("nvidia", 4, CUDA_VISIBLE_DEVICES=listed) == found


@pytest.mark.parametrize(
    ("environment", "found"),
    [
        ({}, "0 1 2 3 4 5 6 7"),
        ({"ROCR_VISIBLE_DEVICES": "4,5"}, "4 5"),
        ({"ROCR_VISIBLE_DEVICES": ""}, ""),
        ({"ROCR_VISIBLE_DEVICES": "GPU-5a1c0e6b9f2d7a11,3"}, "GPU-5a1c0e6b9f2d7a11 3"),
        ({"HIP_VISIBLE_DEVICES": "6,2"}, "6 2"),
        ({"CUDA_VISIBLE_DEVICES": "6,2"}, "6 2"),
        ({"GPU_DEVICE_ORDINAL": "6"}, "6"),
        # HIP's own variable counts among the devices that ROCm's left
        ({"ROCR_VISIBLE_DEVICES": "4,5", "HIP_VISIBLE_DEVICES": "1"}, "5"),
        ({"ROCR_VISIBLE_DEVICES": "4,5", "HIP_VISIBLE_DEVICES": "1,4"}, "5"),
        ({"ROCR_VISIBLE_DEVICES": "4,5", "HIP_VISIBLE_DEVICES": ""}, ""),
        ({"HIP_VISIBLE_DEVICES": "1", "CUDA_VISIBLE_DEVICES": "2"}, "1"),
        ({"HIP_VISIBLE_DEVICES": "", "CUDA_VISIBLE_DEVICES": "2"}, "2"),
        ({"HIP_VISIBLE_DEVICES": "GPU-5a1c0e6b9f2d7a11"}, "GPU-5a1c0e6b9f2d7a11"),
        # as Slurm writes it into all variables
        ({"ROCR_VISIBLE_DEVICES": "4,5", "CUDA_VISIBLE_DEVICES": "4,5"}, "4 5"),
        ({"ROCR_VISIBLE_DEVICES": "4,5", "GPU_DEVICE_ORDINAL": "4,5"}, "4 5"),
        ({"ZE_AFFINITY_MASK": "1"}, "0 1 2 3 4 5 6 7"),
    ],
)
def test_amd_devices_follow_the_variables_of_rocm_and_hip(
    environment: dict[str, str], found: str
) -> None:
    assert names("amd", 8, **environment) == found


@pytest.mark.parametrize(
    ("environment", "found"),
    [
        ({}, "0 1 2 3"),
        ({"ZE_AFFINITY_MASK": "2,3"}, "2 3"),
        ({"ZE_AFFINITY_MASK": "0.1,1.0"}, "0.1 1.0"),
        ({"ZE_AFFINITY_MASK": "9,1", "ZE_FLAT_DEVICE_HIERARCHY": "COMPOSITE"}, "1"),
        ({"ZE_AFFINITY_MASK": "6,7", "ZE_FLAT_DEVICE_HIERARCHY": "FLAT"}, "6 7"),
        ({"ZE_AFFINITY_MASK": ""}, "0 1 2 3"),
        ({"CUDA_VISIBLE_DEVICES": ""}, "0 1 2 3"),
        # the number of tiles is unknown
        ({"ZE_FLAT_DEVICE_HIERARCHY": "FLAT"}, "0 1 2 3"),
    ],
)
def test_intel_devices_follow_the_affinity_mask(environment: dict[str, str], found: str) -> None:
    assert names("intel", 4, **environment) == found


@pytest.mark.parametrize(
    ("vendor", "variable", "listed"),
    [
        ("nvidia", "CUDA_VISIBLE_DEVICES", "1,1"),
        ("nvidia", "CUDA_VISIBLE_DEVICES", f"{UUID},{UUID}"),
        ("amd", "ROCR_VISIBLE_DEVICES", "0,2,0"),
        ("intel", "ZE_AFFINITY_MASK", "0.1,0.1"),
        ("intel", "ZE_AFFINITY_MASK", "0,0.1"),
        ("nvidia", "CUDA_VISIBLE_DEVICES", "0,00"),
        ("nvidia", "CUDA_VISIBLE_DEVICES", f"GPU-8932f937,{UUID}"),
        ("nvidia", "CUDA_VISIBLE_DEVICES", f"{UUID},GPU-8932f937"),
    ],
)
def test_a_device_is_listed_once(vendor: Vendor, variable: str, listed: str) -> None:
    with pytest.raises(CannotRunError, match=f"{variable}={listed} lists GPU .* twice"):
        names(vendor, 4, **{variable: listed})


def shares(count: int, ranks: int, environment: dict[str, str]) -> list[str]:
    """The devices of each rank of a node."""
    found = visible.read(devices("nvidia", 4), environment)
    return [
        " ".join(
            visible.share(found, GpuShare(count=count, local_rank=rank, local_ranks=ranks), "n2")
        )
        for rank in range(ranks)
    ]


@pytest.mark.parametrize(
    ("count", "ranks", "environment", "expected"),
    [
        (1, 4, {}, ["0", "1", "2", "3"]),
        (2, 2, {}, ["0 1", "2 3"]),
        (1, 2, {"CUDA_VISIBLE_DEVICES": "3,0,1"}, ["3", "0"]),
        (1, 2, {"CUDA_VISIBLE_DEVICES": f"{UUID},{OTHER_UUID}"}, [UUID, OTHER_UUID]),
        (1, 1, {"CUDA_VISIBLE_DEVICES": MIG}, [MIG]),
        # Slurm exports these into jobs whose tasks share one list
        (1, 2, {"SLURM_TRES_PER_TASK": "cpu=4", "CUDA_VISIBLE_DEVICES": "0,1"}, ["0", "1"]),
        (1, 2, {"SLURM_GPUS_PER_TASK": "1", "CUDA_VISIBLE_DEVICES": "0,1"}, ["0", "1"]),
        (1, 2, {"SLURM_GPU_BIND": "closest", "CUDA_VISIBLE_DEVICES": "0,1"}, ["0", "1"]),
    ],
)
def test_ranks_of_a_node_share_no_device(
    count: int, ranks: int, environment: dict[str, str], expected: list[str]
) -> None:
    assert shares(count, ranks, environment) == expected


@pytest.mark.parametrize(
    ("count", "ranks", "environment", "refusal"),
    [
        (1, 2, {"CUDA_VISIBLE_DEVICES": "3"}, "1 GPU is visible (CUDA_VISIBLE_DEVICES=3), but 2"),
        (1, 1, {"CUDA_VISIBLE_DEVICES": ""}, "no GPU is visible (CUDA_VISIBLE_DEVICES=), but a"),
        (1, 1, {"CUDA_VISIBLE_DEVICES": "-1"}, "no GPU is visible (CUDA_VISIBLE_DEVICES=-1), but"),
        (2, 4, {}, "4 GPUs are visible, but 4 ranks need 2 each"),
        (2, 1, {"CUDA_VISIBLE_DEVICES": f"{MIG},{MIG[:-1]}5"}, "2 MIG instances requested"),
        # a list that the scheduler gave to this task alone
        (1, 2, {"SLURM_GPUS_PER_TASK": "1", "CUDA_VISIBLE_DEVICES": "0"}, "2 ranks need 1 each"),
    ],
)
def test_too_few_devices_are_refused_on_their_node(
    count: int, ranks: int, environment: dict[str, str], refusal: str
) -> None:
    with pytest.raises(CannotRunError) as caught:
        shares(count, ranks, environment)
    assert refusal in caught.value.what
    assert "node n2: " in caught.value.what
    assert re.search(": (request|set) ", caught.value.what)


def tree(root: Path, vendor: Vendor, count: int) -> Path:
    """The files by which GPUs show themselves; each vendor's as its driver writes them."""
    for index in range(count):
        if vendor == "nvidia":
            (root / f"proc/driver/nvidia/gpus/0000:{index:02x}:00.0").mkdir(parents=True)
        elif vendor == "amd":
            node = root / f"sys/class/kfd/kfd/topology/nodes/{index}"
            node.mkdir(parents=True)
            (node / "gpu_id").write_text(f"{index + 1}\n")
        else:
            card = root / f"sys/bus/pci/devices/0000:{index:02x}:00.0"
            card.mkdir(parents=True)
            (card / "vendor").write_text("0x8086\n")
            (card / "class").write_text("0x038000\n")
    return root


def test_integrated_graphics_are_no_gpus_to_measure_on(tmp_path: Path) -> None:
    card = tree(tmp_path, "intel", 2) / "sys/bus/pci/devices/0000:00:02.0"
    card.mkdir()
    (card / "vendor").write_text("0x8086\n")
    (card / "class").write_text("0x030000\n")
    assert gpus.find(tmp_path) == devices("intel", 2)


def invocation(folder: Path, share: GpuShare) -> Invocation:
    return Invocation(
        command=("/usr/bin/env",),
        environment={"HOME": str(folder)},
        mounts=(),
        cwd=str(folder),
        gpus=share,
        label="x",
        stdout=folder / "stdout",
        stderr=folder / "stderr",
    )


def environment_of(folder: Path, root: Path, share: GpuShare) -> Mapping[str, str]:
    """The environment of a command that the host runtime starts."""
    running = Host(root).start(Prepared(handle=""), invocation(folder, share))
    ended = running.wait(60)
    assert ended is not None
    assert ended.exit_code == 0, ended.engine_fault
    lines = (folder / "stdout").read_text().splitlines()
    return dict(line.partition("=")[::2] for line in lines)


@pytest.mark.parametrize(
    ("vendor", "variable", "listed", "expected"),
    [
        ("nvidia", "CUDA_VISIBLE_DEVICES", "3,0", "0"),
        ("nvidia", "CUDA_VISIBLE_DEVICES", f"{UUID},{OTHER_UUID}", OTHER_UUID),
        ("amd", "ROCR_VISIBLE_DEVICES", "2,3", "3"),
        ("intel", "ZE_AFFINITY_MASK", "1.0,1.1", "1.1"),
    ],
)
def test_a_rank_sees_its_own_device_by_its_vendors_variable(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    vendor: Vendor,
    variable: str,
    listed: str,
    expected: str,
) -> None:
    monkeypatch.setenv(variable, listed)
    monkeypatch.delenv("CUDA_DEVICE_ORDER", raising=False)
    root = tree(tmp_path / "root", vendor, 4)
    second = GpuShare(count=1, local_rank=1, local_ranks=2)
    found = environment_of(tmp_path, root, second)
    seen = {name: found[name] for name in visible.VARIABLES.values() if name in found}
    assert seen == {variable: expected}
    assert found.get("CUDA_DEVICE_ORDER") == ("PCI_BUS_ID" if vendor == "nvidia" else None)


def test_ranks_share_the_instances_of_one_card(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = f"{MIG[:-1]}5"
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", f"{MIG},{other}")
    root = tree(tmp_path / "root", "nvidia", 1)
    Host(root).check_gpus(2, Prepared(handle=""), None)
    found = environment_of(tmp_path, root, GpuShare(count=1, local_rank=1, local_ranks=2))
    assert found["CUDA_VISIBLE_DEVICES"] == other


def test_the_order_in_which_a_user_counts_devices_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CUDA_DEVICE_ORDER", "FASTEST_FIRST")
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    root = tree(tmp_path / "root", "nvidia", 2)
    found = environment_of(tmp_path, root, GpuShare(count=2))
    assert found["CUDA_VISIBLE_DEVICES"] == "0,1"
    assert found["CUDA_DEVICE_ORDER"] == "FASTEST_FIRST"


def test_a_command_without_gpus_sees_none(tmp_path: Path) -> None:
    found = environment_of(tmp_path, tree(tmp_path / "root", "nvidia", 2), GpuShare())
    assert (found["CUDA_VISIBLE_DEVICES"], found["ROCR_VISIBLE_DEVICES"]) == ("", "")


def test_a_rank_beyond_the_visible_devices_does_not_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "3")
    root = tree(tmp_path / "root", "nvidia", 4)
    share = GpuShare(count=1, local_rank=1, local_ranks=2)
    ended = Host(root).start(Prepared(handle=""), invocation(tmp_path, share)).wait(60)
    assert ended is not None
    assert "1 GPU is visible (CUDA_VISIBLE_DEVICES=3), but 2 ranks" in str(ended.engine_fault)
    assert not (tmp_path / "stdout").exists()


def test_the_share_of_a_rank_travels_to_its_node_and_no_name_of_a_device(tmp_path: Path) -> None:
    share = GpuShare(count=2, local_rank=1, local_ranks=4, threads=7)
    folder = LaunchFolder.create(tmp_path / "launch")
    sent = Call(
        runtime="host",
        ranks=8,
        prepared=Prepared(handle=""),
        invocation=invocation(tmp_path, share),
    )
    folder.write_call(5, sent)
    received = folder.read_call(5).invocation
    assert (received.gpus, received.devices) == (share, ())


def test_parts_of_one_card_are_devices_of_their_own() -> None:
    """They have its UUID; AMD's driver can divide a card."""
    parts = (Slot(address="0000:01:00.0", uuid="GPU-00ab"),) * 2
    assert visible.read(devices("amd", 2), {}, parts).names == ("0", "1")
    # a card without a UUID is not another one's double
    cards = (Slot(address="0000:01:00.0"), Slot(address="0000:02:00.0", uuid="GPU-00ab"))
    assert visible.read(devices("amd", 2), {}, cards).names == ("0", "1")
    named = {"ROCR_VISIBLE_DEVICES": "1,GPU-00ab"}
    with pytest.raises(CannotRunError, match="lists GPU GPU-00ab twice"):
        visible.read(devices("amd", 2), named, cards)
