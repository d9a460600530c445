"""Limits of a verification on another device, and its refusal where nothing runs there."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from capsule import rerun
from capsule.errors import UsageError
from capsule.manifest.model import Resources
from capsule.options import Limits
from tests.support.records import make_manifest


def plan(gpus: int, device: str | None, groups: tuple[Any, ...]) -> Any:
    manifest = replace(
        make_manifest(), resources=Resources(gpus_per_rank=gpus), other_device=device
    )
    return SimpleNamespace(manifest=manifest, groups=groups)


@pytest.mark.parametrize(
    ("original", "planned", "device", "times"),
    [
        # CPUs may be far slower than the GPUs of the original
        (1, 0, "cpu", 1000),
        (0, 1, "cuda", 10),
        (1, 1, None, 10),
        (0, 0, None, 10),
    ],
)
def test_on_cpus_a_strangers_capsule_of_a_gpu_may_take_longer(
    monkeypatch: pytest.MonkeyPatch, original: int, planned: int, device: str | None, times: int
) -> None:
    measured = SimpleNamespace(seconds=6.0, trials=2)
    monkeypatch.setattr(rerun, "Measured", SimpleNamespace(of=lambda *_: measured))
    capsule: Any = SimpleNamespace(record=plan(original, None, ()), sizes={})
    trials = (SimpleNamespace(trials=(1, 2, 3)), SimpleNamespace(trials=(4,)))
    found = rerun.limits(capsule, plan(planned, device, trials), Limits(), own=False)
    assert found.walltime == times * 4 * 3.0 + 2 * 60 + 600
    assert rerun.limits(capsule, plan(planned, device, trials), Limits(), own=True) == Limits()


def test_a_device_that_runs_nothing_is_refused() -> None:
    assert rerun._leave_out_of_device(plan(0, "cpu", (1,))) == ()
    with pytest.raises(UsageError, match="no benchmark of the capsule runs on cpu: ") as caught:
        rerun._leave_out_of_device(plan(0, "cpu", ()))
    assert "leave --device out" in str(caught.value.advice)
