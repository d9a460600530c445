"""Git repositories of strangers among the inputs, which would have git or capsule do something."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

from tests.hostile.case import Case, Prepare
from tests.support.command import NOISY, User, write_manifest

Step = Callable[[Path], None]

_MARK = "executed-by-git"


def _repository(plant: Step, **files: str) -> Prepare:
    """A manifest beside a repository that something was done to; git leaves a mark if it runs."""

    def prepare(user: User) -> list[str | Path]:
        repo = user.folder / "repo"
        repo.mkdir()
        for name, text in {"run.py": NOISY, **files}.items():
            (repo / name).write_text(text)
        _git(repo, "init", "-q")
        _git(repo, "add", "--all")
        _git(repo, "commit", "-q", "-m", "x")
        (repo / "run.py").write_text(NOISY + f"assert not os.path.exists({str(_mark(repo))!r})\n")
        plant(repo)
        whole = {
            "id": "tiny",
            "command": ["python3", "-c", _START],
            "inputs": ["repo"],
            "metrics": {"loss": {"direction": "lower"}},
        }
        return ["run", write_manifest(user.folder, seeds=[1], claims=None, benchmarks=[whole])]

    return prepare


_START = "import os, runpy; runpy.run_path(os.environ['CAPSULE_INPUTS'] + '/repo/run.py')"


def _git(repo: Path, *words: str) -> None:
    names = ("-c", "user.name=A", "-c", "user.email=a@example.org")
    environment = {**os.environ, "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1"}
    subprocess.run(["git", *names, *words], cwd=repo, env=environment, check=True)


def _mark(repo: Path) -> Path:
    return repo.parent / _MARK


def _settings(*entries: str) -> Step:
    """Configuration that names a program which leaves the mark."""

    def plant(repo: Path) -> None:
        program = repo / ".git" / "evil.sh"
        program.write_text(f"#!/bin/sh\ntouch {_mark(repo)}\ncat\n")
        program.chmod(0o755)
        with (repo / ".git" / "config").open("a") as config:
            config.writelines(entry.replace("EVIL", str(program)) + "\n" for entry in entries)
        hooks = repo / ".git" / "hooks"
        hooks.mkdir(exist_ok=True)
        for hook in ("post-index-change", "fsmonitor-watchman", "post-checkout", "pre-commit"):
            shutil.copy2(program, hooks / hook)

    return plant


def _include(repo: Path) -> None:
    (repo / ".git" / "more").write_text("[core]\n\tfsmonitor = /nowhere\n")
    _settings("[include]", "\tpath = more", "[core]", "\tfsmonitor = EVIL")(repo)


def _elsewhere(repo: Path) -> None:
    (repo.parent / "other").mkdir()
    (repo.parent / "other" / "private.txt").write_text("x")
    _settings("[core]", f"\tworktree = {repo.parent / 'other'}", "\tfsmonitor = EVIL")(repo)


def _head(text: str) -> Step:
    def plant(repo: Path) -> None:
        (repo / ".git" / "HEAD").write_text(text)

    return plant


def _head_is_a_fifo(repo: Path) -> None:
    (repo / ".git" / "HEAD").unlink()
    os.mkfifo(repo / ".git" / "HEAD")


def _head_is_a_link(repo: Path) -> None:
    (repo / ".git" / "HEAD").unlink()
    (repo / ".git" / "HEAD").symlink_to("/etc/passwd")


def _broken_index(repo: Path) -> None:
    (repo / ".git" / "index").write_bytes(b"DIRC\0\0\0\2\xff\xff\xff\xff" + b"\xff" * 1000)


def _huge_index(repo: Path) -> None:
    os.truncate(repo / ".git" / "index", 1 << 40)


def _fifo_for_a_list(repo: Path) -> None:
    os.mkfifo(repo / ".gitignore")


def _link_for_a_list(repo: Path) -> None:
    (repo.parent / "list").write_text("*\n")
    (repo / ".gitignore").symlink_to(repo.parent / "list")


def _list(text: str, name: str = "a" * 100 + ".txt") -> Step:
    def plant(repo: Path) -> None:
        (repo / ".gitignore").write_text(text)
        (repo / name).write_text("")

    return plant


def _git_file(text: str) -> Step:
    def plant(repo: Path) -> None:
        shutil.rmtree(repo / ".git")
        (repo / ".git").write_text(text)

    return plant


def _key_beside(repo: Path) -> None:
    (repo / ".git" / "id_rsa").write_text("-----BEGIN OPENSSH PRIVATE KEY-----\n")


def _refused(name: str, plant: Step, says: str) -> Case:
    return Case(name=f"checkouts/{name}", prepare=_repository(plant), status=2, says=says)


def _told(name: str, plant: Step, says: str = "sealed", **files: str) -> Case:
    return Case(name=f"checkouts/{name}", prepare=_repository(plant, **files), status=0, says=says)


_FILTER = ('[filter "evil"]', "\tclean = EVIL", "\tprocess = EVIL", "\trequired = true")
_DIFF = ('[diff "evil"]', "\ttextconv = EVIL", "\tcommand = EVIL")
_ATTRIBUTES = {".gitattributes": "* filter=evil diff=evil\n"}

_BACKTRACKING = "*a" * 300 + "b\n" + "**/" * 200 + "b\n"

CASES = (
    _told("a-file-system-monitor", _settings("[core]", "\tfsmonitor = EVIL"), ", modified"),
    _told("hooks", _settings("[core]", "\thooksPath = .git/hooks"), ", modified"),
    _told("a-filter", _settings(*_FILTER), ", modified", **_ATTRIBUTES),
    _told("a-program-for-differences", _settings(*_DIFF), ", modified", **_ATTRIBUTES),
    _told("a-configuration-that-includes-another", _include, ", modified"),
    _told("a-work-tree-elsewhere", _elsewhere, ", modified"),
    _told(
        "a-pager-and-an-alias",
        _settings("[core]", "\tpager = EVIL", "\tsshCommand = EVIL", "[alias]", "\tstatus = !EVIL"),
        ", modified",
    ),
    _told("a-head-that-leaves-the-folder", _head("ref: refs/../../../../etc/passwd\n")),
    _told("a-head-that-steers-a-terminal", _head("ref: refs/heads/\x1b[2J\n")),
    _told("a-head-without-end", _head("a" * (2 << 20))),
    _told("a-head-that-is-a-fifo", _head_is_a_fifo),
    _told("a-head-that-is-a-link", _head_is_a_link),
    _told("a-broken-index", _broken_index, "git could not determine"),
    _told("a-terabyte-of-index", _huge_index, "git could not determine"),
    _told("a-git-file-that-names-the-root", _git_file("gitdir: /\n")),
    _told("a-git-file-that-names-itself", _git_file("gitdir: .git\n")),
    _told("a-private-key-in-git-is-not-carried", _key_beside, ", modified"),
    _told("a-list-that-is-a-fifo", _fifo_for_a_list, ", modified"),
    _told("a-list-that-is-a-link", _link_for_a_list, ", modified"),
    _told("a-pattern-that-backtracks", _list(_BACKTRACKING), ", modified"),
    _refused("too-many-patterns", _list("a*b\n" * 2001), "has 2001 patterns, at most 2000 are"),
    _refused("a-pattern-without-end", _list("a" * 1001), "a pattern of 1001 characters"),
    _refused("a-list-without-end", _list("#" * (1 << 20) + "\n"), "exceeds 1.0 MiB"),
)
