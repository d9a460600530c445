"""`tools/lines.py`: what counts as a line of code, and what commits add or remove."""

import subprocess
from pathlib import Path

import lines
import pytest

SOURCE = '''"""Module."""

# a comment
import os  # and one behind code


class Empty:
    """A class
    of two lines."""

    text = """one
two # three

four"""


def act(
    a: int,  # of a signature

    b: str = "not a docstring",
) -> None:
    "A docstring."
    "a string that stands alone"
    a = 1; b = 2
'''


def test_blank_lines_comments_and_docstrings_are_no_code() -> None:
    # import, class, the text's 4, def with 3 lines, the lone string, the last line
    assert lines.count(SOURCE) == 1 + 1 + 4 + 4 + 1 + 1
    assert lines.count("") == 0
    assert lines.count('"""Alone."""') == 0
    assert lines.count("async def act():\n    'Docstring'\n    return 'text'") == 2


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A repository of three commits, the second of which removes a file and adds another one."""

    def git(*words: str) -> None:
        author = ("-c", "user.name=Ada", "-c", "user.email=ada@example.org")
        subprocess.run(["git", "-C", str(tmp_path), *author, *words], check=True)

    git("init", "--quiet")
    package = tmp_path / "capsule"
    package.mkdir()
    (package / "a.py").write_text("a = 1\nb = 2\n")
    (package / "data.json").write_text("{}\n")
    (tmp_path / "elsewhere.py").write_text("a = 1\n")
    git("add", ".")
    git("commit", "--quiet", "-m", "First")
    (package / "a.py").unlink()
    (package / "ü b.py").write_text("# nothing\nc = 3\n", encoding="utf-8")
    git("add", ".")
    git("commit", "--quiet", "-m", "Second")
    (tmp_path / "elsewhere.py").write_text("")
    git("commit", "--quiet", "-a", "-m", "Third")
    return tmp_path


def test_commits_are_counted_and_so_is_what_they_change(repository: Path) -> None:
    counts = [
        lines.count_tree(commit, ["capsule"], repository=repository)
        for commit in ("HEAD~2", "HEAD~1", "HEAD")
    ]
    assert counts == [2, 1, 1]
    assert lines.count_tree("HEAD", ["capsule", "."], repository=repository) == 1
    changes = list(lines.count_changes("HEAD~2..HEAD", ["capsule"], repository=repository))
    assert [(title.partition(" ")[2], change) for title, change in changes] == [("Second", -1)]
    changes = list(lines.count_changes("HEAD", ["elsewhere.py"], repository=repository))
    assert [change for _, change in changes] == [1, -1]


@pytest.mark.long
def test_the_product_had_so_many_lines() -> None:
    assert lines.count_tree("c433f10", ["capsule"]) == 62_134
