"""What every workload of a run finds in its environment."""

from __future__ import annotations

from pathlib import Path

import pytest

from capsule import launch
from capsule.execute.workload import Setting, environment
from capsule.image import Image
from capsule.manifest.model import Resources
from capsule.runtimes.base import Prepared
from capsule.runtimes.docker import Docker
from capsule.site import Site
from tests.support.records import make_image


def variables(image: Image | None, ranks: int = 1) -> dict[str, str]:
    setting = Setting(
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
    return environment(setting)


@pytest.mark.parametrize("value", ["", "1"])
def test_what_python_prints_comes_at_once_but_where_the_image_decides_it(value: str) -> None:
    name = "PYTHONUNBUFFERED"
    assert variables(None)[name] == variables(make_image())[name] == "1"
    assert name not in variables(make_image("docker://example.org/a:1", f"{name}={value}"))


def test_many_ranks_connect_as_they_need_each_other() -> None:
    name = "TORCH_GLOO_LAZY_INIT"
    assert variables(None, ranks=256)[name] == "1"
    assert name not in variables(None, ranks=255)
