"""Runs of one day share what their machine did that day, and the report says where that matters."""

import dataclasses
from datetime import datetime, timedelta

import pytest

from capsule import diff, verdict
from capsule.manifest import Claim, Margin
from capsule.record import Record
from capsule.summary import run_values
from tests.support.records import LOSS, make_record

FRESH = (101, 102, 103, 104, 105)
STEP = LOSS.replace("final_loss", "step_time")
BEGIN = datetime.fromisoformat("2026-03-01T10:00:00+00:00")


def spread_out(record: Record, hours: float) -> Record:
    """The same attempts, started so many hours after each other."""
    attempts = tuple(
        dataclasses.replace(one, started=(BEGIN + place * timedelta(hours=hours)).isoformat())
        for place, one in enumerate(record.attempts)
    )
    return dataclasses.replace(record, attempts=attempts)


def compared(claim: Claim, *, hours: float, hours_here: float | None = None) -> diff.Differences:
    there = spread_out(make_record(), hours)
    there = dataclasses.replace(there, claims=verdict.freeze([claim], run_values(there)))
    here = make_record(seeds=FRESH, fresh=FRESH, verifies="a" * 64)
    return diff.compare(there, spread_out(here, hours if hours_here is None else hours_here))


def claim_on(metric: str, **changes: object) -> Claim:
    known: dict[str, object] = {"type": "equivalence", "margin": Margin(relative=0.2)}
    return Claim(metric=metric, **{**known, **changes})  # type: ignore[arg-type]


def test_numbers_of_a_machine_from_one_day_are_told_with_how_long_it_took() -> None:
    (note,) = [one for one in compared(claim_on(STEP), hours=1).cautions if one.code == "one-day"]
    assert "original within" in note.sentence
    assert "re-run within" in note.sentence


def test_a_side_of_several_days_is_not_named() -> None:
    differences = compared(claim_on(STEP), hours=6, hours_here=0.5)
    (note,) = [one for one in differences.cautions if one.code == "one-day"]
    assert "original" not in note.sentence
    assert "re-run within" in note.sentence
    assert not compared(claim_on(STEP), hours=6).cautions


@pytest.mark.parametrize(
    "claim", [claim_on(LOSS), claim_on(STEP, type="ratio", margin=None)], ids=["seeds", "reported"]
)
def test_what_seeds_decide_or_nobody_judges_needs_no_day(claim: Claim) -> None:
    assert not compared(claim, hours=1).cautions


def test_a_clock_that_nobody_can_read_is_no_clock() -> None:
    there = make_record()
    there = dataclasses.replace(there, claims=verdict.freeze([claim_on(STEP)], run_values(there)))
    attempts = tuple(dataclasses.replace(one, started="yesterday") for one in there.attempts)
    here = make_record(seeds=FRESH, fresh=FRESH, verifies="a" * 64)
    differences = diff.compare(dataclasses.replace(there, attempts=attempts), here)
    assert all("original within" not in note.sentence for note in differences.cautions)
