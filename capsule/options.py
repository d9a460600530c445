"""What may be asked of a run besides what is run."""

from __future__ import annotations

from collections.abc import Sequence
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
        runs: Number of fresh seeds, with those of `add`; by default the next planned look, of which
            the first is as many as the original has unless its author planned another.
        until_decided: Stop at the first of the planned looks that decides every claim.
        add: Earlier verifications of the capsule, whose runs count: the last one, which has those
            that it added itself, or all of them.
        nonce: A word that somebody else named, which the fresh seeds follow from as well.
    """

    trust: bool = False
    allow_host: bool = False
    levels: Literal["capsule", "own"] = "capsule"
    runs: int | None = None
    until_decided: bool = False
    add: Sequence[Path] = ()
    nonce: str | None = None


@dataclass(frozen=True, kw_only=True)
class PairOptions:
    """How to run two variants side by side.

    Attributes:
        runtime_a: As `RunOptions.runtime`, for A; so for B below.
        runtime_b: For B.
        image_a: Reference that takes the place of A's image; recorded.
        image_b: Of B's.
        pairs: How many rounds of one process start on either side for each framework; by default
            one for each of A's seeds.
        margin: The ratio of B to A, or of A to B, up to which the two count as the same.
        metrics: Patterns of machine metrics to judge; by default those that A's manifest claims
            anything about, else everything that is measured in seconds.
        output_a: The capsule of A to write; by default a new name in the current folder.
        output_b: That of B.
        work: Folder of both runs while they are under way.
        keep_hosts: Record host names and serial numbers in the clear.
    """

    runtime_a: str = "auto"
    runtime_b: str = "auto"
    image_a: str | None = None
    image_b: str | None = None
    pairs: int | None = None
    margin: float = 1.01
    metrics: tuple[str, ...] = ()
    output_a: Path | None = None
    output_b: Path | None = None
    work: Path | None = None
    keep_hosts: bool = False


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
