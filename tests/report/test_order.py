"""Run values stand in the order of their start where all of a verdict is shown: a drift is seen."""

import dataclasses
import io

import pytest
from rich.console import Console, RenderableType

from capsule import diff, report, verdict
from capsule.manifest import Claim, Margin
from capsule.record import Record
from capsule.report.terminal.order import in_time_order
from capsule.summary import run_values
from tests.support.records import LOSS, make_record

SEEDS = (17, 18, 19)
FRESH = (101, 102, 103, 104)
DRIFT = {17: 0.9, 18: 0.8, 19: 1.0}
STARTS = {17: 3, 18: 2, 19: 1, 101: 4, 102: 1, 103: 3, 104: 2}


def started(record: Record) -> Record:
    """Each run in an hour of its own, not in the order of seeds."""
    attempts = tuple(
        dataclasses.replace(one, started=f"2026-03-01T{STARTS[one.seed]:02}:00:00+00:00")
        for one in record.attempts
    )
    return dataclasses.replace(record, attempts=attempts)


def draw(*parts: RenderableType, width: int = 160) -> str:
    stream = io.StringIO()
    console = Console(file=stream, width=width)
    for part in parts:
        console.print(part)
    return " ".join(stream.getvalue().split())


def original() -> Record:
    record = started(make_record(seeds=SEEDS, losses=DRIFT))
    claim = Claim(metric=LOSS, type="equivalence", margin=Margin(relative=0.2))
    return dataclasses.replace(record, claims=verdict.freeze([claim], run_values(record)))


def test_show_in_full_prints_values_in_the_order_of_time() -> None:
    assert "1, 0.8, 0.9" in draw(*report.draw_record(original(), None, full=True))


@pytest.mark.parametrize("width", [80, 160])
def test_a_whole_verdict_prints_both_sides_in_the_order_of_time(width: int) -> None:
    losses = dict(zip(FRESH, (0.84, 0.81, 0.83, 0.82), strict=True))
    here = make_record(seeds=FRESH, fresh=FRESH, losses=losses, failed=(104,), verifies="a" * 64)
    outcome = verdict.judge(diff.compare(original(), started(here)))
    shown = draw(*report.draw_verdict(outcome, full=True), width=width)
    assert "original in time order: 1, 0.8, 0.9" in shown
    assert "re-run in time order: 0.81, failed, 0.83, 0.84" in shown
    assert "in time order" not in draw(*report.draw_verdict(outcome), width=width)


def test_a_single_run_has_no_order() -> None:
    alone = make_record(seeds=(17,), losses={17: 1.0})
    assert "in time order" not in draw(*report.draw_record(alone, None, full=True))


def test_what_is_only_reported_has_its_own_order() -> None:
    claims = [Claim(metric=LOSS.replace("final_loss", "step_time"), type="ratio")]
    there = original()
    there = dataclasses.replace(there, claims=verdict.freeze(claims, run_values(there)))
    here = started(make_record(seeds=FRESH, fresh=FRESH, verifies="a" * 64))
    shown = draw(*report.draw_verdict(verdict.judge(diff.compare(there, here)), full=True))
    assert shown.count("original in time order: 1, 0.8, 0.9") == 1


def test_many_runs_are_cut_but_in_the_full_screen() -> None:
    seeds = tuple(range(30))
    losses = {seed: 1 + seed / 100 for seed in seeds}
    record = make_record(seeds=seeds, losses=losses)
    assert in_time_order(run_values(record)[LOSS]).endswith(", 1.19 and 10 more")
    assert "1.28, 1.29" in draw(*report.draw_record(record, None, full=True))
