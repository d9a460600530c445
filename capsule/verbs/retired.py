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
        return f"`capsule image build` no longer exists: {advise_build(next(folders, 'DIR'))}"
    if words[0] == "init" and any(word.partition("=")[0] == "--model" for word in _own(words)):
        return (
            "`init --model` no longer exists: copy one of the three manifests in manifests/models"
            " of the repository (torchvision, timm, transformers), and change the model's name in"
            " its Python file"
        )
    return None


def _own(words: Sequence[str]) -> Sequence[str]:
    """Return the words before `--`: the others are somebody's command."""
    return words[: words.index("--")] if "--" in words else words
