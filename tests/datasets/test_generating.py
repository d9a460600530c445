"""Synthetic data in a folder that its user names."""

from pathlib import Path

import pytest

from capsule import datasets
from capsule.errors import UsageError
from capsule.levels.data import generators


def test_generating_into_a_folder(tmp_path: Path) -> None:
    target = tmp_path / "new/data"
    made = datasets.generate(
        "regression", {"samples": 50, "seed": 3}, target, cache=tmp_path / "cache"
    )
    assert str(made.digest) == generators.digest(generators.read(target))
    assert (made.files, made.bytes) == (2, sum(f.stat().st_size for f in target.iterdir()))
    with pytest.raises(UsageError, match="already exists"):
        datasets.generate("regression", {}, target, cache=tmp_path / "cache")


def test_generating_files_of_a_format(tmp_path: Path) -> None:
    target, cache = tmp_path / "digits", tmp_path / "cache"
    sizes = {"samples": 5, "test_samples": 2, "side": 12}
    made = datasets.generate("glyphs", sizes, target, form="idx", cache=cache)
    assert made == datasets.digest(target, cache=cache)
    assert made.files == 4
    with pytest.raises(UsageError, match="regression cannot be written as idx; use"):
        datasets.generate("regression", {}, tmp_path / "other", form="idx", cache=cache)
    with pytest.raises(UsageError, match="cifar10 needs channels=3 and side=32"):
        datasets.generate("glyphs", sizes, tmp_path / "other", form="cifar10", cache=cache)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["cache", "digits"]
