"""`capsule init FILE -- COMMAND`: from a script to a sealed capsule without writing a manifest."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from tests.support.command import Document, User, write_script


def init(user: User, *words: str) -> Document:
    """The manifest that is written, which fits on a screen."""
    ended = user.run("init", "mine.json", *words)
    assert ended.returncode == 0, ended.stderr
    assert "next: capsule run --try mine.json" in ended.stdout
    text = (user.folder / "mine.json").read_text()
    assert len(text.splitlines()) <= 15
    manifest: Document = json.loads(text)
    return manifest


def test_a_script_is_sealed_after_two_commands(author: User) -> None:
    write_script(author.folder)
    init(author, "--metric", "loss", "--", "python3", "tiny.py")
    assert author.run("lint", "mine.json").returncode == 0
    assert author.run("run", "--try", "mine.json").returncode == 0
    ended = author.run("run", "mine.json", "-o", "a.zip")
    assert ended.returncode == 0, ended.stderr
    shown = author.json("show", "a.zip")
    assert shown["metrics"]["mine/default/command/loss"]["n"] == 10
    (claim,) = shown["claims"]
    assert claim["type"] == "equivalence"


def test_words_that_name_what_is_there_are_inputs(author: User) -> None:
    write_script(author.folder)
    (author.folder / "configuration").mkdir()
    (author.folder / "configuration" / "small.json").write_text("{}")
    words = ["python3", "./tiny.py", "--seed", "{seed}", "configuration/", "..", "/etc", "1e-3"]
    manifest = init(author, "--metric", "loss", "--", *words)
    (benchmark,) = manifest["benchmarks"]
    assert benchmark["inputs"] == ["tiny.py", "configuration"]
    assert benchmark["command"] == [
        "python3",
        "tiny.py",
        "--seed",
        "{seed}",
        "configuration",
        "..",
        "/etc",
        "1e-3",
    ]


def test_a_number_that_is_printed_is_found_by_a_pattern(author: User) -> None:
    write_script(author.folder)
    pattern = r"loss: ([0-9.]+)"
    manifest = init(author, "--metric", f"loss={pattern}", "--", "python3", "tiny.py")
    assert manifest["benchmarks"][0]["metrics"] == {"loss": {"from": {"pattern": pattern}}}
    assert manifest["claims"][0]["metric"] == "mine/*/*/loss"


def test_a_pattern_with_a_step_makes_a_curve(author: User) -> None:
    pattern = r"epoch (?P<step>[0-9]+): loss (?P<value>[-+0-9.e]+)"
    manifest = init(author, "--metric", f"loss={pattern}", "--", "a.sh")
    assert manifest["benchmarks"][0]["metrics"] == {
        "loss": {"per": "step", "from": {"pattern": pattern, "occurrence": "all"}}
    }


def test_options_behind_the_dashes_are_the_commands(author: User) -> None:
    manifest = init(author, "--metric", "loss", "--", "a.sh", "--metric", "x", "--", "--help")
    assert manifest["benchmarks"][0]["command"] == ["a.sh", "--metric", "x", "--", "--help"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--", "python3", "a.py"], "a command needs a metric"),
        (["--metric", "loss"], "--metric is set, but the command is missing"),
        (["--metric", "loss", "--"], "no command after --"),
        (["--metric", "a b", "--", "x"], "invalid metric name 'a b'"),
        (["--metric", "a=(", "--", "x"], "invalid pattern '(': missing )"),
        (["--metric", "a=(?=b)(c)", "--", "x"], "look-around, as in (?=...), is not supported"),
        (["--metric", "a=b", "--", "x"], "has 0 groups in parentheses"),
        (["--metric", "a=(b)(c)", "--", "x"], "has 2 groups in parentheses"),
        (
            ["--metric", "a", "--metric", "a=(b)", "--", "x"],
            "two --metric options have the name 'a'",
        ),
        (["--metric", "a", "x"], "init accepts one path, found 2: mine.json, x"),
    ],
)
def test_what_makes_no_manifest_is_one_clear_error(
    author: User, words: list[str], message: str
) -> None:
    ended = author.run("init", "mine.json", *words)
    assert ended.returncode == 2, ended.stderr
    assert message in ended.stderr
    assert not Path(author.folder, "mine.json").exists()


def test_lint_and_a_first_try_say_that_nobody_is_the_author_and_nothing_takes_the_seed(
    author: User,
) -> None:
    (author.folder / "train.py").write_text("import random\nprint('loss:', random.random())\n")
    words = ["--metric", "loss=loss: ([0-9.]+)", "--", "python3", "train.py"]
    author.run("init", "mine.json", *words)
    nobody, seed = "still has the template's 'Your Name'", "no word of the command is {seed}"
    for verb in (["lint"], ["run", "--try", "--runtime", "host"]):
        shown = author.run(*verb, "mine.json")
        said = " ".join((shown.stdout + shown.stderr).split())
        assert nobody in said
        assert seed in said
    manifest = json.loads((author.folder / "mine.json").read_text())
    manifest["authors"] = [{"name": "Ada Author"}]
    manifest["benchmarks"][0]["seeding"] = "inject"
    (author.folder / "mine.json").write_text(json.dumps(manifest))
    shown = author.run("lint", "mine.json")
    assert "author-unnamed" not in shown.stdout
    assert "seed-unused" not in shown.stdout
    (author.folder / "mine.json").write_text(json.dumps({**manifest, "seeding": "inject"}))
    shown = author.run("lint", "mine.json")
    assert "it belongs in a benchmark: /benchmarks/0/seeding" in shown.stderr


def test_a_script_that_reads_the_seed_is_not_warned_of(author: User) -> None:
    (author.folder / "train.py").write_text("import os\nprint(os.environ['CAPSULE_SEED'])\n")
    author.run("init", "mine.json", "--metric", "n=([0-9]+)", "--", "python3", "train.py")
    shown = author.run("lint", "mine.json")
    assert "seed-unused" not in shown.stdout


def test_nothing_is_waited_for_where_the_seed_is_looked_for(author: User) -> None:
    folder = author.folder / "repo"
    folder.mkdir()
    (folder / "train.py").write_text("print('loss: 1')\n")
    os.mkfifo(folder / "pipe")
    init(author, "--metric", "loss=loss: ([0-9.]+)", "--", "python3", "repo/train.py", "repo")
    manifest = json.loads((author.folder / "mine.json").read_text())
    manifest["benchmarks"][0] |= {"inputs": ["repo"], "exclude": ["pipe"]}
    (author.folder / "mine.json").write_text(json.dumps(manifest))
    shown = author.run("lint", "mine.json")
    assert shown.returncode == 0, shown.stderr
    assert "seed-unused" in shown.stdout
