"""Facts about a git checkout, read without running anything that it configures.

A repository may be untrusted, and its configuration can name programs that git starts: file system
monitors, filters, hooks. So capsule reads the commit from files. If it needs git, git works in a
folder of capsule's own, with a configuration that names no program. There, git sees the objects of
the repository read-only, a copy of its index, and the files of the checkout.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path

from capsule import leavings, places, process
from capsule.errors import CannotRunError, ExecutionError

_COMMIT = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")
_MOST_TEXT_BYTES = 1 << 20
_MOST_PACKED_BYTES = 1 << 26
_MOST_INDEX_BYTES = 1 << 28
_MOST_OUTPUT_BYTES = 1 << 26
_PATIENCE_SECONDS = 60.0
_CONFIG = """[core]
	repositoryformatversion = 1
	bare = false
	fsmonitor = false
	hooksPath = /dev/null
[extensions]
	objectFormat = {form}
"""


class Checkout:
    """The files below one `.git`.

    Args:
        root: The folder that holds it.
    """

    def __init__(self, root: Path) -> None:
        self.root = root

    @cached_property
    def commit(self) -> str | None:
        """Return the commit that was checked out, None where its files do not tell."""
        head = _read_line(self._folder / "HEAD") if self._folder else None
        if head is None or not head.startswith("ref: "):
            return _commit(head)
        name = head.removeprefix("ref: ")
        if ".." in name.split("/") or name.startswith("/") or not name.startswith("refs/"):
            return None
        assert self._folder is not None
        for folder in (self._folder, self._common):
            if commit := _commit(_read_line(folder / name)):
                return commit
        return self._search_packs(name)

    @cached_property
    def own_patterns(self) -> Path:
        """Return the ignore file that is private to the checkout."""
        return self._common / "info" / "exclude"

    @cached_property
    def index_files(self) -> frozenset[str] | None:
        """Return paths below the root of the files that it keeps; None where git cannot be
        asked.
        """
        listing = self._ask("ls-files", "-z", "--cached")
        if listing is None:
            return None
        return frozenset(os.fsdecode(name) for name in listing.split(b"\0") if name)

    @cached_property
    def index_folders(self) -> frozenset[str]:
        """Return paths below the root of the folders that these lie in."""
        return frozenset(
            parent.as_posix() for name in self.index_files or () for parent in Path(name).parents
        )

    def keeps(self, path: str) -> bool:
        """Return whether a file, or something in a folder, is under version control.

        Args:
            path: Below the root. Where git cannot be asked it is.
        """
        files = self.index_files
        return files is None or path in files or path in self.index_folders

    def is_modified(self, paths: Sequence[str]) -> bool | None:
        """Return whether files that it keeps are others than the commit's; None where git cannot
        tell.

        Args:
            paths: Below the root; only files that these name, or that lie below them, count.
        """
        if not self.commit:
            return None
        words = ("--porcelain=v1", "-z", "--untracked-files=no", "--ignore-submodules=all")
        listing = self._ask("status", *words, "--no-renames", "--", *paths)
        return None if listing is None else bool(listing)

    @cached_property
    def _folder(self) -> Path | None:
        """Return git's folder of the checkout; a worktree or submodule names it in a file."""
        entry = self.root / ".git"
        if entry.is_dir() and not entry.is_symlink():
            return entry
        line = _read_line(entry) or ""
        if not line.startswith("gitdir: "):
            return None
        folder = self.root / line.removeprefix("gitdir: ")
        return folder if folder.is_dir() else None

    @cached_property
    def _common(self) -> Path:
        """Return the folder of branches and objects, which worktrees of a repository share."""
        folder = self._folder or self.root / ".git"
        line = _read_line(folder / "commondir")
        return folder / line if line else folder

    def _search_packs(self, name: str) -> str | None:
        text = _read(self._common / "packed-refs", _MOST_PACKED_BYTES) or ""
        match = re.search(rf"^([0-9a-f]+) {re.escape(name)}$", text, re.M)
        return _commit(match[1]) if match else None

    def _ask(self, *words: str) -> bytes | None:
        """Return git's answer from a folder of our own; None if git is missing or fails."""
        program, index = shutil.which("git"), self._folder and self._folder / "index"
        if program is None or index is None or not leavings.is_file(index):
            return None
        if leavings.size_bytes(index) > _MOST_INDEX_BYTES:
            return None
        try:
            with places.scratch() as scratch:
                folder = self._lay_out(scratch / "git", index)
                answer = process.run(
                    [program, *words],
                    env=self._environment(scratch, folder),
                    cwd=self.root,
                    timeout_seconds=_PATIENCE_SECONDS,
                    limit_bytes=_MOST_OUTPUT_BYTES,
                )
        except (CannotRunError, ExecutionError, OSError):
            return None
        return answer.stdout if answer.exit_code == 0 else None

    def _lay_out(self, folder: Path, index: Path) -> Path:
        (folder / "refs").mkdir(parents=True)
        (folder / "objects").mkdir()
        commit = self.commit or "0" * 40
        (folder / "HEAD").write_text(f"{commit}\n")
        form = "sha256" if len(commit) == 64 else "sha1"
        (folder / "config").write_text(_CONFIG.format(form=form))
        # with its time, by which git knows which files may have changed in the same second
        shutil.copy2(index, folder / "index", follow_symlinks=False)
        return folder

    def _environment(self, home: Path, folder: Path) -> dict[str, str]:
        return {
            "PATH": os.environ.get("PATH", os.defpath),
            "LC_ALL": "C",
            "HOME": str(home),
            "XDG_CONFIG_HOME": str(home),
            "GIT_DIR": str(folder),
            "GIT_WORK_TREE": str(self.root.absolute()),
            "GIT_OBJECT_DIRECTORY": str((self._common / "objects").absolute()),
            "GIT_CONFIG_NOSYSTEM": "1",
            "GIT_CONFIG_GLOBAL": os.devnull,
            "GIT_ATTR_NOSYSTEM": "1",
            "GIT_NO_LAZY_FETCH": "1",
            "GIT_NO_REPLACE_OBJECTS": "1",
            "GIT_OPTIONAL_LOCKS": "0",
            "GIT_TERMINAL_PROMPT": "0",
            "GIT_LITERAL_PATHSPECS": "1",
        }


def find(folder: Path, *, within: Path) -> Checkout | None:
    """Return the checkout that a folder lies in, None where it lies in none.

    Args:
        folder: An absolute path.
        within: Folder; of folders outside it, only those of this user count: another
            one may have put a `.git` into a folder that all can write.
    """
    for root in (folder, *folder.parents):
        entry = root / ".git"
        try:
            status = entry.lstat()
        except OSError:
            continue
        if root.is_relative_to(within) or status.st_uid == os.geteuid():
            return Checkout(root)
        return None
    return None


def _commit(text: str | None) -> str | None:
    return text if text and _COMMIT.fullmatch(text) else None


def _read_line(path: Path) -> str | None:
    text = _read(path, _MOST_TEXT_BYTES)
    return None if text is None else text.strip()


def _read(path: Path, limit_bytes: int) -> str | None:
    """Return a plain file, None where there is none, or one that is too large or no text."""
    stream = leavings.open_file(path)
    if stream is None:
        return None
    with stream:
        data = stream.read(limit_bytes + 1)
    if len(data) > limit_bytes or b"\0" in data:
        return None
    return os.fsdecode(data)
