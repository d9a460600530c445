"""What may be asked of a run besides what is run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal


@dataclass(frozen=True, kw_only=True)
class Limits:
    """What a run may take; None for no limit.

    Attributes:
        walltime: Seconds that it goes on; then it is cut off, and can be resumed.
        disk: Bytes that each process start may leave behind, what it prints included.
        pids: Processes and threads of each process start.
        memory: Bytes that the processes of each start may use together; a start that uses more has
            failed, and the run goes on.
    """

    walltime: float | None = None
    disk: int | None = None
    pids: int | None = None
    memory: int | None = None


@dataclass(frozen=True, kw_only=True)
class StartOptions(Limits):
    """How to begin a run, of one's own or of a capsule, and within which limits.

    Attributes:
        runtime: `auto`, `apptainer`, `docker`, `podman` or `host`; `auto` is the site file's
            engine, else the first that is usable, and the host for a manifest without an image.
        image: Reference that takes the place of the manifest's image; recorded.
        output: The capsule to write, which must not exist; by default a new name in the current
            folder.
        work: Folder of the run while it is under way; by default a new one in the current folder.
        keep_hosts: Record host names and serial numbers in the clear.
        strict_privacy: Seal nothing that holds a name of this machine or user, or what looks like
            a key; without it that is told.
        offline: Connect to nothing: what is not here, or not staged, is an error.
        keep_keyring: Leave the user's keys of the kernel in reach of Apptainer's workloads, and of
            a stranger's on the host; recorded.
    """

    runtime: str = "auto"
    image: str | None = None
    output: Path | None = None
    work: Path | None = None
    keep_hosts: bool = False
    strict_privacy: bool = False
    offline: bool = False
    keep_keyring: bool = False


@dataclass(frozen=True, kw_only=True)
class RunOptions(StartOptions):
    """How to run a manifest.

    Attributes:
        keep_going: Run the rest, and seal, though the first process start completed no trial.
    """

    keep_going: bool = False


@dataclass(frozen=True, kw_only=True)
class RereadOptions:
    """How to read a capsule's numbers again.

    Attributes:
        output: The capsule to write, as for a run.
        strict_privacy: As for a run.
    """

    output: Path | None = None
    strict_privacy: bool = False


@dataclass(frozen=True, kw_only=True)
class VerifyOptions(StartOptions):
    """How to verify a capsule; its image is what `image` takes the place of.

    Attributes:
        trust: A stranger's capsule may execute its code here.
        allow_host: It may do so without a container, or by an engine that cannot close the network.
        levels: Whose program measures: the capsule's own, or this version's (`own`).
        runs: Number of fresh seeds, with those of `add`; by default the next planned look, of which
            the first is as many as the original has unless its author planned another.
        until_decided: Stop at the first of the planned looks that decides every claim.
        add: Earlier verifications of the capsule, whose runs count: the last one, which has those
            that it added itself, or all of them.
        nonce: A word that somebody else named, which the fresh seeds follow from as well.
        quick: Run only the benchmarks that a deciding claim is about: a primary one, and no ratio.
        set: JSON pointers of mutable fields of the manifest, with the values to run with instead.
        id: Id that the capsule must have, or at least its first 12 digits; None for any.
    """

    trust: bool = False
    allow_host: bool = False
    levels: Literal["capsule", "own"] = "capsule"
    runs: int | None = None
    until_decided: bool = False
    add: Sequence[Path] = ()
    nonce: str | None = None
    quick: bool = False
    set: Sequence[tuple[str, int | float | str | bool]] = ()
    id: str | None = None


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
        strict_privacy: As for a run.
        offline: As for a run.
        keep_keyring: As for a run.
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
    strict_privacy: bool = False
    offline: bool = False
    keep_keyring: bool = False


@dataclass(frozen=True, kw_only=True)
class StageOptions:
    """What to bring here before a run that connects to nothing.

    Attributes:
        runtime: As for that run.
        image: As for that run.
        trust: As for a verification: to try the engine, its image's `true` is started.
        allow_host: As for a verification.
        id: As for a verification.
        keep_keyring: As for that run.
    """

    runtime: str = "auto"
    image: str | None = None
    trust: bool = False
    allow_host: bool = False
    id: str | None = None
    keep_keyring: bool = False


@dataclass(frozen=True, kw_only=True)
class ResumeOptions(Limits):
    """How to go on with a run that was cut off, and within which limits; all else stays.

    Attributes:
        output: As for a run.
        strict_privacy: As for a run.
        trust: The folder of somebody else may execute its code here, or that of a run which
            verifies a stranger's capsule.
        allow_host: As for a verification, like the rest.
        until_decided: As there.
        keep_going: As for a run; a verification goes on in any case.
        offline: As for a run.
        id: As for a verification.
    """

    output: Path | None = None
    strict_privacy: bool = False
    offline: bool = False
    trust: bool = False
    allow_host: bool = False
    until_decided: bool = False
    keep_going: bool = False
    id: str | None = None


@dataclass(frozen=True, kw_only=True)
class ResumePairOptions:
    """How to go on with a pair that was cut off.

    Attributes:
        output_a: As for a pair.
        output_b: As for a pair.
        strict_privacy: As for a run.
        trust: As for a run that was cut off.
        allow_host: As for a verification.
        offline: As for a run.
    """

    output_a: Path | None = None
    output_b: Path | None = None
    strict_privacy: bool = False
    offline: bool = False
    trust: bool = False
    allow_host: bool = False
