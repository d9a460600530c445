"""The manifests for GPUs: valid as they are, and run as their CPU twins."""

import dataclasses
import json
from operator import attrgetter
from pathlib import Path

import pytest
import twins

from tests.support.command import User
from tests.support.documented import ROOT
from tests.support.jobs import needs_torch
from tests.support.patience import PATIENCE_SECONDS

GPU = sorted((ROOT / "manifests" / "gpu").glob("*.json"))
QUICK = ("collectives", "command", "gpt2")
_LONGER = 6  # than any command of other tests


@pytest.mark.parametrize("path", GPU, ids=attrgetter("stem"))
def test_a_manifest_for_a_gpu_is_valid(author: User, path: Path) -> None:
    found = author.json("lint", path)
    codes = {warning["code"] for warning in found["warnings"]}
    assert codes.isdisjoint(("frameworks-left-out", "no-claims", "no-primary-claim"))
    assert json.loads(path.read_text())["resources"]["gpus_per_rank"] == 1


@needs_torch
@pytest.mark.parametrize(
    "path",
    [
        pytest.param(path, id=path.stem, marks=() if path.stem in QUICK else pytest.mark.long)
        for path in GPU
    ],
)
def test_a_twin_runs_whole(author: User, path: Path) -> None:
    """In the minutes that its walltime allows."""
    twin = twins.write(path, author.folder)
    author = dataclasses.replace(author, patience_seconds=PATIENCE_SECONDS * _LONGER)
    kept = ("--output", "twin.capsule.zip")
    ended = author.run("run", twin, "--runtime", "host", "--memory", "4G", *kept)
    assert ended.returncode == 0, ended.stderr
    checked = author.run("check", "twin.capsule.zip")
    assert checked.returncode == 0, checked.stderr
