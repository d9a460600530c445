"""GPUs that variables of a scheduler or a user leave visible, and the share of each rank."""

from __future__ import annotations

import pytest

from capsule.errors import CannotRunError
from capsule.runtimes import visible
from capsule.runtimes.gpus import Devices, Vendor

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
        ({"ZE_AFFINITY_MASK": "9,1"}, "1"),
        ({"ZE_AFFINITY_MASK": ""}, "0 1 2 3"),
        ({"CUDA_VISIBLE_DEVICES": ""}, "0 1 2 3"),
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
    ],
)
def test_a_device_is_listed_once(vendor: Vendor, variable: str, listed: str) -> None:
    with pytest.raises(CannotRunError, match=f"{variable}={listed} lists GPU .* twice"):
        names(vendor, 4, **{variable: listed})


def shares(count: int, ranks: int, *, of: int = 4, **environment: str) -> list[str]:
    """The devices of each rank of a node."""
    found = visible.read(devices("nvidia", of), environment)
    return [
        " ".join(
            visible.share(
                found, environment, node="n2", count=count, local_rank=rank, local_ranks=ranks
            )
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
        # the scheduler gave each task one of its own, with the same number in each
        (1, 2, {"SLURM_GPUS_PER_TASK": "1", "CUDA_VISIBLE_DEVICES": "0"}, ["0", "0"]),
        (2, 2, {"SLURM_GPU_BIND": "per_task:2", "CUDA_VISIBLE_DEVICES": "0,1"}, ["0 1", "0 1"]),
        (1, 2, {"SLURM_GPU_BIND": "none", "CUDA_VISIBLE_DEVICES": "0,1"}, ["0", "1"]),
    ],
)
def test_ranks_of_a_node_share_no_device(
    count: int, ranks: int, environment: dict[str, str], expected: list[str]
) -> None:
    assert shares(count, ranks, **environment) == expected


@pytest.mark.parametrize(
    ("count", "ranks", "environment", "refusal"),
    [
        (1, 2, {"CUDA_VISIBLE_DEVICES": "3"}, "1 GPU is visible (CUDA_VISIBLE_DEVICES=3), but 2"),
        (1, 1, {"CUDA_VISIBLE_DEVICES": ""}, "no GPU is visible (CUDA_VISIBLE_DEVICES=), but a"),
        (1, 1, {"CUDA_VISIBLE_DEVICES": "-1"}, "no GPU is visible (CUDA_VISIBLE_DEVICES=-1), but"),
        (2, 4, {}, "4 GPUs are visible, but 4 ranks need 2 each"),
        (2, 1, {"CUDA_VISIBLE_DEVICES": f"{MIG},{MIG[:-1]}5"}, "2 MIG instances requested"),
        (2, 2, {"SLURM_GPUS_PER_TASK": "1", "CUDA_VISIBLE_DEVICES": "0"}, "a rank needs 2"),
    ],
)
def test_too_few_devices_are_refused_on_their_node(
    count: int, ranks: int, environment: dict[str, str], refusal: str
) -> None:
    with pytest.raises(CannotRunError) as caught:
        shares(count, ranks, **environment)
    assert refusal in caught.value.what
    assert "node n2: " in caught.value.what
    assert caught.value.advice
