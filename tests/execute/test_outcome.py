"""What becomes of a trial, from what it wrote and how its process ended."""

import pytest

from capsule.execute.journal import Journal, TrialReport
from capsule.execute.outcome import Context, ProcessEnd, settle, settle_command
from capsule.runtimes.base import Ended
from tests.execute.test_journal import ONE, TWO

CONTEXT = Context(group="g", started="now", node=0, earlier={ONE.id: 1})


def process(**changes) -> ProcessEnd:
    cut = changes.pop("cut", None)
    ended = Ended(**{"exit_code": 0, "signal": None, **changes}) if cut is None else None
    return ProcessEnd(ended=ended, cut=cut, seconds=2.0, words="last words")


def journal(*reports: TrialReport, defect: str | None = None) -> Journal:
    return Journal(software={}, environment={}, reports=reports, defect=defect)


DONE = TrialReport(trial=ONE.id, outcome="completed", seconds=1.0)
UNDER_WAY = TrialReport(trial=TWO.id)


@pytest.mark.parametrize(
    ("end", "outcome", "reason"),
    [
        (process(exit_code=1), "failed", "exit"),
        (process(exit_code=None, signal=11), "failed", "signal"),
        (process(exit_code=None, signal=6), "failed", "signal"),
        (process(exit_code=None, signal=9), "interrupted", "killed"),
        (process(exit_code=None, signal=15), "interrupted", "killed"),
        (process(exit_code=None, signal=9, out_of_memory=True), "failed", "out-of-memory"),
        (process(), "failed", "no-result"),
        (process(exit_code=255, engine_fault="FATAL: no squashfuse"), "interrupted", "engine"),
        (process(cut="timeout"), "failed", "timeout"),
        (process(cut="walltime"), "interrupted", "walltime"),
        (process(cut="interrupt"), "interrupted", "killed"),
        (process(cut="lost"), "interrupted", "lost"),
    ],
)
def test_the_end_of_a_process_costs_only_the_trial_under_way(end, outcome, reason):
    first, second = settle((ONE, TWO), journal(DONE, UNDER_WAY), end, CONTEXT)
    assert (first.outcome, first.attempt, first.seconds) == ("completed", 2, 1.0)
    assert (second.outcome, second.reason, second.attempt) == (outcome, reason, 1)
    command = settle_command(TWO, None, end, CONTEXT)
    assert (command.outcome, command.reason) == (outcome, reason)


def test_a_trial_whose_turn_never_came_has_no_attempt():
    attempts = settle((ONE, TWO), journal(DONE), process(exit_code=None, signal=9), CONTEXT)
    assert [each.trial for each in attempts] == [ONE.id]


def test_a_program_that_cannot_start_fails_all_its_trials_at_once():
    attempts = settle((ONE, TWO), journal(), process(exit_code=1), CONTEXT)
    assert [(each.trial, each.reason) for each in attempts] == [(ONE.id, "exit"), (TWO.id, "exit")]
    assert "last words" in attempts[0].message


def test_an_engine_that_cannot_start_interrupts_the_first_trial():
    end = process(exit_code=255, engine_fault="FATAL: x")
    (only,) = settle((ONE, TWO), journal(), end, CONTEXT)
    assert (only.outcome, only.message) == ("interrupted", "FATAL: x")


def test_an_unsound_journal_is_named():
    (only,) = settle((TWO,), journal(UNDER_WAY, defect="line 3"), process(), CONTEXT)
    assert only.reason == "bad-result"
    assert "line 3" in only.message
