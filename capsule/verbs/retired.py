"""Command lines of earlier versions, each with what to type instead."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path


def advise(words: Sequence[str]) -> str | None:
    """Return what takes the place of a command line, None for one of this version.

    Args:
        words: The verb and what follows it.
    """
    if words[:2] == ["image", "build"]:
        from capsule.manifest.retired import advise_build

        folders = (word for word in words[2:] if Path(word, "Dockerfile").is_file())
        return f"capsule builds no images: {advise_build(next(folders, 'DIR'))}"
    return None
