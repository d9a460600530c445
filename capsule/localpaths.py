"""Paths of this machine in whatever was printed: `$HOME` and `$RUN` stand for them in a capsule.

A number is read out of the text as it will be sealed, so that whoever has the capsule reads it too.
"""

from __future__ import annotations

import os
import pwd
import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from io import FileIO
from pathlib import Path
from typing import BinaryIO

CHUNK_BYTES = 1 << 20
_LONGEST_LINE_BYTES = 4 << 20


class LocalPaths:
    """The paths of the user's home and of the folder of a run.

    Args:
        run: Folder of the run, None before there is one.
    """

    def __init__(self, run: Path | None = None) -> None:
        self._words = _words(run)
        self._paths = [os.fsencode(path) for path in self._words]
        self._pattern = _path_pattern(list(self._words))
        self._bytes_pattern = _bytes_path_pattern(self._paths)

    def clean_text(self, text: str) -> str:
        """Return the text with words for the paths of home and run."""
        if not any(path in text for path in self._words):
            return text
        return self._pattern.sub(lambda match: self._words[match.group()], text)

    def clean_bytes(self, data: bytes) -> bytes:
        """Return a block of a file, with words for those paths."""
        if not any(path in data for path in self._paths):
            return data
        return self._bytes_pattern.sub(
            lambda match: self._words[os.fsdecode(match.group())].encode(), data
        )

    def clean_stream(self, stream: BinaryIO | FileIO) -> Iterator[bytes]:
        """Return a file in pieces, with words for those paths: the bytes that are sealed of it."""
        return (self.clean_bytes(block) for _, block in blocks(stream))


def blocks(stream: BinaryIO | FileIO) -> Iterator[tuple[int, bytes]]:
    """Yield the bytes in pieces that end with a line where lines have ends, each with its first
    line.
    """
    rest, line = b"", 1
    while chunk := stream.read(CHUNK_BYTES):
        rest += chunk
        cut = rest.rfind(b"\n") + 1
        if not cut and len(rest) >= _LONGEST_LINE_BYTES:
            cut = rest.rfind(b" ") + 1 or len(rest)
        if cut:
            yield line, rest[:cut]
            line += rest.count(b"\n", 0, cut)
            rest = rest[cut:]
    if rest:
        yield line, rest


def home() -> Path:
    """Return this user's home folder, `/nonexistent` where the system knows none."""
    try:
        return Path.home()
    except RuntimeError:
        return Path("/nonexistent")


def homes() -> set[Path]:
    """Return every path by which the user's home may be named: as it is set, as the system has
    it.
    """
    named = {home()}
    with suppress(KeyError):
        named.add(Path(pwd.getpwuid(os.getuid()).pw_dir))
    forms = {form for home in named if home.is_absolute() for form in (home, home.resolve())}
    return forms - {Path("/")}


def _words(run: Path | None) -> dict[str, str]:
    """Return paths of this machine, each with the word for it; longer ones first."""
    words = {str(form): "$HOME" for form in homes()}
    if run is not None:
        words |= {str(form): "$RUN" for form in (run.absolute(), run.resolve())}
    return dict(sorted(words.items(), key=lambda item: -len(item[0])))


def _path_pattern(paths: Sequence[str]) -> re.Pattern[str]:
    # /home/al is no part of /home/alice, /home/al.old or /mnt/home/al
    return re.compile(rf"(?<![\w.-])(?:{'|'.join(map(re.escape, paths))})(?![\w-]|\.\w)")


def _bytes_path_pattern(paths: Sequence[bytes]) -> re.Pattern[bytes]:
    return re.compile(rb"(?<![\w.-])(?:" + b"|".join(map(re.escape, paths)) + rb")(?![\w-]|\.\w)")
