"""The examples of manifests/models: untrained models of torchvision, timm and transformers."""

from __future__ import annotations

import shutil
from importlib import util
from pathlib import Path

import pytest

from tests.support.command import User
from tests.support.engines import engine_cache, torch_image

MODELS = sorted((Path(__file__).parents[2] / "manifests" / "models").glob("*.json"))

on_the_host = pytest.mark.skipif(
    util.find_spec("torch") is None, reason="torch is not installed here"
)
absent = pytest.mark.skipif(
    util.find_spec("timm") is not None, reason="timm, which is stood in for, is installed here"
)


def copy(author: User, name: str) -> Path:
    """The module of a manifest that is copied as `mine.json`."""
    for suffix in (".json", ".py"):
        shutil.copy(MODELS[0].with_name(f"{name}{suffix}"), author.folder)
    (author.folder / f"{name}.json").rename(author.folder / "mine.json")
    return author.folder / f"{name}.py"


@pytest.mark.parametrize("path", MODELS, ids=lambda path: path.stem)
def test_they_pass_lint(author: User, path: Path) -> None:
    ended = author.run("lint", path)
    assert ended.returncode == 0, ended.stderr
    assert "no warnings" in ended.stdout


@pytest.mark.engines
def test_an_image_without_the_library_is_told_of_in_one_line(
    author: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CAPSULE_CACHE", str(engine_cache()))
    copy(author, "resnet18")
    ended = author.run("run", "--try", "mine.json", "--image", torch_image(), "--runtime", "docker")
    assert ended.returncode == 5
    (line,) = [line for line in ended.stderr.splitlines() if line.startswith("error: ")]
    assert line.endswith(
        "failed (error): ValueError: resnet18.py imports torchvision, which is not installed in the"
        " benchmark's environment: name an image that has torchvision, in the manifest or by"
        " --image (images/models/README.md shows how to build an image from the torch image)"
    )


@pytest.mark.torch
@on_the_host
@absent
def test_a_name_that_the_library_does_not_know_is_told_in_its_words(
    author: User, tmp_path: Path
) -> None:
    package = tmp_path / "stands-in" / "timm"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text(
        "def create_model(name, **options):\n    raise RuntimeError(f'Unknown model ({name})')\n"
    )
    module = copy(author, "vit_tiny_patch16_224")
    module.write_text(f"import sys\nsys.path.append({str(package.parent)!r})\n{module.read_text()}")
    ended = author.run("run", "--try", "mine.json", "--runtime", "host")
    assert ended.returncode == 5
    assert f"network() of {module.name} failed to make a module: Unknown model" in ended.stderr
