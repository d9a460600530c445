"""Patterns of `.gitignore`: what git says of them, and how long the worst of them take."""

import os
import shutil
import subprocess
from pathlib import Path
from random import Random

import pytest

from capsule.execute import ignores

PIECES = ("a", "b", "*", "?", "[ab]", "[!a]", "[^b]", "[a-c]", "[]a]", "[[:alpha:]]", "[[:digit:]]")
ODD = ("\\a", "\\*", "\\#", "#", ".c", " ", "!")
NAMES = (
    "a",
    "b",
    "ab",
    "ba",
    "abc",
    "a.c",
    "b.c",
    "a b",
    "#",
    "*",
    ".c",
    "aab",
    "]",
    "!a",
    "[",
    "1",
)


def draw_pattern(random: Random) -> str:
    """Parts of a few pieces each, or two stars; what these do beside letters, git does not say."""
    parts = [
        "**" if random.random() < 0.2 else "".join(random.choices(PIECES + ODD, k=count))
        for count in random.choices((1, 2, 3), k=random.randint(1, 3))
    ]
    start, end = random.choice(("", "", "!", "/", "!/")), random.choice(("", "", "/"))
    return start + "/".join(parts) + end


def is_left_out(patterns: tuple[ignores.Pattern, ...], path: str) -> bool:
    """As for a file: of a folder that is left out nothing comes back."""
    parts = path.split("/")
    for depth in range(1, len(parts)):
        if ignores.decide(patterns, parts[:depth], is_folder=True):
            return True
    return bool(ignores.decide(patterns, parts, is_folder=False))


def ask_git(folder: Path, paths: list[str]) -> list[bool]:
    ended = subprocess.run(
        ["git", "check-ignore", "--no-index", "-z", "--verbose", "--non-matching", "--stdin"],
        cwd=folder,
        env={**os.environ, "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1"},
        input="".join(f"{path}\0" for path in paths).encode(),
        capture_output=True,
        check=False,
    )
    fields = ended.stdout.split(b"\0")[:-1]
    patterns = fields[2::4]
    return [bool(pattern) and not pattern.startswith(b"!") for pattern in patterns]


@pytest.mark.skipif(
    shutil.which("git") is None and "CI" not in os.environ, reason="git is not installed here"
)
def test_git_leaves_out_the_same(tmp_path: Path) -> None:
    subprocess.run(["git", "init", "-q", tmp_path], check=True)
    random = Random(1)
    for _ in range(150):
        lines = [draw_pattern(random) for _ in range(3)]
        text = "\n".join(lines)
        (tmp_path / ".gitignore").write_text(text)
        depths = (random.randint(1, 4) for _ in range(20))
        paths = ["/".join(random.choices(NAMES, k=depth)) for depth in depths]
        patterns = ignores.read(text)
        assert [is_left_out(patterns, path) for path in paths] == ask_git(tmp_path, paths), lines


@pytest.mark.parametrize(
    ("text", "out", "kept"),
    [
        ("*.log\n!keep.log", ["a.log", "x/a.log"], ["keep.log", "x/keep.log"]),
        ("/build", ["build", "build/x"], ["x/build"]),
        ("doc/frotz", ["doc/frotz"], ["a/doc/frotz"]),
        ("foo/*", ["foo/a"], ["foo", "bar/foo"]),
        ("abc/**", ["abc/x", "abc/x/y"], ["abc", "x/abc/y"]),
        ("a/**/b", ["a/b", "a/x/b", "a/x/y/b"], ["b", "x/a/b"]),
        ("runs/", ["runs/x", "a/runs/x"], ["runs"]),
        ("# no\n\\#yes\n\n", ["#yes"], ["# no", "no"]),
        ("end \\ \nspace   \r\n", ["end  ", "space"], ["end", "space   "]),
        ("a[b-\n[z-a]\n[:alpha:]\nx\\", [":", "l"], ["ab", "z", "x", "m"]),
    ],
)
def test_what_gitignore_promises(text: str, out: list[str], kept: list[str]) -> None:
    patterns = ignores.read(text)
    assert [path for path in out + kept if is_left_out(patterns, path)] == out


def test_no_pattern_takes_long() -> None:
    # a matcher that tries every way would not end
    text = "*a" * 400 + "b\n" + "**/a/" * 150 + "b\n" + "[!b]*" * 150 + "b"
    patterns = ignores.read(text)
    assert not is_left_out(patterns, "a" * 200)
    assert not is_left_out(patterns, "/".join("a" * 100))
