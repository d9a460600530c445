"""What becomes of a trial, from what it wrote and how its process ended."""

from dataclasses import replace

import pytest

from capsule.execute.outcome import Context, Cut, ProcessEnd, settle
from capsule.execute.reports import Journal, TrialReport, merge
from capsule.record import Attempt
from capsule.runtimes.base import Ended
from tests.support.journal_events import ONE, TWO

BEFORE = Attempt(
    trial=ONE.id,
    attempt=1,
    group="g",
    seed=1,
    seed_source="manifest",
    outcome="interrupted",
    started="then",
    seconds=None,
)


def never(trial: str, number: int) -> int:
    """No attempt before was ended by a signal."""
    return 0


CONTEXT = Context(
    group="g", started="now", ranks=1, nodes=(0,), earlier={ONE.id: BEFORE}, deaths=never
)


def process(
    *,
    exit_code: int | None = 0,
    signal: int | None = None,
    out_of_memory: bool = False,
    engine_fault: str | None = None,
    lacks_program: bool = False,
    over_memory: bool = False,
    memory: str = "",
    words: str = "last words",
) -> ProcessEnd:
    """A process that ended by itself."""
    ended = Ended(
        exit_code=exit_code,
        signal=signal,
        out_of_memory=out_of_memory,
        engine_fault=engine_fault,
        lacks_program=lacks_program,
        over_memory=over_memory,
        memory=memory,
    )
    return ProcessEnd(ended=(ended,), cut=None, seconds=2.0, words=(words,))


def process_cut(cut: Cut) -> ProcessEnd:
    """A process that we ended."""
    return ProcessEnd(ended=None, cut=cut, seconds=2.0, words=("last words",))


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
        (process(exit_code=None, signal=40), "interrupted", "killed"),
        (process(exit_code=171), "failed", "exit"),
        (process(exit_code=None, signal=9, out_of_memory=True), "failed", "out-of-memory"),
        (process(), "failed", "no-result"),
        (process(exit_code=255, engine_fault="FATAL: no squashfuse"), "interrupted", "engine"),
        (
            process(exit_code=None, engine_fault="cannot start x", lacks_program=True),
            "failed",
            "not-started",
        ),
        (process(exit_code=None, signal=9, over_memory=True), "failed", "out-of-memory"),
        (process_cut("memory"), "failed", "out-of-memory"),
        (process_cut("timeout"), "failed", "timeout"),
        (process_cut("walltime"), "interrupted", "walltime"),
        (process_cut("interrupt"), "interrupted", "killed"),
        (process_cut("lost"), "interrupted", "lost"),
    ],
)
def test_the_end_of_a_process_costs_only_the_trial_under_way(
    end: ProcessEnd, outcome: str, reason: str
) -> None:
    first, second = settle((ONE, TWO), journal(DONE, UNDER_WAY), end, CONTEXT)
    assert (first.outcome, first.attempt, first.seconds) == ("completed", 2, 1.0)
    assert (second.outcome, second.reason, second.attempt) == (outcome, reason, 1)


def test_a_trial_whose_turn_never_came_has_no_attempt() -> None:
    attempts = settle((ONE, TWO), journal(DONE), process(exit_code=None, signal=9), CONTEXT)
    assert [attempt.trial for attempt in attempts] == [ONE.id]


def test_a_program_that_cannot_start_fails_all_its_trials_at_once() -> None:
    attempts = settle((ONE, TWO), journal(), process(exit_code=1), CONTEXT)
    reasons = [(attempt.trial, attempt.reason) for attempt in attempts]
    assert reasons == [(ONE.id, "exit"), (TWO.id, "exit")]
    assert "last words" in attempts[0].message


def test_an_engine_that_cannot_start_interrupts_the_first_trial() -> None:
    end = process(exit_code=255, engine_fault="FATAL: x")
    (only,) = settle((ONE, TWO), journal(), end, CONTEXT)
    assert (only.outcome, only.message) == ("interrupted", "FATAL: x")


def test_an_unsound_journal_is_named() -> None:
    (only,) = settle((TWO,), journal(UNDER_WAY, defect="line 3"), process(), CONTEXT)
    assert only.reason == "bad-result"
    assert "line 3" in only.message


def test_a_command_s_trial_is_its_process() -> None:
    report = TrialReport(trial=TWO.id, outcome="completed")
    (only,) = settle((TWO,), journal(report), process(), CONTEXT)
    assert (only.outcome, only.exit_code, only.seconds) == ("completed", 0, 2.0)


WELL = Ended(exit_code=0, signal=None)
KILLED = Ended(exit_code=None, signal=15)
TWO_NODES = Context(group="g", started="now", ranks=3, nodes=(1, 0, 1), earlier={}, deaths=never)


@pytest.mark.parametrize(
    ("ended", "outcome", "words"),
    [
        ((KILLED, Ended(exit_code=3, signal=None), KILLED), "failed", "rank 1: exit code 3\nb"),
        ((KILLED, KILLED, Ended(exit_code=None, signal=11)), "failed", "rank 2: crashed with"),
        ((WELL, KILLED, WELL), "interrupted", "rank 1: ended by SIGTERM"),
        (
            (KILLED, Ended(exit_code=255, signal=None, engine_fault="FATAL: x"), KILLED),
            "interrupted",
            "rank 1: FATAL: x",
        ),
        ((WELL, WELL, WELL), "failed", "exit code 0, but no result"),
    ],
)
def test_of_several_ranks_the_one_that_failed_by_itself_is_told(
    ended: tuple[Ended, ...], outcome: str, words: str
) -> None:
    end = ProcessEnd(ended=ended, cut=None, seconds=2.0, words=("a", "b", "c"))
    (only,) = settle((TWO,), journal(UNDER_WAY), end, TWO_NODES)
    assert (only.outcome, only.ranks, only.nodes) == (outcome, 3, (1, 0))
    assert only.message.startswith(words)


def test_ranks_that_are_ended_with_the_one_that_left_cost_no_other_trial() -> None:
    lost = TrialReport(
        trial=ONE.id, outcome="failed", reason="error", message="x", seconds=1.0, leaves=True
    )
    others = replace(lost, outcome=None, leaves=False), UNDER_WAY
    told = merge([journal(lost), journal(*others)], (ONE, TWO))
    ended = Ended(exit_code=3, signal=None), KILLED
    end = ProcessEnd(ended=ended, cut=None, seconds=2.0, words=("a", "b"))
    context = replace(TWO_NODES, ranks=2, nodes=(0, 1))
    (only,) = settle((ONE, TWO), told, end, context)
    assert (only.trial, only.outcome, only.message) == (ONE.id, "failed", "rank 0: x")


@pytest.mark.parametrize(
    ("ended", "unended", "outcome", "words"),
    [
        ((9, 15, None), (0, 1), "interrupted", "rank 0: ended by SIGKILL"),
        ((15, 11, None), (0, 1), "failed", "rank 1: crashed with SIGSEGV"),
        # ended with the one that failed, or killed when it had said its end
        ((15, 15, None), (0, 1), "failed", "rank 2: closed by peer"),
        ((9, 15, None), (1,), "failed", "rank 2: closed by peer"),
    ],
)
def test_what_fails_for_want_of_a_killed_rank_is_that_rank_s_end(
    ended: tuple[int | None, ...], unended: tuple[int, ...], outcome: str, words: str
) -> None:
    ends = tuple(Ended(exit_code=0 if number is None else None, signal=number) for number in ended)
    end = ProcessEnd(ended=ends, cut=None, seconds=2.0, words=("a", "b", "c"))
    said = replace(
        UNDER_WAY,
        outcome="failed",
        reason="error",
        message="rank 2: closed by peer",
        unended=unended,
    )
    (only,) = settle((TWO,), journal(said), end, TWO_NODES)
    assert only.outcome == outcome
    assert only.message.startswith(words)


@pytest.mark.parametrize(
    ("before", "outcome", "reason"), [(0, "interrupted", "killed"), (2, "failed", "signal")]
)
@pytest.mark.parametrize("number", [9, 15, 40])
def test_what_a_signal_ends_each_time_is_a_failure(
    number: int, before: int, outcome: str, reason: str
) -> None:
    def deaths(trial: str, signal: int) -> int:
        return before if signal == number else 0

    context = replace(CONTEXT, deaths=deaths)
    end = process(exit_code=None, signal=number)
    (under_way,) = settle((ONE, TWO), journal(UNDER_WAY), end, context)
    assert (under_way.outcome, under_way.reason, under_way.signal) == (outcome, reason, number)
    never_begun = settle((ONE, TWO), journal(), end, context)
    concerned = [ONE.id, TWO.id] if before else [ONE.id]
    assert [(one.trial, one.outcome) for one in never_begun] == [
        (trial, outcome) for trial in concerned
    ]


def test_what_we_ended_ourselves_is_never_a_failure() -> None:
    context = replace(CONTEXT, deaths=lambda trial, number: 2)
    (only,) = settle((TWO,), journal(UNDER_WAY), process_cut("interrupt"), context)
    assert only.outcome == "interrupted"


@pytest.mark.parametrize("deaths", [0, 1, 2])
def test_a_kill_by_nobody_known_names_memory_with_what_is_known(deaths: int) -> None:
    context = replace(CONTEXT, deaths=lambda trial, number: deaths)
    end = process(exit_code=None, signal=9, memory="free memory now: 1.0 GiB")
    (only,) = settle((TWO,), journal(UNDER_WAY), end, context)
    assert only.outcome == ("failed" if deaths == 2 else "interrupted")
    for words in ("SIGKILL", "lack of memory", "free memory now: 1.0 GiB"):
        assert words in only.message


def test_an_exit_code_of_a_shell_whose_program_was_killed_names_memory() -> None:
    end = process(exit_code=137, memory="free memory now: 1.0 GiB")
    (only,) = settle((TWO,), journal(UNDER_WAY), end, CONTEXT)
    assert (only.outcome, only.reason, only.exit_code) == ("failed", "exit", 137)
    for words in ("exit code 137", "lack of memory", "free memory now: 1.0 GiB"):
        assert words in only.message.splitlines()[0]


def test_a_kill_that_the_kernel_counted_tells_its_numbers() -> None:
    end = process(exit_code=None, signal=9, out_of_memory=True, memory="oom_kill is 1 now")
    (only,) = settle((TWO,), journal(UNDER_WAY), end, CONTEXT)
    assert (only.outcome, only.reason) == ("failed", "out-of-memory")
    assert "oom_kill is 1 now" in only.message


@pytest.mark.parametrize("length", [10, 1990, 2000, 2100, 20_000])
@pytest.mark.parametrize("width", [1, 79, 5000])
def test_a_long_output_is_cut_at_a_line_and_the_exit_code_stays(length: int, width: int) -> None:
    row = "x" * width
    output = "\n".join([*[row] * (length // width), "no data here"])
    (only,) = settle((TWO,), journal(UNDER_WAY), process(exit_code=3, words=output), CONTEXT)
    head, *rows = only.message.split("\n")
    assert head == "exit code 3"
    assert rows[-1] == "no data here"
    assert len(only.message) <= 2000
    assert {one for one in rows[:-1] if not one.startswith("...")} <= {row}


def test_a_message_can_always_be_written() -> None:
    report = TrialReport(trial=TWO.id, outcome="failed", reason="error", message="\udcff" * 2000)
    (only,) = settle((TWO,), journal(report), process(), CONTEXT)
    assert only.message.endswith("\\udcff")
    assert len(only.message.encode()) == 2000
