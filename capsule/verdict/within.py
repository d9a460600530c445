"""One run on each side: what lies inside the two runs, told but never a verdict.

Repetitions inside a run are not runs: taken as such they give 34 to 44 % wrong verdicts.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from capsule import population, stats, summary
from capsule.diff import Pair
from capsule.summary import MetricRuns
from capsule.verdict import wording, words
from capsule.verdict.model import Judged

_LARGEST = 1e150  # beyond it a square may leave the range of doubles


def judge(blank: Judged, pair: Pair, *, log: bool) -> Judged:
    """The shift between two single runs, with an interval out of their own repetitions.

    Its word stays that of `blank`, and it has no p values: nothing is known of other runs.
    """
    assert pair.original is not None
    assert pair.rerun is not None
    a, b = _inside(pair.original, log=log), _inside(pair.rerun, log=log)
    interval = stats.summary_shift(a, b, alpha=blank.level) if a and b else None
    if interval is None:
        return replace(blank, sentence=words.JUDGEMENTS("one-run-each"))
    limits = wording.limits(
        interval.estimate, interval.lower, interval.upper, log=log, is_signed=not log
    )
    return replace(
        blank,
        method="within-run",
        estimate=interval.estimate,
        lower=interval.lower,
        upper=interval.upper,
        alpha_used=interval.alpha,
        sentence=words.JUDGEMENTS("within-run", is_ratio=log, shown=limits),
    )


def _inside(metric: MetricRuns, *, log: bool) -> stats.Summary | None:
    """Mean and spread of the repetitions of a side's only run, None where it has too few."""
    run = next((run for run in population.independent(metric).runs if run.value is not None), None)
    # the values of a curve, or of a network's nodes, repeat nothing
    values: Sequence[float] = summary.calls(run) if run else ()
    if log and values and min(values) > 0:
        values = [math.log(value) for value in values]
    elif log:
        return None
    if len(values) < 2 or max(map(abs, values)) > _LARGEST:
        return None
    n = math.floor(stats.effective_sample_size(values))
    mean = math.fsum(values) / len(values)
    squares = math.fsum((value - mean) ** 2 for value in values)
    sd = math.sqrt(squares / (len(values) - 1))
    return stats.Summary(mean=mean, sd=sd, n=n) if n >= 2 else None
