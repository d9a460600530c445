"""What runs before the command: it prepares the command's folder, and is in no number."""

from __future__ import annotations

import json
import re
import zipfile
from pathlib import Path

import pytest

from tests.support.capsules import pack, rehash
from tests.support.command import Document, User, write_manifest, write_script

PREPARE = """
import os, sys, time
print("preparing for", os.environ["CAPSULE_SEED"], os.environ["LEVEL"])
with open("prepared.txt", "w") as prepared:
    prepared.write(sys.argv[1])
"""
MEASURE = """
print("loss:", open("prepared.txt").read())
"""
COMMAND: Document = {
    "id": "tiny",
    "setup": ["python3", "prepare.py", "0.{seed}"],
    "command": ["python3", "tiny.py"],
    "environment": {"LEVEL": "{seed}"},
    "inputs": ["tiny.py", "prepare.py"],
    "metrics": {"loss": {"from": {"pattern": "loss: (.*)"}}},
}


def write(user: User, prepare: str = PREPARE, **changes: object) -> Path:
    write_script(user.folder, MEASURE)
    (user.folder / "prepare.py").write_text(prepare)
    benchmark = {**COMMAND, **changes}
    return write_manifest(user.folder, benchmarks=[benchmark], seeds=[1, 2], claims=[])


def read_attempts(user: User) -> list[Document]:
    with zipfile.ZipFile(user.folder / "a.zip") as capsule:
        lines = capsule.read("data/results/attempts.jsonl").splitlines()
    return [json.loads(line) for line in lines]


def test_a_setup_prepares_every_start_and_its_output_is_kept_apart(author: User) -> None:
    manifest = write(author)
    ended = author.run("run", manifest, "--runtime", "host", "--output", "a.zip")
    assert ended.returncode == 0, ended.stderr
    assert "2 of 2 trials finished in" in ended.stderr
    with zipfile.ZipFile(author.folder / "a.zip") as capsule:
        setup = capsule.read("data/logs/0002-setup-stdout.txt").decode()
        own = capsule.read("data/logs/0002-stdout.txt").decode()
    assert (setup, own) == ("preparing for 2 2\n", "loss: 0.2\n")
    assert author.run("check", "a.zip").returncode == 0
    shown = author.run("show", "a.zip").stdout
    shown = " ".join(shown.split())
    assert "setup tiny python3 prepare.py '0.{seed}'" in shown
    assert re.search(r"setup before each: [0-9.]+ s in all, [0-9.]+ s( to [0-9.]+ s)? each", shown)
    setups = author.json("show", "a.zip")["setups"]
    assert [one["trial"].rpartition("/")[2] for one in setups] == ["1", "2"]
    assert [(one["attempt"], one["nodes"]) for one in setups] == [(1, [0])] * 2
    assert [one["seconds"] for one in setups] == [
        one["setup_seconds"] for one in read_attempts(author)
    ]
    assert all(one["seconds"] > 0 for one in setups)
    ended = author.run("verify", "a.zip", "--output", "b.zip")
    assert ended.returncode in (0, 3), ended.stderr


@pytest.mark.parametrize(
    ("prepare", "changes", "reason", "words"),
    [
        ("raise SystemExit('no compiler')", {}, "exit", "setup command: exit code 1 no compiler"),
        (
            "import time\ntime.sleep(600)",
            {"timeout": "00:00:01"},
            "timeout",
            "the setup command: exceeded the benchmark's time limit",
        ),
        (
            "import os\nos.abort()",
            {},
            "signal",
            "the setup command: crashed with SIGABRT",
        ),
    ],
)
def test_a_setup_that_fails_is_a_failed_trial_of_which_the_command_is_not_started(
    author: User, prepare: str, changes: Document, reason: str, words: str
) -> None:
    manifest = write(author, prepare, **changes)
    ended = author.run("run", manifest, "--runtime", "host", "--keep-going", "--output", "a.zip")
    assert ended.returncode == 5
    assert words in " ".join(ended.stderr.split())
    assert {(one["outcome"], one["reason"]) for one in read_attempts(author)} == {
        ("failed", reason)
    }
    # what is told as the attempt's own time is the setup's, and stands there once
    assert {one["setup_seconds"] for one in read_attempts(author)} == {None}
    assert all(one["seconds"] > 0 for one in read_attempts(author))
    with zipfile.ZipFile(author.folder / "a.zip") as capsule:
        assert not any(name.endswith("/0001-stdout.txt") for name in capsule.namelist())
    assert author.run("check", "a.zip").returncode == 0


def test_a_setup_whose_time_was_taken_out_is_refused(author: User) -> None:
    ended = author.run("run", write(author), "--runtime", "host", "--output", "a.zip")
    assert ended.returncode == 0, ended.stderr
    with zipfile.ZipFile(author.folder / "a.zip") as capsule:
        files = {name: capsule.read(name) for name in capsule.namelist()}
    path = "data/results/attempts.jsonl"
    files[path] = re.sub(rb'"setup_seconds":[0-9.e-]+', b'"setup_seconds":null', files[path])
    pack(rehash(files), author.folder / "b.zip")
    ended = author.run("check", "b.zip")
    assert ended.returncode == 4
    assert "its setup duration is missing" in " ".join(ended.stderr.split())


def test_a_setup_that_cannot_be_started_is_told_as_such(author: User) -> None:
    manifest = write(author, setup=["no-such-compiler"])
    ended = author.run("run", manifest, "--runtime", "host")
    assert ended.returncode in (5, 6)
    assert "no-such-compiler" in ended.stderr


def test_a_setup_is_shown_before_it_may_run(author: User, stranger: User) -> None:
    manifest = write(author)
    dry = author.run("run", "--dry-run", manifest, "--runtime", "host").stdout
    assert "prepare.py' 0.1" in " ".join(dry.split())
    assert author.json("run", "--dry-run", manifest, "--runtime", "host")["setup"][-1] == "0.1"
    ended = author.run("run", manifest, "--runtime", "host", "--output", "a.zip")
    assert ended.returncode == 0, ended.stderr
    (author.folder / "a.zip").rename(stranger.folder / "a.zip")
    ended = stranger.run("verify", "a.zip")
    assert ended.returncode == 4
    screen = " ".join(ended.stderr.split())
    assert "setup python3 prepare.py 0.{seed} (before each start) command python3 tiny.py" in screen


def test_a_placeholder_of_a_setup_is_checked_like_the_commands(author: User) -> None:
    ended = author.run("lint", write(author, setup=["make", "{sed}"]))
    assert ended.returncode == 2
    assert "/benchmarks/0/setup/1: unknown placeholder {sed}; did you mean {seed}?" in " ".join(
        (ended.stdout + ended.stderr).split()
    )
