"""The minis in this process: the fastest ones to their targets, of all but the fastest one step."""

import json
from operator import attrgetter
from pathlib import Path
from typing import Any

import pytest

from capsule.levels import frameworks
from capsule.levels.catalog import training
from capsule.levels.data import generators
from tests.support.documented import ROOT
from tests.support.jobs import needs_torch
from tests.support.properties import pin_first
from tests.support.trainings import Values, measure

FASTEST = ("lenet", "transformer")
MINIS = {path.stem: path for path in sorted((ROOT / "manifests" / "minis").glob("*.json"))}


def train(path: Path, folder: Path, *, whole: bool) -> Values:
    document = json.loads(path.read_text())
    (benchmark,) = document["benchmarks"]
    data = dict(document["datasets"][benchmark["datasets"][0]])
    del data["digest"]
    recipe: dict[str, Any] = {
        name: benchmark[name] for name in ("network", "batch", "epochs", "optimizer", "schedule")
    }
    if whole:
        target = benchmark["target"]
        value = target.get("at_least", target.get("at_most"))
        recipe["target"] = {"value": value, "stop": False}
    else:
        recipe["epochs"] = 1
        data.update(samples=recipe["batch"], test_samples=8)
    generators.write(generators.generate(data.pop("generator"), data), folder)
    torch = frameworks.load("torch", "cpu", 1, "default")
    sizes = benchmark.get("cases", [{}])[0]
    return measure(torch, folder, parameters=sizes, **recipe)


def hold(values: Values) -> None:
    assert max(values["exact_trajectory_error"]) < 1e-6
    assert values["evaluation_error"][0] < 1e-6
    assert values["node_error_ratio"][0] < 1
    assert values["bound_share"][0] < training.MOST_SHARE


@needs_torch
@pytest.mark.parametrize("name", pin_first(FASTEST))
def test_the_fastest_minis_reach_their_targets(name: str, tmp_path: Path) -> None:
    values = train(MINIS[name], tmp_path, whole=True)
    hold(values)
    assert values["epochs_to_target"][0] >= 1


@needs_torch
@pytest.mark.parametrize(
    "path", [path for name, path in MINIS.items() if name != FASTEST[0]], ids=attrgetter("stem")
)
def test_the_others_take_a_step(path: Path, tmp_path: Path) -> None:
    values = train(path, tmp_path, whole=False)
    hold(values)
    assert len(values["train_loss"]) == 1
