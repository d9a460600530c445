"""The product's own way from an author's claim and two lists of run values to a word.

Margins are frozen by `verdict.freeze`, intervals and words come from `stats.shift` and
`stats.decide`. `verdict.judge` does the same and writes the sentence and the advice besides, which
takes thirty times as long; a row of the acceptance table holds the two against each other.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from capsule import verdict
from capsule.diff import Differences, Pair, Side
from capsule.manifest import Claim, Margin
from capsule.origin import Added
from capsule.record import FrozenClaim
from capsule.stats import Decision, Interval, Region, Runs, decide, holm, p_beyond, shift
from capsule.summary import MetricRuns, Run

PATH = "train/default/command/accuracy"
ALPHA = 0.05
FIRST_FRESH = 1_000_000
_SIDE = Side(
    id=None,
    uuid="",
    title="",
    authors=(),
    tool="",
    verifies=None,
    started="",
    ended="",
    machine="",
    runtime="host",
    contained=False,
    image=None,
    image_override=None,
    nonce=None,
    added=(),
    quick=False,
    world="",
)


def runs(values: Sequence[float], *, first_seed: int = 0, resolution: float = 0.0) -> Runs:
    """Run values, each under a seed of its own."""
    return Runs.of(dict(enumerate(values, first_seed)), resolution=resolution)


def metric(
    values: Sequence[float | None],
    *,
    path: str = PATH,
    first_seed: int = 0,
    direction: Any = "higher",
    resolution: float = 0.0,
) -> MetricRuns:
    """The same as one metric of a record; None is a run that failed."""
    source = "fresh" if first_seed >= FIRST_FRESH else "manifest"
    planned = tuple(
        Run(
            seed=seed,
            seed_source=source,
            trial=f"{path.rsplit('/', 1)[0]}/{seed}",
            status="failed" if value is None else "ok",
            value=None if value is None else float(value),
        )
        for seed, value in enumerate(values, first_seed)
    )
    return MetricRuns(
        metric=path,
        unit="1",
        direction=direction,
        kind="portable",
        resolution=resolution,
        runs=planned,
    )


def freeze_one(original: MetricRuns, margin: Margin | None, **claim: Any) -> FrozenClaim:
    """The claim as sealing freezes it, but for looks: one, where no others are given.

    Without a margin it is the default one of two standard deviations.
    """
    claim = {"type": "equivalence", "alpha": ALPHA, **claim}
    (one,) = verdict.freeze(
        [Claim(metric=original.metric, margin=margin, **claim)], {original.metric: original}
    )
    return replace(one, looks=one.pattern.looks)


def region(claim: FrozenClaim) -> Region:
    """The region that a frozen claim allows."""
    ends = {"lower": claim.lower, "upper": claim.upper}
    return Region(**{name: end for name, end in ends.items() if end is not None})


def decision(
    a: Sequence[float], b: Sequence[float], claim: FrozenClaim, *, alpha: float | None = None
) -> Decision | None:
    """The product's decision on one claim; None where one run a side tells no spread."""
    judged = decide_shift(
        runs(a), runs(b, first_seed=FIRST_FRESH), region(claim), alpha or claim.alpha
    )
    return None if judged is None else judged[1]


def decide_shift(
    a: Runs, b: Runs, allowed: Region, alpha: float
) -> tuple[Interval, Decision] | None:
    """The same with the interval, for sides and a region that are made already."""
    interval = shift(a, b, alpha=alpha)
    return None if interval is None else (interval, decide(interval, allowed))


def alone(claims: Sequence[tuple[Runs, Runs, Region]], alpha: float) -> list[tuple[str, float]]:
    """The word of each claim of a capsule, and the p value of its being DIFFERENT that Holm gets.

    Args:
        claims: Original, re-execution and what is allowed; one run a side tells no spread and
            makes no claim here.
        alpha: Of every claim.
    """
    words = []
    for a, b, allowed in claims:
        judged = decide_shift(a, b, allowed, alpha)
        if judged is None:
            continue
        interval, one = judged
        p = alpha * one.p_different / interval.alpha
        among_others = p_beyond(a, b, allowed) if len(claims) > 1 else None
        words.append((one.word, min(1.0, p if among_others is None else max(p, among_others))))
    return words


def together(judged: Sequence[tuple[str, float]], alpha: float) -> str:
    """The word of a capsule of such claims, all primary: all of them, or any after Holm."""
    adjusted = holm([p for _, p in judged])
    pairs = zip(judged, adjusted, strict=True)
    if any(word == "DIFFERENT" and p <= alpha for (word, _), p in pairs):
        return "DIFFERENT"
    return "REPRODUCED" if {word for word, _ in judged} == {"REPRODUCED"} else "INCONCLUSIVE"


def judge_all(
    claims: Mapping[str, tuple[FrozenClaim, Sequence[float | None], Sequence[float | None]]],
) -> verdict.Verdict:
    """A whole verdict by `verdict.judge`, of metric path to claim, original's and fresh values."""
    return judge_pairs(
        *(
            _pair(claim, metric(a, path=path), metric(b, path=path, first_seed=FIRST_FRESH))
            for path, (claim, a, b) in claims.items()
        )
    )


def judge_one(
    claim: FrozenClaim, a: Sequence[float | None], b: Sequence[float | None]
) -> verdict.ClaimWord:
    """The word of `verdict.judge` on one claim, of the original's values and fresh ones."""
    return judge_pair(claim, metric(a), metric(b, first_seed=FIRST_FRESH))


def judge_pair(claim: FrozenClaim, original: MetricRuns, rerun: MetricRuns) -> verdict.ClaimWord:
    """The same of runs that are made already."""
    return judge_pairs(_pair(claim, original, rerun)).claims[0].word


def _pair(claim: FrozenClaim, original: MetricRuns, rerun: MetricRuns) -> Pair:
    return Pair(metric=claim.metric, claim=claim, seeds="fresh", original=original, rerun=rerun)


def judge_pairs(*pairs: Pair, verifications: int = 1) -> verdict.Verdict:
    """A whole verdict of runs that are laid beside each other already.

    Args:
        pairs: The runs of each claim.
        verifications: How many of them made the re-runs.
    """
    added = tuple(Added(id="0" * 64, runs=1) for _ in range(verifications - 1))
    rerun = replace(_SIDE, added=added)
    return verdict.judge(
        Differences(
            original=_SIDE, rerun=rerun, image="none", changes=(), facts=(), pairs=pairs, notes=()
        )
    )
