"""Spread of one metric over three or more machines, and the precision of its mean."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Literal

from capsule import population, stats, summary
from capsule.diff.several import Across, label
from capsule.manifest import Direction, Kind
from capsule.notes import Note
from capsule.record import FrozenClaim
from capsule.sentences import Sentence
from capsule.summary import MetricRuns
from capsule.verdict import sides, wording, words
from capsule.verdict.model import Counts, Verdict
from capsule.verdict.wording import natural, number

# what these claim is not one value a run
_NOT_OF_VALUES = ("exact", "distribution", "curve")
_SHIFTS = ("equivalence", "noninferiority", "prediction")
_UNEQUAL_P = 0.01
_Skip = Literal["quick", "device"]


@dataclass(frozen=True, kw_only=True)
class Spread:
    """A claimed metric over all machines.

    Attributes:
        scale: Scale of the numbers in `precision` and `mean`; `log` means natural logarithms.
        alpha: Half the error of an interval: the claim's.
        counts: The runs of each side in use, None where it has no such metric.
        precision: s_r, s_L and s_R, None where they mean nothing or cannot be told.
        precision_sentence: They in words, or why there are none.
        mean: Over machines, None where it means nothing or cannot be told.
        mean_sentence: It in words, or why there is none.
        notes: What a reader of these numbers must know.
    """

    metric: str
    unit: str
    direction: Direction
    kind: Kind
    scale: Literal["linear", "log"]
    alpha: float
    counts: tuple[Counts | None, ...]
    precision: stats.Precision | None
    precision_sentence: Sentence
    mean: stats.Mean | None
    mean_sentence: Sentence
    notes: tuple[Note, ...]


def over(across: Across, verdicts: Sequence[Verdict]) -> Spread:
    """The spread of a metric over all sides.

    Args:
        across: The runs of every side.
        verdicts: Of each pair, which tell whether the sides have a value in common.
    """
    claim = _claim(across)
    across = replace(across, sides=tuple(_values(claim, across)))
    used = list(_runs(across, claim))
    log = claim.scale == "log"
    obstacle = next(_obstacles(across, claim, used), None)
    if log and obstacle is None:
        used = [side.log() for side in used]
    precision = None if obstacle else stats.precision(used, alpha=claim.alpha)
    no_mean = obstacle or next(_obstacles_of_a_mean(across, used, verdicts), None)
    mean = None if no_mean else stats.random_effects_mean(used, alpha=claim.alpha)
    first = next((side for side in across.sides if side is not None), None)
    unit = first.unit if first else "1"
    of_value = claim.pattern.value
    return Spread(
        metric=across.metric,
        unit=unit,
        direction=first.direction if first else "none",
        kind=first.kind if first else "portable",
        scale=claim.scale,
        alpha=claim.alpha,
        counts=tuple(
            None if side is None else sides.counts(side, all_count=False) for side in across.sides
        ),
        precision=precision,
        precision_sentence=_word_precision(precision, of_value, unit, log)
        if precision
        else words.spreads.no_precision(of=of_value, why=str(obstacle)),
        mean=mean,
        mean_sentence=_word_mean(mean, log) if mean else words.SPREADS("no-mean", why=str(no_mean)),
        notes=tuple(_notes(across, used, precision, _find_skips(across.metric, verdicts))),
    )


def _claim(across: Across) -> FrozenClaim:
    """The first claim on one value a run, whose scale and level these numbers have."""
    of_values = [claim for claim in across.claims if claim.type not in _NOT_OF_VALUES]
    return (of_values or across.claims)[0]


def _values(claim: FrozenClaim, across: Across) -> Iterator[MetricRuns | None]:
    """Every side with the values that the claim judges."""
    for side in across.sides:
        yield None if side is None else summary.values_for(claim.pattern, side)


def _runs(across: Across, claim: FrozenClaim) -> Iterator[stats.Runs]:
    """The independent runs of every side, none where it has no such metric."""
    known = [side for side in across.sides if side is not None]
    resolution = max((side.resolution for side in known), default=0.0)
    if claim.resolution is not None:
        resolution = claim.resolution
    for side in across.sides:
        yield (
            stats.Runs.of({})
            if side is None
            else population.runs(population.independent(side), resolution)
        )


def _obstacles(
    across: Across, claim: FrozenClaim, used: Sequence[stats.Runs]
) -> Iterator[Sentence]:
    """Why there is no spread to tell, most basic reason first."""
    if claim.type in _NOT_OF_VALUES:
        yield words.spreads.not_of_values(claim=claim.type)
    units = {side.unit: label(i) for i, side in enumerate(across.sides) if side is not None}
    if len(units) > 1:
        yield words.judgements.units_differ(units=tuple(units.items()))
    if sum(side.n > 0 for side in used) < 2:
        yield words.SPREADS("too-few-capsules")
    if all(side.n < 2 for side in used):
        yield words.SPREADS("too-few-runs")
    if claim.scale == "log" and not all(side.positive for side in used):
        yield words.judgements.not_positive(is_mean=False, of="run")


def _obstacles_of_a_mean(
    across: Across, used: Sequence[stats.Runs], verdicts: Sequence[Verdict]
) -> Iterator[Sentence]:
    """Why a mean over machines would mean nothing."""
    if any(side is not None and side.kind == "machine" for side in across.sides):
        yield words.SPREADS("of-machines")
    if sum(side.n > 0 for side in used) < 3:
        yield words.SPREADS("too-few-machines")
    different = [
        label(index)
        for index, verdict in enumerate(verdicts, 1)
        for one in verdict.claims
        if one.metric == across.metric
        and one.word == "DIFFERENT"
        and one.claim is not None
        and one.claim.type in _SHIFTS
    ]
    if different:
        yield words.SPREADS("different-machines", sides=tuple(dict.fromkeys(different)))


def _find_skips(metric: str, verdicts: Sequence[Verdict]) -> dict[int, _Skip]:
    """Return the places of re-runs that left out a metric, with the kind of option."""
    return {
        place: "device" if one.fault == "device" else "quick"
        for place, verdict in enumerate(verdicts, 1)
        for one in verdict.claims
        if one.metric == metric and (one.word == "SKIPPED" or one.fault == "device")
    }


def _notes(
    across: Across,
    used: Sequence[stats.Runs],
    precision: stats.Precision | None,
    skipped: Mapping[int, _Skip],
) -> Iterator[Note]:
    for index, side in enumerate(across.sides):
        if side is None or not used[index].n:
            lack: Literal["no metric", "no value"] = "no metric" if side is None else "no value"
            yield words.notes.left_out(side=label(index), why=skipped.get(index, lack))
    if precision is None:
        return
    shared = _sides_with_common_seeds(used)
    if shared:
        yield words.NOTES("common-seeds", sides=shared)
    if precision.equal_spread_p is not None and precision.equal_spread_p <= _UNEQUAL_P:
        yield words.NOTES("unequal-spread", p=precision.equal_spread_p)


def _sides_with_common_seeds(used: Sequence[stats.Runs]) -> tuple[str, ...]:
    seeds = [{seed for seed, _ in side.by_seed} for side in used]
    involved = {
        index
        for pair in combinations(range(len(used)), 2)
        for index in pair
        if seeds[pair[0]] & seeds[pair[1]]
    }
    return tuple(label(index) for index in sorted(involved))


def _word_precision(precision: stats.Precision, of: str, unit: str, log: bool) -> Sentence:
    total, low, high, within, between, limit = (
        number(natural(value, log=log), 4 if log else 3)
        for value in (
            precision.reproducibility_sd,
            precision.lower,
            precision.upper,
            precision.repeatability_sd,
            precision.between_sd,
            precision.limit,
        )
    )
    return words.spreads.precision(
        of=of,
        total=total,
        low=low,
        high=high,
        unit=" as factors" if log else "" if unit == "1" else f" {unit}",
        within=within,
        between=between,
        machines=precision.sides,
        limit=limit,
    )


def _word_mean(mean: stats.Mean, log: bool) -> Sentence:
    limits = wording.limits(mean.estimate, mean.lower, mean.upper, log=log)
    return words.SPREADS("mean", is_geometric=log, machines=mean.sides, shown=limits)
