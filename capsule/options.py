"""What may be asked of a run besides what is run."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal


@dataclass(frozen=True, kw_only=True)
class RunOptions:
    """How to run a manifest.

    Attributes:
        runtime: `auto`, `apptainer`, `docker` or `host`; `auto` is the site file's engine, else
            the first that is usable, and the host for a manifest without an image.
        image: Reference that takes the place of the manifest's image; recorded.
        output: The capsule to write, which must not exist; by default a new name in the current
            folder.
        work: Folder of the run while it is under way; by default a new one in the current folder.
        keep_hosts: Record host names and serial numbers in the clear.
    """

    runtime: str = "auto"
    image: str | None = None
    output: Path | None = None
    work: Path | None = None
    keep_hosts: bool = False


@dataclass(frozen=True, kw_only=True)
class VerifyOptions(RunOptions):
    """How to verify a capsule; its image is what `image` takes the place of.

    Attributes:
        trust: A stranger's capsule may execute its code here.
        allow_host: It may do so without a container.
        levels: Whose program measures: the capsule's own, or this version's (`own`).
        runs: Number of fresh seeds; by default the first planned look, which is as many as the
            original has unless its author planned another.
        until_decided: Stop at the first of the planned looks that decides every claim.
    """

    trust: bool = False
    allow_host: bool = False
    levels: Literal["capsule", "own"] = "capsule"
    runs: int | None = None
    until_decided: bool = False


@dataclass(frozen=True, kw_only=True)
class ResumeOptions:
    """How to go on with a run that was cut off; all else stays as it was begun.

    Attributes:
        output: As for a run.
        trust: As for a verification, like the rest.
        allow_host: As there.
        until_decided: As there.
    """

    output: Path | None = None
    trust: bool = False
    allow_host: bool = False
    until_decided: bool = False
