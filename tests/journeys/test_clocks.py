"""Clocks that are wrong: what they date is sealed and judged, with a note."""

import json
from pathlib import Path

import pytest

from capsule import cli
from tests.support import clocks
from tests.support.command import User, write_manifest, write_script


@pytest.fixture(autouse=True)
def here(author: User, monkeypatch: pytest.MonkeyPatch) -> None:
    """An author's folder with a manifest in it."""
    monkeypatch.chdir(author.folder)
    monkeypatch.setenv("HOME", str(author.home))
    for name in ("XDG_STATE_HOME", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    write_script(author.folder)
    write_manifest(author.folder)


def judge(capsys: pytest.CaptureFixture[str], *words: str) -> set[str]:
    """The codes of the notes of a verdict, which is no refusal."""
    capsys.readouterr()
    assert cli.main([*words, "--json"]) in (0, 1, 3)
    judged = json.loads(capsys.readouterr().out)
    return {note["code"] for note in judged["notes"]}


@pytest.mark.parametrize(("author_days", "verifier_days"), [(3, 0), (0, -1 / 144), (-30, -31)])
def test_a_capsule_from_a_clock_ahead_is_judged_and_the_verdict_says_so(
    capsys: pytest.CaptureFixture[str], author_days: float, verifier_days: float
) -> None:
    with clocks.moved(days=author_days):
        assert cli.main(["run", "tiny.json", "--output", "a.zip"]) == 0
    with clocks.moved(days=verifier_days):
        assert "clocks" in judge(capsys, "verify", "a.zip", "--output", "v.zip")
        # its seeds go on, and its note holds for the runs of both
        added = ("--add", "v.zip", "--output", "w.zip")
        assert "clocks" in judge(capsys, "verify", "a.zip", *added)
    for name in ("v.zip", "w.zip"):
        assert cli.main(["check", name]) == 0
        assert "clocks" in judge(capsys, "diff", "a.zip", name)


def test_a_right_clock_is_no_news(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["run", "tiny.json", "--output", "a.zip"]) == 0
    assert not {"clocks", "early-clock"} & judge(capsys, "verify", "a.zip")


def test_a_clock_from_before_capsule_was_written_is_told_at_once_and_sealed(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with clocks.moved(days=-3652):
        assert cli.main(["run", "tiny.json", "--output", "a.zip"]) == 0
    said = capsys.readouterr()
    assert said.err.index("clock") < said.err.index("elapsed")
    assert cli.main(["show", "a.zip", "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert "early-clock" in {note["code"] for note in shown["notes"]}
    assert Path("a.zip").exists()
