"""Score of a search as a whole under each seed, derived from the trials of its points."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice

from capsule.manifest import SCORE, SEARCH, Benchmark
from capsule.manifest.search import sizes
from capsule.runs import MetricRuns, Run, RunStatus
from capsule.stats import searches

Metrics = Mapping[str, MetricRuns]
"""Metrics by path."""


def scores(benchmark: Benchmark, metrics: Metrics) -> Iterator[tuple[str, MetricRuns]]:
    """Yield the score of a search in each framework, with its path; none of what is no search.

    Under each seed it is the median over the studies of the best trial of each. Where half of the
    studies have no trial that succeeded the search has failed; where a trial has no outcome yet,
    so has the search.

    Args:
        benchmark: Any.
        metrics: Metrics of its trials; those of a framework may be left out.
    """
    meaning = benchmark.score
    if meaning is None:
        return
    for framework in benchmark.frameworks:
        points = of_points(benchmark, framework, metrics)
        if not points:
            continue
        path = f"{benchmark.id}/{SEARCH}/{framework}/{SCORE}"
        yield (
            path,
            replace(
                points[0],
                metric=path,
                per=meaning.per,
                runs=tuple(_runs(benchmark, framework, points, [one.runs for one in points])),
                controls=tuple(
                    _runs(benchmark, framework, points, [one.controls for one in points])
                ),
            ),
        )


def of_points(benchmark: Benchmark, framework: str, metrics: Metrics) -> list[MetricRuns]:
    """Return the metric that decides, of each point in the order of the cases; none where none was
    run.
    """
    if benchmark.search is None:
        return []
    paths = (
        f"{benchmark.id}/{case.name}/{framework}/{benchmark.search.metric}"
        for case in benchmark.cases
    )
    points = [metrics[path] for path in paths if path in metrics]
    return points if len(points) == len(benchmark.cases) else []


def by_study(benchmark: Benchmark, values: Sequence[float | None]) -> list[list[float | None]]:
    """Return the results of each point, in the order of the cases, study by study."""
    assert benchmark.search is not None
    rest = iter(values)
    return [list(islice(rest, size)) for size in sizes(len(values), benchmark.search.studies)]


def _runs(
    benchmark: Benchmark,
    framework: str,
    points: Sequence[MetricRuns],
    runs_of_points: Sequence[Sequence[Run]],
) -> Iterator[Run]:
    """Yield one run of the search for each seed under which every point was run."""
    columns = [{run.seed: run for run in runs} for runs in runs_of_points]
    for seed in sorted(set[int]().union(*columns)):
        runs = [run for column in columns if (run := column.get(seed)) is not None]
        value: float | None = None
        status: RunStatus = "missing"
        if len(runs) == len(points) and all(run.status != "missing" for run in runs):
            values = [run.value for run in runs]
            lower = points[0].direction == "lower"
            value = searches.score(by_study(benchmark, values), lower=lower)
            status = "failed" if value is None else "ok"
        trajectories = {run.trajectory for run in runs if run.value is not None}
        failures = [run.failure for run in runs if run.failure is not None]
        yield Run(
            seed=seed,
            seed_source=runs[0].seed_source,
            trial=f"{benchmark.id}/{SEARCH}/{framework}/{seed}",
            status=status,
            value=value,
            # the same search twice, where every trial of it is
            trajectory=trajectories.pop() if len(trajectories) == 1 else None,
            failure=failures[0] if status == "failed" and failures else None,
            started=max((run.started for run in runs if run.started is not None), default=None),
            interrupted=sum(run.interrupted for run in runs),
        )
