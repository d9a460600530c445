"""Memory of trainings: shipped recipes fit a GPU and its host; checks hold no more than counted."""

import json
from math import prod
from pathlib import Path
from typing import Any

import pytest

from capsule.levels import frameworks, job, networks
from capsule.levels.catalog import training
from capsule.levels.data import generators
from capsule.levels.instruments import nodes
from capsule.levels.level2 import checks, trajectory
from tests.support import room, trials
from tests.support.documented import ROOT
from tests.support.jobs import needs_torch
from tests.support.room import GIB
from tests.support.trainings import SGD, SMALL, measure

DEVICE, HOST = 78 * GIB, 128 * GIB
FULL = sorted((ROOT / "manifests" / "full").glob("*.json"))
GPU = sorted((ROOT / "manifests" / "gpu").glob("*.json"))
SIZES: dict[str, dict[str, int]] = {"lenet": {}, "resnet9": {"width": 8}}
COUNTED = [path for path in GPU if path.stem not in ("command", "collectives")]


def train(network: str, dtype: str = "float32", **recipe: Any) -> job.Trial:
    """A training of a network in its case `quick`."""
    entry = {
        **trials.ENTRY,
        "level": 2,
        "network": network,
        "dtype": dtype,
        "parameters": SIZES[network],
        "recipe": {"epochs": 1, "optimizer": SGD, "schedule": {"name": "constant"}, **recipe},
    }
    document = {**trials.JOB, "framework": "torch", "device": "cuda", "trials": [entry]}
    (made,) = job.parse(document, {}).trials
    return made


@pytest.mark.parametrize(
    "path", [*FULL, *COUNTED], ids=lambda path: f"{path.parent.name}-{path.stem}"
)
def test_a_shipped_manifest_fits_the_gpu_that_it_names(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = room.count(path, monkeypatch)
    assert found
    for name, needs in found.items():
        assert needs.device < DEVICE, name
        assert needs.checks < HOST, name
        assert needs.batches < HOST, name


def test_what_is_not_counted_has_no_operators_and_networks() -> None:
    for path in set(GPU) - set(COUNTED):
        (entry,) = json.loads(path.read_text())["benchmarks"]
        assert entry.keys() & {"command", "collectives"}


@pytest.mark.parametrize("name", ["deepcam", "transformer"])
def test_without_accumulation_a_full_recipe_does_not_fit(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    document = json.loads((ROOT / "manifests" / "full" / f"{name}.json").read_text())
    del document["benchmarks"][0]["accumulate"]
    path = tmp_path / "whole.json"
    path.write_text(json.dumps(document))
    ((_, needs),) = room.count(path, monkeypatch).items()
    assert needs.device > DEVICE


def count_elements(network: str, batch: int) -> int:
    """Elements of values and parameters of a step."""
    graph = networks.build(network, {**SIZES[network], "batch": batch})
    shapes = [node.shape for node in graph.training]
    shapes += [parameter.shape for parameter in graph.parameters.values()]
    return sum(map(prod, shapes))


@pytest.mark.parametrize(
    ("network", "recipe", "samples"),
    [
        ("lenet", {"batch": 20}, 4),
        ("lenet", {"batch": 2}, 2),
        ("lenet", {"batch": 20, "accumulate": 5}, 4),
        ("resnet9", {"batch": 20}, 4),
        # statistics of each micro-batch: one is computed after the other
        ("resnet9", {"batch": 20, "accumulate": 5}, 2),
        ("resnet9", {"batch": 2, "accumulate": 2}, 1),
    ],
)
def test_the_host_holds_what_is_computed_at_once(
    network: str, recipe: dict[str, int], samples: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    elements = count_elements(network, samples)
    for dtype, arrays in (("float32", nodes.ARRAYS), (training.MIXED, trajectory.ARRAYS)):
        needs = room.count_trial(train(network, dtype, **recipe), monkeypatch)
        assert needs.checks == 8 * arrays * elements


def test_of_a_large_network_one_sample_is_judged_at_a_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    wide = networks.build("deepcam", {"batch": 1})
    small = networks.build("resnet9", {**SIZES["resnet9"], "batch": 1})
    one_pixel = networks.build("resnet18", {"side": 32, "batch": 1})
    parts = train("resnet9", batch=20, accumulate=5).recipe
    whole = train("resnet9", batch=20).recipe
    assert parts
    assert whole
    assert checks.choose_parts(parts, wide) == (1, 2)
    assert checks.choose_parts(whole, wide) == (2, 1)
    assert checks.choose_parts(parts, small) == checks.choose_parts(parts, one_pixel) == (2, 2)
    monkeypatch.setattr(trajectory, "MOST_VALUES", 0)
    assert checks.choose_parts(parts, small) == (1, 2)
    # its last channels have one value in a sample
    assert checks.choose_parts(parts, one_pixel) == (2, 1)


@pytest.mark.parametrize("workers", [0, 3])
def test_each_worker_prepares_two_minibatches(
    workers: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    needs = room.count_trial(train("lenet", batch=10, workers=workers), monkeypatch)
    assert needs.batches == (2 * workers + 1) * 10 * (4 * 28 * 28 + 8)


@needs_torch
def test_a_mixed_training_is_held_without_bounds_of_nodes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    generators.write(generators.generate("glyphs", SMALL), tmp_path)
    torch = frameworks.load("torch", "cpu", 1, "default")
    before = measure(torch, tmp_path, dtype=training.MIXED)
    assert max(before["exact_trajectory_error"]) < 1e-6

    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("nodes were recorded")

    monkeypatch.setattr(nodes, "Record", refuse)
    after = measure(torch, tmp_path, dtype=training.MIXED)
    for name in ("exact_trajectory_error", "trajectory_error", "evaluation_error"):
        assert after[name] == before[name]
    with pytest.raises(AssertionError, match="nodes were recorded"):
        measure(torch, tmp_path)
