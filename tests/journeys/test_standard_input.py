"""A command that reads its settings from standard input gets an input of the manifest there."""

from __future__ import annotations

import zipfile
from pathlib import Path

from tests.support.command import Document, User, write_manifest

PREPARE = """
import sys
assert sys.stdin.read() == ""
"""
MEASURE = """
import sys
print("size:", sum(map(int, sys.stdin)))
"""
COMMAND: Document = {
    "id": "tiny",
    "setup": ["python3", "repo/prepare.py"],
    "command": ["python3", "repo/measure.py"],
    "stdin": "repo/small.in",
    "inputs": ["repo"],
    "metrics": {"size": {"from": {"pattern": "size: (.*)"}}},
}


def write(user: User, **changes: object) -> Path:
    (user.folder / "repo").mkdir()
    (user.folder / "repo" / "measure.py").write_text(MEASURE)
    (user.folder / "repo" / "prepare.py").write_text(PREPARE)
    (user.folder / "repo" / "small.in").write_text("40\n2\n")
    return write_manifest(
        user.folder, benchmarks=[{**COMMAND, **changes}], seeds=[1, 2], claims=None
    )


def test_a_command_reads_an_input_here_and_where_it_is_verified(
    author: User, stranger: User
) -> None:
    path = stranger.folder / "a.zip"
    ended = author.run("run", write(author), "--runtime", "host", "--output", path)
    assert ended.returncode == 0, ended.stderr
    with zipfile.ZipFile(path) as capsule:
        assert capsule.read("data/logs/0002-stdout.txt") == b"size: 42\n"
        assert capsule.read("data/inputs/repo/small.in") == b"40\n2\n"
    refused = stranger.run("verify", path)
    assert refused.returncode == 4
    assert "command python3 repo/measure.py (stdin repo/small.in)" in " ".join(
        refused.stderr.split()
    )
    ended = stranger.run("verify", path, "--trust", "--allow-host", "--output", "b.zip")
    with zipfile.ZipFile(stranger.folder / "b.zip") as capsule:
        assert capsule.read("data/logs/0001-stdout.txt") == b"size: 42\n", ended.stderr


def test_what_is_read_is_shown_before_anything_runs(author: User) -> None:
    manifest = write(author)
    first = author.json("run", manifest, "--dry-run")["first"]
    assert first["stdin"] == "$RUN/inputs/repo/small.in"
    shown = author.run("run", manifest, "--dry-run").stdout
    assert "stdin $RUN/inputs/repo/small.in" in " ".join(shown.split())


def test_what_is_read_may_not_be_left_out(author: User) -> None:
    ended = author.run("run", write(author, exclude=["*.in"]))
    assert ended.returncode == 2
    message = " ".join(ended.stderr.split())
    assert 'repo/small.in: is the "stdin" of a command, but is left out' in message
