"""What `capsule run --try` shows of the one trial that it ran."""

from __future__ import annotations

import dataclasses

from capsule import report
from capsule.manifest import Metric
from capsule.manifest.warnings import WARNINGS
from capsule.trying import Reported, Tryout
from tests.report.test_report import draw
from tests.support.records import make_attempt

LOSS = Reported(metric=Metric(name="loss"), count=3, value=0.25)


def make_tryout(**changes: object) -> Tryout:
    """A trial of seven alike that completed after twenty seconds."""
    attempt = dataclasses.replace(make_attempt(1, False, False), seconds=20.0)
    tryout = Tryout(attempt=attempt, reported=(LOSS,), trials=7, alike=True)
    return dataclasses.replace(tryout, **changes)  # type: ignore[arg-type]


def test_the_time_of_a_run_follows_where_all_of_its_trials_are_alike() -> None:
    shown = draw(tuple(report.draw_tryout(make_tryout(), ())), 120)
    assert "20 s; 7 trials will take about 2 min 20 s" in shown
    assert "would take" not in draw(tuple(report.draw_tryout(make_tryout(alike=False), ())), 120)


def test_what_was_reported_in_vain_is_told() -> None:
    attempt = dataclasses.replace(make_tryout().attempt, message="extra is not declared\x1b[2J")
    shown = draw(
        tuple(report.draw_tryout(make_tryout(attempt=attempt), (WARNINGS("one-seed"),))), 120
    )
    assert r"warning: extra is not declared\x1b[2J" in shown
    assert "[one-seed]" in shown


def test_of_many_metrics_the_first_are_shown() -> None:
    shown = draw(tuple(report.draw_tryout(make_tryout(reported=(LOSS,) * 50), ())), 120)
    assert "and 10 more metrics" in shown
