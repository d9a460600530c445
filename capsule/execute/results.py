"""Read what a command reports, as hostile input: JSON lines, one number each."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from capsule import leavings
from capsule.archive.limits import MOST_SERIES_NUMBERS
from capsule.execute.journal import MAX_LINE_BYTES, Defect, OpenSeries
from capsule.execute.reports import TrialReport, writable
from capsule.jsons import JsonObject
from capsule.plan import Trial
from capsule.sizes import size

_NAMES, _LONGEST_NAME = 10, 80
_MOST_ENTRY_BYTES = 1 << 20


def read(path: Path, trial: Trial, *, ended_well: bool, rank: int = 0) -> TrialReport:
    """Read the results file of one rank of a command.

    The file protocol: one JSON object a line, `{"metric": NAME, "value": NUMBER}`; lines of one
    metric are samples of it, in order. A third key `step` makes them a curve: every line of the
    metric then has one, a number that increases. Every metric that the manifest declares, and does
    not say to be found elsewhere, must be there; what else is there is named in the message, and
    not judged. `NaN` and `Infinity` as Python writes them fail the trial as non-finite.

    Args:
        path: The file that `CAPSULE_RESULTS` named, which need not exist.
        trial: The trial, whose benchmark declares the metrics.
        ended_well: True if the command ended with exit code 0. Of one that did not, the report is
            left open, and holds what was reported up to its end.
        rank: Whose file it is.
    """
    due = trial.benchmark.due(trial.framework)
    declared = {metric.name for metric in due if metric.source is None}
    others: dict[str, None] = {}
    series: dict[str, OpenSeries] = {}
    defect = None
    try:
        for number, line in _lines(path, torn=not ended_well):
            name, entry = _entry(number, line)
            if name not in declared:
                others[name] = None
                continue
            one = series.setdefault(name, OpenSeries(name, rank))
            try:
                one.take(entry)
            except Defect as error:
                raise Defect(f"results line {number}: {error}") from None
            if one.numbers > MOST_SERIES_NUMBERS:
                # none of it could be sealed
                series.clear()
                raise Defect(
                    f"{name} has more than {MOST_SERIES_NUMBERS} numbers, the limit for one trial"
                )
    except Defect as error:
        defect = str(error)
    reported = tuple(one.close() for one in series.values() if one.values)
    if not ended_well:
        return TrialReport(trial=trial.id, series=reported)
    if defect is not None:
        return TrialReport(
            trial=trial.id, outcome="failed", reason="bad-result", message=defect, series=reported
        )
    message = _tell_others(list(others)) if others else ""
    return TrialReport(trial=trial.id, outcome="completed", message=message, series=reported)


def _tell_others(names: Sequence[str]) -> str:
    """Return the remark about reported values that the manifest does not declare."""
    shown = ", ".join(writable(name[:_LONGEST_NAME]) for name in names[:_NAMES])
    more = f" and {len(names) - _NAMES} more" if len(names) > _NAMES else ""
    return f"reported {shown}{more}, which the manifest does not declare: kept, not judged"


def _lines(path: Path, *, torn: bool) -> Iterator[tuple[int, bytes]]:
    """Yield the lines that are not empty; the last one may be `torn` where the writer was
    killed.
    """
    stream = leavings.open_file(path)
    if stream is None:
        return
    with stream:
        if os.fstat(stream.fileno()).st_size > MAX_LINE_BYTES:
            raise Defect(f"the results file exceeds the limit, {size(MAX_LINE_BYTES)}")
        for number, line in enumerate(stream, start=1):
            # a script that ended by itself may have left out the last newline
            whole = line.endswith(b"\n") or not torn
            if whole and line.strip():
                yield number, line.rstrip()


def _entry(number: int, line: bytes) -> tuple[str, JsonObject]:
    """Return a line's metric, and its value as a line of a journal has it."""
    if len(line) > _MOST_ENTRY_BYTES:
        raise Defect(f"results line {number} exceeds the limit, {size(_MOST_ENTRY_BYTES)}")
    text = line[:80].decode(errors="replace")
    try:
        entry = json.loads(line.decode())
    except (ValueError, RecursionError):
        raise Defect(f"results line {number} is not JSON: {text!r}") from None
    if not isinstance(entry, dict) or set(entry) - {"step"} != {"metric", "value"}:
        raise Defect(f'results line {number} is {text!r}, expected {{"metric": ..., "value": ...}}')
    name = entry["metric"]
    if not isinstance(name, str):
        raise Defect(f"results line {number} has the metric {name!r:.80}, expected a text")
    steps = {"steps": [entry["step"]]} if "step" in entry else {}
    return name, {"values": [entry["value"]], **steps}
