"""Capsules of trainings that take their samples in other orders than shuffled."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy
import pytest

from capsule import archive
from capsule.archive import trainings
from capsule.errors import DamagedError
from capsule.levels.data import generators, samplers
from capsule.record import File
from tests.archive.test_trainings import MANIFEST, RECIPE
from tests.support.capsules import carry, forge
from tests.support.command import User

SIZES = {"samples": 90, "test_samples": 30, "side": 12, "classes": 3}


def prepare(folder: Path, *names: str, **files: Any) -> User:
    user = User.make(folder)
    data = user.folder / "data"
    data.mkdir()
    generators.write(generators.generate("glyphs", SIZES) | files, data)
    recipe = {**RECIPE, "epochs": 2}
    del recipe["target"]
    benchmarks = [{**recipe, "id": name, "sampler": name} for name in names]
    document = {
        **MANIFEST,
        "seeds": [1],
        "datasets": {"glyphs": {"path": "data"}},
        "benchmarks": benchmarks,
    }
    (user.folder / "small.json").write_text(json.dumps(document))
    return user


@pytest.fixture(scope="module")
def sealed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    files = {"length": numpy.arange(90) % 7, "weight": numpy.arange(90) / 2}
    folder = tmp_path_factory.mktemp("small")
    user = prepare(folder, "ordered", "bucketed", "weighted", **files)
    ended = user.run("run", "small.json", "--runtime", "host", "--output", "a.capsule.zip")
    assert ended.returncode == 0, ended.stderr
    return user.folder / "a.capsule.zip"


def test_orders_are_made_again_by_the_reader(sealed: Path) -> None:
    with archive.read(sealed) as capsule:
        words = trainings.fact(capsule.record)
        assert "order of samples 3" in words
        prints = {
            one.metric.split("/")[0]: one.values[0]
            for one in capsule.record.samples
            if one.metric.endswith("/order_fingerprint")
        }
    fingerprint = samplers.Fingerprint()
    for _ in range(2):
        fingerprint.add("order", numpy.arange(80))
    assert prints["ordered"] == fingerprint.value()
    assert len(set(prints.values())) == 3


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda weights: weights[::-1], "order_fingerprint is"),
        (lambda weights: weights[:-1], "expected (1, 1, 90)"),
        (lambda weights: -weights, "expected finite numbers >= 0"),
        (None, "the file of its weighted sampler is missing"),
    ],
)
def test_other_weights_than_it_went_by_are_damage(
    sealed: Path, tmp_path: Path, change: Any, message: str
) -> None:
    path = tmp_path / "forged.capsule.zip"
    with archive.read(sealed) as capsule:
        record = capsule.record
        place, attempt, kept = next(
            (place, attempt, one)
            for place, attempt in enumerate(record.attempts)
            for one in attempt.evidence
            if "samplers/weighted" in one.name
        )
        files = [one for one in carry(capsule) if one.path != kept.path]
        if change is None:
            evidence = tuple(one for one in attempt.evidence if one != kept)
            attempts = list(record.attempts)
            attempts[place] = replace(attempt, evidence=evidence)
            record = replace(record, attempts=tuple(attempts))
        else:
            data = samplers.encode(change(numpy.arange(90) / 2))
            assert data is not None
            files.append(File(path=kept.path, source=data))
        forge(record, files, path)
    with pytest.raises(DamagedError) as refusal:
        archive.read(path).close()
    assert message in " ".join(str(refusal.value).split())


def test_a_sampler_without_its_numbers_fails_and_says_why(tmp_path: Path) -> None:
    user = prepare(tmp_path, "weighted")
    ended = user.run("run", "small.json", "--runtime", "host")
    assert ended.returncode != 0
    assert "lacks weight.npy, which the sampler weighted needs" in " ".join(ended.stderr.split())
