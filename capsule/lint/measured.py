"""Warnings about a sealed run, from its own values."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache

from capsule import freezing, notes, population, stats, summary
from capsule.diff import evidence
from capsule.lint import spreads, surroundings
from capsule.lint.advice import author_warnings
from capsule.lint.located import Located
from capsule.manifest import looks
from capsule.manifest import warnings as words
from capsule.manifest.kinds import Command
from capsule.manifest.model import Claim
from capsule.origin import Original
from capsule.record import FrozenClaim, Record
from capsule.schema import pointer
from capsule.sentences import Sentence, about
from capsule.summary import MetricRuns

_POWER, _HARDLY = 0.8, 0.2
_SHIFTS = ("equivalence", "noninferiority")
_BOTH_WAYS = ("equivalence", "prediction")
# these have no use for runs that vary
_CONSTANT = ("exact", "ratio", "bound")


@dataclass(frozen=True, kw_only=True)
class _Measured:
    """A frozen claim and the original's independent runs of its metric.

    Attributes:
        metric: Its values are those that the claim judges.
        runs: The runs that have a value, on the claim's scale.
        extensible: Whether its author may add seeds to them.
    """

    claim: FrozenClaim
    metric: MetricRuns
    runs: stats.Runs
    extensible: bool

    @property
    def margin(self) -> float | None:
        """The largest allowed shift, on the claim's scale; None where none was frozen."""
        ends = [abs(end) for end in (self.claim.lower, self.claim.upper) if end is not None]
        return max(ends, default=None)


def warnings_of_runs(record: Record) -> list[Located]:
    """Return warnings about a capsule, the gravest first."""
    metrics = summary.run_values(record)
    measured = _measure_all(record, metrics)
    places = {claim: place for place, claim in enumerate(record.manifest.claims)}
    warnings = [_group(check, measured, places) for check in _CHECKS]
    return [
        *author_warnings(record.manifest),
        *_decision_warnings(record),
        *(sentence for of_check in warnings for sentence in of_check),
        *_ignored_seeds(record, metrics),
        *_kept_seeds(record),
        *surroundings.of_image(record.image, record.image_override, record.manifest),
        *surroundings.of_used_data(record),
        *surroundings.of_nodes(record),
    ]


def _decision_warnings(record: Record) -> Iterator[Located]:
    if record.claims and not any(one.primary for one in record.claims):
        yield Located.at("/claims", words.WARNINGS("no-primary-claim"))


def _measure_all(record: Record, metrics: Mapping[str, MetricRuns]) -> list[_Measured]:
    is_original = isinstance(record.origin, Original)
    return [
        _measure(claim, metrics[claim.metric], extensible=is_original)
        for claim in record.claims
        if claim.metric in metrics
    ]


def _measure(claim: FrozenClaim, metric: MetricRuns, *, extensible: bool) -> _Measured:
    metric = population.independent(summary.values_for(claim.pattern, metric))
    values = population.values(metric)
    if claim.scale == "log":
        values = {seed: math.log(value) for seed, value in values.items() if value > 0}
    resolution = 0.0 if claim.scale == "log" else claim.resolution or metric.resolution
    return _Measured(
        claim=claim,
        metric=metric,
        runs=stats.Runs.of(values, resolution=resolution),
        extensible=extensible,
    )


def _group(
    check: Callable[[_Measured], Sentence | None],
    measured: list[_Measured],
    places: Mapping[Claim, int],
) -> Iterator[Located]:
    """Yield a warning for each claim as written, about the first metric that fails the check.

    Args:
        check: Returns what is wrong with a measured claim, None for nothing.
        measured: All of them.
        places: Place of each claim in the manifest.
    """
    sentences: dict[Claim, list[tuple[str, Sentence]]] = {}
    for one in measured:
        if sentence := check(one):
            sentences.setdefault(one.claim.pattern, []).append((one.claim.metric, sentence))
    for claim, ((metric, sentence), *others) in sentences.items():
        more = f" (and {len(others)} more of this claim's metrics)" if others else ""
        where = pointer("claims", places[claim], "margin")
        yield Located.at(where, about(f"{metric}{more}", sentence))


def _contradiction(one: _Measured) -> Sentence | None:
    """Return a warning if the original's own runs break a constant."""
    claim = one.claim
    values = list(one.runs.values)
    if claim.type == "threshold" and values:
        values = [math.fsum(values) / len(values)]
    elif claim.type != "bound":
        return None
    lower, upper = claim.lower, claim.upper
    for value in values:
        if lower is not None and value < lower:
            name, limit = "at_least", lower
        elif upper is not None and value > upper:
            name, limit = "at_most", upper
        else:
            continue
        is_log = claim.scale == "log"
        return words.WARNINGS(
            "claim-contradicted",
            is_mean=claim.type == "threshold",
            value=math.exp(value) if is_log else value,
            limit=f"{name} {math.exp(limit) if is_log else limit:g}",
        )
    return None


def _missing_margin(one: _Measured) -> Sentence | None:
    """Return a warning if there are too few runs for a margin."""
    if one.claim.margin_source != "none" or one.claim.type == "ratio":
        return None
    return words.WARNINGS("margin-missing", values=len(one.runs.values), runs=len(one.metric.runs))


def _ignored_seed(one: _Measured) -> Sentence | None:
    """Return a warning if no seed changed the value of a run."""
    if one.claim.type in _CONSTANT or not evidence.is_constant(one.metric):
        return None
    return words.WARNINGS("equal-values", runs=len(one.metric.values), value=one.metric.values[0])


def _out_of_reach(one: _Measured) -> Sentence | None:
    """Return a warning if a margin is too tight for these runs."""
    claim, margin, runs = one.claim, one.margin, one.runs
    if (
        claim.type not in _SHIFTS
        or claim.paired
        or claim.pattern.published is not None
        or not margin
        or not claim.looks
        or claim.margin_source == "none"
        or evidence.repeats(one.metric)
    ):
        return None
    if runs.n < 2:
        return words.WARNINGS("one-run")
    alpha = looks.level(claim.pattern, claim.looks, len(one.metric.runs))
    if claim.margin_source == "spread":
        return _spreads_out_of_reach(one, alpha)
    asked = margin * stats.c4(runs.n) / runs.sd if runs.sd > 0 else math.inf
    last = claim.looks[-1]
    if _narrowest(runs.n, last, alpha) <= asked:
        return None
    more = stats.runs_for_margin(asked, alpha=alpha, power=_POWER)
    # what no number of re-runs confirms of another source is chance
    none = claim.margin_source == "author" and _narrowest(runs.n, None, alpha, _HARDLY) > asked
    is_ratio = claim.scale == "log"
    return words.margin_out_of_reach(
        allowed=math.exp(margin) if is_ratio else margin,
        is_ratio=is_ratio,
        runs=runs.n,
        reruns=None if none else last,
        needed=None if more is None else max(more, runs.n + 1),
        added=_added(one, more),
    )


def _spreads_out_of_reach(one: _Measured, alpha: float) -> Sentence | None:
    """Return the same for a margin in standard deviations of these runs."""
    asked, last = freezing.spreads(one.claim.pattern) or 0.0, one.claim.looks[-1]
    enough = spreads.word(asked, one.runs.n, last, alpha=alpha)
    if enough == "usually":
        return None
    more = spreads.needed(asked, alpha=alpha)
    return words.too_few_seeds(
        seeds=one.runs.n,
        rerun_seeds=last,
        look="last",
        margin=asked,
        is_seldom=enough == "seldom",
        needed=None if more is None else max(more, one.runs.n + 1),
        added=_added(one, more),
    )


def _added(one: _Measured, needed: int | None) -> int | None:
    """Return how many seeds an author could add, None where none can be added."""
    return max(needed - one.runs.n, 1) if needed is not None and one.extensible else None


@lru_cache(maxsize=256)
def _narrowest(n_a: int, n_b: int | None, alpha: float, power: float = _POWER) -> float:
    return stats.narrowest_margin(n_a, n_b, alpha=alpha, power=power)


def _vagueness(one: _Measured) -> Sentence | None:
    """Return a warning if a margin is as large as the mean."""
    claim, margin, values = one.claim, one.margin, one.metric.values
    if claim.type not in (*_SHIFTS, *_BOTH_WAYS) or claim.scale == "log" or not (margin and values):
        return None
    mean = math.fsum(value / len(values) for value in values)
    same_sign = min(values) > 0 or max(values) < 0
    if not same_sign or margin < abs(mean):
        return None
    return words.WARNINGS("margin-above-mean", margin=margin, mean=mean)


_CHECKS = (_contradiction, _missing_margin, _ignored_seed, _out_of_reach, _vagueness)


def _ignored_seeds(record: Record, metrics: Mapping[str, MetricRuns]) -> Iterator[Located]:
    """Warn of commands without a claim whose values no seed changes."""
    claimed = {claim.metric.partition("/")[0] for claim in record.claims}
    for place, benchmark in enumerate(record.manifest.benchmarks):
        if not isinstance(benchmark.subject, Command) or benchmark.id in claimed:
            continue
        own = [
            metric
            for path, metric in metrics.items()
            if path.partition("/")[0] == benchmark.id and metric.kind == "portable"
        ]
        if own and all(map(evidence.repeats, own)):
            first = own[0]
            runs, value = len(first.values), first.values[0]
            sentence = words.WARNINGS("equal-values", runs=runs, value=value)
            where = pointer("benchmarks", place, "command")
            yield Located.at(where, about(first.metric, sentence))


def _kept_seeds(record: Record) -> Iterator[Located]:
    """Warn of generators, and programs, that an injected seed does not change."""
    places = {one.id: place for place, one in enumerate(record.manifest.benchmarks)}
    for note in record.notes:
        facts = dict(note.facts or ())
        benchmark = facts.get("benchmark")
        # of another version, or of a benchmark that a second reading left out
        if not isinstance(benchmark, str) or benchmark not in places:
            continue
        if note.code == notes.INJECTION_UNUSED:
            sentence = words.WARNINGS("injection-unused")
        elif note.code == notes.SEEDS_KEPT and note.is_known:
            own = tuple((name, facts[name]) for name in ("generators", "more"))
            said = words.WARNINGS.say(note.code, own)
            sentence = Sentence(str(said), note.code, own)
        else:
            continue
        where = pointer("benchmarks", places[benchmark], "seeding")
        yield Located.at(where, about(benchmark, sentence))


@dataclass(frozen=True, kw_only=True)
class Spread:
    """The spread of a claim's runs, in the metric for which its margin is tightest.

    Attributes:
        sd: Estimate of the true standard deviation between runs, on the claim's scale.
        mean: Mean of the runs, on that scale.
        margin: The frozen margin in units of `sd`, None for a claim without one.
    """

    sd: float
    mean: float
    margin: float | None


def spreads_of_runs(record: Record) -> Mapping[Claim, Spread]:
    """Return the spread for each claim about a shift that has runs enough to show one."""
    tightest: dict[Claim, Spread] = {}
    for one in _measure_all(record, summary.run_values(record)):
        claim, runs = one.claim.pattern, one.runs
        if one.claim.type not in (*_SHIFTS, *_BOTH_WAYS) or claim.paired or claim.published:
            continue
        if runs.n < 2:
            continue
        sd = runs.sd / stats.c4(runs.n)
        margin = one.margin / sd if one.margin is not None and sd > 0 else None
        mean = math.fsum(value / runs.n for value in runs.values)
        spread = Spread(sd=sd, mean=mean, margin=margin)
        before = tightest.get(claim)
        if before is None or (margin or math.inf) < (before.margin or math.inf):
            tightest[claim] = spread
    return tightest
