"""Judgements of single claims and of a whole capsule."""

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
    "shares",  # the envelope at every threshold, of the shares of samples at or below it
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
    """Runs of one metric on one side.

    Attributes:
        seeds: Seeds of all runs in use, whatever their outcome.
        values: Number of runs with a value.
        independent: Number of values that count: runs with exactly equal values under different
            seeds count as one.
        failed: Number of runs that failed by the workload's own fault.
        missing: Number of runs without a final outcome.
        mean: Mean of the independent values, on the metric's own scale.
        sd: Standard deviation between runs; None for fewer than two values.
        unit: Unit of mean and standard deviation; `1` without a metric.
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
        """Return the upper limit of the failure rate, with 95 % confidence."""
        return stats.failure_bound(self.failed, self.values + self.failed)


@dataclass(frozen=True, kw_only=True)
class Look:
    """The planned look of a claim's judgement.

    Attributes:
        planned: Planned looks, as numbers of re-run seeds.
        runs: Number of runs of the re-run, whatever their outcome.
        number: Position of `runs` among the planned looks, from 1; None if `runs` was not planned
            and counts as a further look of a plan of five.
        alpha: One-sided level of this look, so that all looks together keep the claim's alpha.
        planned_alpha: Level of every planned look.
    """

    planned: tuple[int, ...]
    runs: int
    number: int | None
    alpha: float
    planned_alpha: float

    @property
    def coming(self) -> tuple[int, ...]:
        """Return the looks still to come: the planned ones, then doubled ones, five in all.

        >>> at = Look(planned=(5, 10), runs=5, number=1, alpha=0.0346, planned_alpha=0.0346)
        >>> at.coming
        (10, 20, 40, 80)
        """
        doubling = (self.planned[-1] << step for step in range(FURTHER_LOOKS + 1))
        every = (*self.planned[:-1], *doubling)[:FURTHER_LOOKS]
        return tuple(runs for runs in every if runs > self.runs)


@dataclass(frozen=True, kw_only=True)
class Advice:
    """Remedy of an INCONCLUSIVE claim, with one number for each power of `POWERS`.

    Attributes:
        answer: `runs` if more of them in the re-run decide the claim;
            `original-too-few` if no number does, because the original has too few runs;
            `on-the-margin` if the estimate lies so close to the margin that more than 500 would be
            needed; `mend` if nothing could be run and the cause must be mended first;
            `looks-taken` if as many looks were taken as the error rate allows.
        as_seen: Total numbers needed if the estimate is the true difference; None if no number
            suffices.
        if_equal: Total numbers needed if there is no true difference.
        sentence: The remedy in words.
    """

    answer: Literal["runs", "original-too-few", "on-the-margin", "mend", "looks-taken"]
    as_seen: tuple[int | None, int | None] = (None, None)
    if_equal: tuple[int | None, int | None] = (None, None)
    sentence: Sentence


@dataclass(frozen=True, kw_only=True)
class Judged:
    """The judgement of one claim, or the report of an unclaimed metric.

    Attributes:
        metric: Full metric path.
        claim: The claim; None for an unclaimed metric.
        word: Verdict of the claim.
        unit: Unit of the metric.
        direction: Better direction of the metric.
        kind: `quality` or `machine`.
        scale: Scale of estimate, limits and region; `log` stands for natural logarithms.
        original: Runs of the original.
        rerun: Runs of the re-run.
        seeds: Rule by which runs of the two sides are matched by seed.
        names: Names of the two sides.
        method: Statistical method.
        estimate: Difference of the re-run from the original; for `threshold` the re-run's location,
            for `bound` the value of its worst run (None if not finite), for `distribution` the
            distance at the threshold that the sentence names, for `curve` the difference at `step`.
        lower: Lower limit of the estimate; None if open or unknown.
        upper: Upper limit of the estimate; None if open or unknown.
        region: Allowed region on `scale`; None for an open end.
        step: Step at which a curve comes closest to the margin, or exceeds it most.
        alpha: One-sided error rate of the claim.
        level: One-sided error rate of this look.
        alpha_used: Error rate of the interval: `level`, or a part of it if nothing guards against
            skew, if a side is a single run, or if runs failed and the word is DIFFERENT.
        p_reproduced: P value of REPRODUCED, compared with `alpha_used`.
        p_different: P value of DIFFERENT, compared with `alpha_used`.
        p_beyond: P value of DIFFERENT by the whole rule, accurate far below `alpha`; adjusted for
            several claims and compared with `level`. None if the rule has no guard.
        p_different_holm: P value of DIFFERENT, adjusted for the primary claims, compared with
            `alpha`.
        p_zero: Two-sided p value of no difference at all; informational.
        superiority: Probability that a run of the re-run is higher than one of the original, ties
            counted half; informational.
        look: Planned look of the judgement; None for a claim that is judged once.
        no_rate: Reason why no error rate holds; None if the rate of either wrong word is `alpha`,
            and for a claim that decides nothing.
        failure: End of the failed runs, if these decide the word or forbid REPRODUCED.
        fault: Obstacle, if the claim could not be run; `device` if the device cannot run it.
        sentence: The judgement in words.
        advice: Remedy of an INCONCLUSIVE claim; None if none is known.
        notes: Remarks on the judgement.
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
    no_rate: Sentence | None = None
    failure: str | None = None
    fault: Fault | Literal["device"] | None = None
    sentence: Sentence = _UNSAID
    advice: Advice | None = None
    notes: tuple[Note, ...] = ()

    @property
    def decisive(self) -> bool:
        """Return whether the capsule's verdict depends on the claim."""
        return self.claim is not None and quick.decides(self.claim) and self.word != "REPORTED"

    @property
    def p_among_others(self) -> float:
        """Return the p value of DIFFERENT as a multiple of its level, for adjustment."""
        if self.p_beyond is None or self.method == "failures":
            return self.p_against_alpha
        return max(self.p_against_alpha, self.p_beyond / self.level)

    @property
    def p_against_alpha(self) -> float:
        """Return the p value of DIFFERENT as a multiple of the level that it is compared with."""
        if self.p_different is None or self.alpha_used is None:
            return 1 / self.level
        return self.p_different / self.alpha_used


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """The verdict on a capsule.

    Attributes:
        word: REPRODUCED if all primary claims are REPRODUCED (intersection-union, each claim at its
            own error rate); DIFFERENT if at least one primary claim is DIFFERENT after Holm's
            correction; else INCONCLUSIVE.
        sentence: Reason, in one sentence.
        claims: Verdict on each claim, in the capsule's order; a paired claim that is the only claim
            on its metric has two verdicts, one under equal seeds and one under fresh seeds.
        reported: Ratios of metrics without a claim, reported but not judged.
        differences: Differences between original and re-run: image, settings, machines, software
            and the values of each metric.
    """

    word: Word
    sentence: Sentence
    claims: tuple[Judged, ...]
    reported: tuple[Judged, ...]
    differences: Differences
