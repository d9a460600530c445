"""Options of the verbs, apart from the manifest or capsule itself."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal


@dataclass(frozen=True, kw_only=True)
class Limits:
    """Limits of a run; None stands for no limit.

    Attributes:
        walltime: Longest duration of the run in seconds; a run that exceeds it is interrupted and
            can be resumed.
        disk: Bytes on disk that each process start may leave behind, its output included.
        pids: Number of processes and threads of each process start.
        memory: Bytes of memory of all processes of one process start; a process start that exceeds
            the limit fails, and the run continues.
    """

    walltime: float | None = None
    disk: int | None = None
    pids: int | None = None
    memory: int | None = None


@dataclass(frozen=True, kw_only=True)
class StartOptions(Limits):
    """Options of a new run, of a manifest or of a capsule, with its limits.

    Attributes:
        runtime: Engine: `auto`, `apptainer`, `docker`, `podman` or `host`. `auto` is the site
            file's engine, else the first that works; without an image it is `host`.
        image: Reference of the image to use instead of the manifest's; recorded.
        output: File name of the new capsule, which must not exist; by default a generated name in
            the current folder.
        work: Run folder; by default a generated name in the current folder.
        keep_hosts: True to record host names and serial numbers in place of their salted hashes.
        strict_privacy: True to refuse to seal if a host name, user name or likely key is found;
            False to warn.
        offline: True to run without network; image and datasets must be present or staged.
        keep_keyring: True to leave the user's kernel keys readable by workloads of Apptainer, and
            by untrusted workloads on the host; recorded.
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
    """Options of `run`.

    Attributes:
        keep_going: True to continue, and seal, even if the first process start completes no trial.
    """

    keep_going: bool = False


@dataclass(frozen=True, kw_only=True)
class RereadOptions:
    """Options of `reread`.

    Attributes:
        output: File name of the new capsule, which must not exist; by default a generated name in
            the current folder.
        strict_privacy: True to refuse to seal if a host name, user name or likely key is found.
    """

    output: Path | None = None
    strict_privacy: bool = False


@dataclass(frozen=True, kw_only=True)
class VerifyOptions(StartOptions):
    """Options of `verify`; `image` replaces the capsule's image.

    Attributes:
        trust: True to allow an untrusted capsule to run its code on this machine.
        allow_host: True to allow the code of an untrusted capsule to run without a container, or
            in an engine that cannot isolate the code from the network.
        levels: Measuring code: `capsule` for the program in the capsule, `own` for the program
            of this installation.
        runs: Number of fresh seeds, including those of `add`; by default the next planned look.
            The first planned look has as many seeds as the original, unless its author planned
            another number.
        until_decided: True to add runs until a planned look decides every claim, or until the last
            planned look.
        add: Earlier verifications of the capsule, whose runs count. If these verifications extend
            each other, the last one is enough.
        nonce: Word that a third party chose; capsule derives the fresh seeds from the capsule's id
            and the word.
        quick: True to run only benchmarks that a primary claim other than `ratio` needs.
        set: JSON pointers of mutable fields of the manifest, with the new values for the run.
        device: Device of the runs, `cpu` or `cuda`; None for the capsule's.
        id: Required id of the capsule, or at least its first 12 digits; None accepts any.
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
    device: Literal["cpu", "cuda"] | None = None
    id: str | None = None


@dataclass(frozen=True, kw_only=True)
class PairOptions:
    """Options of `pair`.

    Attributes:
        runtime_a: Engine of A, as in `RunOptions.runtime`.
        runtime_b: Engine of B, as in `RunOptions.runtime`.
        image_a: Reference of the image to use instead of A's; recorded in the capsule.
        image_b: Reference of the image to use instead of B's; recorded in the capsule.
        pairs: Number of rounds, each with one process start of A and one of B, for each framework;
            by default the number of seeds of A.
        margin: Largest ratio of B to A, or of A to B, that counts as equal.
        metrics: Patterns of machine metrics to judge; by default the machine metrics that A's
            manifest claims, or, without such a claim, all machine metrics in seconds.
        output_a: File name of A's capsule; by default a generated name in the current folder.
        output_b: File name of B's capsule; by default a generated name in the current folder.
        work: Run folder of both variants.
        keep_hosts: True to record host names and serial numbers in place of their salted hashes.
        strict_privacy: True to refuse to seal if a host name, user name or likely key is found.
        offline: True to run without network; image and datasets must be present or staged.
        keep_keyring: True to let workloads read the user's kernel keys; recorded in the capsule.
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
    """Options of `stage`.

    Attributes:
        runtime: Engine of the later run, as in `RunOptions.runtime`.
        image: Reference of the image to use instead of the manifest's or capsule's.
        trust: True to allow the image of an untrusted capsule to start: staging tests the engine by
            running `true` in it.
        allow_host: True to allow the code of an untrusted capsule to run without a container.
        id: Required id of the capsule, or at least its first 12 digits; None accepts any.
        keep_keyring: True to let workloads read the user's kernel keys.
    """

    runtime: str = "auto"
    image: str | None = None
    trust: bool = False
    allow_host: bool = False
    id: str | None = None
    keep_keyring: bool = False


@dataclass(frozen=True, kw_only=True)
class ResumeOptions(Limits):
    """Options of `resume` and `resume_verification`; other options keep their earlier values.

    Attributes:
        output: File name of the capsule, which must not exist; by default a generated name in the
            current folder.
        strict_privacy: True to refuse to seal if a host name, user name or likely key is found.
        trust: True to allow an untrusted run folder, or a verification of an untrusted capsule, to
            run its code on this machine.
        allow_host: True to allow the code of an untrusted run folder or capsule to run without a
            container, or in an engine that cannot isolate the code from the network.
        until_decided: True to add runs until a planned look decides every claim; verifications
            only.
        keep_going: True to continue even if the first process start completes no trial; a
            verification always continues.
        offline: True to run without network; image and datasets must be present or staged.
        id: Required id of the original, or at least its first 12 digits; None accepts any.
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
    """Options of `resume_pair`.

    Attributes:
        output_a: File name of A's capsule; by default a generated name in the current folder.
        output_b: File name of B's capsule; by default a generated name in the current folder.
        strict_privacy: True to refuse to seal if a host name, user name or likely key is found.
        trust: True to allow an untrusted run folder to run its code on this machine.
        allow_host: True to allow the code of an untrusted run folder to run without a container, or
            in an engine that cannot isolate the code from the network.
        offline: True to run without network; image and datasets must be present or staged.
    """

    output_a: Path | None = None
    output_b: Path | None = None
    strict_privacy: bool = False
    offline: bool = False
    trust: bool = False
    allow_host: bool = False
