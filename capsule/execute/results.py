"""Read what a command reports, as hostile input: JSON lines, one number each."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from pathlib import Path

from capsule.execute.journal import MAX_LINE_BYTES, Defect, Series, TrialReport, judged, read_number
from capsule.manifest import Metric
from capsule.plan import Trial


def read(path: Path, trial: Trial) -> TrialReport:
    """Read the results file of a command that ended with exit code 0.

    The file protocol: one JSON object a line, `{"metric": NAME, "value": NUMBER}`; lines of one
    metric are samples of it, in order. A third key `step` makes them a curve: every line of the
    metric then has one, a number that increases. Every metric that the manifest declares must be
    there, and no other. `NaN` and `Infinity` as Python writes them fail the trial as non-finite.

    Args:
        path: The file that `CAPSULE_RESULTS` named, which need not exist.
        trial: The trial, whose benchmark declares the metrics.
    """
    declared = {metric.name: metric for metric in trial.benchmark.due(trial.framework)}
    found: dict[str, _Samples] = {}
    defect = None
    try:
        for number, line in _result_lines(path):
            name, value, step = _result(number, line, declared)
            found.setdefault(name, _Samples()).add(value, step, f"results line {number}: {name}")
    except Defect as error:
        defect = str(error)
    series = tuple(each.series(name) for name, each in found.items())
    if defect is not None:
        return TrialReport(
            trial=trial.id, outcome="failed", reason="bad-result", message=defect, series=series
        )
    return judged(TrialReport(trial=trial.id, outcome="completed", series=series), trial)


class _Samples:
    """The values of one metric so far, with a step beside each or beside none."""

    def __init__(self) -> None:
        self._values: list[float] = []
        self._steps: list[float] = []

    def add(self, value: float, step: float | None, where: str) -> None:
        if self._values and (step is None) != (not self._steps):
            raise Defect(f"{where} has a step beside some values and none beside others")
        if step is not None:
            if self._steps and step <= self._steps[-1]:
                raise Defect(f"{where} has step {step:g} after step {self._steps[-1]:g}")
            self._steps.append(step)
        self._values.append(value)

    def series(self, name: str) -> Series:
        steps = tuple(self._steps) or None
        return Series(metric=name, warmup=0, values=tuple(self._values), steps=steps)


def _result_lines(path: Path) -> Iterator[tuple[int, bytes]]:
    # unlike a killed program's journal, a script that ended may have left out the last newline
    if not path.is_file() or path.is_symlink():
        return
    if path.stat().st_size > MAX_LINE_BYTES:
        raise Defect(f"the results file is larger than {MAX_LINE_BYTES} bytes")
    for number, line in enumerate(path.read_bytes().splitlines(), start=1):
        if line.strip():
            yield number, line


def _result(
    number: int, line: bytes, declared: Mapping[str, Metric]
) -> tuple[str, float, float | None]:
    try:
        entry = json.loads(line.decode())
    except (ValueError, RecursionError):
        text = line[:80].decode(errors="replace")
        raise Defect(f"results line {number} is not JSON: {text!r}") from None
    if not isinstance(entry, dict) or set(entry) - {"step"} != {"metric", "value"}:
        raise Defect(f'results line {number} is not {{"metric": ..., "value": ...}}')
    name = entry["metric"]
    if not isinstance(name, str) or name not in declared:
        known = ", ".join(declared)
        raise Defect(
            f"results line {number} reports {str(name)[:80]!r}, but the manifest declares {known}"
        )
    step = read_number(entry["step"]) if "step" in entry else None
    if step is not None and not math.isfinite(step):
        raise Defect(f"results line {number} has the step {step}")
    return name, read_number(entry["value"]), step
