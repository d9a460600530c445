"""The runs of a side as statistics takes them, made once for each claim."""

from dataclasses import replace

from capsule import population
from tests.support.judging import NEAR, metric


def test_the_runs_of_a_kept_metric_are_made_once_for_each_resolution() -> None:
    side = metric(NEAR)
    assert population.runs(side) is not population.runs(side)
    kept = population.keep(side)
    assert kept is not None
    assert population.runs(kept) is population.runs(kept)
    assert population.runs(kept) == population.runs(side)
    assert population.runs(kept, 0.5) == population.runs(side, 0.5) != population.runs(kept)
    assert side.reckoned is None
    assert kept == side


def test_a_metric_with_other_runs_is_reckoned_anew() -> None:
    kept = population.keep(metric(NEAR))
    assert kept is not None
    assert population.runs(kept).n == 5
    again = tuple(replace(run, trajectory=1) for run in kept.runs[:3])
    doubled = replace(kept, runs=(*again, *kept.runs[3:]))
    assert population.runs(population.independent(doubled)).n == 3
    assert population.runs(kept).n == 5
