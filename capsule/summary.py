"""One number per run and metric, out of raw samples: for statistics, reports, `metrics.json`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from operator import attrgetter
from typing import Any, NamedTuple

from capsule import deviceseries, latencies, scaling, searches
from capsule.averages import FEW, VERY_FEW, mean, median
from capsule.manifest import Aggregate, Benchmark, Claim, Command, Metric, energy
from capsule.manifest.paths import match
from capsule.record import Attempt, Record, Samples
from capsule.reduction import first_not_finite, mean_of_last, run_values_of, worst
from capsule.runs import Draft, MetricRuns, Run, RunStatus, list_values
from capsule.starts import describe_world
from capsule.trajectories import alike

__all__ = [
    "FORMAT",
    "MetricRuns",
    "Run",
    "RunStatus",
    "calls",
    "earlier_seeds",
    "final_outcome",
    "list_values",
    "metric_runs",
    "metrics_document",
    "own_nodes",
    "planned_trials",
    "run_values",
    "summarize",
    "values_for",
    "without_runs",
    "worlds",
]

FORMAT = "capsule-metrics/1"
_ENERGY = f"/{energy.ENERGY.name}"


def run_values(record: Record) -> Mapping[str, MetricRuns]:
    """Return every metric path of the plan with one value per run, sorted by path.

    A failed trial is a failed run of each of its metrics, and a trial without a final outcome a
    missing one: nothing that was planned drops out of sight.
    """
    values: Mapping[str, MetricRuns] | None = vars(record).get("_run_values")
    if values is None:
        values = vars(record)["_run_values"] = _with_trajectories(
            metric_runs(record), record.manifest.benchmarks
        )
    return values


def worlds(record: Record) -> Mapping[str, str]:
    """Describe the world of each command's own ranks, for several ranks.

    Returns:
        By the id of the benchmark: `2, seen by torch`, `not seen` and so on; of runs that were
        not alike all of it.
    """
    found: dict[str, dict[str, None]] = {}
    subjects = {one.id: one.subject for one in record.manifest.benchmarks}
    for one in record.attempts:
        name = one.trial.partition("/")[0]
        if one.ranks > 1 and one.outcome == "completed" and isinstance(subjects[name], Command):
            found.setdefault(name, {})[describe_world(one.world, one.ranks)] = None
    return {name: "; ".join(sorted(words)) for name, words in found.items()}


def planned_trials(plan: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """Yield the trials of a record's plan, in executed order: at least `id` and `seed_source`
    each.
    """
    for group in plan["groups"]:
        yield from group["trials"]


def earlier_seeds(record: Record) -> frozenset[int]:
    """Return the fresh seeds that earlier verifications ran, whose runs count with the record's
    own.
    """
    trials = (t for t in planned_trials(record.plan) if t["seed_source"] == "fresh")
    fresh = dict.fromkeys(trial["seed"] for trial in trials)
    return frozenset(islice(fresh, sum(one.runs for one in record.chain)))


def own_nodes(record: Record) -> Sequence[Mapping[str, Any]]:
    """Return the nodes that the record's own runs took place on, without those of earlier
    verifications.

    Returns:
        All of them where no run says on which.
    """
    if not record.chain:
        return record.nodes
    earlier = earlier_seeds(record)
    own = (one for one in record.attempts if one.seed_source == "fresh")
    used = sorted({node for one in own if one.seed not in earlier for node in one.nodes})
    return [record.nodes[node] for node in used] or record.nodes


def final_outcome(attempt: Attempt) -> bool:
    """Return whether an attempt settled its trial: interrupted ones are tried again."""
    return attempt.outcome != "interrupted"


def values_for(claim: Claim, metric: MetricRuns) -> MetricRuns:
    """Return the same runs with the value each that a claim judges.

    Of a claim on the mean of the last k evaluations that is the mean over the last k of each run's
    own, wherever it ended, after its warm-up; of several ranks the worst. A run that has fewer, or
    values without steps, has failed as far as such a claim goes: left out, a run that diverges
    early would make the others look better. It keeps its samples.
    """
    k = claim.mean_of_last
    if k is None:
        return metric
    return replace(metric, runs=tuple(_with_mean_of_last(run, k) for run in metric.runs))


def _with_mean_of_last(run: Run, k: int) -> Run:
    if run.value is None:
        return run
    means = [mean for line in run.samples if (mean := mean_of_last(line, k)) is not None]
    if not means or len(means) < len(run.samples):
        return replace(run, status="failed", value=None)
    return replace(run, value=worst(means, run.samples[0].direction))


def calls(run: Run) -> Sequence[float]:
    """Return the repeated calls of a run, after warm-up; none where it has one value, or others."""
    series = run.series
    if series is None or series.steps is not None or series.per != "call":
        return ()
    values = series.values[series.warmup :]
    return values if len(values) > 1 else ()


def metrics_document(record: Record) -> dict[str, Any]:
    """`results/metrics.json` as a JSON value, the same on every machine: it can be recomputed."""
    return {
        "format": FORMAT,
        "metrics": {path: summarize(runs) for path, runs in metric_runs(record).items()},
    }


def metric_runs(record: Record) -> Mapping[str, MetricRuns]:
    """`run_values` but for the trajectories, made once for a record: reading it needs it too."""
    metrics: Mapping[str, MetricRuns] = vars(record).get("_metrics") or _make_metrics(record)
    vars(record)["_metrics"] = metrics
    return metrics


def _make_metrics(record: Record) -> dict[str, MetricRuns]:
    final = {attempt.trial: attempt for attempt in record.attempts if final_outcome(attempt)}
    interrupted = Counter(one.trial for one in record.attempts if not final_outcome(one))
    samples: dict[str, list[Samples]] = {}
    for line in record.samples:
        attempt = final.get(line.trial)
        if attempt is not None and attempt.attempt == line.attempt:
            samples.setdefault(line.metric, []).append(line)
    many = sum([n for line in record.samples if (n := len(line.values)) > VERY_FEW])
    few = VERY_FEW if many > FEW else FEW
    benchmarks = {benchmark.id: benchmark for benchmark in record.manifest.benchmarks}
    earlier = earlier_seeds(record)
    joules = deviceseries.sum_joules(record)
    named = [one.metric for one in record.manifest.claims if one.metric.endswith(_ENERGY)]
    subjects: dict[str, list[Mapping[str, Any]]] = {}
    for trial in planned_trials(record.plan):
        subjects.setdefault(trial["id"].rpartition("/")[0], []).append(trial)
    metrics = {}
    for subject, planned in subjects.items():
        benchmark, _, framework = subject.split("/")
        trials = [
            _trial(trial, final.get(trial["id"]), interrupted[trial["id"]]) for trial in planned
        ]
        for metric in benchmarks[benchmark].due(framework):
            path = f"{subject}/{metric.name}"
            own = trials
            if earlier and metric.kind == "machine":
                own = [trial for trial in trials if trial.seed not in earlier]
            runs = _runs(own, samples.pop(path, ()), few, metric.aggregate)
            if runs:
                metrics[path] = _metric_runs(path, metric, runs, len(trials) - len(own))
        for metric in energy.metrics(benchmarks[benchmark]) if joules or named else ():
            path = f"{subject}/{metric.name}"
            own = [trial for trial in trials if trial.seed not in earlier]
            runs = _energy_runs(own, joules)
            # a claim on it stays where no counter can be read
            is_claimed = any(match(one, path) for one in named)
            if runs and (is_claimed or any(run.value is not None for run in runs)):
                counted = _metric_runs(path, metric, runs, len(trials) - len(own))
                metrics[path] = replace(counted, is_named_only=True)
    for one in record.manifest.benchmarks:
        metrics.update(searches.scores(one, metrics))
        metrics.update(list(scaling.derive(one, metrics)))
        metrics.update(list(latencies.derive(one, metrics)))
    return dict(sorted(metrics.items()))


class _Trial(NamedTuple):
    """A planned trial, and what the runs of all its metrics have of the attempt that settled it."""

    id: str
    seed: int
    seed_source: str
    completed: bool
    otherwise: RunStatus
    failure: Attempt | None
    started: str | None
    interrupted: int


def _trial(planned: Mapping[str, Any], attempt: Attempt | None, interrupted: int) -> _Trial:
    completed = attempt is not None and attempt.outcome == "completed"
    is_resumed = attempt is not None and attempt.resumed_after is not None
    return _Trial(
        id=planned["id"],
        seed=int(planned["seed"]),
        seed_source=planned["seed_source"],
        completed=completed,
        # a time of the whole is lost where an interruption cut it in two
        otherwise="missing" if attempt is None or (completed and is_resumed) else "failed",
        failure=attempt if attempt is not None and attempt.outcome == "failed" else None,
        started=attempt.started if attempt else None,
        interrupted=interrupted,
    )


def _runs(
    trials: Sequence[_Trial], samples: Iterable[Samples], few: int, aggregate: Aggregate | None
) -> list[Run]:
    """Return one metric's runs, of which none counts where all are controls."""
    lines: dict[str, list[Samples]] = {}
    for line in samples:
        lines.setdefault(line.trial, []).append(line)
    reported = [tuple(lines.get(trial.id, ())) for trial in trials]
    runs = list(map(_run, trials, reported, run_values_of(reported, few, aggregate)))
    return runs if any(run.seed_source != "control" for run in runs) else []


def _energy_runs(trials: Sequence[_Trial], joules: Mapping[str, float]) -> list[Run]:
    """Return the runs of the energy; one that ended well is missing if its energy is unknown."""
    runs = []
    for trial in trials:
        known = trial._replace(otherwise="missing") if trial.completed else trial
        runs.append(_run(known, (), joules.get(trial.id)))
    return runs if any(run.seed_source != "control" for run in runs) else []


def _run(trial: _Trial, samples: tuple[Samples, ...], value: float | None) -> Run:
    run: Any = Draft()
    run.trial, run.seed, run.seed_source, completed, otherwise, *rest = trial
    run.failure, run.started, run.interrupted = rest
    run.trajectory = run.not_finite = None
    if completed and value is not None:
        run.status, run.value, run.samples = "ok", value, samples
    else:
        run.status, run.value, run.samples = otherwise, None, ()
        run.not_finite = first_not_finite(samples)
    run.__class__ = Run
    made: Run = run
    return made


def _metric_runs(path: str, metric: Metric, runs: Sequence[Run], earlier: int) -> MetricRuns:
    counted = [run for run in runs if run.seed_source != "control"]
    return MetricRuns(
        metric=path,
        unit=metric.unit,
        direction=metric.direction,
        kind=metric.kind,
        resolution=metric.resolution,
        per=metric.per,
        aggregate=metric.aggregate,
        runs=tuple(sorted(counted, key=attrgetter("seed"))),
        test_set=metric.test_set,
        controls=tuple([run for run in runs if run.seed_source == "control"]),
        earlier=earlier,
    )


def without_runs(path: str, metric: Metric) -> MetricRuns:
    """Return a metric of which nothing was planned."""
    return _metric_runs(path, metric, (), 0)


def _with_trajectories(
    metrics: Mapping[str, MetricRuns], benchmarks: Sequence[Benchmark]
) -> dict[str, MetricRuns]:
    """Find runs of different seeds that are one and the same: a workload that ignores its seed.

    Two runs of a metric are the same when their series are, bit for bit, and the series says
    something; or when that holds for all portable metrics of their trials together. Metrics of a
    machine differ anyhow.
    """
    subjects: dict[str, list[MetricRuns]] = {}
    for path, metric in metrics.items():
        if metric.kind == "portable":
            subjects.setdefault(path.rpartition("/")[0], []).append(metric)
    marked = dict(metrics)
    for group in subjects.values():
        # the runs of one trial stand in the same place of every metric
        trials = list(zip(*([run.samples for run in metric.runs] for metric in group), strict=True))
        together = alike(trials)
        for place, metric in enumerate(group):
            alone = alike([(trial[place],) for trial in trials])
            same = {**together, **alone}
            if same:
                runs = tuple(
                    replace(run, trajectory=metric.runs[same[index]].seed) if index in same else run
                    for index, run in enumerate(metric.runs)
                )
                marked[metric.metric] = replace(metric, runs=runs)
    for benchmark in benchmarks:
        marked.update(searches.scores(benchmark, marked))
    return marked


def summarize(
    metric: MetricRuns, list_runs: Callable[[Sequence[Run]], Any] | None = None
) -> dict[str, Any]:
    """Return a metric's entry in `results/metrics.json`: order statistics and one rounded sum.

    Args:
        metric: Whose runs.
        list_runs: Writes the list of its runs, where that is not to be made of dictionaries.
    """
    values = list_values(metric.runs)
    statuses = Counter([run.status for run in metric.runs])
    return {
        "unit": metric.unit,
        "direction": metric.direction,
        "kind": metric.kind,
        "resolution": float(metric.resolution),
        "per": metric.per,
        "runs": (list_runs or _list_runs)(metric.runs),
        "n": len(values),
        "failed": statuses["failed"],
        "missing": statuses["missing"],
        "min": min(values, default=None),
        "median": median(values),
        "max": max(values, default=None),
        "mean": mean(values),
    }


def _list_runs(runs: Sequence[Run]) -> list[dict[str, Any]]:
    return [
        {
            "seed": run.seed,
            "seed_source": run.seed_source,
            "status": run.status,
            "value": run.value,
        }
        for run in runs
    ]
