"""What a running program prints, as it comes: each line once, and of too much the end."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from capsule.execute.talk import Talk
from capsule.execute.workspace import RankFiles


@pytest.fixture
def files(tmp_path: Path) -> RankFiles:
    return RankFiles(folder=tmp_path)


def add(path: Path, text: bytes) -> None:
    with path.open("ab") as stream:
        stream.write(text)


def test_a_line_is_told_once_and_when_it_is_whole(files: RankFiles) -> None:
    talk = Talk(files)
    assert talk.new_lines() == []
    add(files.stdout, b"epoch 1\nepo")
    assert talk.new_lines() == ["epoch 1"]
    assert talk.new_lines() == []
    add(files.stdout, b"ch 2\n\n")
    add(files.stderr, b"warning: slow\n")
    assert talk.new_lines() == ["epoch 2", "warning: slow"]


def test_what_lacks_its_newline_is_told_at_the_end(files: RankFiles) -> None:
    talk = Talk(files)
    add(files.stdout, b"loss 0.5")
    assert talk.new_lines() == []
    assert talk.new_lines(ended=True) == ["loss 0.5"]
    assert talk.new_lines(ended=True) == []


def test_of_a_bar_that_is_written_over_its_state_is_told(files: RankFiles) -> None:
    talk = Talk(files)
    add(files.stderr, b"\r 1%\r 2%\r 3%")
    assert talk.new_lines() == ["2%"]
    add(files.stderr, b"\r 100%\r\n")
    assert talk.new_lines() == ["100%"]


def test_of_too_much_at_once_the_end_is_told_and_how_much_is_left_out(files: RankFiles) -> None:
    talk = Talk(files)
    add(files.stdout, b"x" * 99 + b"\n")
    add(files.stdout, (b"y" * 99 + b"\n") * 10_000)
    lines = talk.new_lines()
    assert lines[0] == f"... ({1_000_100 - 65_536} bytes more)"
    assert lines[-1] == "y" * 99
    assert len("".join(lines)) < 70_000


def test_a_line_without_end_is_told_in_pieces(files: RankFiles) -> None:
    talk = Talk(files)
    add(files.stdout, b"z" * 5000)
    assert talk.new_lines() == ["z" * 5000]
    add(files.stdout, b"z" * 100)
    assert talk.new_lines() == []


def test_no_pipe_is_waited_for_and_no_link_followed(files: RankFiles) -> None:
    os.mkfifo(files.stdout)
    files.stderr.symlink_to("/etc/passwd")
    assert Talk(files).new_lines(ended=True) == []
