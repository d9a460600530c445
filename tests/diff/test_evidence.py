"""Runs that are no evidence: named, and refused."""

import dataclasses
from collections.abc import Mapping
from typing import Any

import pytest

from capsule import diff, verdict
from capsule.diff import several
from capsule.record import Record
from capsule.summary import run_values
from capsule.verdict.several import judge_several
from tests.diff.test_diff import FRESH, ID, original, rerun
from tests.support.records import LOSS, SEEDS, make_record


def refusal(there: Record, here: Record) -> str:
    """Why the claim on the loss can't be judged; it is INCONCLUSIVE for that reason."""
    differences = diff.compare(there, here)
    reason = differences.pairs[0].refused
    assert reason is not None
    outcome = verdict.judge(differences)
    assert (outcome.word, outcome.claims[0].sentence) == ("INCONCLUSIVE", reason)
    return reason


@pytest.mark.parametrize(
    "claim",
    [
        {"type": "equivalence", "margin": {"absolute": 9}},
        {"type": "noninferiority", "margin": {"absolute": 9}},
        {"type": "threshold", "at_most": 9},
        {"type": "prediction", "margin": {"absolute": 9}},
    ],
)
def test_equal_seeds_confirm_nothing(claim: Mapping[str, Any]) -> None:
    there = original(asked=[{"metric": LOSS, **claim}])
    assert "uses a seed of the original" in refusal(there, make_record(verifies=ID))


def test_a_run_is_no_evidence_of_itself() -> None:
    for claim in ({"type": "exact"}, {"type": "equivalence", "margin": {"absolute": 9}}):
        there = original(asked=[{"metric": LOSS, **claim}])
        assert "both capsules contain the runs of" in refusal(there, there)


def test_what_is_said_of_one_run_is_that_it_is_one() -> None:
    there = original(asked=[{"metric": LOSS, "type": "equivalence"}])
    for here in (there, dataclasses.replace(there, claims=())):
        compared = diff.compare(there, here, original_id="1" * 64, rerun_id="2" * 64)
        assert {note.code for note in compared.notes} == {"same-run"}
        assert [note.code for note in compared.changes] == ["same-run"]
        (note,) = compared.notes
        assert "both capsules contain the same run" in note.sentence
    apart = diff.compare(there, dataclasses.replace(there, uuid="0" * 32), original_id="1" * 64)
    assert "same-run" not in {note.code for note in (*apart.notes, *apart.changes)}


def test_a_copy_under_another_name_is_known_by_its_times() -> None:
    times = {seed: (0.5, *(0.1 + seed / 1e3 + i / 1e7 for i in range(4))) for seed in SEEDS}
    there = original(step_times=times)
    copied = dict(zip(FRESH, times.values(), strict=True))
    reason = refusal(there, rerun(step_times=copied))
    assert (
        "trials train/default/command/101 and train/default/command/17 have exactly the" in reason
    )
    assert "same times for step_time: a copied trial" in reason


def test_one_trial_under_two_seeds_is_known_by_its_times() -> None:
    times = dict.fromkeys(SEEDS, (0.5, 0.101, 0.102, 0.103, 0.104))
    assert "a copied trial is no evidence" in refusal(original(step_times=times), rerun())


def test_the_original_s_values_under_other_seeds_are_no_evidence() -> None:
    values = [0.123456789012, 0.223456789013, 0.323456789014, 0.423456789015, 0.523456789016]
    there = original(losses=dict(zip(SEEDS, values, strict=True)))
    here = rerun(losses=dict(zip(FRESH, reversed(values), strict=True)))
    assert "other seeds than the original, but exactly the original's values" in refusal(
        there, here
    )


def test_rounded_values_may_come_twice() -> None:
    there = original(losses=dict(zip(SEEDS, (0.76, 0.77, 0.75, 0.76, 0.77), strict=True)))
    here = rerun(losses=dict(zip(FRESH, (0.77, 0.76, 0.76, 0.75, 0.77), strict=True)))
    assert diff.compare(there, here).pairs[0].refused is None


def test_runs_that_all_have_one_value_are_one_run() -> None:
    alike = original(losses=dict.fromkeys(SEEDS, 0.25))
    assert "all 5 runs of the original have the same value" in refusal(alike, rerun())
    there = original(asked=[{"metric": LOSS, "type": "threshold", "at_most": 9}])
    constant = rerun(losses=dict.fromkeys(FRESH, 0.25))
    assert diff.compare(there, constant).pairs[0].refused is None


def test_more_runs_than_seeds_are_no_evidence() -> None:
    there, here = run_values(original())[LOSS], run_values(rerun())[LOSS]
    twice = dataclasses.replace(here, runs=(*here.runs, here.runs[0]))
    (pair,) = diff.pair_up(original().claims, {LOSS: there}, {LOSS: twice})
    assert pair.refused == (
        "more runs than seeds: the re-run has 6 runs under 5 seeds, expected one run per seed"
    )


def test_a_copy_among_several_re_executions_confirms_nothing() -> None:
    first, second = rerun(), rerun(seeds=(201, 202, 203), fresh=(201, 202, 203))
    whole = several.compare_several([original(), first, second], [None, None, None])
    assert [pair.pairs[0].refused for pair in whole.pairs] == [None, None]
    copied = several.compare_several([original(), first, first], [None, None, None])
    assert copied.pairs[0].pairs[0].refused is None
    reason = copied.pairs[1].pairs[0].refused
    assert reason is not None
    assert reason.startswith("C is not independent of B: both capsules contain the runs of")
    assert judge_several(copied).word == "INCONCLUSIVE"
    assert copied.metrics[0].sides[2] is None
