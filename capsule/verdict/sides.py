"""Outcomes of the runs of one side of a comparison, with notes on them."""

from __future__ import annotations

from collections.abc import Iterator

from capsule import population
from capsule.diff import Pair, SeedRule
from capsule.diff.names import Names
from capsule.notes import Note
from capsule.summary import MetricRuns
from capsule.verdict import words
from capsule.verdict.model import Counts


def counts(metric: MetricRuns | None, *, all_count: bool) -> Counts:
    """Count the outcomes of a side's runs; with `all_count`, repeated runs are independent."""
    if metric is None:
        return Counts(
            seeds=(),
            values=0,
            independent=0,
            failed=0,
            missing=0,
            mean=None,
            sd=None,
            unit="1",
        )
    used = population.runs(metric if all_count else population.independent(metric))
    with_value = len(population.numbers(metric))
    missing = [run.status for run in metric.runs].count("missing")
    failed = len(metric.runs) - with_value - missing
    return Counts(
        seeds=tuple([run.seed for run in metric.runs]),
        values=with_value,
        independent=used.n,
        failed=failed,
        missing=missing,
        mean=used.mean if used.n else None,
        sd=used.sd if used.n >= 2 else None,
        unit=metric.unit,
    )


def notes(original: Counts, rerun: Counts, names: Names) -> Iterator[Note]:
    """Yield the notes on the runs that come before any number made from them."""
    for name, side in ((names.there, original), (names.here, rerun)):
        if side.missing:
            yield words.NOTES("no-outcome", side=name, runs=side.missing)
        if side.independent < side.values:
            yield words.NOTES(
                "repeated-runs", side=name, runs=side.values, independent=side.independent
            )


def range_notes(pair: Pair) -> Iterator[Note]:
    """Why runs whose value everybody sees are counted as failed."""
    names = pair.names
    for name, metric in ((names.there, pair.original), (names.here, pair.rerun)):
        beyond = 0 if metric is None else len(metric.values) - len(population.numbers(metric))
        if beyond:
            yield words.NOTES("value-too-large", side=name, most=population.LARGEST, runs=beyond)


def earlier_notes(rerun: MetricRuns, seeds: SeedRule) -> Iterator[Note]:
    """Yield the note on the runs that judge a machine metric, if earlier verifications count."""
    if rerun.earlier:
        runs = None if seeds == "same" else len(rerun.runs)
        yield words.notes.earlier_runs(runs=runs, earlier=rerun.earlier)
