"""What every workload of a run finds in its environment."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from capsule import launch
from capsule.execute.workload import Setting, environment
from capsule.image import Image
from capsule.manifest.model import Resources
from capsule.runtimes.base import GpuShare, Prepared
from capsule.runtimes.docker import Docker
from capsule.site import Site
from tests.support.records import make_image


def make_setting(image: Image | None, ranks: int = 1) -> Setting:
    return Setting(
        runtime=Docker(),
        prepared=Prepared(handle=""),
        launcher=launch.choose(Resources(), Site(file=Path())),
        data={},
        formats={},
        generators={},
        threads=1,
        device="cpu",
        gpus_per_rank=0,
        ranks_per_node=ranks,
        determinism="default",
        image=image,
        label="",
        nodes=(0,) * ranks,
        deadline=None,
    )


def variables(image: Image | None, ranks: int = 1) -> dict[str, str]:
    return environment(make_setting(image, ranks))


@pytest.mark.parametrize("value", ["", "1"])
def test_what_python_prints_comes_at_once_but_where_the_image_decides_it(value: str) -> None:
    name = "PYTHONUNBUFFERED"
    assert variables(None)[name] == variables(make_image())[name] == "1"
    assert name not in variables(make_image("docker://example.org/a:1", f"{name}={value}"))


def test_many_ranks_connect_as_they_need_each_other() -> None:
    name = "TORCH_GLOO_LAZY_INIT"
    assert variables(None, ranks=256)[name] == "1"
    assert name not in variables(None, ranks=255)


def test_a_rank_wants_its_share_of_its_own_nodes_gpus() -> None:
    setting = replace(make_setting(None, ranks=4), gpus_per_rank=2, threads=3)
    wanted = GpuShare(count=2, local_rank=2, local_ranks=4, threads=3)
    assert setting.share_gpus(6) == wanted
