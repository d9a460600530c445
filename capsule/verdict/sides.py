"""One side of a comparison as statistics wants it: independent runs, curves, samples, counts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from capsule import stats
from capsule.diff import SeedRule
from capsule.diff.names import Names
from capsule.notes import Note
from capsule.summary import MetricRuns, Run
from capsule.verdict.model import Counts

# beyond it a difference of two values may leave the range of doubles
LARGEST = 1e300


def independent(metric: MetricRuns) -> MetricRuns:
    """The runs without those that repeat another seed's, value by value."""
    seen: set[int] = set()
    kept: list[Run] = []
    for run in metric.runs:
        if run.trajectory is None or run.trajectory not in seen:
            kept.append(run)
        if run.trajectory is not None:
            seen.add(run.trajectory)
    return replace(metric, runs=tuple(kept))


def values(metric: MetricRuns) -> dict[int, float]:
    """Seed to value, of the runs whose value can be reckoned with."""
    return {
        run.seed: run.value
        for run in metric.runs
        if run.value is not None and abs(run.value) <= LARGEST
    }


def runs(metric: MetricRuns, resolution: float | None = None) -> stats.Runs:
    """The runs that have a value, at the metric's resolution or the one given."""
    resolution = metric.resolution if resolution is None else resolution
    return stats.Runs.of(values(metric), resolution=resolution)


def series(run: Run) -> Sequence[float]:
    """The values inside a run, after its warm-up."""
    return () if run.series is None else run.series.values[run.series.warmup :]


def curves(metric: MetricRuns) -> Mapping[int, stats.Curve]:
    """Seed to curve, of the runs that have one."""
    return {
        run.seed: stats.Curve(
            steps=tuple(run.series.steps[run.series.warmup :]), values=tuple(series(run))
        )
        for run in metric.runs
        if run.series is not None and run.series.steps is not None and _is_reckonable(series(run))
    }


def _is_reckonable(values: Sequence[float]) -> bool:
    return bool(values) and max(map(abs, values)) <= LARGEST


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
        )
    used = runs(metric if all_count else independent(metric))
    with_value = len(values(metric))
    missing = sum(run.status == "missing" for run in metric.runs)
    failed = len(metric.runs) - with_value - missing
    return Counts(
        seeds=tuple(run.seed for run in metric.runs),
        values=with_value,
        independent=used.n,
        failed=failed,
        missing=missing,
        mean=used.mean if used.n else None,
        sd=used.sd if used.n >= 2 else None,
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
