"""What became of the runs of one side of a comparison, and what a reader must know of them."""

from __future__ import annotations

from collections.abc import Iterator

from capsule import population
from capsule.diff import Pair, SeedRule
from capsule.diff.names import Names
from capsule.notes import Note
from capsule.summary import MetricRuns
from capsule.verdict import wording
from capsule.verdict.model import Counts


def counts(metric: MetricRuns | None, *, all_count: bool) -> Counts:
    """What became of the runs of a side; with `all_count` a repeated run counts like any other."""
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
    """What a reader must know of the runs before any number made from them."""
    for name, side in ((names.there, original), (names.here, rerun)):
        if side.missing:
            yield Note(
                code="no-outcome",
                sentence=f"runs of {name} that were interrupted and have no outcome:"
                f" {side.missing}",
            )
        if side.independent < side.values:
            yield Note(
                code="repeated-runs",
                sentence=f"{side.values} runs of {name} count as {side.independent}: the others"
                " went through exactly the same values under other seeds; a metric that no seed"
                " changes can be claimed exact",
            )


def range_notes(pair: Pair) -> Iterator[Note]:
    """Why runs whose value everybody sees are counted as failed."""
    names = pair.names
    for name, metric in ((names.there, pair.original), (names.here, pair.rerun)):
        beyond = 0 if metric is None else len(metric.values) - len(population.numbers(metric))
        if beyond:
            yield Note(
                code="value-too-large",
                sentence=f"runs of {name} with a value beyond {wording.number(population.LARGEST)},"
                f" which cannot be judged and counts as failed: {beyond}",
            )


def earlier_notes(rerun: MetricRuns, seeds: SeedRule) -> Iterator[Note]:
    """Which runs a metric of the machine is judged by, where earlier verifications count else."""
    if rerun.earlier:
        sentence = (
            "judged by the first verification's runs, which alone have the original's seeds"
            if seeds == "same"
            else f"judged by the {len(rerun.runs)} runs made now: of {rerun.earlier} earlier ones"
            " the machine may have been another, or the day"
        )
        yield Note(code="earlier-runs-left-out", sentence=sentence)
