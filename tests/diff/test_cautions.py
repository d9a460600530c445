"""Facts that weaken a verdict are named, and only where they do."""

import dataclasses
from collections.abc import Sequence
from typing import Any

import pytest

from capsule import diff, verdict
from capsule.manifest import Claim, Margin, Published
from capsule.notes import Note
from capsule.record import Attempt, Record
from capsule.summary import run_values
from tests.support.records import LOSS, STEP_TIME, make_attempt, make_record

FRESH = (101, 102, 103, 104, 105)
NARROW = Margin(relative=0.2)


def of_original(*claims: Claim, **changes: Any) -> Record:
    record = make_record(**changes)
    return dataclasses.replace(record, claims=verdict.freeze(claims, run_values(record)))


def of_rerun(**changes: Any) -> Record:
    return make_record(seeds=FRESH, fresh=FRESH, verifies="a" * 64, **changes)


def cautions(there: Record, here: Record | None = None) -> list[Note]:
    return list(diff.compare(there, of_rerun() if here is None else here).cautions)


def facts(note: Note) -> dict[str, object]:
    return dict(note.facts or ())


def on(metric: str, **changes: Any) -> Claim:
    return Claim(**{"metric": metric, "type": "equivalence", "margin": NARROW, **changes})


def interrupt(record: Record, seed: int, times: int = 1) -> Record:
    """The same record, in which a trial was begun so many times more."""
    before = [
        make_attempt(seed, outcome="interrupted", reason="killed", exit_code=None, seconds=9.0)
        for _ in range(times)
    ]
    attempts = (
        dataclasses.replace(one, attempt=number)
        for number, one in enumerate(
            [*before, *(one for one in record.attempts if one.seed == seed)], 1
        )
    )
    others = (one for one in record.attempts if one.seed != seed)
    samples = (
        dataclasses.replace(line, attempt=times + 1) if line.seed == seed else line
        for line in record.samples
    )
    return dataclasses.replace(record, attempts=(*others, *attempts), samples=tuple(samples))


def timed(record: Record, seconds: Sequence[float | None]) -> Record:
    attempts: list[Attempt] = [
        dataclasses.replace(one, seconds=time)
        for one, time in zip(record.attempts, seconds, strict=True)
    ]
    return dataclasses.replace(record, attempts=tuple(attempts))


# interrupted attempts


def test_interrupted_attempts_of_machine_metrics_are_counted_on_each_side() -> None:
    there = interrupt(of_original(on(STEP_TIME)), 18)
    here = interrupt(interrupt(of_rerun(), 101, times=2), 105)
    (note,) = cautions(there, here)
    assert note.code == "interrupted-attempts"
    assert facts(note) == {
        "sides": (("the original", 1), ("the re-run", 3)),
        "first": "train/default/command/18",
    }


@pytest.mark.parametrize(
    "claim", [on(LOSS), on(STEP_TIME, type="ratio", margin=None)], ids=["portable", "reported"]
)
def test_attempts_behind_what_is_not_judged_by_times_are_none_of_its_cautions(
    claim: Claim,
) -> None:
    assert cautions(interrupt(of_original(claim), 18)) == []


def test_a_secondary_claim_needs_no_caution() -> None:
    assert cautions(interrupt(of_original(on(STEP_TIME, primary=False)), 18)) == []


# margins


@pytest.mark.parametrize(
    ("claim", "reason"),
    [
        (on(LOSS, margin=Margin(relative=1.0)), "mean"),
        (on(LOSS, margin=Margin(absolute=3.0)), "mean"),
        (on(LOSS, type="noninferiority", margin=Margin(absolute=1.5)), "mean"),
        (on(LOSS, margin=Margin(ratio=10.0)), "factor"),
        (on(STEP_TIME, type="threshold", margin=None, at_least=0.0), "constants"),
        (
            on(
                LOSS,
                type="prediction",
                margin=Margin(absolute=2.0),
                published=Published(mean=1.9, sd=0.1, n=5),
            ),
            "mean",
        ),
    ],
)
def test_a_margin_that_allows_anything_is_named(claim: Claim, reason: str) -> None:
    (note,) = cautions(of_original(claim))
    assert note.code == "margin-allows-anything"
    assert facts(note)["reason"] == reason
    assert facts(note)["metric"] in ("final_loss", "step_time")


@pytest.mark.parametrize(
    "claim",
    [
        on(LOSS, margin=Margin(relative=0.9)),
        on(LOSS, margin=Margin(ratio=9.9)),
        on(LOSS, margin=Margin(relative=1.0), primary=False),
        on(LOSS, type="threshold", margin=None, at_least=0.0),
        on(STEP_TIME, type="threshold", margin=None, at_most=100.0),
        on(LOSS, type="exact", margin=None),
    ],
)
def test_another_margin_is_not(claim: Claim) -> None:
    assert cautions(of_original(claim)) == []


def test_around_zero_a_margin_may_exceed_the_mean() -> None:
    losses = {seed: place - 1.9 for place, seed in enumerate((17, 18, 19, 20, 21))}
    assert cautions(of_original(on(LOSS, margin=Margin(absolute=1.0)), losses=losses)) == []


def test_such_margins_are_counted() -> None:
    wide = on(LOSS, margin=Margin(relative=2.0))
    (note,) = cautions(of_original(wide, on(LOSS), dataclasses.replace(wide, label="again")))
    assert facts(note)["claims"] == 2


# levels and shares of failed runs


@pytest.mark.parametrize(("alpha", "is_named"), [(0.1, False), (0.11, True), (0.4, True)])
def test_a_large_alpha_is_named(alpha: float, is_named: bool) -> None:
    found = cautions(of_original(on(LOSS, alpha=alpha), on(LOSS, alpha=0.05)))
    assert [note.code for note in found] == ["alpha-large"] * is_named
    assert [facts(note)["alpha"] for note in found] == [alpha] * is_named


@pytest.mark.parametrize(("margin", "is_named"), [(0.3, False), (0.31, True)])
def test_a_large_failure_margin_is_named(margin: float, is_named: bool) -> None:
    found = cautions(of_original(on(LOSS, failure_margin=margin)))
    assert [note.code for note in found] == ["failure-margin-large"] * is_named


# times of trials


def test_trials_that_took_less_than_a_tenth_of_the_time_are_named() -> None:
    there = timed(of_original(on(LOSS)), [60.0, 50.0, 70.0, 60.0, 80.0])
    here = timed(of_rerun(), [6.0, 5.9, 60.0, 0.5, None])
    (note,) = cautions(there, here)
    assert note.code == "trials-too-fast"
    assert facts(note) == {
        "hasty": 2,
        "trials": 4,
        "first": "train/default/command/102",
        "seconds": 5.9,
        "usual": 60.0,
    }


@pytest.mark.parametrize("seconds", [0.9, None])
def test_trials_that_are_mostly_the_start_of_a_process_are_not(seconds: float | None) -> None:
    there = timed(of_original(on(LOSS)), [seconds] * 5)
    assert cautions(there, timed(of_rerun(), [0.01] * 5)) == []


def test_what_failed_or_went_on_from_a_checkpoint_has_no_time_to_compare() -> None:
    there = timed(of_original(on(LOSS)), [60.0] * 5)
    here = timed(of_rerun(failed=(101,)), [0.1, 60.0, 60.0, 60.0, 60.0])
    assert cautions(there, here) == []
    resumed = (dataclasses.replace(here.attempts[1], seconds=0.1, resumed_after=3),)
    here = dataclasses.replace(here, attempts=(*resumed, *here.attempts[2:]))
    assert cautions(there, here) == []
