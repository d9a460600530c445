"""GPUs that are there, that are not, and whose driver is too old for the image."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from capsule.digest import of_bytes
from capsule.errors import CannotRunError
from capsule.image import Image
from capsule.runtimes import gpus
from capsule.runtimes.base import Prepared
from capsule.runtimes.docker import Docker
from capsule.runtimes.host import Host
from capsule.runtimes.podman import Podman
from tests.support.gpu_trees import MI250X, build
from tests.support.nvml import Card, FakeNvml, NVMLError
from tests.support.runtimes import small


def machine(root: Path, driver: str, *, cards: int) -> None:
    """The files by which NVIDIA's driver shows itself, as recorded on a machine with an A100."""
    for index in range(cards):
        (root / f"proc/driver/nvidia/gpus/0000:{index:02x}:00.0").mkdir(parents=True)
    (root / "proc/driver/nvidia/version").write_text(
        f"NVRM version: NVIDIA UNIX x86_64 Kernel Module  {driver}  Tue Dec 6 12:00:00 UTC 2023\n"
        "GCC version:  gcc version 11.4.0\n"
    )


def with_config(config: Mapping[str, object] | None) -> Image:
    data = json.dumps({"config": config}).encode()
    return Image(
        reference="docker://localhost/x",
        pinned=None,
        index_digest=None,
        manifest_digest=None,
        platform="linux/amd64",
        config_digest=of_bytes(data),
        layers=(),
        manifest=None,
        config=data,
    )


@pytest.mark.parametrize(
    ("config", "cuda"),
    [
        ({"Env": ["PATH=/bin", "CUDA_VERSION=12.4.1"]}, (12, 4)),
        ({"Env": ["NVIDIA_REQUIRE_CUDA=cuda>=11.8 brand=tesla,driver>=450"]}, (11, 8)),
        ({"Labels": {"com.nvidia.cuda.version": "13.0"}}, (13, 0)),
        ({"Env": None, "Labels": None}, None),
        ({}, None),
        (None, None),
    ],
)
def test_the_cuda_of_an_image_is_read_from_its_configuration(
    config: Mapping[str, object] | None, cuda: tuple[int, int] | None
) -> None:
    assert gpus.cuda_version(with_config(config)) == cuda


@pytest.mark.parametrize(
    ("cuda", "driver", "needed"),
    [
        ("11.8.0", "450.80.01", "450.80.02"),
        ("12.4.1", "525.60.12", "525.60.13"),
        ("13.0.0", "575.99.99", "580.65.06"),
        ("14.0.0", "575.99.99", "580.65.06"),
    ],
)
def test_a_driver_older_than_the_images_cuda_names_both_versions(
    tmp_path: Path, cuda: str, driver: str, needed: str
) -> None:
    machine(tmp_path, driver, cards=1)
    image = with_config({"Env": [f"CUDA_VERSION={cuda}"]})
    with pytest.raises(CannotRunError) as caught:
        gpus.require(1, image, tmp_path)
    assert f"driver {driver}" in str(caught.value)
    assert f"driver {needed} or newer" in str(caught.value)
    assert f"CUDA {cuda.rpartition('.')[0]}" in str(caught.value)


def test_a_driver_that_is_new_enough_will_do(tmp_path: Path) -> None:
    machine(tmp_path, "525.60.13", cards=2)
    devices = gpus.require(2, with_config({"Env": ["CUDA_VERSION=12.9.0"]}), tmp_path)
    assert devices == gpus.Devices(vendor="nvidia", count=2, driver="525.60.13")
    with pytest.raises(CannotRunError, match="2 GPUs are visible, but the ranks of this node"):
        Host(root=tmp_path).check_gpus(3, Prepared(handle=""), None)


def test_the_open_kernel_module_is_read_too(tmp_path: Path) -> None:
    machine(tmp_path, "1.2", cards=1)
    (tmp_path / "proc/driver/nvidia/version").write_text(
        "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.65.06  Release Build\n"
    )
    devices = gpus.find(tmp_path)
    assert devices is not None
    assert devices.driver == "580.65.06"


def test_the_cuda_image_states_the_cuda_of_its_lock_and_the_cpu_image_none() -> None:
    images = Path(__file__).parents[2] / "images/torch"
    stages = re.split(r"(?m)^FROM ", (images / "Dockerfile").read_text())
    head, *named = stages
    by_name = {stage.split("\n")[0].partition(" AS ")[2]: stage for stage in named}
    assert "ARG VARIANT=cpu\n" in head
    # what is built is the stage of the variant
    assert named[-1].startswith("${VARIANT}\n")
    labelled = {name for name, stage in by_name.items() if "com.nvidia.cuda.version" in stage}
    assert labelled == {"cuda"}
    stated = re.findall(r'LABEL com\.nvidia\.cuda\.version="(.*)"', by_name["cuda"])
    lock = (images / "requirements-cuda.txt").read_text()
    (locked,) = re.findall(r"(?m)^cuda-toolkit==(\d+\.\d+)\.", lock)
    assert stated == [locked]
    image = with_config({"Labels": {"com.nvidia.cuda.version": stated[0]}})
    assert gpus.cuda_version(image) == tuple(map(int, locked.split(".")))


def test_amd_devices_are_counted_without_the_cpus(tmp_path: Path) -> None:
    for index, number in enumerate(("0", "0", "12345", "54321")):
        node = tmp_path / f"sys/class/kfd/kfd/topology/nodes/{index}"
        node.mkdir(parents=True)
        (node / "gpu_id").write_text(f"{number}\n")
    assert gpus.find(tmp_path) == gpus.Devices(vendor="amd", count=2, driver=None)


def test_without_devices_gpus_cannot_be_had(tmp_path: Path) -> None:
    with pytest.raises(CannotRunError, match="1 GPU is requested; this machine has no GPU"):
        Host(root=tmp_path).check_gpus(1, Prepared(handle=""), None)


@pytest.mark.engines
@pytest.mark.parametrize(
    ("make", "words", "advice"),
    [(Docker, "device driver", "container toolkit"), (Podman, "CDI devices", "nvidia-ctk cdi")],
)
def test_an_engine_that_knows_no_devices_says_what_is_missing(
    tmp_path: Path, make: type[Docker] | type[Podman], words: str, advice: str
) -> None:
    image = small()
    machine(tmp_path, "580.65.06", cards=1)
    prepared = make().prepare(image, cache=tmp_path)
    with pytest.raises(CannotRunError, match=words) as caught:
        make(root=tmp_path).check_gpus(1, prepared, image)
    assert advice in str(caught.value)


@pytest.fixture
def library(monkeypatch: pytest.MonkeyPatch) -> FakeNvml:
    """NVIDIA's library on a machine whose files show no GPU."""
    nvml = FakeNvml(Card(), Card())
    monkeypatch.setitem(sys.modules, "pynvml", nvml)
    monkeypatch.setattr(gpus, "_entries", lambda _: [])
    return nvml


def test_where_no_file_shows_gpus_the_library_counts_them(
    library: FakeNvml, tmp_path: Path
) -> None:
    assert gpus.find() == gpus.Devices(vendor="nvidia", count=2, driver="580.65.06")
    assert not library.is_open
    # it is this machine's own
    assert gpus.find(tmp_path) is None
    library.cards = ()
    assert gpus.find() is None


@pytest.mark.parametrize("question", ["nvmlInit", "nvmlDeviceGetCount"])
def test_a_library_that_refuses_counts_none(
    library: FakeNvml, monkeypatch: pytest.MonkeyPatch, question: str
) -> None:
    def refuse() -> None:
        raise NVMLError

    monkeypatch.setattr(library, question, refuse)
    assert gpus.find() is None
    assert not library.is_open


def test_a_driver_that_says_no_version_is_checked_where_a_cuda_needs_one(tmp_path: Path) -> None:
    machine(tmp_path, "580.65.06", cards=1)
    (tmp_path / "proc/driver/nvidia/version").unlink()
    with pytest.raises(CannotRunError, match="this machine's driver version is unreadable"):
        gpus.require(1, with_config({"Env": ["CUDA_VERSION=12.4.1"]}), tmp_path)
    # a CUDA older than all that have a minimum, and an image without one
    for config in ({"Env": ["CUDA_VERSION=10.2.89"]}, {}):
        assert gpus.require(1, with_config(config), tmp_path).driver is None
    assert gpus.require(1, None, tmp_path).count == 1
    unconfigured = replace(with_config({}), config=None, config_digest=None)
    assert gpus.cuda_version(unconfigured) is None


def test_the_cuda_of_an_image_is_nothing_to_an_amd_driver(tmp_path: Path) -> None:
    build(MI250X, tmp_path)
    image = with_config({"Env": ["CUDA_VERSION=13.0.0"]})
    assert gpus.require(1, image, tmp_path).vendor == "amd"


@pytest.mark.parametrize(("count", "words"), [(1, "1 GPU is requested"), (3, "3 GPUs are")])
def test_a_machine_without_gpus_refuses_as_many_as_are_requested(
    tmp_path: Path, count: int, words: str
) -> None:
    with pytest.raises(CannotRunError) as caught:
        gpus.require(count, None, tmp_path)
    assert caught.value.what.startswith(words)
