"""What people do wrong most often ends in one message that names the cause and the way out."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from capsule import cli
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
    author: User,
    capsule: Path,
    mistake: Mistake,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    words = mistake.prepare(author, capsule)
    monkeypatch.chdir(author.folder)
    if mistake.status == 2 and not mistake.variables:
        status, output = run_here(words, capsys)
    else:
        ended = author.run(*words, **mistake.variables)
        status, output = ended.returncode, ended.stdout + ended.stderr
    assert status == mistake.status, output
    assert "Traceback" not in output or "exit code 1" in output
    # what is no error of a run is told by lint alone
    if status or not mistake.lint:
        assert_told(mistake, output)
    if mistake.lint:
        assert_told(mistake, run_here(["lint", "tiny.json"], capsys)[1])


def run_here(words: Sequence[str | Path], capsys: pytest.CaptureFixture[str]) -> tuple[int, str]:
    """The status and the output of a command that ends before it starts anything."""
    try:
        status = cli.main(list(map(str, words)))
    except SystemExit as ended:
        assert isinstance(ended.code, int)
        status = ended.code
    captured = capsys.readouterr()
    return status, captured.out + captured.err


def assert_told(mistake: Mistake, output: str) -> None:
    words = " ".join(output.split())
    assert mistake.cause in words
    assert mistake.way_out in words
