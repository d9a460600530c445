"""What people do wrong most often ends in one message that names the cause and the way out."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.support.command import User, write_manifest, write_script
from tests.support.mistakes import MISTAKES, Mistake
from tests.support.mistakes.making import HOST

LEAST = 60


@pytest.fixture(scope="module")
def capsule(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An honest capsule, which somebody else sealed."""
    publisher = User.make(tmp_path_factory.mktemp("published"), "publisher")
    write_script(publisher.folder)
    manifest = write_manifest(publisher.folder, seeds=[1, 2])
    ended = publisher.run("run", manifest, *HOST, "-o", "a.capsule.zip")
    assert ended.returncode == 0, ended.stderr
    return publisher.folder / "a.capsule.zip"


def test_each_is_there_once() -> None:
    names = [mistake.name for mistake in MISTAKES]
    assert len(set(names)) == len(names) >= LEAST
    assert all(mistake.cause for mistake in MISTAKES)


@pytest.mark.parametrize("mistake", MISTAKES, ids=lambda mistake: mistake.name)
def test_a_mistake_is_told_with_its_cause_and_a_way_out(
    author: User, capsule: Path, mistake: Mistake
) -> None:
    words = mistake.prepare(author, capsule)
    ended = author.run(*words, **mistake.variables)
    output = " ".join((ended.stdout + ended.stderr).split())
    assert ended.returncode == mistake.status, output
    assert "Traceback" not in output or "exit code 1" in output
    # what is no error of a run is told by lint alone
    if ended.returncode or not mistake.lint:
        assert mistake.cause in output
        assert mistake.way_out in output
    if mistake.lint:
        linted = author.run("lint", "tiny.json")
        output = " ".join((linted.stdout + linted.stderr).split())
        assert mistake.cause in output
        assert mistake.way_out in output
    shutil.rmtree(author.folder)
