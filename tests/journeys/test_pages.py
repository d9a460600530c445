"""Pages that are followed line by line."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.support.command import User, write_manifest, write_script
from tests.support.documented import in_page, type_at_shell
from tests.support.shown_author import FOLLOWED, RECEIVED, TRAINING

_PART = re.compile(
    r"`(?P<name>[\w./-]+)`[^`\n]*\n\n```\w+\n(?P<text>.*?)^```$|(?P<block>(?:^ {4}[^\n]*\n)+)",
    re.M | re.S,
)
_PROGRAM = re.compile(r"(?:capsule|mkdir|sed|seq) ")
_ELSEWHERE = ("pip install .", "https://papers.example/")
_CODES = {
    "capsule diff fit.capsule.zip noisy.capsule.zip": {1},
    # the first of them shows what is missing
    "capsule run --try script.json": {0, 5},
    "capsule verify paper.capsule.zip": {4},
}


@pytest.mark.parametrize("page", FOLLOWED, ids=lambda page: page.stem)
def test_a_page_is_followed_from_an_empty_folder(author: User, page: Path) -> None:
    follow(author, page)


@pytest.mark.long
@pytest.mark.torch
def test_a_training_is_followed_from_an_empty_folder(author: User) -> None:
    follow(author, TRAINING)


def test_a_capsule_of_another_user_is_read_and_verified(author: User, stranger: User) -> None:
    write_script(author.folder)
    target = stranger.folder / "paper.capsule.zip"
    ended = author.run("run", write_manifest(author.folder), "--output", target)
    assert ended.returncode == 0, ended.stderr
    follow(stranger, RECEIVED)


def follow(user: User, page: Path) -> None:
    """Write the files of a page and execute its commands, from its first line to its last."""
    text = page.read_text()
    executed, output = set[str](), ""
    for part in _PART.finditer(text):
        if part["name"] is not None:
            (user.folder / part["name"]).write_text(part["text"])
            continue
        block = "".join(line[4:] for line in part["block"].splitlines(keepends=True))
        if word := re.match(r"REPRODUCED|DIFFERENT", block):
            assert output.startswith(word[0])
        elif any(words in block for words in _ELSEWHERE):
            executed.update(in_page(part["block"]))
        elif _PROGRAM.match(block):
            output = execute(user, block)
            executed.update(in_page(part["block"]))
    assert executed == set(in_page(text))


def execute(user: User, block: str) -> str:
    """Return what the lines of a block print, as somebody would type them at a shell."""
    ended = type_at_shell(user, block)
    assert ended.returncode in _CODES.get(block.strip(), {0}), ended.stdout + ended.stderr
    return ended.stdout
