"""CPU twins of the manifests for GPUs: valid, small, and of the same benchmarks."""

from __future__ import annotations

import json
from collections.abc import Iterator
from operator import attrgetter
from pathlib import Path
from typing import Any

import pytest
import twins

from capsule import manifest
from capsule.manifest import Recipe
from tests.support.documented import ROOT

GPU = sorted((ROOT / "manifests" / "gpu").glob("*.json"))
EACH = pytest.mark.parametrize("path", GPU, ids=attrgetter("stem"))
MINIS = sorted((ROOT / "manifests" / "minis").glob("*.json"))


def walk(value: Any) -> Iterator[Any]:
    """Every text and number in a document."""
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list):
        for one in value:
            yield from walk(one)
    else:
        yield value


@EACH
def test_a_twin_measures_the_same_on_cpus(path: Path, tmp_path: Path) -> None:
    whole, twin = manifest.load(path), manifest.load(twins.write(path, tmp_path))
    assert (whole.resources.device, twin.resources.device) == ("cuda", "cpu")
    assert twin.resources.ranks == whole.resources.ranks
    assert twin.resources.walltime_seconds == 300
    assert (whole.left_out, twin.left_out) == ((), ())
    for one, other in zip(whole.benchmarks, twin.benchmarks, strict=True):
        assert (other.id, other.frameworks) == (one.id, one.frameworks)
        assert type(other.subject) is type(one.subject)
        assert 1 <= len(other.cases) <= len(one.cases)
    assert "tf32" not in walk(json.loads(twin.source)["benchmarks"])
    assert twin.claims


@EACH
def test_trainings_of_a_twin_are_short(path: Path, tmp_path: Path) -> None:
    twin = manifest.load(twins.write(path, tmp_path))
    for benchmark in twin.benchmarks:
        if isinstance(benchmark.subject, Recipe):
            for settings in benchmark.subject.settings.values():
                assert (settings.epochs, settings.target) == (1, None)
                assert settings.batch <= twins.MAX_BATCH
    for name, (_, parameters) in twin.generators.items():
        assert parameters["samples"] == twins.MAX_SAMPLES, name


def test_numbers_of_cases_are_cut_and_equal_cases_united() -> None:
    entry = {
        **{"id": "gemm", "level": 0, "operator": "gemm", "dtype": "tf32", "frameworks": ["torch"]},
        "cases": [
            {"m": 17, "n": 3, "k": 999},
            {"m": 40, "n": 3, "k": 16, "tb": 1},
            {"m": 16, "n": 3, "k": 16},
        ],
        **{"repetitions": 50, "warmup": 10},
    }
    sweep = {
        "id": "run",
        "command": ["a"],
        "cases": {"dtype": ["tf32", "float32"], "n": [8, 64, 99]},
    }
    twin = twins.make_twin({**whole(), "benchmarks": [entry, sweep]})
    gemm, command = twin["benchmarks"]
    assert gemm["cases"] == [{"m": 16, "n": 3, "k": 16}, {"m": 16, "n": 3, "k": 16, "tb": 1}]
    assert (gemm["dtype"], gemm["repetitions"], gemm["warmup"]) == ("float32", 3, 1)
    assert command["cases"] == {"dtype": ["float32"], "n": [8, 16]}


def whole() -> dict[str, Any]:
    """A document without benchmarks."""
    return {"name": "a", "title": "A", "seeds": [1, 2, 3], "resources": {"gpus_per_rank": 1}}


def train(network: str, **fields: Any) -> dict[str, Any]:
    return {
        **{"id": network, "level": 2, "network": network, "datasets": ["data"], "batch": 64},
        **{"epochs": 9, "optimizer": {"name": "sgd", "lr": 0.1}, **fields},
    }


@pytest.mark.parametrize(
    ("fields", "batch", "accumulate"),
    [
        ({"batch": 64, "accumulate": 16}, 8, 2),
        ({"batch": 3, "accumulate": 3}, 3, 1),
        ({"batch": 64, "accumulate": 1}, 8, 1),
        ({"batch": 1}, 1, None),
    ],
)
def test_parts_of_a_batch_stay_equal(
    fields: dict[str, int], batch: int, accumulate: int | None
) -> None:
    document = {
        **whole(),
        "datasets": {"data": {"generator": "glyphs", "side": 99, "digest": "sha256:0"}},
        "benchmarks": [
            train("lenet", cases=[{"side": 99, "lr": 0.5}, {"side": 28, "lr": 0.5}], **fields)
        ],
    }
    twin = twins.make_twin(document)
    (entry,) = twin["benchmarks"]
    assert (entry["batch"], entry.get("accumulate")) == (batch, accumulate)
    assert entry["cases"] == [{"lr": 0.5}]
    sizes = {"side": 28, "classes": 10, "samples": 32, "test_samples": 8}
    assert twin["datasets"] == {"data": {"generator": "glyphs", **sizes}}


def test_a_training_whose_small_sizes_are_the_defaults_has_no_case() -> None:
    sizes = {"layers": 12, "length": 1024}
    document = {
        **whole(),
        "datasets": {"data": {"generator": "markov", "length": 1024}},
        "benchmarks": [train("transformer", cases=[sizes], target={"at_least": 1})],
    }
    twin = twins.make_twin(document)
    (entry,) = twin["benchmarks"]
    assert entry.keys().isdisjoint(("cases", "target"))
    assert entry["optimizer"] == {"name": "sgd", "lr": 0.1 * 8 / 64}
    assert twin["datasets"]["data"]["length"] == 32


def test_a_dataset_cannot_serve_networks_of_two_sizes() -> None:
    document = {
        **whole(),
        "datasets": {"data": {"generator": "glyphs"}},
        "benchmarks": [train("lenet"), train("resnet18")],
    }
    with pytest.raises(
        ValueError, match="dataset data serves networks of different side, 28 and 33"
    ):
        twins.make_twin(document)


def test_a_dataset_that_is_not_generated_has_no_twin() -> None:
    document = {**whole(), "datasets": {"data": {"path": "x"}}, "benchmarks": [train("lenet")]}
    with pytest.raises(ValueError, match="dataset data is not generated"):
        twins.make_twin(document)


def test_the_program_prints_its_rules(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = ROOT / "manifests" / "gpu" / "command.json"
    monkeypatch.setattr("sys.argv", ["twins.py", str(path), "--into", str(tmp_path / "twins")])
    twins.main()
    printed = capsys.readouterr().out.splitlines()
    assert printed[:-1] == [f"- {rule}" for rule in twins.RULES]
    assert printed[-1] == f"{path} -> {tmp_path / 'twins' / 'command.json'}"
    assert (tmp_path / "twins" / "command" / "train.py").is_file()


def test_the_minis_for_a_gpu_are_the_minis() -> None:
    """In mixed bfloat16, and with workers."""
    document = json.loads((ROOT / "manifests" / "gpu" / "minis.json").read_text())
    minis = [json.loads(path.read_text()) for path in MINIS]
    for entry, mini in zip(document["benchmarks"], minis, strict=True):
        (own,) = mini["benchmarks"]
        (data,) = own["datasets"]
        assert document["datasets"][entry["datasets"][0]] == mini["datasets"][data]
        assert {**entry, "datasets": own["datasets"]} == {
            **own,
            "dtype": "bfloat16-mixed",
            "workers": 2,
        }
        assert mini["claims"][0] in document["claims"]
