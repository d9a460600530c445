"""Derivation of a run's value from the numbers that the run gave, in a few words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from capsule.manifest import Aggregate, Metric, Per
from capsule.record import Record, Samples
from capsule.summary import MetricRuns

_WORDS: Mapping[Aggregate, str] = {
    "mean": "mean",
    "median": "median",
    "min": "smallest",
    "max": "largest",
}
_PARTS: Mapping[Per, str] = {"node": "nodes", "block": "blocks"}
_ONLY_LINE = "the only line"


def describe(
    metric: Metric | MetricRuns,
    runs: Sequence[Sequence[Samples]],
    lines: tuple[int, int] | None = None,
) -> str:
    """Return the derivation of each run's value, such as `median of 5 values`; empty for one value.

    Args:
        metric: Its declaration.
        runs: The samples of each run, one for each rank that reported it.
        lines: Of how many lines of its text the last one gives the value: the fewest and the most
            of all runs; None where it is no such one.
    """
    samples = [one for run in runs for one in run]
    sizes = [len(one.values) - one.warmup for one in samples]
    worst = "smallest" if metric.direction == "higher" else "largest"
    chosen = _WORDS[metric.aggregate] if metric.aggregate else None
    told = []
    if max(sizes, default=0) > 1:
        is_curve = any(one.steps is not None for one in samples)
        usual = "last" if is_curve else worst if metric.per in _PARTS else "median"
        what = "steps" if is_curve else _PARTS.get(metric.per, "values")
        told.append(f"{chosen or usual} of {_span(min(sizes), max(sizes))} {what}")
    elif sizes and lines is not None:
        told.append(_ONLY_LINE if lines == (1, 1) else f"the last of {_span(*lines)} lines")
    ranks = [len(run) for run in runs if run]
    if max(ranks, default=0) > 1:
        told.append(f"{chosen or worst} of {_span(min(ranks), max(ranks))} ranks")
    return ", then ".join(told)


def of_commands(
    record: Record,
    metrics: Mapping[str, MetricRuns],
    lines: Mapping[str, tuple[int, int]],
    *,
    whole: bool = False,
) -> dict[str, str]:
    """`describe` for every metric of a record's commands, by its path.

    Args:
        record: Whose metrics.
        metrics: Its values, by their paths.
        lines: See `describe`, by the path.
        whole: Also say of a number that its text had no other.
    """
    commands = {one.id for one in record.manifest.benchmarks if one.frameworks == ("command",)}
    return {
        path: sentence
        for path, metric in metrics.items()
        if path.partition("/")[0] in commands
        and (sentence := describe(metric, [run.samples for run in metric.runs], lines.get(path)))
        and (whole or sentence != _ONLY_LINE)
    }


def _span(fewest: int, most: int) -> str:
    return str(most) if fewest == most else f"{fewest} to {most}"
