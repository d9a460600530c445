"""A manifest that trains at several numbers of ranks: what it plans, and what it cannot."""

from typing import Any

import pytest

from capsule import plan
from capsule.errors import ManifestError
from capsule.manifest import Recipe, scaling
from tests.support.sweeps import read


def test_each_number_of_ranks_is_a_case_and_a_start_of_its_own() -> None:
    planned = plan.make(read(isolation="group"))
    assert sorted((group.ranks, len(group.trials)) for group in planned.groups) == [
        *[(1, 1)] * 2,
        *[(2, 1)] * 2,
        *[(4, 1)] * 2,
    ]
    for group in planned.groups:
        (trial,) = group.trials
        assert trial.case.name == f"ranks{group.ranks}"
    # all sizes under one seed, before the next one begins
    seeds = [group.seed for group in planned.groups]
    assert seeds == sorted(seeds)


@pytest.mark.parametrize(("kind", "batches"), [("strong", [16] * 3), ("weak", [16, 32, 64])])
def test_the_batch_is_that_of_all_ranks_or_of_each(kind: str, batches: list[int]) -> None:
    (benchmark,) = read(scaling=kind).benchmarks
    assert isinstance(benchmark.subject, Recipe)
    assert [one.batch for one in benchmark.subject.settings.values()] == batches
    assert [one.ranks for one in benchmark.subject.settings.values()] == [1, 2, 4]


def test_what_is_compared_has_metrics_of_its_own() -> None:
    paths = dict(plan.metric_paths(read()))
    names = ("speedup", "efficiency", "communication_share")
    there = [
        [f"strong/ranks{ranks}/torch/{name}" in paths for name in names] for ranks in (1, 2, 4)
    ]
    assert there == [[False] * 3, [True] * 3, [True] * 3]
    assert not {name for path, _ in plan.trial_paths(read()) for name in names if name in path}


def test_each_case_is_held_to_the_fewest_ranks_that_else_are_alike() -> None:
    (benchmark,) = read(cases={"lr": [0.1, 0.2], "ranks": [4, 2]}).benchmarks
    assert benchmark.scaling is not None
    assert benchmark.scaling.bases == {
        "lr0.1-ranks4": "lr0.1-ranks2",
        "lr0.2-ranks4": "lr0.2-ranks2",
    }
    assert [one.name for one in scaling.metrics(benchmark, "lr0.1-ranks2")] == [
        "communication_share"
    ]


def test_a_plan_is_read_as_it_was_made() -> None:
    made = read(scaling="weak")
    again = read(plan.subjects_to_json(made), scaling="weak")
    assert plan.make(again).digest == plan.make(made).digest
    with pytest.raises(ManifestError, match="the plan's training of the case ranks2 differs"):
        read(plan.subjects_to_json(made), scaling="strong")


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"scaling": None}, 'set "scaling" to "strong" if "batch" is the batch of all ranks'),
        ({"cases": None}, "scaling needs several numbers of ranks in cases"),
        ({"cases": {"lr": [0.1, 0.2]}}, "scaling needs several numbers of ranks in cases"),
        ({"cases": {"ranks": [1]}}, "several numbers of ranks in cases that are otherwise equal"),
        ({"cases": {"ranks": [2, 2]}}, "2 is given twice"),
        ({"cases": {"ranks": [2, 2.0]}}, "2.0 is given twice"),
        ({"cases": {"ranks": [0, 2]}}, "ranks is 0, expected a whole number from 1 to"),
        ({"cases": {"ranks": [1.5, 2]}}, "ranks is 1.5, expected a whole number from 1 to"),
        ({"cases": {"ranks": [1, 8]}}, " has 8 ranks, expected at most the 4 of the resources"),
        ({"cases": {"ranks": [1, 4]}, "batch": 3}, "a batch of 3 is too small for 4 ranks"),
        (
            {"accumulate": 3, "batch": 18},
            "a batch of 18 is not a multiple of 12: 4 ranks times accumulate 3",
        ),
        ({"scheme": {"name": "independent"}}, "independent ranks share no work"),
        ({"level": 2, "scheme": None}, "scaling needs level 3, found level 2"),
    ],
)
def test_what_is_no_sweep_over_ranks_is_refused(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(ManifestError, match=message):
        read(**fields)


def test_ranks_that_divide_no_batch_share_it_unevenly() -> None:
    read(cases={"ranks": [1, 3]}, batch=16)


@pytest.mark.parametrize(
    ("metric", "message"),
    [
        ("strong/ranks1/torch/efficiency", "has the fewest ranks"),
        ("strong/*/torch/efficency", "did you mean"),
        ("strong/ranks3/torch/efficiency", "did you mean"),
    ],
)
def test_a_claim_that_nothing_answers_is_refused(metric: str, message: str) -> None:
    with pytest.raises(ManifestError, match=message):
        read(claims=[{"metric": metric, "type": "threshold", "at_least": 0.5}])
