"""The runs of a record, a line for each seed: its numbers, how long it took, how it ended."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from capsule import summary
from capsule.record import Attempt, Record
from capsule.report.terminal.listing import MOST_COLUMNS, MOST_ROWS, Column, Listing
from capsule.report.terminal.metrics import Metrics, order_paths, with_unit
from capsule.report.terminal.naming import ShortNames
from capsule.verdict.wording import number

_SOURCES = {"manifest": "", "fresh": "", "control": " (control)"}


@dataclass(kw_only=True)
class _Row:
    """The trials of one seed, and their final attempts."""

    trials: int = 0
    attempts: list[Attempt] = field(default_factory=list)


def list_runs(
    record: Record, metrics: Metrics, names: ShortNames, most_lines: int | None
) -> Listing:
    """Return the table in the order of the plan; claimed metrics come first.

    Args:
        record: Of an original or of a re-run.
        metrics: Its values, as `summary.run_values` gives them.
        names: How the screen calls them.
        most_lines: Lines that the table may have; None for all runs and metrics.
    """
    rows = _collect(record)
    every = [path for path in order_paths(record, metrics) if path in metrics]
    is_whole = most_lines is None
    seeds = list(rows) if is_whole else list(rows)[:MOST_ROWS]
    claimed = {claim.metric for claim in record.claims}
    columns = []
    paths = every if is_whole else every[:MOST_COLUMNS]
    for path in paths:
        metric = metrics[path]
        values = {run.seed: run.value for run in (*metric.runs, *metric.controls)}
        digits = 6 if is_whole else 4
        cells = [
            ""
            if (value := values.get(seed)) is None
            else with_unit(number(value, digits), metric.unit)
            for seed, _ in seeds
        ]
        rank = 1 if path in claimed else 2
        columns.append(Column(heading=names.shorten(path), cells=cells, rank=rank))
    shown = [rows[seed] for seed in seeds]
    if any(seconds := list(map(_seconds, shown))):
        columns.append(Column(heading="seconds", cells=seconds, rank=3))
    if is_whole:
        starts = [min((one.started for one in row.attempts), default="") for row in shown]
        columns.append(Column(heading="started", cells=starts))
    if is_whole or not all(map(_is_complete, rows.values())):
        columns.append(Column(heading="outcome", cells=list(map(_outcome, shown)), is_text=True))
    return Listing(
        heading="seed",
        names=[f"{seed}{_SOURCES[source]}" for seed, source in seeds],
        columns=columns,
        most_lines=most_lines,
        row="seed",
        more_rows=len(rows) - len(seeds),
        more_columns=len(every) - len(paths),
    )


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
    return number(sum(known), 3) if known else ""


def _outcome(row: _Row) -> str:
    outcomes: Sequence[str] = [
        f"failed ({one.reason})" if one.outcome == "failed" else one.outcome for one in row.attempts
    ]
    counted = Counter([*outcomes, *["not run"] * (row.trials - len(outcomes))])
    if len(counted) == 1 and row.trials == 1:
        return next(iter(counted))
    return ", ".join(f"{n} {word}" for word, n in counted.items())
