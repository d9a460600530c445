"""Request to a scheduler, with the jobs submitted for it, as a folder stores them."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from capsule.digest import Digest
from capsule.errors import DamagedError, UsageError

NAME = "submission.json"
"""Format of the file."""
_FORMAT = 1


@dataclass(frozen=True, kw_only=True)
class Wish:
    """Run to be submitted.

    Attributes:
        manifest: Absolute path of it.
        digest: Digest of its bytes.
        begin: Command line that begins the run, given `--work`.
        resume: Command line that goes on with it.
        walltime: Seconds that a job has, None for what the manifest says.
    """

    manifest: Path
    digest: Digest
    begin: str
    resume: str
    walltime: int | None = None


@dataclass(frozen=True, kw_only=True)
class State:
    """All that the file says.

    Attributes:
        name: Name of the jobs.
        folder: Where they run.
        wish: What they run.
        jobs: Their ids in order; None for one that was to be handed in, and perhaps was.
        reported_job: The last one whose end somebody heard of.
    """

    name: str
    folder: Path
    wish: Wish
    jobs: tuple[str | None, ...] = ()
    reported_job: str | None = None


def read(folder: Path) -> State:
    """Read the file of a folder.

    Raises:
        DamagedError: It is not there, or not as `write` left it.
    """
    path = folder / NAME
    try:
        document: Any = json.loads(path.read_bytes())
        if document["format"] != _FORMAT:
            raise ValueError
        wish = document["wish"]
        return State(
            name=document["name"],
            folder=Path(document["folder"]),
            wish=Wish(
                manifest=Path(wish["manifest"]),
                digest=Digest.parse(wish["digest"]),
                begin=wish["begin"],
                resume=wish["resume"],
                walltime=wish["walltime"],
            ),
            jobs=tuple(document["jobs"]),
            reported_job=document["reported_job"],
        )
    except (OSError, ValueError, KeyError, TypeError, UsageError):
        raise DamagedError(
            "the file was changed after capsule wrote it",
            where=str(path),
            advice="submit with another folder: --work FOLDER",
        ) from None


def write(folder: Path, state: State) -> None:
    """Write it, whole or not at all, and onto the disk."""
    wish = vars(state.wish) | {name: str(vars(state.wish)[name]) for name in ("manifest", "digest")}
    document = {
        "format": _FORMAT,
        "name": state.name,
        "folder": str(state.folder),
        "wish": wish,
        "jobs": state.jobs,
        "reported_job": state.reported_job,
    }
    partial = folder / f".{NAME}"
    with partial.open("w") as stream:
        stream.write(json.dumps(document, indent=2) + "\n")
        stream.flush()
        os.fsync(stream.fileno())
    partial.rename(folder / NAME)
