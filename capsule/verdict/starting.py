"""How many fresh seeds a re-execution begins with, before anything of it is known."""

from __future__ import annotations

from capsule import stats, summary
from capsule.record import FrozenClaim, Record
from capsule.summary import MetricRuns
from capsule.verdict import shifts, sides

# a number of runs that nobody asked for may be the original's times this, but not more
_MOST_TIMES = 4


def advise_runs(record: Record) -> int:
    """So many fresh seeds that every primary claim is confirmed with power 0.8, if all is the same.

    At least as many as the original has, and at most four times that: where even those are too
    few, the verdict's own advice says so. Claims on curves, distributions, pairs, exact values and
    constants do not raise it.
    """
    least = len(record.manifest.seeds)
    metrics = summary.run_values(record)
    claimed = (claim for claim in record.claims if claim.primary and claim.metric in metrics)
    counts = [_runs_for(claim, metrics[claim.metric]) or 0 for claim in claimed]
    return min(max([least, *counts]), _MOST_TIMES * least)


def _runs_for(claim: FrozenClaim, metric: MetricRuns) -> int | None:
    if claim.type not in ("equivalence", "noninferiority") or claim.paired:
        return None
    resolution = metric.resolution if claim.resolution is None else claim.resolution
    runs = sides.runs(sides.independent(metric), resolution)
    if claim.lower is None and claim.upper is None:
        return None
    if claim.scale == "log":
        if not runs.positive:
            return None
        runs = runs.log()
    if runs.n < 2:
        return None
    level = stats.nominal_alpha(claim.alpha, len(claim.looks) or 1)
    answer = stats.runs_to_confirm(runs, shifts.region((claim.lower, claim.upper)), alpha=level)
    return answer if isinstance(answer, int) else None
