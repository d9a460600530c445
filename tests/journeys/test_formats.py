"""Trainings on files as others publish them, through the command line."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from capsule import archive
from tests.support.command import User
from tests.support.jobs import needs_torch

MANIFEST: dict[str, Any] = {
    "name": "small",
    "title": "A small training on files",
    "authors": [{"name": "Ada Author"}],
    "license": "CC0-1.0",
    "seeds": [1],
}
LENET: dict[str, Any] = {
    "id": "digits",
    "level": 2,
    "network": "lenet",
    "datasets": ["data"],
    "frameworks": ["numpy"],
    "batch": 20,
    "epochs": 8,
    "optimizer": {"name": "sgd", "lr": 0.05, "momentum": 0.9},
    "cases": [{"side": 12, "classes": 3}],
}
CLAIMS = [
    {"metric": "digits/*/*/test_fingerprint", "type": "exact"},
    {"metric": "digits/*/*/exact_trajectory_error", "type": "bound", "at_most": 1e-6},
]
TRANSFORMER: dict[str, Any] = {
    "id": "text",
    "level": 2,
    "network": "transformer",
    "datasets": ["data"],
    "frameworks": ["torch"],
    "batch": 20,
    "epochs": 6,
    "optimizer": {"name": "adamw", "lr": 0.01},
    "target": {"metric": "accuracy", "at_least": 0.5},
    "cases": [{"layers": 1, "width": 32, "heads": 2, "length": 16, "vocabulary": 8}],
}


def generate(user: User, generator: str, form: str, **sizes: int) -> str:
    """Make the dataset `data`, and give its digest."""
    words = [f"{name}={value}" for name, value in sizes.items()]
    ended = user.run("data", "generate", generator, "data", *words, "--format", form)
    assert ended.returncode == 0, ended.stderr
    return ended.stdout.strip()


def write_digits(user: User) -> str:
    return generate(user, "glyphs", "idx", samples=600, test_samples=60, side=12, classes=3)


def write_manifest(
    user: User, benchmark: dict[str, Any], claims: Sequence[Any] = (), **dataset: str
) -> None:
    document = {
        **MANIFEST,
        **({"claims": claims} if claims else {}),
        "datasets": {"data": {"path": "data", **dataset}},
        "benchmarks": [benchmark],
    }
    (user.folder / "small.json").write_text(json.dumps(document))


def train(user: User) -> None:
    output = ("--output", "small.capsule.zip")
    ended = user.run("run", "small.json", "--runtime", "host", *output)
    assert ended.returncode == 0, ended.stderr
    checked = user.run("check", "small.capsule.zip")
    assert checked.returncode == 0, checked.stderr
    assert "last quality 1" in " ".join(checked.stdout.split())


def test_lenet_learns_from_files_of_mnist(tmp_path: Path) -> None:
    user = User.make(tmp_path)
    digest = write_digits(user)
    write_manifest(user, LENET, CLAIMS, format="idx", digest=digest)
    train(user)
    with archive.read(user.folder / "small.capsule.zip") as capsule:
        final = next(
            one.values[0]
            for one in capsule.record.samples
            if one.metric.endswith("/final_accuracy")
        )
    assert final > 0.5
    again = user.run("verify", "small.capsule.zip", "--runtime", "host", "--trust")
    assert again.returncode == 0, again.stderr
    assert again.stdout.startswith("REPRODUCED")


@needs_torch
@pytest.mark.torch
def test_a_transformer_learns_from_a_file_of_tokens(tmp_path: Path) -> None:
    user = User.make(tmp_path)
    sizes = {"samples": 500, "test_samples": 500, "length": 16, "vocabulary": 8}
    generate(user, "markov", "tokens-uint16", **sizes)
    write_manifest(user, TRANSFORMER, format="tokens-uint16")
    train(user)


def test_a_text_that_names_the_home_of_its_reader_stays_as_it_is(tmp_path: Path) -> None:
    """A text is data here: what logs have replaced would make other tokens of it."""
    user = User.make(tmp_path)
    data = user.folder / "data"
    data.mkdir()
    for name in ("train", "val"):
        (data / f"{name}.bin").write_bytes(f"{user.home}/x ".encode() * 40)
    sizes = {"layers": 1, "width": 8, "heads": 1, "length": 16, "vocabulary": 256}
    recipe = {**TRANSFORMER, "frameworks": ["numpy"], "epochs": 1, "cases": [sizes]}
    del recipe["target"]
    write_manifest(user, recipe, format="tokens-uint8")
    train(user)
    with archive.read(user.folder / "small.capsule.zip") as capsule:
        (kept,) = capsule.record.attempts[0].evidence
        assert bytes(user.home) in capsule.open(kept.path)


def test_a_folder_that_is_not_of_its_format_fails_the_trial(tmp_path: Path) -> None:
    user = User.make(tmp_path)
    write_digits(user)
    (user.folder / "data" / "t10k-labels-idx1-ubyte").unlink()
    write_manifest(user, LENET, format="idx")
    ended = user.run("run", "small.json", "--runtime", "host")
    assert ended.returncode != 0
    assert "t10k-labels-idx1-ubyte is missing" in " ".join(ended.stderr.split())


def test_an_unknown_format_is_told_with_those_that_there_are(tmp_path: Path) -> None:
    user = User.make(tmp_path)
    write_digits(user)
    write_manifest(user, LENET, format="mnist")
    ended = user.run("lint", "small.json")
    assert ended.returncode != 0
    assert "/datasets/data/format" in ended.stderr
    assert "cosmoflow-tfrecord" in ended.stderr
