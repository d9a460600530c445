"""Metrics of Levels 0 to 3 mean what the catalogue says: a plan that says otherwise is found."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from capsule import judgement, plan, reading
from capsule import manifest as manifests
from capsule.manifest import Manifest, catalogued
from tests.support import bulk
from tests.support.records import Document

SHIPPED = sorted((Path(__file__).parents[2] / "manifests").glob("*.json"))
LEVEL = {
    "id": "gemm",
    "level": 0,
    "operator": "gemm",
    "cases": [{"m": 4, "n": 4, "k": 4}],
    "frameworks": ["numpy"],
}
TRAINING = {
    "id": "lenet",
    "level": 2,
    "network": "lenet",
    "datasets": ["glyphs"],
    "frameworks": ["numpy"],
    "optimizer": {"name": "sgd", "lr": 0.1},
    "batch": 4,
    "epochs": 1,
}
GLYPHS = {"glyphs": {"generator": "glyphs", "samples": 8, "test_samples": 8}}


def document(*benchmarks: Mapping[str, object], **more: object) -> Document:
    common = {"name": "a", "title": "A", "authors": [{"name": "Ada Author"}], "license": "CC0-1.0"}
    return {**common, "seeds": [1, 2, 3], "benchmarks": list(benchmarks), **more}


def restated(described: Document, metric: str, **changes: object) -> Manifest:
    """A manifest as a reader of a plan has it that gives a metric another meaning."""
    honest = bulk.read_manifest(described)
    subjects = plan.subjects_to_json(honest)
    for one in subjects[0]["metrics"]:
        if one["name"] == metric:
            one.update(changes)
    return manifests.read(honest.source, where="it", folder=None, subjects=subjects)


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.stem)
def test_what_is_shipped_means_what_the_catalogue_says(path: Path) -> None:
    assert list(catalogued.deviations(manifests.load(path).benchmarks)) == []


@pytest.mark.parametrize(
    ("metric", "change"),
    [
        ("forward_time", {"unit": "ms"}),
        ("forward_time", {"direction": "higher"}),
        ("forward_time", {"kind": "portable"}),
        ("forward_time", {"resolution": 1.0}),
        ("l2_error", {"direction": "none"}),
        ("l2_error", {"name": "l2_accuracy"}),
    ],
)
def test_another_meaning_is_named(metric: str, change: dict[str, object]) -> None:
    (sentence,) = catalogued.deviations(restated(document(LEVEL), metric, **change).benchmarks)
    assert f"gemm/*/*/{change.get('name', metric)}" in sentence


@pytest.mark.parametrize(
    ("metric", "change"),
    [
        ("final_accuracy", {"direction": "lower"}),
        ("final_accuracy", {"resolution": 0.5}),
        ("train_time", {"unit": "min"}),
        ("accuracy", {"kind": "machine"}),
    ],
)
def test_so_it_is_of_a_training(metric: str, change: dict[str, object]) -> None:
    described = document(TRAINING, datasets=GLYPHS)
    assert list(catalogued.deviations(bulk.read_manifest(described).benchmarks)) == []
    (sentence,) = catalogued.deviations(restated(described, metric, **change).benchmarks)
    assert f"lenet/*/*/{metric}" in sentence


def test_the_metrics_of_a_command_are_its_authors() -> None:
    (command,) = bulk.manifest_document(metrics=1, seeds=1)["benchmarks"]
    metrics = {"forward_time": {"unit": "ms", "direction": "higher", "kind": "portable"}}
    described = document({**command, "metrics": metrics})
    assert list(catalogued.deviations(bulk.read_manifest(described).benchmarks)) == []


def test_where_the_release_is_known_it_is_refused_and_else_named_first() -> None:
    claim = {"metric": "gemm/*/*/l2_error", "type": "equivalence", "margin": {"relative": 0.5}}
    described = document(LEVEL, claims=[claim])
    forged = restated(described, "l2_error", direction="higher", unit="dB")
    record = bulk.make(forged, bulk.normal(3, 1))
    # a program that nobody knows
    assert not any("catalogue" in fault for fault in reading.faults(record))
    own = {**record.levels, "digest": reading.own_program(forged), "release": None}
    faults = [fault for fault in reading.faults(replace(record, levels=own)) if "l2_error" in fault]
    assert len(faults) == 2

    rerun = bulk.make(forged, bulk.normal(3, 2), verifies="0" * 64, claims=record.claims)
    judged = judgement.judge_records(record, "0" * 64, rerun, None)
    first = judged.differences.notes[:2]
    assert {note.code for note in first} == {"other-metric"}
    assert all("gemm/*/*/l2_error" in note.sentence for note in first)
