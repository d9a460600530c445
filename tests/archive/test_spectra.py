"""A capsule of two networks in training: its distances are made again from sealed spectra."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from capsule import archive
from capsule.archive import trainings
from capsule.errors import DamagedError
from tests.archive.test_trainings import MANIFEST, Change, loader, with_predictions
from tests.support.command import User

RECIPE: dict[str, Any] = {
    "id": "maps",
    "level": 2,
    "network": "cosmogan",
    "datasets": ["mass-maps"],
    "frameworks": ["numpy"],
    "batch": 10,
    "epochs": 4,
    "optimizer": {"name": "adam", "lr": 0.01, "beta1": 0.5},
    "target": {"metric": "spectrum_distance", "at_most": 30},
    "cases": [{"side": 16, "width": 2, "layers": 2, "latent": 3}],
}
DATA = {"generator": "mass-maps", "samples": 20, "test_samples": 6, "side": 16}


@pytest.fixture(scope="module")
def sealed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    user = User.make(tmp_path_factory.mktemp("maps"))
    manifest = {**MANIFEST, "datasets": {"mass-maps": DATA}, "benchmarks": [RECIPE]}
    (user.folder / "maps.json").write_text(json.dumps(manifest))
    ended = user.run("run", "maps.json", "--runtime", "host", "--output", "maps.capsule.zip")
    assert ended.returncode == 0, ended.stderr
    return user.folder / "maps.capsule.zip"


def test_an_honest_one_says_what_follows(sealed: Path) -> None:
    with archive.read(sealed) as capsule:
        assert list(trainings.faults(capsule.record, loader(capsule))) == []
        words = " ".join(capsule.facts())
        (one, _) = trainings.read(
            capsule.record.manifest, capsule.record.attempts, capsule.record.samples
        )
    assert "last quality 2" in words
    assert one.choices == 8
    assert one.series["epochs_to_target"].values == (1.0,)


def without_a_power(array: Any) -> Any:
    array[0, 2, 3] = float("nan")
    return array


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (None, "completed, but its predictions are missing"),
        (lambda array: array[[0, 1, 2, 0]], "distance is .*, expected 0 from its predictions"),
        (lambda array: array[[0, 1, 3, 2]], "distance is .*, expected .* from its predictions"),
        (lambda array: array[:, :, :-1], "has shape"),
        (
            lambda array: array.astype("|u1"),
            "spectrum_distance cannot be computed from predictions of type uint8",
        ),
        (without_a_power, "spectrum_distance needs spectra as labels"),
    ],
)
def test_a_distance_that_its_spectra_do_not_give_is_damage(
    sealed: Path, tmp_path: Path, change: Change | None, message: str
) -> None:
    path = tmp_path / "forged.capsule.zip"
    with archive.read(sealed) as capsule:
        with_predictions(path, capsule, change)
    with pytest.raises(DamagedError) as refusal:
        archive.read(path).close()
    assert re.search(message, " ".join(str(refusal.value).split()))
