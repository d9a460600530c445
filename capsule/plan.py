"""What exactly will run, with everything pinned and nothing started."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from capsule.digest import Digest
from capsule.manifest import Benchmark, Case, Manifest


@dataclass(frozen=True, kw_only=True)
class Trial:
    """Case x framework x seed: the unit of execution, journal and resume.

    Attributes:
        id: `benchmark/case/framework/seed`, unique in a plan and the same in every plan of the
            manifest that has this seed.
        seed: Unsigned 32-bit.
        seed_source: `manifest` for the author's seed, `fresh` for one derived at verification.
    """

    id: str
    benchmark: Benchmark
    case: Case
    framework: str
    seed: int
    seed_source: Literal["manifest", "fresh"]


@dataclass(frozen=True, kw_only=True)
class Group:
    """One process start: the trials of one framework and seed, in the order that they run."""

    id: str
    framework: str
    seed: int
    trials: tuple[Trial, ...]


@dataclass(frozen=True, kw_only=True)
class Plan:
    """Every process start in its order; `digest` names the plan's canonical JSON."""

    manifest: Manifest
    groups: tuple[Group, ...]
    verifies: str | None
    digest: Digest
