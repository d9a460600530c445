"""What a sweep over ranks yields: ratios under each seed, their intervals, and verdicts on them."""

import dataclasses
from math import inf
from typing import Any

import pytest

from capsule import diff, report, summary, sweeps, verdict
from capsule.manifest import Manifest
from capsule.summary import MetricRuns
from tests.support.sweeps import make_sweep, read

ID = "ab" * 32
AT_LEAST = {"metric": "strong/*/*/efficiency", "type": "threshold", "at_least": 0.5}
SAME = {**AT_LEAST, "type": "equivalence", "margin": {"absolute": 0.1}}
del SAME["at_least"]
# of each seed another machine's clock, by which both sides of a ratio go
CLOCKS = (1.0, 1.5, 0.75, 1.25, 2.0)


def linear(ranks: int, place: int) -> float:
    """Three quarters of what each further rank could give."""
    return CLOCKS[place] * (100 + 75 * (ranks - 1) + place)


def half(ranks: int, place: int) -> float:
    return CLOCKS[place] * (100 + 25 * (ranks - 1) + place)


def values(runs: MetricRuns) -> list[float | None]:
    return [run.value for run in runs.runs]


def test_a_ratio_is_of_runs_under_one_seed() -> None:
    metrics = summary.run_values(make_sweep(read(), linear))
    assert values(metrics["strong/ranks4/torch/speedup"]) == pytest.approx([3.25, 326 / 101])
    assert values(metrics["strong/ranks4/torch/efficiency"]) == pytest.approx([0.8125, 81.5 / 101])
    assert values(metrics["strong/ranks2/torch/efficiency"]) == pytest.approx([0.875, 88 / 101])
    assert values(metrics["strong/ranks2/torch/communication_share"]) == [0.25, 0.25]
    assert "strong/ranks1/torch/communication_share" not in metrics


@pytest.mark.parametrize("rate", [inf, 0.0])
def test_a_base_that_failed_or_took_no_step_leaves_a_failed_ratio(rate: float) -> None:
    record = make_sweep(read(), lambda ranks, place: rate if (ranks, place) == (1, 0) else 10.0)
    ratio = summary.run_values(record)["strong/ranks4/torch/efficiency"]
    assert [(run.status, run.value) for run in ratio.runs] == [("failed", None), ("ok", 0.25)]
    assert (ratio.runs[0].failure is not None) == (rate == inf)


def test_a_ratio_without_one_of_its_sides_is_missing() -> None:
    whole = make_sweep(read(), linear)
    cut = tuple(one for one in whole.attempts if one.trial != "strong/ranks1/torch/1")
    metrics = summary.run_values(dataclasses.replace(whole, attempts=cut))
    ratio = metrics["strong/ranks2/torch/speedup"]
    assert [run.status for run in ratio.runs] == ["missing", "ok"]
    assert metrics["strong/ranks2/torch/communication_share"].runs[0].status == "ok"


def test_a_table_has_intervals_and_names_ranks_that_share_cores() -> None:
    record = make_sweep(read(seeds=5), linear, crowded=[4])
    (sweep,) = sweeps.find(record)
    alone, _, four = sweep.sizes
    assert (alone.base, alone.efficiency, alone.communication_share) == (None, None, None)
    assert four.efficiency is not None
    assert four.efficiency.interval is not None
    lower, upper = four.efficiency.interval
    assert lower < four.efficiency.value < upper
    assert [one.shared for one in sweep.sizes] == [(), (), (0, 1, 2, 3)]
    (sentence,) = sweeps.explain_sharing([sweep])
    assert "ranks share cores in ranks4 (ranks 0-3)" in sentence
    document: Any = report.record_to_json(record, None)
    assert [one["ranks"] for one in document["scaling"][0]["sizes"]] == [1, 2, 4]


@pytest.mark.parametrize(
    ("claim", "speed", "word"),
    [
        (AT_LEAST, linear, "REPRODUCED"),
        (AT_LEAST, half, "DIFFERENT"),
        (SAME, linear, "REPRODUCED"),
        (SAME, half, "DIFFERENT"),
    ],
)
def test_claims_on_efficiency_are_judged(claim: dict[str, Any], speed: Any, word: str) -> None:
    made = read(claims=[{**claim, "metric": "strong/ranks4/*/efficiency"}], seeds=5)
    outcome = judge(made, made, speed)
    assert outcome.word == word
    (judged,) = outcome.claims
    assert judged.alpha == 0.05


def test_another_shape_of_the_same_ranks_makes_efficiency_a_report() -> None:
    claims = [AT_LEAST, SAME]
    made = read(claims=claims, seeds=5)
    place = "/resources/ranks_per_node"
    other = dataclasses.replace(
        read(claims=claims, seeds=5, resources={"nodes": 2, "ranks_per_node": 2}),
        changed={"/resources/nodes": 2, place: 2},
    )
    words = {one.word for one in judge(made, other, half).claims}
    assert words == {"REPORTED"}


def test_a_comparison_names_ranks_that_share_cores() -> None:
    original, rerun = (
        make_sweep(read(seeds=2), linear, verifies=of, crowded=crowded)
        for of, crowded in ((None, []), (ID, [2]))
    )
    notes = diff.compare(original, rerun, original_id=ID).notes
    (sentence,) = [one.sentence for one in notes if one.code == "shared-cores"]
    assert "ranks share cores in ranks2 (ranks 0-1)" in sentence


def judge(made: Manifest, again: Manifest, speed: Any) -> verdict.Verdict:
    # what is the same to the last bit is no evidence
    rerun = make_sweep(again, lambda ranks, place: speed(ranks, place) + ranks, verifies=ID)
    return verdict.judge(diff.compare(make_sweep(made, linear), rerun, original_id=ID))
