"""Runs of one side that fall within one day, as those of one allocation do."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from typing import TYPE_CHECKING

from capsule.diff import words
from capsule.durations import duration
from capsule.notes import Note
from capsule.summary import MetricRuns

if TYPE_CHECKING:
    from capsule.diff import Pair

_DAY = 24 * 3600.0
# these decide nothing, or compare run by run
_NOT_OF_MACHINES = ("ratio", "exact")


def notes(pairs: Iterable[Pair]) -> Iterator[Note]:
    """A note where numbers of a machine are judged that all come from one day of it.

    Runs under other seeds vary by what the seed decides. What the machine did on that day they
    share, so the spread between them does not show it. The rounds of a pair share it on purpose.
    """
    judged = [pair for pair in pairs if is_of_a_machine(pair) and pair.seeds != "pair"]
    sides = (
        ("original", [pair.original for pair in judged]),
        ("re-run", [pair.rerun for pair in judged]),
    )
    spans = tuple(
        (name, duration(_span(metrics))) for name, metrics in sides if 0 < _span(metrics) < _DAY
    )
    if spans:
        yield words.one_day(spans=spans)


def is_of_a_machine(pair: Pair) -> bool:
    """Return whether the numbers of a machine are judged by chance."""
    claim, metric = pair.claim, pair.original or pair.rerun
    if claim is None or metric is None or pair.altered is not None or pair.is_moved:
        return False
    return metric.kind == "machine" and claim.type not in _NOT_OF_MACHINES


def is_of_one_day(side: MetricRuns | None) -> bool:
    """Return whether all runs of a side began within one day, as those of one allocation do.

    A record names no allocation: what began within a day counts as one.
    """
    return 0 < _span([side]) < _DAY


def _span(metrics: Sequence[MetricRuns | None]) -> float:
    """Seconds from the first start to the last; 0 for fewer than two runs, or without a clock."""
    runs = {
        run.trial: run.started
        for metric in metrics
        if metric is not None
        for run in metric.runs
        if run.started is not None
    }
    if not runs:
        return 0.0
    try:
        starts = [datetime.fromisoformat(started) for started in runs.values()]
        return (max(starts) - min(starts)).total_seconds()
    except (TypeError, ValueError):  # a stranger's clock that no one can read
        return 0.0
