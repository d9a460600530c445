"""Every value of a capsule as comma-separated values, RFC 4180 but for the ends of lines."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Iterator
from dataclasses import replace

from capsule import rankseries
from capsule.record import RankSamples, Record, Samples

_COLUMNS = (
    *("metric", "trial", "attempt", "outcome", "rank", "seed", "seed_source", "index", "warmup"),
    *("step", "wall_seconds", "active_seconds", "value", "unit"),
)
# what a formula begins with in a spreadsheet
_FORMULA = ("=", "+", "-", "@", "\t", "\r")


def samples_to_csv(record: Record) -> Iterator[str]:
    """The rows, one a value in the order in which it was measured, below one of names.

    `warmup` is 1 for values that count for nothing. Numbers are written so that they are read
    again as they are; what a metric does not have is empty. A text that a spreadsheet would take
    for a formula has an apostrophe in front. Of series of many ranks of which not every value was
    kept there is the median of each rank.
    """
    attempts = {(one.trial, one.attempt): one for one in record.attempts}
    yield ",".join(_COLUMNS)
    for samples in _by_rank(record.samples):
        attempt = attempts[samples.trial, samples.attempt]
        before = (samples.metric, samples.trial, samples.attempt, attempt.outcome, samples.rank)
        seed = (samples.seed, attempt.seed_source)
        for index, value in enumerate(samples.values):
            counts = int(index < samples.warmup)
            row = (*before, *seed, index, counts, *_places(samples, index), value, samples.unit)
            yield _line(row)


def _by_rank(lines: Iterable[Samples]) -> Iterator[Samples]:
    """Samples rank by rank; of a series that was reduced the number of each rank."""
    for line in lines:
        if not isinstance(line, RankSamples):
            yield line
            continue
        for rank, number in enumerate(line.values):
            values = (number,) if line.is_reduced else rankseries.row(line, rank)
            discarded = 0 if line.is_reduced else line.discarded
            yield replace(line, rank=rank, values=values, warmup=discarded)


def _places(samples: Samples, index: int) -> tuple[float | None, ...]:
    columns = (samples.steps, samples.wall, samples.active)
    return tuple(None if column is None else column[index] for column in columns)


def _line(row: tuple[object, ...]) -> str:
    stream = io.StringIO()
    # what ends a line is quoted within a cell
    csv.writer(stream, lineterminator="\r\n").writerow(map(_guard, row))
    return stream.getvalue().removesuffix("\r\n")


def _guard(cell: object) -> object:
    """A text that a spreadsheet would take for a formula, behind an apostrophe; else the cell."""
    return f"'{cell}" if isinstance(cell, str) and cell.startswith(_FORMULA) else cell
