"""What a judgement consists of: one claim's, and the whole capsule's."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from capsule.diff import Differences, SeedRule
from capsule.manifest import Direction, Kind
from capsule.record import FrozenClaim

Word = Literal["REPRODUCED", "DIFFERENT", "INCONCLUSIVE"]
ClaimWord = Literal["REPRODUCED", "DIFFERENT", "INCONCLUSIVE", "REPORTED"]
Method = Literal["envelope", "welch", "prediction", "one-sample", "exact", "failures", "none"]


@dataclass(frozen=True, kw_only=True)
class Counts:
    """One side's runs of a metric.

    Attributes:
        seeds: Of every run in use, whatever became of it.
        values: How many have a value.
        failed: How many ended by the workload's own fault.
        missing: How many have no final outcome.
        mean: Of the values, on the metric's own scale.
        sd: Between runs, None for fewer than two values.
    """

    seeds: tuple[int, ...]
    values: int
    failed: int
    missing: int
    mean: float | None
    sd: float | None


@dataclass(frozen=True, kw_only=True)
class Judged:
    """One claim's judgement, or the report of a metric that nobody claimed anything about.

    Attributes:
        claim: None for an unclaimed metric.
        scale: Scale of estimate, limits and region; `log` means natural logarithms.
        estimate: Shift of the re-execution against the original, or its location for `threshold`.
        lower: Lower limit of the estimate, None when open or unknown.
        upper: Upper limit.
        alpha: The claim's one-sided error rate.
        alpha_used: What the interval used: halved where no ranks guard against skew.
        p_different: Against `alpha_used`.
        p_different_holm: Adjusted for the primary claims, against `alpha`.
        sentence: The judgement in words.
        advice: What would decide an INCONCLUSIVE claim, None where nothing is known to.
    """

    metric: str
    claim: FrozenClaim | None
    word: ClaimWord
    unit: str
    direction: Direction
    kind: Kind
    scale: Literal["linear", "log"]
    original: Counts
    rerun: Counts
    seeds: SeedRule
    method: Method
    estimate: float | None = None
    lower: float | None = None
    upper: float | None = None
    alpha: float
    alpha_used: float | None = None
    p_reproduced: float | None = None
    p_different: float | None = None
    p_different_holm: float | None = None
    sentence: str = ""
    advice: str | None = None
    notes: tuple[str, ...] = ()

    @property
    def decisive(self) -> bool:
        """Whether the capsule's verdict depends on it."""
        return self.claim is not None and self.claim.primary and self.claim.type != "ratio"

    @property
    def p_against_alpha(self) -> float:
        """The p of DIFFERENT as a multiple of the level that it is held against."""
        if self.p_different is None or self.alpha_used is None:
            return 1 / self.alpha
        return self.p_different / self.alpha_used


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """A whole capsule judged.

    Attributes:
        word: Of the capsule: REPRODUCED when all primary claims are (intersection-union, each at
            its own alpha); DIFFERENT when at least one is after Holm; else INCONCLUSIVE.
        sentence: Why, in one sentence.
        claims: One judgement for each frozen claim, in the capsule's order.
        reported: Ratios of metrics that nobody claimed anything about.
        differences: The facts that were judged.
    """

    word: Word
    sentence: str
    claims: tuple[Judged, ...]
    reported: tuple[Judged, ...]
    differences: Differences
