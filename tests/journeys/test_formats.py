"""Trainings on files as others publish them, through the command line."""

import json
from pathlib import Path
from typing import Any

import numpy
import pytest

from capsule.levels.data import generators
from capsule.levels.data.formats import idx, tokens
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
    "epochs": 5,
    "optimizer": {"name": "sgd", "lr": 0.1, "momentum": 0.9},
    "target": {"metric": "accuracy", "at_least": 0.5},
    "cases": [{"side": 12, "classes": 3}],
}
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


def write_digits(folder: Path) -> None:
    """Glyphs in bytes, as MNIST's digits are."""
    sizes = {"samples": 200, "test_samples": 50, "side": 12, "classes": 3}
    arrays = generators.generate("glyphs", sizes)
    folder.mkdir()
    for prefix, name in (("", "train"), ("test_", "t10k")):
        image = numpy.clip(arrays[f"{prefix}image"][:, 0] * 16 + 128, 0, 255).astype("uint8")
        idx.write(image, folder / f"{name}-images-idx3-ubyte")
        idx.write(arrays[f"{prefix}label"].astype("uint8"), folder / f"{name}-labels-idx1-ubyte")


def write_text(folder: Path) -> None:
    sizes = {"samples": 1, "test_samples": 1, "length": 8000, "vocabulary": 8}
    arrays = generators.generate("markov", sizes)
    folder.mkdir()
    for prefix, name in (("", "train"), ("test_", "val")):
        tokens.write(arrays[f"{prefix}token"], folder / f"{name}.bin", "uint16")


def write_manifest(user: User, benchmark: dict[str, Any], **dataset: str) -> None:
    document = {
        **MANIFEST,
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
    assert "for 1 of them the last qualities from what was predicted" in " ".join(
        checked.stdout.split()
    )


def test_lenet_learns_from_files_of_mnist(tmp_path: Path) -> None:
    user = User.make(tmp_path)
    write_digits(user.folder / "data")
    write_manifest(user, LENET, format="idx")
    train(user)
    again = user.run("verify", "small.capsule.zip", "--runtime", "host", "--trust")
    assert again.returncode in (0, 3), again.stderr


@needs_torch
@pytest.mark.torch
def test_a_transformer_learns_from_a_file_of_tokens(tmp_path: Path) -> None:
    user = User.make(tmp_path)
    write_text(user.folder / "data")
    write_manifest(user, TRANSFORMER, format="tokens-uint16")
    train(user)


def test_a_folder_that_is_not_of_its_format_fails_the_trial(tmp_path: Path) -> None:
    user = User.make(tmp_path)
    write_digits(user.folder / "data")
    (user.folder / "data" / "t10k-labels-idx1-ubyte").unlink()
    write_manifest(user, LENET, format="idx")
    ended = user.run("run", "small.json", "--runtime", "host")
    assert ended.returncode != 0
    assert "t10k-labels-idx1-ubyte is not there" in " ".join(ended.stderr.split())


def test_an_unknown_format_is_told_with_those_that_there_are(tmp_path: Path) -> None:
    user = User.make(tmp_path)
    write_digits(user.folder / "data")
    write_manifest(user, LENET, format="mnist")
    ended = user.run("lint", "small.json")
    assert ended.returncode != 0
    assert "/datasets/data/format" in ended.stderr
    assert "cosmoflow-tfrecord" in ended.stderr
