"""Outcome of a sealed search, and the manifest that runs its winner again.

The winner was lucky: the best of many noisy trials looks better than it will be again. So its
quality is claimed from a run of its own: an ordinary manifest and capsule, whose seeds are derived
from the search's id so that nobody can choose them.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from capsule import searches, summary
from capsule.averages import median
from capsule.errors import UsageError
from capsule.manifest import SCORE, SEARCH, Benchmark, Case, Command
from capsule.manifest.paths import matches
from capsule.record import Record
from capsule.runs import MetricRuns
from capsule.seeds import winner_seeds
from capsule.stats import searches as statistics

SEEDS = 10
_MOST_NAME, _MOST_TITLE = 64, 300
_ENDING, _TITLE_ENDING = "-winner", ": winner of the search, run again"


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """Result of one search in one framework.

    Attributes:
        benchmark: Id.
        framework: In which it was made.
        metric: Name of what decides, in `unit`.
        direction: `lower` or `higher` is better.
        method: `grid`, `random` or `halton`.
        trials: Number of points, each of which is a trial under each seed.
        failed: Number of trials of all seeds that have no value.
        scores: By seed, the median over studies of the best of each; None where half have none.
        studies: The best of each study, by study, the median over seeds.
        budget: After how many trials, drawn from all without replacement, which quality is the
            median best; the median over seeds.
        winner: Name of the point that is best by the median over seeds; None where all failed.
        parameters: Its.
        value: Its median over seeds, which is no claim: it was picked for it.
    """

    benchmark: str
    framework: str
    metric: str
    unit: str
    direction: str
    method: str
    trials: int
    failed: int
    scores: Mapping[int, float | None]
    studies: Sequence[float | None]
    budget: Sequence[tuple[int, float | None]]
    winner: str | None
    parameters: Mapping[str, object]
    value: float | None


def outcomes(record: Record) -> list[Outcome]:
    """Return the outcome of each search of a record in each framework.

    Raises:
        UsageError: It has none.
    """
    metrics = summary.run_values(record)
    made = [
        _outcome(benchmark, framework, points, metrics)
        for benchmark in record.manifest.benchmarks
        for framework in benchmark.frameworks
        if (points := searches.of_points(benchmark, framework, metrics))
    ]
    if not made:
        raise UsageError(
            "this capsule contains no search",
            advice='give a capsule of a manifest that has a benchmark with "search"',
        )
    return made


def write(record: Record, capsule_id: str, which: Outcome, count: int = SEEDS) -> bytes:
    """Return the manifest that runs the winner of a search again.

    It is the search's own with that benchmark, framework and point alone. What was claimed of every
    point is claimed of it; what decided the search is claimed by equivalence, with the default
    margin, where nothing was.

    Args:
        record: Record of the search.
        capsule_id: 64 lower-case hex digits.
        which: One of its `outcomes`.
        count: Number of seeds.

    Raises:
        UsageError: No point won, or the range of seeds has not so many left.
    """
    if which.winner is None:
        raise UsageError(
            f"no winner: every point of {which.benchmark} in {which.framework} failed under at"
            " least half of the seeds",
            advice="correct the benchmark, and run the search again",
        )
    manifest = record.manifest
    raw: dict[str, Any] = json.loads(manifest.source)
    entry = next(one for one in raw["benchmarks"] if one["id"] == which.benchmark)
    benchmark = next(one for one in manifest.benchmarks if one.id == which.benchmark)
    entry = {
        **{name: value for name, value in entry.items() if name not in ("search", "cases")},
        "cases": [{"name": which.winner, **which.parameters}],
    }
    if not isinstance(benchmark.subject, Command):
        entry["frameworks"] = [which.framework]
    claims = list(_claims(raw.get("claims", ()), benchmark, which))
    datasets = {
        name: one for name, one in raw.get("datasets", {}).items() if name in benchmark.datasets
    }
    seeds = winner_seeds(capsule_id, manifest.seeds, count=count, within=manifest.seed_range)
    whole = {
        **{name: value for name, value in raw.items() if name not in ("benchmarks", "claims")},
        "name": f"{manifest.name[: _MOST_NAME - len(_ENDING)]}{_ENDING}",
        "title": f"{manifest.title[: _MOST_TITLE - len(_TITLE_ENDING)]}{_TITLE_ENDING}",
        "winner_of": {
            "capsule": capsule_id,
            "point": which.winner,
            "seeds": list(manifest.seeds),
        },
        "seeds": list(seeds),
        "datasets": datasets,
        "benchmarks": [entry],
        "claims": claims,
    }
    if not datasets:
        del whole["datasets"]
    return (json.dumps(whole, indent=2, ensure_ascii=False) + "\n").encode()


def _outcome(
    benchmark: Benchmark,
    framework: str,
    points: Sequence[MetricRuns],
    metrics: Mapping[str, MetricRuns],
) -> Outcome:
    assert benchmark.search is not None
    score = metrics[f"{benchmark.id}/{SEARCH}/{framework}/{SCORE}"]
    first = points[0]
    lower = first.direction == "lower"
    columns = [[one.runs[place].value for one in points] for place in range(len(first.runs))]
    rows = [_middle([run.value for run in one.runs], lower=lower) for one in points]
    best = _best(rows, lower=lower)
    winner: Case | None = None if best is None else benchmark.cases[best]
    by_study = [searches.by_study(benchmark, column) for column in columns]
    return Outcome(
        benchmark=benchmark.id,
        framework=framework,
        metric=benchmark.search.metric,
        unit=first.unit,
        direction=first.direction,
        method=benchmark.search.method,
        trials=len(points),
        failed=sum(value is None for column in columns for value in column),
        scores={run.seed: run.value for run in score.runs},
        studies=[
            _middle([statistics.order(one, lower=lower)[-1] for one in study], lower=lower)
            for study in zip(*by_study, strict=True)
        ],
        budget=[
            (k, _middle([statistics.best_of(one, k, lower=lower) for one in columns], lower=lower))
            for k in _counts(len(points))
        ],
        winner=winner.name if winner else None,
        parameters=winner.parameters if winner else {},
        value=None if best is None else rows[best],
    )


def _middle(values: Sequence[float | None], *, lower: bool) -> float | None:
    """Return the median, None where half have no value: these are worse than any other."""
    ordered = statistics.order(values, lower=lower)
    low, high = ordered[(len(ordered) - 1) // 2], ordered[len(ordered) // 2]
    return None if low is None or high is None else median([low, high])


def _best(values: Sequence[float | None], *, lower: bool) -> int | None:
    """Return the position of the best value, the first of several equal ones."""
    known = [(value if lower else -value, place) for place, value in enumerate(values)
             if value is not None]  # fmt: skip
    return min(known)[1] if known else None


def _counts(most: int) -> Iterator[int]:
    """1, 2, 5, 10, 20, 50 and so on, and the last of all."""
    decade = 1
    while decade < most:
        yield from (k for k in (decade, 2 * decade, 5 * decade) if k < most)
        decade *= 10
    yield most


def _claims(
    raw: Sequence[Mapping[str, Any]], benchmark: Benchmark, which: Outcome
) -> Iterator[Mapping[str, Any]]:
    """Return the claims about the winner: the quality by which it won first."""
    path = f"{benchmark.id}/{which.winner}/{which.framework}/{which.metric}"
    kept = [
        one
        for one in raw
        if one["metric"].split("/")[1] != SEARCH
        and any(
            metric != benchmark.score and one["metric"].split("/")[2] in ("*", which.framework)
            for _, metric in matches(one["metric"], [benchmark])
        )
    ]
    names = {one["metric"].split("/")[3] for one in kept}
    if names.isdisjoint((which.metric, "*")):
        yield {"metric": path, "type": "equivalence"}
    yield from kept
