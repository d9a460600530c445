"""Activity of devices during the trials of a process start, from its samplers' traces."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise

from capsule import deviceseries
from capsule.execute.reports import Journal, TrialReport
from capsule.execute.workspace import Start
from capsule.manifest import Command
from capsule.plan import Group, Plan
from capsule.record import DeviceSeries
from capsule.telemetry import spans, trace
from capsule.telemetry.spans import Span
from capsule.telemetry.trace import Trace

_ANY_ATTEMPT = 1


def find(
    journal: Journal,
    group: Group,
    start: Start,
    *,
    nodes: Sequence[int],
    attempts: Mapping[str, int],
    most_points: int,
) -> Iterator[DeviceSeries]:
    """Yield the activity of each device of each rank during each trial.

    Args:
        journal: Reports of all ranks.
        group: Trials of the process start.
        start: Its files.
        nodes: Index of the node of each rank.
        attempts: Number of the attempt of each trial; other trials are left out.
        most_points: Largest number of points of one device and trial.
    """
    is_command = isinstance(group.subject, Command)
    for rank, files in enumerate(start.rank_files()):
        seen = trace.read(files.telemetry)
        for report in journal.reports if seen.tracks else ():
            window = _find_window(report, rank, seen, is_command=is_command)
            if report.trial not in attempts or window is None:
                continue
            whole, timed = window
            for track in seen.tracks:
                # the counter of a package is no series
                points = 0 if track.facts.source == "rapl" else most_points
                yield DeviceSeries(
                    trial=report.trial,
                    attempt=attempts[report.trial],
                    rank=rank,
                    node=nodes[rank],
                    device=track.facts.device,
                    source=track.facts.source,
                    **vars(spans.summarize(track, whole, timed, points)),
                )


def _find_window(
    report: TrialReport, rank: int, seen: Trace, *, is_command: bool
) -> tuple[Span, tuple[Span, ...]] | None:
    """Return the span of a trial on a rank, and what of it is timed; None if unknown.

    A command is timed from the start to the end of its process; a level reports its spans.
    """
    last = max((track.times[-1] for track in seen.tracks if track.times), default=None)
    end = last if seen.ended is None else seen.ended
    if seen.began is None or end is None:
        return None
    process = Span(seen.began, max(seen.began, end))
    if is_command:
        return process, (process,) if seen.ended is not None else ()
    window = next((one for one in report.windows if one.rank == rank), None)
    if window is None:
        return None
    whole = Span(window.begin, process.end if window.end is None else window.end)
    if not process.begin <= whole.begin <= whole.end <= process.end:
        return None
    moments = [whole.begin, *(moment for span in window.timed for moment in span), whole.end]
    is_ordered = all(a <= b for a, b in pairwise(moments))
    return whole, tuple(Span(*pair) for pair in window.timed) if is_ordered else ()


def judge(journal: Journal, group: Group, start: Start) -> Journal:
    """Fail a completed command that requires a GPU, if a rank used none of its GPUs."""
    command = group.subject
    if not isinstance(command, Command) or not command.gpu_required:
        return journal
    devices = tuple(
        find(
            journal,
            group,
            start,
            nodes=(0,) * group.ranks,
            attempts={report.trial: _ANY_ATTEMPT for report in journal.reports},
            most_points=1,
        )
    )
    unused = deviceseries.find_unused(devices)
    reports = tuple(
        _fail(report, devices, unused[key], group.ranks)
        if report.outcome == "completed" and (key := (report.trial, _ANY_ATTEMPT)) in unused
        else report
        for report in journal.reports
    )
    return replace(journal, reports=reports)


def _fail(
    report: TrialReport, devices: Sequence[DeviceSeries], rank: int, ranks: int
) -> TrialReport:
    own = [one for one in devices if one.rank == rank and one.source != "rapl"]
    names = ", ".join(one.device for one in own)
    whose = f"rank {rank} of {ranks}" if ranks > 1 else "the trial"
    message = (
        f"{whose} did not use its GPU ({names}): in {own[0].seconds:.0f} s no process of the trial"
        " was on the GPU, and the GPU's memory did not grow; check that the program's software"
        ' supports the GPU, or remove "gpu_required"'
    )
    return replace(report, outcome="failed", reason="ran-without-gpu", message=message)


def count_points(plan: Plan) -> int:
    """Return the largest number of points of one device and trial in a record of the plan."""
    trials = sum(len(group.trials) for group in plan.groups)
    ranks = max((group.ranks for group in plan.groups), default=1)
    return deviceseries.count_points(trials, ranks * plan.manifest.resources.gpus_per_rank)
