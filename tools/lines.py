"""Count code lines: lines with a token that is neither a comment nor a docstring.

    python tools/lines.py [--folder FOLDER]... [COMMIT | FIRST..LAST]...

A commit prints the lines of its tree (`HEAD` if nothing is named). A range prints the change by
each of its commits but merges, the oldest first, and their sum. The folder is `capsule` unless
others are named.
"""

import argparse
import ast
import io
import subprocess
import tokenize
from collections.abc import Iterator, Sequence
from pathlib import Path

REPOSITORY = Path(__file__).parents[1]
_BLANK = {
    tokenize.COMMENT,
    tokenize.NL,
    tokenize.NEWLINE,
    tokenize.INDENT,
    tokenize.DEDENT,
    tokenize.ENDMARKER,
}


def count(source: str) -> int:
    """Return the number of code lines of a Python file."""
    docstrings = set(_find_docstrings(ast.parse(source)))
    lines: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type not in _BLANK and token.start not in docstrings:
            lines.update(range(token.start[0], token.end[0] + 1))
    return len(lines)


def _find_docstrings(tree: ast.Module) -> Iterator[tuple[int, int]]:
    """Yield line and column of each."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            match node.body:
                case [ast.Expr(value=ast.Constant(value=str()) as text), *_]:
                    yield text.lineno, text.col_offset


def count_tree(commit: str, folders: Sequence[str], *, repository: Path = REPOSITORY) -> int:
    """Return the number of code lines of the Python files of a commit."""
    names = _git(repository, "ls-tree", "-r", "-z", "--name-only", commit, "--", *folders)
    return sum(_count_file(repository, commit, name) for name in names.split("\0"))


def count_changes(
    commits: str, folders: Sequence[str], *, repository: Path = REPOSITORY
) -> Iterator[tuple[str, int]]:
    """Yield the subject of each commit of a range, and how many code lines it adds, or less."""
    choice = ("--full-history", "--reverse", "--no-merges")
    log = ("log", *choice, "--format=%h %s", commits, "--", *folders)
    for title in _git(repository, *log).splitlines():
        commit = title.partition(" ")[0]
        changed = ("diff-tree", "-r", "-z", "--root", "--no-commit-id", "--name-only", commit)
        names = _git(repository, *changed, "--", *folders).split("\0")
        yield (
            title,
            sum(
                _count_file(repository, commit, name) - _count_file(repository, f"{commit}^", name)
                for name in names
            ),
        )


def _count_file(repository: Path, commit: str, name: str) -> int:
    """Return the code lines of a file; 0 for one that is absent or no Python."""
    if not name.endswith(".py"):
        return 0
    shown = subprocess.run(
        ["git", "-C", str(repository), "show", f"{commit}:{name}"], capture_output=True, check=False
    )
    return count(shown.stdout.decode()) if shown.returncode == 0 else 0


def _git(repository: Path, *words: str) -> str:
    command = ["git", "-C", str(repository), *words]
    return subprocess.run(command, capture_output=True, check=True).stdout.decode()


def main() -> None:
    """Print what is asked for."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--folder", action="append", dest="folders", metavar="FOLDER")
    parser.add_argument("commits", nargs="*", default=["HEAD"], metavar="COMMIT | FIRST..LAST")
    words = parser.parse_args()
    folders = words.folders or ["capsule"]
    for one in words.commits:
        if ".." not in one:
            print(f"{count_tree(one, folders):7,}  {one}")
            continue
        total = 0
        for title, change in count_changes(one, folders):
            print(f"{change:+7,}  {title}")
            total += change
        print(f"{total:+7,}  {one}")


if __name__ == "__main__":
    main()
