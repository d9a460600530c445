"""What a judgement consists of: one claim's, and the whole capsule's."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from capsule import quick, stats
from capsule.diff import Differences, SeedRule
from capsule.diff.inability import Fault
from capsule.diff.names import ROLES, Names
from capsule.manifest import Direction, Kind
from capsule.notes import Note
from capsule.record import FrozenClaim
from capsule.sentences import Sentence

Word = Literal["REPRODUCED", "DIFFERENT", "INCONCLUSIVE"]
ClaimWord = Literal["REPRODUCED", "DIFFERENT", "INCONCLUSIVE", "REPORTED", "SKIPPED"]
Method = Literal[
    "envelope",  # Welch's limits and its guard's (relabelings or ranks), the wider of each
    "welch",
    "prediction",  # the spread of one side predicts the other's single run
    "paired",  # Student's t on differences under equal seeds
    "summary",  # Welch's on a published mean and standard deviation
    "one-sample",  # Student's t against a constant
    "kolmogorov",  # band around the largest distance of two distributions
    "curve",  # the envelope at every step
    "exact",
    "bound",  # every run by itself
    "failures",  # Fisher's test on how often runs fail
    "within-run",  # inside one run on each side: information, never a verdict
    "none",
]
_UNSAID = Sentence("", "", ())
POWERS = (0.8, 0.9)
# a number of runs that nobody planned counts as a look of a plan of so many
FURTHER_LOOKS = 5


@dataclass(frozen=True, kw_only=True)
class Counts:
    """One side's runs of a metric.

    Attributes:
        seeds: Of every run in use, whatever became of it.
        values: How many have a value.
        independent: How many of these count: runs that went through exactly the same values under
            different seeds count as one.
        failed: How many ended by the workload's own fault.
        missing: How many have no final outcome.
        mean: Of the independent values, on the metric's own scale.
        sd: Between runs, None for fewer than two values.
        unit: Of both; `1` without a metric.
    """

    seeds: tuple[int, ...]
    values: int
    independent: int
    failed: int
    missing: int
    mean: float | None
    sd: float | None
    unit: str

    @property
    def failure_bound(self) -> float:
        """The rate of failures is at most this, with a confidence of 95 %."""
        return stats.failure_bound(self.failed, self.values + self.failed)


@dataclass(frozen=True, kw_only=True)
class Look:
    """Which of a claim's planned looks a judgement is, by its number of re-run seeds.

    Attributes:
        planned: After how many re-run seeds the claim may be judged.
        runs: Of the re-execution, whatever became of them.
        number: Place of `runs` among the planned ones, from 1; None when it is not planned, and
            counts as a further look of a plan of five.
        alpha: One-sided level of every look of such a plan, which costs the claim's alpha overall.
    """

    planned: tuple[int, ...]
    runs: int
    number: int | None
    alpha: float

    @property
    def coming(self) -> tuple[int, ...]:
        """Looks still to come: the planned ones, then each at twice as many runs, five in all.

        >>> Look(planned=(5, 10), runs=5, number=1, alpha=0.0304).coming
        (10, 20, 40, 80)
        """
        doubling = (self.planned[-1] << step for step in range(FURTHER_LOOKS + 1))
        every = (*self.planned[:-1], *doubling)[:FURTHER_LOOKS]
        return tuple(runs for runs in every if runs > self.runs)


@dataclass(frozen=True, kw_only=True)
class Advice:
    """What would decide an INCONCLUSIVE claim; one number for each power of `POWERS`.

    Attributes:
        answer: `runs` or `samples` when more of them on the re-execution's side decide it;
            `original-too-few` when no number does, as the original has too few; `on-the-margin`
            when the estimate lies so near the margin that more than 500 would be needed; `mend`
            when nothing could be run, and no number of runs helps before that is mended;
            `looks-taken` when as many looks were taken as the error rate allows.
        as_seen: How many in all, if the estimate is the truth; None where no number does.
        if_equal: How many in all, if there is no shift at all.
        sentence: The same in words.
    """

    answer: Literal["runs", "samples", "original-too-few", "on-the-margin", "mend", "looks-taken"]
    as_seen: tuple[int | None, int | None] = (None, None)
    if_equal: tuple[int | None, int | None] = (None, None)
    sentence: Sentence


@dataclass(frozen=True, kw_only=True)
class Judged:
    """One claim's judgement, or the report of a metric that nobody claimed anything about.

    Attributes:
        claim: None for an unclaimed metric.
        names: What the sides are called.
        scale: Scale of estimate, limits and region; `log` means natural logarithms.
        estimate: Shift of the re-execution against the original; its location for `threshold`,
            its worst run's value for `bound` (None where that is not finite), Kolmogorov's distance
            for `distribution`, the shift at `step` for `curve`.
        lower: Lower limit of the estimate, None when open or unknown.
        upper: Upper limit.
        region: What was allowed on `scale`, None for an open end.
        step: Of a curve: where it comes nearest to the margin, or is farthest beyond it.
        alpha: The claim's one-sided error rate.
        level: The same for this look.
        alpha_used: What the interval used: `level`, or a part of it where nothing guards against
            skew, where a side is a single run, or where runs failed and the word is DIFFERENT.
        p_reproduced: Against `alpha_used`.
        p_different: Against `alpha_used`.
        p_beyond: Of DIFFERENT by the whole rule, right far below `alpha` too: what is adjusted
            where there are several claims, against `level`; None where the rule has no guard.
        p_different_holm: Adjusted for the primary claims, against `alpha`.
        p_zero: Of no shift at all, two-sided; information that decides nothing.
        superiority: Probability that a run of the re-execution is higher than one of the original,
            ties counted half; information that decides nothing.
        look: None for a claim that is not looked at twice.
        failure: What failed runs ended with, where they decide the word or forbid REPRODUCED.
        fault: Of a claim that could not be run: what stands in its way; None for any other.
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
    names: Names = ROLES
    method: Method
    estimate: float | None = None
    lower: float | None = None
    upper: float | None = None
    region: tuple[float | None, float | None] = (None, None)
    step: float | None = None
    alpha: float
    level: float
    alpha_used: float | None = None
    p_reproduced: float | None = None
    p_different: float | None = None
    p_beyond: float | None = None
    p_different_holm: float | None = None
    p_zero: float | None = None
    superiority: float | None = None
    look: Look | None = None
    failure: str | None = None
    fault: Fault | None = None
    sentence: Sentence = _UNSAID
    advice: Advice | None = None
    notes: tuple[Note, ...] = ()

    @property
    def decisive(self) -> bool:
        """Whether the capsule's verdict depends on it."""
        return self.claim is not None and quick.decides(self.claim) and self.word != "REPORTED"

    @property
    def p_among_others(self) -> float:
        """The p of DIFFERENT as a multiple of its level, to be adjusted for several claims."""
        if self.p_beyond is None or self.method == "failures":
            return self.p_against_alpha
        return max(self.p_against_alpha, self.p_beyond / self.level)

    @property
    def p_against_alpha(self) -> float:
        """The p of DIFFERENT as a multiple of the level that it is held against."""
        if self.p_different is None or self.alpha_used is None:
            return 1 / self.level
        return self.p_different / self.alpha_used


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """A whole capsule judged.

    Attributes:
        word: Of the capsule: REPRODUCED when all primary claims are (intersection-union, each at
            its own alpha); DIFFERENT when at least one is after Holm; else INCONCLUSIVE.
        sentence: Why, in one sentence.
        claims: One judgement for each frozen claim, in the capsule's order; two for a paired claim
            that stands alone, under equal seeds and under fresh ones.
        reported: Ratios of metrics that nobody claimed anything about.
        differences: The facts that were judged.
    """

    word: Word
    sentence: Sentence
    claims: tuple[Judged, ...]
    reported: tuple[Judged, ...]
    differences: Differences
