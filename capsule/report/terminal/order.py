"""Run values in the order of time, in which a drift is seen that no mean shows."""

from __future__ import annotations

from capsule.report.terminal.style import join_first
from capsule.summary import MetricRuns, Run
from capsule.verdict.wording import number

_MOST = 20
_FEWEST = 2


def in_time_order(metric: MetricRuns | None) -> str:
    """Return the first values of runs in the order of their start, in one line.

    Args:
        metric: Of one side, None where it has no such metric.
    """
    return join_first(list_in_time_order(metric), _MOST)


def list_in_time_order(metric: MetricRuns | None) -> list[str]:
    """Return all values of runs in the order of their start; none for fewer than two that started.

    Args:
        metric: Of one side, None where it has no such metric.
    """
    runs = [] if metric is None else [run for run in metric.runs if run.started is not None]
    if len(runs) < _FEWEST:
        return []
    runs.sort(key=lambda run: (run.started or "", run.seed))
    return list(map(_value, runs))


def _value(run: Run) -> str:
    return "failed" if run.value is None else number(run.value, 4)
