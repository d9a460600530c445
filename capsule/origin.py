"""Origin of a run: its author's own, or derived from another capsule."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar, Literal

from capsule.manifest import Scalar

SEED_RULE = 2
"""Number of the rule that derives fresh seeds from a capsule's id; see `plan.fresh_seeds`."""

JUDGE_RULE = 3
"""Number of the rules that fix and judge claims; see docs/explanation/statistics.md."""


@dataclass(frozen=True, kw_only=True)
class Original:
    """A run of its author's own.

    Attributes:
        image: Reference given with `--image`, None when the manifest's image ran.
    """

    kind: ClassVar[str] = "original"
    image: str | None = None


@dataclass(frozen=True, kw_only=True)
class Added:
    """A verification whose runs count with those of a later one.

    Attributes:
        id: Id of the capsule, 64 hex digits.
        runs: Number of fresh seeds that it ran itself.
    """

    id: str
    runs: int


@dataclass(frozen=True, kw_only=True)
class Verification:
    """A re-run of a capsule's plan.

    Attributes:
        of: Id of the capsule, 64 hex digits.
        seed_rule: Number of the rule that made the fresh seeds.
        nonce: What a third party added to the seeds, None for nothing.
        look: Number of the planned look that ended it, from 1; None where so many seeds are no
            planned look.
        runs: Number of fresh seeds that were asked for, with those of `added`.
        image: Reference given with `--image`, None when the original's image ran.
        levels: Whose program measured: the `capsule`'s, or our `own`.
        set: What whoever verifies changed of the manifest's mutable part: JSON pointer to value.
        added: Earlier verifications whose runs count with these, in the order of their seeds; this
            one's capsule has them all.
        quick: True if benchmarks were left out because no deciding claim is about them.
        device: Device given with `--device`, `cpu` or `cuda`; None for the device of the manifest.
    """

    kind: ClassVar[str] = "verification"
    of: str
    seed_rule: int = SEED_RULE
    nonce: str | None = None
    look: int | None = None
    runs: int
    image: str | None = None
    levels: Literal["capsule", "own"] = "capsule"
    set: Mapping[str, Scalar] = field(default_factory=dict)
    added: tuple[Added, ...] = ()
    quick: bool = False
    device: str | None = None


@dataclass(frozen=True, kw_only=True)
class Side:
    """One of two variants that ran in turn on one node.

    Attributes:
        pair: What both sides share.
        side: Which of them this is.
        order: Which side went first, round by round: `abab...`.
        margin: The ratio of B to A, or of A to B, up to which the two count as the same; above 1.
        metrics: Patterns of the metrics that are judged.
    """

    kind: ClassVar[str] = "side"
    pair: str
    side: Literal["a", "b"]
    order: str
    margin: float
    metrics: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class Extension:
    """An extension of a capsule's runs by further seeds of its plan.

    Attributes:
        of: Id of the capsule, 64 hex digits.
        seeds: How many seeds were added to its own.
    """

    kind: ClassVar[str] = "extension"
    of: str
    seeds: int


@dataclass(frozen=True, kw_only=True)
class Rereading:
    """A second reading of a capsule's kept files, without running anything.

    Attributes:
        of: Id of the capsule, 64 hex digits.
    """

    kind: ClassVar[str] = "rereading"
    of: str


Origin = Original | Verification | Side | Extension | Rereading


def original_id(origin: Origin) -> str | None:
    """Return the id of the verified capsule, or None."""
    return origin.of if isinstance(origin, Verification) else None


def predecessor_id(origin: Origin) -> str | None:
    """Return the id of the predecessor of an extension or second reading, or None."""
    return origin.of if isinstance(origin, Extension | Rereading) else None


def changes(origin: Origin) -> Mapping[str, Scalar]:
    """Return the overridden mutable fields: JSON pointer to value."""
    return origin.set if isinstance(origin, Verification) else {}


def other_device(origin: Origin) -> str | None:
    """Return the device given with `--device`, None for the device of the manifest."""
    return origin.device if isinstance(origin, Verification) else None


def image_override(origin: Origin) -> str | None:
    """Return the reference given with `--image`, None where the image was not replaced."""
    return origin.image if isinstance(origin, Original | Verification) else None
