"""Merging the reports of several ranks into one of each trial."""

from dataclasses import replace

import pytest

from capsule.execute.reports import Journal, Series, TrialReport, merge
from capsule.manifest import Metric, Per
from capsule.plan import Trial
from tests.support.journal_events import BENCHMARK, ONE, TWO

LOSS, RATE = Metric(name="loss"), Metric(name="rate", direction="higher", per="rank")


def of_ranks(*lines: str, metrics: tuple[Metric, ...] = (LOSS, RATE)) -> TrialReport:
    """One trial of a command, reported by as many ranks as there are texts."""
    whole = replace(ONE, benchmark=replace(BENCHMARK, metrics=metrics))
    journals = []
    for rank, text in enumerate(lines):
        series: dict[str, list[float]] = {}
        for word in text.split():
            name, _, value = word.partition("=")
            series.setdefault(name, []).append(float(value))
        report = TrialReport(
            trial=ONE.id,
            outcome="completed",
            series=tuple(
                Series(metric=name, rank=rank, warmup=0, values=tuple(values))
                for name, values in series.items()
            ),
        )
        journals.append(Journal(software={}, environment={}, reports=(report,)))
    (report,) = merge(journals, (whole,)).reports
    return report


def test_ranks_are_put_together() -> None:
    report = of_ranks("loss=1 rate=5", "rate=3")
    assert report.outcome == "completed"
    assert [(series.metric, series.rank) for series in report.series] == [
        ("loss", 0),
        ("rate", 0),
        ("rate", 1),
    ]


@pytest.mark.parametrize(
    ("lines", "reason", "words"),
    [
        (("loss=1 rate=5", ""), "no-result", "metric 'rate' from rank 1 is missing"),
        (("rate=5", "rate=3"), "no-result", "metric 'loss' is missing"),
        (("loss=1 rate=5", "loss=1 rate=3"), "bad-result", "reported by ranks 0, 1"),
        (("loss=1 rate=5", "rate=nan"), "non-finite", "rate is nan"),
    ],
)
def test_what_ranks_report_is_what_their_metrics_are_declared_to_be(
    lines: tuple[str, str], reason: str, words: str
) -> None:
    report = of_ranks(*lines)
    assert (report.outcome, report.reason) == ("failed", reason)
    assert words in report.message


@pytest.mark.parametrize(
    ("per", "text", "words"),
    [
        ("trial", "loss=1 loss=2", "declared as one number per trial, but has 2"),
        ("step", "loss=1 loss=2", "declared per step, but was reported without steps"),
    ],
)
def test_several_values_are_what_their_metric_says_they_are(
    per: Per, text: str, words: str
) -> None:
    report = of_ranks(text, metrics=(Metric(name="loss", per=per),))
    assert (report.outcome, report.reason) == ("failed", "bad-result")
    assert words in report.message


def test_a_trial_that_one_rank_has_not_ended_is_still_open() -> None:
    done = TrialReport(trial=ONE.id, outcome="completed", seconds=1.0)
    journals = [
        Journal(software={}, environment={}, reports=(done,)),
        Journal(software={}, environment={}, reports=(TrialReport(trial=ONE.id),)),
    ]
    (report,) = merge(journals, (ONE,)).reports
    assert report.outcome is None


def test_a_trial_that_one_rank_fails_has_failed_and_says_which() -> None:
    done = TrialReport(trial=ONE.id, outcome="completed", seconds=1.0)
    failed = replace(done, outcome="failed", reason="error", message="ValueError: no")
    journals = [
        Journal(software={}, environment={}, reports=(one,)) for one in (done, failed, done)
    ]
    (report,) = merge(journals, (ONE,)).reports
    assert (report.outcome, report.reason) == ("failed", "error")
    assert report.message == "rank 1: ValueError: no"
    assert report.unended == ()


def test_a_failure_names_the_ranks_that_say_nothing_of_the_end() -> None:
    failed = TrialReport(trial=ONE.id, outcome="failed", reason="error", message="closed by peer")
    silent = TrialReport(trial=ONE.id)
    said = (silent,), (), (failed,)
    journals = [Journal(software={}, environment={}, reports=reports) for reports in said]
    (report,) = merge(journals, (ONE,)).reports
    assert report.unended == (0,)


def left(of: Trial, message: str) -> TrialReport:
    return TrialReport(
        trial=of.id, outcome="failed", reason="error", message=message, seconds=1.0, leaves=True
    )


@pytest.mark.parametrize("leaving", [0, 1])
def test_what_other_ranks_say_after_one_has_left_is_no_attempt(leaving: int) -> None:
    closed = replace(left(ONE, "closed by peer"), leaves=False)
    said = [
        (left(ONE, "CUDA error: x"),),
        (closed, replace(closed, trial=TWO.id)),
        (TrialReport(trial=ONE.id, outcome="completed", seconds=1.0), TrialReport(trial=TWO.id)),
    ]
    said.insert(leaving, said.pop(0))
    journals = [Journal(software={}, environment={}, reports=reports) for reports in said]
    (report,) = merge(journals, (ONE, TWO)).reports
    assert (report.trial, report.outcome) == (ONE.id, "failed")
    assert report.message == f"rank {leaving}: CUDA error: x"


def test_a_trial_that_the_others_had_not_ended_when_one_left_is_tried_again() -> None:
    done = TrialReport(trial=ONE.id, outcome="completed", seconds=1.0)
    said = (done, left(TWO, "CUDA error: x")), (TrialReport(trial=ONE.id),)
    journals = [Journal(software={}, environment={}, reports=reports) for reports in said]
    assert [report.trial for report in merge(journals, (ONE, TWO)).reports] == [TWO.id]
