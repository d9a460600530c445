"""Recipes for machines that have the data: valid anywhere, and told what is missing there."""

import json
from operator import attrgetter
from pathlib import Path

import pytest

from tests.support.command import User
from tests.support.documented import ROOT

FOLDER = ROOT / "manifests" / "full"
EACH = pytest.mark.parametrize("path", sorted(FOLDER.glob("*.json")), ids=attrgetter("stem"))


@EACH
def test_a_full_recipe_is_valid_and_says_what_is_missing(author: User, path: Path) -> None:
    linted = author.run("lint", path)
    assert linted.returncode == 0, linted.stderr
    (name,) = json.loads(path.read_text())["datasets"]
    shown = author.run("run", "--dry-run", path)
    assert shown.returncode == 0, shown.stderr
    assert f"{name}, path on this machine unknown" in " ".join(shown.stdout.split())


def test_recipes_of_mlperf_are_by_its_rules() -> None:
    named = {
        path.stem: json.loads(path.read_text())["benchmarks"][0].get("rules")
        for path in FOLDER.glob("*.json")
    }
    assert {name for name, rules in named.items() if rules} == {"cosmoflow", "deepcam"}
    assert set(named.values()) == {"mlperf-hpc-closed", None}


def test_a_run_without_the_data_ends_before_anything_is_made(author: User) -> None:
    manifest = json.loads((FOLDER / "deepcam.json").read_text())
    del manifest["resources"]["gpus_per_rank"]
    path = author.folder / "deepcam.json"
    path.write_text(json.dumps(manifest))
    ended = author.run("run", path, "--runtime", "host")
    assert ended.returncode == 6
    assert "climate" in ended.stderr
    assert sorted(author.folder.iterdir()) == [path]
