"""`capsule init FILE --model LIBRARY/NAME`: an untrained model by its name."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import util
from pathlib import Path

import pytest

from tests.support.command import User
from tests.support.engines import engine_cache, torch_image

MODELS = ("torchvision/resnet18", "timm/vit_tiny_patch16_224", "transformers/gpt2")

on_the_host = pytest.mark.skipif(
    util.find_spec("torch") is None, reason="torch is not installed here"
)
absent = pytest.mark.skipif(
    util.find_spec("timm") is not None, reason="timm, which is stood in for, is installed here"
)


def files(author: User) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in author.folder.iterdir() if path.is_file()}


@pytest.mark.parametrize("model", MODELS)
def test_manifest_and_module_are_written_and_pass_lint(author: User, model: str) -> None:
    ended = author.run("init", "mine.json", "--model", model)
    assert ended.returncode == 0, ended.stderr
    library = model.partition("/")[0]
    assert ended.stdout == (
        f"wrote mine.json and mine.py; next, in an image that has {library}:"
        " capsule run --try mine.json --image REF\n"
    )
    assert set(files(author)) == {"mine.json", "mine.py", "manifest-1.schema.json"}
    ended = author.run("lint", "mine.json")
    assert ended.returncode == 0, ended.stderr
    (warning,) = (line for line in ended.stdout.splitlines() if line.startswith("warning"))
    assert warning.endswith("[author-unnamed]")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--model", "keras/resnet50"], "but torchvision, timm and transformers do"),
        (["--model", "timm/a\"+b+'"], "is no name of a model: letters, digits and _ . - alone"),
        (["--model", "timm/a", "--metric", "b"], "--model and --metric exclude each other"),
        (["--model", "timm/a", "--", "a.sh"], "--model and a command behind -- exclude each"),
    ],
)
def test_nonsense_is_one_clear_error_and_writes_nothing(
    author: User, words: Sequence[str], message: str
) -> None:
    ended = author.run("init", "mine.json", *words)
    assert ended.returncode == 2, ended.stderr
    assert message in ended.stderr
    assert not files(author)


@pytest.mark.parametrize("there", ["mine.json", "mine.py"])
def test_nothing_is_written_over_another_file_nor_half_of_it_left(author: User, there: str) -> None:
    (author.folder / there).write_text("mine\n")
    ended = author.run("init", "mine.json", "--model", MODELS[0])
    assert ended.returncode == 2
    assert f"{there}: exists already" in ended.stderr
    assert files(author) == {there: b"mine\n"}


@pytest.mark.engines
def test_an_image_without_the_library_is_told_of_in_one_line(
    author: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CAPSULE_CACHE", str(engine_cache()))
    author.run("init", "mine.json", "--model", MODELS[0])
    ended = author.run("run", "--try", "mine.json", "--image", torch_image(), "--runtime", "docker")
    assert ended.returncode == 5
    (line,) = [line for line in ended.stderr.splitlines() if line.startswith("error: ")]
    assert line.endswith(
        "failed (error): ValueError: mine.py imports torchvision, which is not installed where it"
        " runs: name an image that has it, in the manifest or by --image; images/models/README.md"
        " shows how one is made of the torch image"
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
        "def create_model(name, pretrained, num_classes):\n"
        "    raise RuntimeError(f'Unknown model ({name})')\n"
    )
    author.run("init", "mine.json", "--model", "timm/resnet19")
    module = author.folder / "mine.py"
    module.write_text(f"import sys\nsys.path.append({str(package.parent)!r})\n{module.read_text()}")
    ended = author.run("run", "--try", "mine.json", "--runtime", "host")
    assert ended.returncode == 5
    assert "network() of mine.py makes no module: Unknown model (resnet19)" in ended.stderr
