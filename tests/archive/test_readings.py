"""Capsules of datasets that were read alone: what they are held to, whatever hashes say."""

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from capsule import archive
from capsule.archive import readings
from capsule.errors import DamagedError
from tests.archive.test_trainings import MANIFEST, with_values
from tests.support.capsules import carry, forge
from tests.support.command import User
from tests.support.documented import ROOT

ENTRY = {
    "id": "io",
    "level": 2,
    "formats": ["idx", "arrays"],
    "cache": ["warm"],
    "datasets": ["glyphs"],
    "frameworks": ["numpy"],
    "batch": 20,
    "epochs": 2,
}


@pytest.fixture(scope="module")
def sealed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    user = User.make(tmp_path_factory.mktemp("read"))
    (user.folder / "io.json").write_text(json.dumps({**MANIFEST, "benchmarks": [ENTRY]}))
    ended = user.run("run", "io.json", "--runtime", "host", "--output", "io.capsule.zip")
    assert ended.returncode == 0, ended.stderr
    return user.folder / "io.capsule.zip"


def test_an_honest_reading_says_what_follows(sealed: Path) -> None:
    with archive.read(sealed) as capsule:
        assert list(readings.faults(capsule.record)) == []
        words = " ".join(capsule.facts())
    assert "rates of 4 readings follow from their latencies" in words


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        ("batch_latency", lambda values: values[:-1], "batch_latency has 7 values, expected 8"),
        ("batch_latency", lambda values: [values[0] / 2, *values[1:]], "second is .* in epoch 1"),
        ("batch_latency", lambda values: [0.0, *values[1:]], "expected more than 0 s"),
        ("open_time", lambda values: [values[0], 2 * values[1]], "second is .* in epoch 2"),
        (
            "samples_per_second",
            lambda values: [2 * values[0], values[1]],
            "the latencies of this epoch",
        ),
        ("data_bytes_per_second", lambda values: [1e12, values[1]], "the latencies of this epoch"),
        ("sample_bytes", lambda values: [values[0] + 1], "the latencies of this epoch"),
        (
            "resident_share",
            lambda values: [0.5, values[1]],
            "resident_share is 0.5, expected 0.99 to 1 for a warm cache",
        ),
        ("training_samples", lambda values: [91.0], "expected 90 from the generator"),
        ("order_fingerprint", lambda values: [values[0] + 1], "expected .* from the order of seed"),
        (
            "samples_fingerprint",
            lambda values: [values[0] + 1],
            "read other samples of the dataset than",
        ),
    ],
)
def test_what_does_not_follow_is_damage(
    sealed: Path,
    tmp_path: Path,
    name: str,
    change: Callable[[list[float]], list[float]],
    message: str,
) -> None:
    path = tmp_path / "forged.capsule.zip"
    with archive.read(sealed) as capsule:
        forge(with_values(name, change)(capsule.record), carry(capsule), path)
    with pytest.raises(DamagedError) as refusal:
        archive.read(path).close()
    assert re.search(message, " ".join(str(refusal.value).split()))


def test_the_shipped_manifest_is_in_order(author: User) -> None:
    ended = author.run("lint", ROOT / "manifests" / "io.json")
    assert ended.returncode == 0, ended.stdout + ended.stderr
