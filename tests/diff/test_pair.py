"""Which two records are the sides of one pair, and what of them is judged."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from capsule import diff
from capsule.origin import Original, Side
from capsule.record import Record
from tests.support.records import LOSS, make_record

STEP_TIME = "train/default/command/step_time"
A = Side(pair="p", side="a", order="ababa", margin=1.02, metrics=("*/*/*/step_time",))
B = replace(A, side="b")


def side(origin: Side | Original) -> Record:
    return make_record(origin=origin)


def test_the_machine_metrics_of_a_pair_are_judged_by_its_margin_and_nothing_else() -> None:
    differences = diff.compare(side(A), side(B))
    claimed = [pair for pair in differences.pairs if pair.claim is not None]
    assert [pair.metric for pair in claimed] == [STEP_TIME]
    (pair,) = claimed
    claim = pair.claim
    assert claim is not None
    assert (claim.scale, claim.lower, claim.upper) == ("log", -math.log(1.02), math.log(1.02))
    assert (claim.paired, pair.seeds) == (True, "pair")
    # what the authors claim of quality is for another comparison
    assert LOSS not in {pair.metric for pair in differences.pairs}
    assert differences.notes[0].code == "pair"


@pytest.mark.parametrize(
    "other",
    [A, replace(B, pair="q"), replace(B, margin=1.5), replace(B, order="babab"), Original()],
    ids=["the same side", "another pair", "another margin", "another order", "no side"],
)
def test_what_is_no_pair_is_judged_by_the_claims_of_the_first(other: Side | Original) -> None:
    differences = diff.compare(side(A), side(other))
    assert [pair.metric for pair in differences.pairs if pair.claim is not None] == [LOSS]
    assert "pair" not in [note.code for note in differences.notes]
