"""Runs of which none could be made: every re-run failed alike, and no run of the original did.

That says nothing of the number that was published. What stands in its way is either the seeds,
which a re-execution draws from a wider range than the original's, or the machine; a run under a
seed of the original's tells which.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from capsule import summary
from capsule.manifest import SCORE, SEARCH
from capsule.record import Record
from capsule.summary import MetricRuns, Run

Fault = Literal["machine", "seeds", "unknown"]
_EXCEPTION = re.compile(r"([A-Za-z_][\w.]*)(?::|$)")
_Kind = tuple[object, ...]


@dataclass(frozen=True, kw_only=True)
class Inability:
    """Why no re-run of a metric has a value.

    Attributes:
        seeds: Of the re-runs, all of which failed.
        last_line: What they ended with, by the first of them.
        controls: Seeds of the original's that were run again, as a control or as part of the plan.
        fault: `machine` where these failed too, `seeds` where one of them has a value, `unknown`
            where none was run.
    """

    seeds: tuple[int, ...]
    last_line: str
    controls: tuple[int, ...]
    fault: Fault


def find(original: MetricRuns, used: MetricRuns, rerun: MetricRuns) -> Inability | None:
    """Why none of the runs in use has a value, None where one has or each failed in its own way.

    Args:
        original: The original's runs.
        used: The re-execution's runs that are held against them.
        rerun: All of the re-execution's runs.
    """
    kinds = {_kind(run) for run in used.runs}
    if len(kinds) != 1 or None in kinds or not original.values:
        return None
    if kinds & {_kind(run) for run in original.runs}:
        return None
    able = {run.seed for run in original.runs if run.value is not None}
    controls = [run for run in (*rerun.runs, *rerun.controls) if run.seed in able]
    ended = [run for run in controls if run.status != "missing"]
    return Inability(
        seeds=tuple(run.seed for run in used.runs),
        last_line=next(last_lines(used)),
        controls=tuple(run.seed for run in ended),
        fault=_fault(ended),
    )


def _fault(controls: Sequence[Run]) -> Fault:
    if not controls:
        return "unknown"
    return "machine" if all(run.value is None for run in controls) else "seeds"


def controls(original: Record, rerun: Record) -> tuple[str, ...]:
    """The trials that tell what is at fault where every fresh seed failed, one a benchmark's case.

    Args:
        original: The capsule that is verified.
        rerun: What ran so far.

    Returns:
        Trial ids under seeds of the original's; none where such a seed was run already.
    """
    there, here = summary.run_values(original), summary.run_values(rerun)
    trials: dict[str, str] = {}
    # what a search has as a whole is told by the trials of its points
    scores = {
        f"{one.id}/{SEARCH}/{framework}/{SCORE}"
        for one in original.manifest.benchmarks
        if one.search
        for framework in one.frameworks
    }
    for path in sorted((there.keys() & here.keys()) - scores):
        every = here[path]
        fresh = replace(every, runs=tuple(run for run in every.runs if run.seed_source == "fresh"))
        inability = find(there[path], fresh, every)
        if inability is not None and inability.fault == "unknown" and not every.controls:
            able = next(run.trial for run in there[path].runs if run.value is not None)
            trials.setdefault(path.rpartition("/")[0], able)
    return tuple(trials.values())


def last_lines(metric: MetricRuns) -> Iterator[str]:
    """Yield the exception of each failed run, or the last line that it printed."""
    for run in metric.runs:
        if run.failure is not None:
            yield run.failure.last_line or str(run.failure.reason)


def _kind(run: Run) -> _Kind | None:
    """Return the kind of a run's failure; None for a value, no outcome, or a non-finite value."""
    failure = run.failure
    # a training that diverges was run, and infinity is what came of it
    if failure is None or failure.reason in ("non-finite", "diverged"):
        return None
    exception = _EXCEPTION.match(failure.last_line)
    return (failure.reason, failure.exit_code, failure.signal, exception and exception[1])
