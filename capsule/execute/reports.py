"""Reports of the ranks of one process start, merged and checked."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal, NamedTuple

from capsule.execute.seeding import Report
from capsule.execute.sightings import Sighting
from capsule.jsons import JsonObject
from capsule.manifest import Metric
from capsule.plan import Trial
from capsule.record import Reason
from capsule.starts import word_missing, world_fault

MAX_MESSAGE = 2000


@dataclass(frozen=True, kw_only=True)
class Series:
    """Every value of one metric that one rank reported in one trial, warm-up included.

    Attributes:
        metric: Last segment of the metric path.
        rank: Who reported it.
        warmup: How many leading values are warm-up.
        values: In measured order; may hold NaN and infinities.
        steps: Where each value was taken, increasing; None when the values are repetitions.
        wall: Seconds since the trial began at which each value was there, None where not kept.
        active: The same by a clock that stands still while the trial does not train.
    """

    metric: str
    rank: int = 0
    warmup: int
    values: Sequence[float]
    steps: tuple[float, ...] | None = None
    wall: tuple[float, ...] | None = None
    active: tuple[float, ...] | None = None


class Window(NamedTuple):
    """Time of a trial on one rank, by the monotonic clock of the rank's node, in seconds.

    Attributes:
        end: None while the trial has not ended.
        timed: Begin and end of each part that is measured, in order.
    """

    rank: int
    begin: float
    end: float | None = None
    timed: tuple[tuple[float, float], ...] = ()


@dataclass(frozen=True, kw_only=True)
class TrialReport:
    """Report of one rank on one trial.

    Attributes:
        trial: Its id.
        outcome: None while it has begun but not ended.
        reason: Of a failure.
        message: Of a failure; of a trial that completed what it reported in vain, or what its
            program says of it.
        seconds: Its duration, None while it has not ended, or where only its process was timed.
        series: Its metrics so far.
        resumed_after: Epochs that an earlier attempt trained, None for none.
        unended: Ranks that say nothing of its end, where another one says that it failed.
        leaves: Whether the process ended with this trial, and left its other trials.
        world: What is known of the world of its ranks, see `capsule.starts`.
        windows: Time of the trial on each rank that reported one.
        switches: Precision switches of the framework within the trial, by name; empty if unknown.
        off_tensor_cores: Kernel of a product, if no kernel used tensor cores; else empty.
    """

    trial: str
    outcome: Literal["completed", "failed"] | None = None
    reason: Reason | None = None
    message: str = ""
    seconds: float | None = None
    series: tuple[Series, ...] = ()
    resumed_after: int | None = None
    unended: tuple[int, ...] = ()
    leaves: bool = False
    world: str = ""
    windows: tuple[Window, ...] = ()
    switches: Mapping[str, bool | None] = field(default_factory=dict)
    off_tensor_cores: str = ""


@dataclass(frozen=True, kw_only=True)
class Text:
    """File of a rank that the capsule keeps as evidence: text unless stated otherwise.

    Attributes:
        name: `stdout`, `stderr`, or `out/` and its path below the rank's out folder.
        rank: Whose.
        path: Where it lies.
        trial: Id of the trial whose it is; None where it is that of every trial of the start.
        binary: Whether it holds numbers.
    """

    name: str
    rank: int
    path: Path
    trial: str | None = None
    binary: bool = False


@dataclass(frozen=True, kw_only=True)
class Journal:
    """All that one process start says, of one rank or of all together.

    Attributes:
        software: What the image holds; empty until the program said hello.
        environment: Effective settings inside.
        reports: Trials in the order in which they began.
        defect: Why reading stopped early, None for a sound journal.
        texts: What its trial's numbers were read from, where a start has one trial.
        sightings: What several ranks of a command say of their world, by rank.
        echoes: Metrics of the whole trial whose value another rank than the first has, too.
        seedings: How the programs of its ranks were seeded, by rank, where the manifest asks it.
    """

    software: JsonObject
    environment: JsonObject
    reports: tuple[TrialReport, ...]
    defect: str | None = None
    texts: tuple[Text, ...] = ()
    sightings: tuple[Sighting, ...] = ()
    echoes: tuple[str, ...] = ()
    seedings: tuple[Report, ...] = ()


def merge(journals: Sequence[Journal], trials: Sequence[Trial]) -> Journal:
    """One journal of all ranks, each trial judged.

    A trial has completed when every rank says so, and has failed when one does. Where a rank left
    its other trials to another process, a trial that has neither completed nor failed, or that this
    rank did not begin, counts as not begun. Software and settings are the first rank's.

    Args:
        journals: By rank.
        trials: All that the process start was given.
    """
    by_id = {trial.id: trial for trial in trials}
    by_rank = [{report.trial: report for report in journal.reports} for journal in journals]
    left = [own for own in by_rank if any(report.leaves for report in own.values())]
    begun = dict.fromkeys(
        report.trial
        for journal in journals
        for report in journal.reports
        if all(report.trial in own for own in left)
    )
    reports = tuple(
        _judge(_together(trial, [own.get(trial) for own in by_rank]), by_id[trial], len(journals))
        for trial in begun
    )
    if left:
        reports = tuple(report for report in reports if report.outcome is not None)
    defects = [
        _by_rank(rank, journal.defect, len(journals))
        for rank, journal in enumerate(journals)
        if journal.defect is not None
    ]
    return Journal(
        software=journals[0].software,
        environment=journals[0].environment,
        reports=reports,
        defect=defects[0] if defects else None,
        texts=tuple(text for journal in journals for text in journal.texts),
        seedings=tuple(one for journal in journals for one in journal.seedings),
    )


def _together(trial: str, reports: Sequence[TrialReport | None]) -> TrialReport:
    """Combine the reports of all ranks on one trial; a rank without a report is None."""
    present = [report for report in reports if report is not None]
    series = tuple(one for report in present for one in report.series)
    seconds = [report.seconds for report in present if report.seconds is not None]
    together = TrialReport(
        trial=trial,
        series=series,
        seconds=max(seconds, default=None),
        resumed_after=max((n for one in present if (n := one.resumed_after)), default=None),
        windows=tuple(window for report in present for window in report.windows),
        switches=next((one.switches for one in present if one.switches), {}),
        off_tensor_cores=next(filter(None, (one.off_tensor_cores for one in present)), ""),
    )
    failed = [
        (rank, report)
        for rank, report in enumerate(reports)
        if report is not None and report.outcome == "failed"
    ]
    if failed:
        # others may fail for want of one that leaves
        rank, report = min(failed, key=lambda one: not one[1].leaves)
        unended = (n for n, one in enumerate(reports) if one is not None and not one.outcome)
        return replace(
            together,
            outcome="failed",
            reason=report.reason,
            message=_by_rank(rank, report.message, len(reports)),
            unended=tuple(unended),
            leaves=report.leaves,
        )
    if all(report is not None and report.outcome == "completed" for report in reports):
        messages = [
            _by_rank(n, one.message, len(reports)) for n, one in enumerate(present) if one.message
        ]
        return replace(together, outcome="completed", message="\n".join(messages)[:MAX_MESSAGE])
    return together


def _by_rank(rank: int, message: str, ranks: int) -> str:
    return message if ranks == 1 else f"rank {rank}: {message}"


def _judge(report: TrialReport, trial: Trial, ranks: int) -> TrialReport:
    """Fail a trial that says it completed but lacks a metric, or has one that can't be."""
    if report.outcome != "completed":
        return report
    due = [
        metric
        for metric in trial.benchmark.due(trial.framework)
        if report.resumed_after is None or not metric.is_of_one_attempt
    ]
    # once for all of them: thousands of ranks have tens of thousands of series
    reporters: dict[str, list[int]] = {}
    for one in report.series:
        reporters.setdefault(one.metric, []).append(one.rank)
    missing = [
        message
        for metric in due
        if (message := _missing(metric, reporters.get(metric.name, ()), ranks))
    ]
    if missing:
        message = word_missing(missing)
        # a name that is spelled otherwise, most often
        message = f"{message}; {report.message}" if report.message else message
        return replace(report, outcome="failed", reason="no-result", message=message)
    by_name = {metric.name: metric for metric in due}
    for series in report.series:
        fault = _misfit(series, by_name[series.metric], reporters[series.metric])
        if fault := fault or world_fault(series.metric, series.values, ranks):
            return replace(report, outcome="failed", reason="bad-result", message=fault)
        bad = [value for value in series.values if not math.isfinite(value)]
        if bad:
            message = f"{series.metric} is {bad[0]} ({len(bad)} of {len(series.values)} values)"
            return replace(report, outcome="failed", reason="non-finite", message=message)
    return report


def _missing(metric: Metric, reporters: Sequence[int], ranks: int) -> str | None:
    """Return the name of a metric without a value, with the ranks that lack it; None if none do."""
    if metric.per != "rank":
        return None if reporters else f"'{metric.name}'"
    absent = sorted(set(range(ranks)) - set(reporters))
    if not absent:
        return None
    if ranks == 1:
        return f"'{metric.name}'"
    return f"'{metric.name}' from rank {', '.join(map(str, absent[:10]))}"


def _misfit(one: Series, metric: Metric, reporters: Sequence[int]) -> str | None:
    """Why a series is not what its metric is declared to be, None when it is.

    Args:
        one: The series.
        metric: Its declaration.
        reporters: All ranks that reported it, in their order.
    """
    if metric.per == "step" and one.steps is None:
        return f"{one.metric} is declared per step, but was reported without steps"
    if one.steps is not None and metric.per not in ("call", "step", "rank"):
        return f"{one.metric} is declared per {metric.per}, but was reported with steps"
    if metric.per == "trial" and len(one.values) != 1:
        return (
            f"{one.metric} is declared as one number per trial, but has {len(one.values)} numbers"
        )
    if metric.per != "rank" and len(reporters) > 1:
        return (
            f"{one.metric} was reported by ranks {', '.join(map(str, reporters[:10]))}, expected"
            ' one rank; for one value of each rank declare "per": "rank"'
        )
    return None


def writable(text: str) -> str:
    """Text as UTF-8 can have it: half a surrogate pair, as in a file's odd name, is spelled out."""
    return text.encode(errors="backslashreplace").decode()
