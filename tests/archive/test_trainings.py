"""Capsules of trainings: what their ends are held to, whatever hashes say."""

import json
import re
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from capsule import archive
from capsule.archive import trainings
from capsule.errors import DamagedError
from capsule.levels.data import generators, predictions, samplers
from capsule.record import File, Record, Samples
from tests.support.capsules import carry, forge
from tests.support.command import User

Change = Callable[[Any], Any]
PACKAGE = Path(archive.__file__).parents[1]

RECIPE: dict[str, Any] = {
    "id": "digits",
    "level": 2,
    "network": "lenet",
    "datasets": ["glyphs"],
    "frameworks": ["numpy"],
    "batch": 20,
    "epochs": 5,
    "optimizer": {"name": "sgd", "lr": 0.1, "momentum": 0.9},
    "schedule": {"name": "multistep", "milestones": [2], "factor": 0.5},
    "target": {"metric": "accuracy", "at_least": 0.4},
    "cases": [{"side": 12, "classes": 3}],
}
MANIFEST: dict[str, Any] = {
    "name": "small",
    "title": "A small training",
    "authors": [{"name": "Ada Author"}],
    "license": "CC0-1.0",
    "seeds": [1, 2],
    "datasets": {
        "glyphs": {
            "generator": "glyphs",
            "samples": 90,
            "test_samples": 30,
            "side": 12,
            "classes": 3,
        }
    },
}


def train(folder: Path, **fields: Any) -> Path:
    user = User.make(folder)
    manifest = {**MANIFEST, "benchmarks": [{**RECIPE, **fields}]}
    (user.folder / "small.json").write_text(json.dumps(manifest))
    ended = user.run("run", "small.json", "--runtime", "host", "--output", "small.capsule.zip")
    assert ended.returncode == 0, ended.stderr
    return user.folder / "small.capsule.zip"


@pytest.fixture(scope="module")
def sealed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return train(tmp_path_factory.mktemp("small"))


def read(record: Record) -> list[trainings.Training]:
    return list(trainings.read(record.manifest, record.attempts, record.samples))


def nothing(_: str) -> list[bytes]:
    """Files in which there is nothing."""
    return []


def loader(capsule: archive.Capsule) -> trainings.Load:
    return lambda path: [capsule.open(path)]


def with_values(name: str, change: Callable[[list[float]], list[float]]) -> Any:
    """Other values of one metric in the first trial."""

    def forged(record: Record) -> Record:
        samples: list[Samples] = list(record.samples)
        place = next(
            number for number, line in enumerate(samples) if line.metric.endswith(f"/{name}")
        )
        changed = change(list(samples[place].values))
        line = replace(samples[place], values=tuple(changed))
        if line.steps is not None and len(changed) < len(line.steps):
            parts = {part: getattr(line, part) for part in ("steps", "wall", "active")}
            line = replace(line, **{part: values[: len(changed)] for part, values in parts.items()})
        samples[place] = line
        return replace(record, samples=tuple(samples))

    return forged


def test_an_honest_training_says_what_follows(sealed: Path) -> None:
    with archive.read(sealed) as capsule:
        assert list(trainings.faults(capsule.record, loader(capsule))) == []
        words = " ".join(capsule.facts())
    assert "last quality 2" in words
    assert "order of samples 2" in words


def test_a_divergence_that_no_loss_shows_is_none(sealed: Path) -> None:
    with archive.read(sealed) as capsule:
        first, *rest = capsule.record.attempts
        gone = replace(first, outcome="failed", reason="diverged")
        record = replace(capsule.record, attempts=(gone, *rest))
        (fault,) = trainings.faults(record, loader(capsule))
    assert "recorded as diverged, expected a divergence of train_loss" in fault


FORGED = [
    ("final_accuracy", lambda values: [values[0] + 0.01], "final_accuracy is .* follows from its"),
    ("best_accuracy", lambda values: [1.0], "best_accuracy is 1;"),
    ("accuracy", lambda values: [*values[:-1], 0.99], "final_accuracy is"),
    ("accuracy", lambda values: values[:-1], "completed with 4 of 5 epochs"),
    ("epochs_to_target", lambda values: [values[0] + 1], "epochs_to_target is"),
    ("samples_to_target", lambda values: [values[0] + 20], "samples_to_target is"),
    ("time_to_target", lambda values: [values[0] / 2], "time_to_target is"),
    ("total_time_to_target", lambda values: [values[0] / 2], "total_time_to_target is"),
    ("train_time", lambda values: [values[0] / 2], "train_time is"),
    ("total_time", lambda values: [values[0] * 2], "total_time is"),
    ("evaluation_time", lambda values: [values[0] / 2, *values[1:]], "total_time is"),
    ("largest_class_share", lambda values: [values[0] / 2], "largest_class_share is"),
    ("class_counts", lambda values: [*values[:-1], 1e6], "largest_class_share is"),
    ("class_counts", lambda values: [value + 1 for value in values], "expected 80 labels"),
    ("class_counts", lambda values: [-1.0] * len(values), "class_counts are -1, -1"),
    ("train_loss", lambda values: [*values[:-1], 99.0], "train_loss diverged in epoch 5"),
    ("untrained_loss", lambda _: [0.01], "train_loss diverged in epoch 2"),
    ("accuracy", lambda values: [0.1] * len(values), "no epoch reached the target"),
    ("training_samples", lambda values: [80.0], "training_samples is 80; 90 follows from its gen"),
    (
        "learning_rate",
        lambda values: [2 * values[0], *values[1:]],
        "learning_rate is 0.2 in epoch 1",
    ),
    ("learning_rate", lambda values: values[:-1], "learning_rate has 4 epochs, expected 5"),
    ("order_fingerprint", lambda values: [values[0] + 1], "order_fingerprint is .*from its seed"),
]


@pytest.mark.parametrize(("name", "change", "message"), FORGED)
def test_what_does_not_follow_is_damage(
    sealed: Path, tmp_path: Path, name: str, change: Any, message: str
) -> None:
    path = tmp_path / "forged.capsule.zip"
    with archive.read(sealed) as capsule:
        forge(with_values(name, change)(capsule.record), carry(capsule), path)
    with pytest.raises(DamagedError) as refusal:
        archive.read(path).close()
    assert re.search(message, " ".join(str(refusal.value).split()))


def test_a_training_that_stops_ends_where_it_says(tmp_path: Path) -> None:
    target = {"metric": "accuracy", "at_least": 0.4, "stop": True}
    sealed = train(tmp_path, target=target)
    with archive.read(sealed) as capsule:
        for one in read(capsule.record):
            assert one.series["accuracy"].values[-1] >= 0.4
            assert one.series["epochs_to_target"].values == (len(one.series["accuracy"].values),)
        longer = with_values("accuracy", lambda values: [0.9, *values[1:]])(capsule.record)
    if any(len(one.series["accuracy"].values) > 1 for one in read(longer)):
        faults = trainings.faults(longer, nothing)
        assert any("continued after reaching its target" in fault for fault in faults)


def with_predictions(path: Path, capsule: archive.Capsule, change: Change | None) -> None:
    """The same capsule with other predictions of its first trial, or without them."""
    name = next(one.path for one in capsule.record.attempts[0].evidence)
    files = [one for one in carry(capsule) if one.path != name]
    record = capsule.record
    if change is None:
        first, *others = record.attempts
        record = replace(record, attempts=(replace(first, evidence=()), *others))
    else:
        changed = change(predictions.decode(capsule.open(name)).copy())
        data = changed if isinstance(changed, bytes) else encode(changed)
        files.append(File(path=name, source=data))
    forge(record, files, path)


def encode(array: Any) -> bytes:
    return generators.npy_header(array.dtype.str, array.shape) + bytes(array.tobytes())


def choose_rightly(array: Any) -> Any:
    array[-1] = array[0]
    return array


def expect_what_was_chosen(array: Any) -> Any:
    array[0] = array[-1]
    return array


PREDICTIONS: list[tuple[Change | None, str]] = [
    (None, "completed, but its predictions are missing"),
    (choose_rightly, "accuracy is .*, expected 1 from its predictions"),
    (expect_what_was_chosen, "accuracy is .*, expected 1 from its predictions"),
    (lambda array: array[:-1], "has shape"),
    (lambda array: array[:, :-1], "has shape"),
    (lambda array: array.reshape(len(array), -1, 2), "has shape"),
    (
        lambda array: array.astype("<f4"),
        "accuracy cannot be computed from predictions of type float32",
    ),
    (lambda array: array.astype("<i8"), "expected a header of predictions"),
    (lambda array: encode(array)[:-1], "bytes of values do not fit shape"),
    (lambda array: encode(array) + b"\0", "bytes of values do not fit shape"),
    (lambda array: b"", "expected a header of predictions"),
    (lambda array: bytes(10_000_000), "expected a header of predictions"),
]


@pytest.mark.parametrize(("change", "message"), PREDICTIONS)
def test_a_quality_that_its_predictions_do_not_give_is_damage(
    sealed: Path, tmp_path: Path, change: Change | None, message: str
) -> None:
    path = tmp_path / "forged.capsule.zip"
    with archive.read(sealed) as capsule:
        with_predictions(path, capsule, change)
    with pytest.raises(DamagedError) as refusal:
        archive.read(path).close()
    assert re.search(message, " ".join(str(refusal.value).split()))


LIES = [
    (
        "        report.keep(trial.kept, chosen)\n",
        "        pass\n",
        "its predictions are missing",
    ),
    (
        "        report.keep(trial.kept, chosen)\n",
        "        report.keep(trial.kept, chosen[:-1])\n",
        "bytes of values do not fit shape",
    ),
    (
        '    report.samples("training_samples", [trial.train.count])\n',
        '    report.samples("training_samples", [80])\n',
        "training_samples is 80; 90 follows from its generator",
    ),
    (
        "[sum(last) / len(last)]",
        "[1.0]",
        "final_accuracy is 1;",
    ),
    (
        "rates.append(trial.rate(number))",
        "rates.append(trial.rate(number + trial.steps))",
        "learning_rate is 0.05 in epoch 2, expected 0.1 in epoch 2 from the schedule",
    ),
]


@pytest.mark.parametrize(("right", "wrong", "message"), LIES)
def test_a_program_that_lies_fails_its_trials_and_is_sealed(
    tmp_path: Path, right: str, wrong: str, message: str
) -> None:
    """A stranger's capsule carries a program of its own, which may be any."""
    package = tmp_path / "package" / "capsule"
    shutil.copytree(PACKAGE, package)
    path = package / "levels" / "level2" / "__init__.py"
    text = path.read_text()
    assert text.count(right) == 1
    path.write_text(text.replace(right, wrong))
    user = User.make(tmp_path)
    (user.folder / "small.json").write_text(json.dumps({**MANIFEST, "benchmarks": [RECIPE]}))
    words = ("run", "small.json", "--runtime", "host", "--output", "small.capsule.zip")
    ended = user.run(*words, PYTHONPATH=str(package.parent))
    assert ended.returncode == 5, ended.stderr
    with archive.read(user.folder / "small.capsule.zip") as capsule:
        attempts = capsule.record.attempts
    assert [one.reason for one in attempts] == ["bad-result"] * 2
    assert all(message in one.message for one in attempts)


def test_an_unshuffled_order_is_found(sealed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import numpy

    monkeypatch.setattr(samplers, "shuffle", lambda count, seed, epoch: numpy.arange(count))
    with pytest.raises(DamagedError) as refusal:
        archive.read(sealed).close()
    faults = re.findall("order_fingerprint is", str(refusal.value))
    assert len(faults) == 2


def test_more_orders_than_can_be_afforded_are_not_made_again(
    sealed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trainings, "MOST_ORDERED", 200)
    with archive.read(sealed) as capsule:
        words = trainings.fact(capsule.record)
    assert "order of samples 1" in words
