"""Files that stand in place of data: pages of HTML, and pointers of Git LFS and git-annex."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path

from capsule import leavings
from capsule.sizes import size

# the specification of Git LFS limits a pointer to 1024 bytes
_MOST_POINTER_BYTES = 1024
_HEAD_BYTES = 1024
_MOST_FILES = 10_000
_LFS = re.compile(
    rb"version https?://(?:git-lfs|hawser)\.github\.com/spec/v1\r?\n(?:[^\n]*\n)*?size (\d+)\s*"
)
_ANNEX = re.compile(rb"/annex/objects/[A-Z0-9]+-s(\d+)[^\n]*\s*")
_PAGE = re.compile(
    rb"(?is)(?:\xef\xbb\xbf)?\s*(?:<\?xml[^>]*>\s*)?(?:<!--.{0,500}?-->\s*)?"
    rb"<(?:!doctype html|html)\b"
)


def describe_pointer(path: Path) -> str | None:
    """Describe a pointer file and the way to its data, as a sentence's end; None for others."""
    try:
        if path.stat().st_size > _MOST_POINTER_BYTES:
            return None
    except OSError:
        return None
    text = _read_head(path)
    if match := _LFS.match(text):
        return _describe("Git LFS", match, "git lfs pull")
    if match := _ANNEX.match(text):
        return _describe("git-annex", match, "git annex get")
    return None


def is_page(path: Path) -> bool:
    """Return whether a file is a page of HTML."""
    return _PAGE.match(_read_head(path)) is not None


def find_pointers(files: Iterable[tuple[str, Path]]) -> list[str]:
    """Return each pointer among files: its name, what it lacks and what fetches it.

    Args:
        files: What each is called, and where it lies; of very many the first ones are looked at.
    """
    named = ((name, describe_pointer(path)) for name, path in islice(files, _MOST_FILES))
    return [f"{name} {pointer}" for name, pointer in named if pointer]


def walk(name: str, path: Path) -> Iterator[tuple[str, Path]]:
    """Yield a file, or the files below a folder, each with its name below `name`."""
    if not path.is_dir():
        yield name, path
        return
    for folder, _, files in os.walk(path):
        for file in sorted(files):
            place = Path(folder, file)
            yield f"{name}/{place.relative_to(path).as_posix()}", place


def _describe(kind: str, match: re.Match[bytes], command: str) -> str:
    data = size(int(match[1][:18]))
    return f"is a pointer of {kind} without its data ({data}); to fetch the data: `{command}`"


def _read_head(path: Path) -> bytes:
    stream = leavings.open_file(Path(os.path.realpath(path)))
    if stream is None:
        return b""
    with stream:
        return stream.read(_HEAD_BYTES)
