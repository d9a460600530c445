"""Read what `levels` says of itself, as hostile input."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from capsule.errors import DamagedError
from capsule.plan import Trial
from capsule.record import Reason
from capsule.schema import parse

MAX_LINE_BYTES = 64 * 2**20
MAX_FILE_BYTES = 2 * 2**30
MAX_MESSAGE = 2000
_NON_FINITE = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}


@dataclass(frozen=True, kw_only=True)
class Series:
    """Every value of one metric in one trial, warm-up included.

    Attributes:
        metric: Last segment of the metric path.
        warmup: How many leading values are warm-up.
        values: In measured order; may hold NaN and infinities.
        steps: Where each value was taken, increasing; None when the values are repetitions.
    """

    metric: str
    warmup: int
    values: tuple[float, ...]
    steps: tuple[float, ...] | None = None


@dataclass(frozen=True, kw_only=True)
class TrialReport:
    """What the workload says of one trial.

    Attributes:
        trial: Its id.
        outcome: None while it has begun but not ended.
        reason: Of a failure.
        message: Of a failure.
        seconds: Its duration, None while it has not ended.
        series: Its metrics so far.
    """

    trial: str
    outcome: Literal["completed", "failed"] | None = None
    reason: Reason | None = None
    message: str = ""
    seconds: float | None = None
    series: tuple[Series, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Journal:
    """A whole journal.

    Attributes:
        software: What the image holds; empty until the program said hello.
        environment: Effective settings inside.
        reports: Trials in the order in which they began.
        defect: Why reading stopped early, None for a sound journal.
    """

    software: Mapping[str, Any]
    environment: Mapping[str, Any]
    reports: tuple[TrialReport, ...]
    defect: str | None = None


def read(path: Path, trials: Sequence[Trial]) -> Journal:
    """Read `levels`' journal as far as it is sound.

    A torn last line is what a killed process leaves, and is ignored. Anything else out of order is
    a defect: what stands before it counts, what follows does not.

    Args:
        path: The journal, which need not exist yet.
        trials: The trials that this process was given; no other may be reported.
    """
    known = {trial.id: trial for trial in trials}
    hello: Mapping[str, Any] = {}
    reports: dict[str, TrialReport] = {}
    current: str | None = None
    defect = None
    try:
        for event in _events(path):
            kind = event.get("event")
            if kind == "hello":
                hello = event
            elif kind == "begin":
                current = _begin(event, known, reports, current)
                reports[current] = TrialReport(trial=current)
            elif kind == "samples":
                trial = _open(event, current)
                reports[trial] = _with_samples(reports[trial], event, known[trial])
            elif kind == "end":
                trial = _open(event, current)
                reports[trial] = _ended(reports[trial], event, known[trial])
                current = None
            elif kind != "bye":
                raise Defect(f"unknown event {str(kind)[:40]!r}")
    except (Defect, DamagedError) as error:
        defect = str(error)[:MAX_MESSAGE]
    return Journal(
        software=_object(hello.get("software")),
        environment=_object(hello.get("environment")),
        reports=tuple(reports.values()),
        defect=defect,
    )


class Defect(Exception):
    """What a workload wrote is not what the protocol allows; the message says where and how."""


def _events(path: Path) -> Iterator[dict[str, Any]]:
    for number, line in _lines(path):
        event = parse(line, where=f"journal line {number}")
        if not isinstance(event, dict):
            raise Defect(f"line {number} is not an object")
        yield event


def _lines(path: Path) -> Iterator[tuple[int, bytes]]:
    if not path.is_file() or path.is_symlink():
        return
    if path.stat().st_size > MAX_FILE_BYTES:
        raise Defect(f"larger than {MAX_FILE_BYTES} bytes")
    with path.open("rb") as stream:
        for number in range(1, MAX_FILE_BYTES):
            line = stream.readline(MAX_LINE_BYTES + 1)
            if len(line) > MAX_LINE_BYTES:
                raise Defect(f"line {number} is longer than {MAX_LINE_BYTES} bytes")
            if not line.endswith(b"\n"):
                return
            yield number, line


def _object(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _begin(
    event: Mapping[str, Any],
    known: Mapping[str, Trial],
    reports: Mapping[str, TrialReport],
    current: str | None,
) -> str:
    trial = event.get("trial")
    if not isinstance(trial, str) or trial not in known:
        raise Defect(f"begins a trial that it was not given: {str(trial)[:80]!r}")
    if trial in reports or current is not None:
        raise Defect(f"begins {trial} out of order")
    return trial


def _open(event: Mapping[str, Any], current: str | None) -> str:
    if current is None or event.get("trial") != current:
        raise Defect(f"reports on {str(event.get('trial'))[:80]!r}, which is not under way")
    return current


def _with_samples(report: TrialReport, event: Mapping[str, Any], trial: Trial) -> TrialReport:
    name, warmup, values = event.get("metric"), event.get("warmup", 0), event.get("values")
    if name not in {metric.name for metric in trial.benchmark.due(trial.framework)}:
        raise Defect(f"reports the undeclared metric {str(name)[:80]!r}")
    if any(series.metric == name for series in report.series):
        raise Defect(f"reports {name} twice")
    if not isinstance(values, list) or not isinstance(warmup, int) or not 0 <= warmup < len(values):
        raise Defect(f"the samples of {name} are not a warm-up count and a longer list")
    series = Series(metric=str(name), warmup=warmup, values=tuple(map(read_number, values)))
    return replace(report, series=(*report.series, series))


def _ended(report: TrialReport, event: Mapping[str, Any], trial: Trial) -> TrialReport:
    outcome, reason, seconds = event.get("outcome"), event.get("reason"), event.get("seconds")
    if outcome not in ("completed", "failed"):
        raise Defect(f"ends {trial.id} as {str(outcome)[:40]!r}")
    if not isinstance(seconds, int | float) or seconds < 0:
        raise Defect(f"ends {trial.id} without a duration")
    if outcome == "failed":
        known: tuple[Reason, ...] = ("error", "out-of-memory", "non-finite")
        why: Reason = next((each for each in known if each == reason), "error")
        message = str(event.get("message", ""))[:MAX_MESSAGE]
        return replace(
            report, outcome="failed", reason=why, message=message, seconds=float(seconds)
        )
    return judged(replace(report, outcome="completed", seconds=float(seconds)), trial)


def judged(report: TrialReport, trial: Trial) -> TrialReport:
    """Fail a trial that says it completed but lacks a metric, or has one that is not a number."""
    found = {series.metric: series for series in report.series}
    missing = [
        metric.name for metric in trial.benchmark.due(trial.framework) if metric.name not in found
    ]
    if missing:
        return replace(
            report,
            outcome="failed",
            reason="no-result",
            message=f"ended well but did not report {', '.join(missing)}",
        )
    for series in report.series:
        bad = [value for value in series.values if not math.isfinite(value)]
        if bad:
            message = f"{series.metric} is {bad[0]} ({len(bad)} of {len(series.values)} values)"
            return replace(report, outcome="failed", reason="non-finite", message=message)
    return report


def read_number(value: Any) -> float:
    """A number of a journal or a results file, whose NaN and infinities are words.

    Raises:
        Defect: It is none.
    """
    if isinstance(value, str) and value in _NON_FINITE:
        return _NON_FINITE[value]
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise Defect(f"{str(value)[:40]!r} is not a number")
    try:
        return float(value)
    except OverflowError:
        raise Defect("an integer is larger than any floating-point number") from None
