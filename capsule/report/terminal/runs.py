"""The runs of a record, a line for each seed: how long it took, what became of it, its numbers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from capsule import summary
from capsule.record import Attempt, Record
from capsule.report.terminal.style import Path, draw_rest, table, text
from capsule.summary import MetricRuns
from capsule.verdict.wording import number

if TYPE_CHECKING:
    from rich.console import RenderableType

_ROWS = 40
# with more of them a line for each seed is no table any more
_MOST_METRICS = 3
_SOURCES = {"manifest": "", "fresh": "", "control": " (control)"}


@dataclass(kw_only=True)
class _Row:
    """The trials of one seed, and their final attempts."""

    trials: int = 0
    attempts: list[Attempt] = field(default_factory=list)


def draw_runs(record: Record, metrics: Mapping[str, MetricRuns]) -> Iterator[RenderableType]:
    """The table, in the order of the plan; none where all it could say is that all completed.

    Args:
        record: Of an original or a re-execution.
        metrics: Its values, as `summary.run_values` gives them.
    """
    shown = list(metrics.values()) if len(metrics) <= _MOST_METRICS else []
    rows = _collect(record)
    if not shown and all(map(_is_complete, rows.values())):
        return
    right = {"justify": "right", "no_wrap": True}
    drawn = table(
        ("seed", {"no_wrap": True}),
        ("seconds", right),
        ("outcome", {"overflow": "fold"}),
        title="Runs, a line for each seed",
    )
    for metric in shown:
        drawn.add_column(Path(metric.metric), justify="right")
    values = [{run.seed: run.value for run in (*one.runs, *one.controls)} for one in shown]
    for (seed, source), row in list(rows.items())[:_ROWS]:
        numbers = ["" if (v := own.get(seed)) is None else number(v, 6) for own in values]
        drawn.add_row(
            text(f"{seed}{_SOURCES[source]}"), _seconds(row), text(_outcome(row)), *numbers
        )
    yield drawn
    yield from draw_rest(len(rows) - _ROWS, "seeds")


def _collect(record: Record) -> Mapping[tuple[int, str], _Row]:
    final = {one.trial: one for one in record.attempts if summary.final_outcome(one)}
    rows: dict[tuple[int, str], _Row] = {}
    for trial in summary.planned_trials(record.plan):
        row = rows.setdefault((trial["seed"], trial["seed_source"]), _Row())
        row.trials += 1
        if trial["id"] in final:
            row.attempts.append(final[trial["id"]])
    return rows


def _is_complete(row: _Row) -> bool:
    done = [one for one in row.attempts if one.outcome == "completed"]
    return len(done) == row.trials


def _seconds(row: _Row) -> str:
    known = [one.seconds for one in row.attempts if one.seconds is not None]
    return number(sum(known), 4) if known else ""


def _outcome(row: _Row) -> str:
    outcomes: Sequence[str] = [
        f"failed ({one.reason})" if one.outcome == "failed" else one.outcome for one in row.attempts
    ]
    counted = Counter([*outcomes, *["not run"] * (row.trials - len(outcomes))])
    if len(counted) == 1 and row.trials == 1:
        return next(iter(counted))
    return ", ".join(f"{n} {word}" for word, n in counted.items())
