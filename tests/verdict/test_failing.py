"""Runs that fail: when they keep a claim from being reproduced, and when they make it different."""

from collections import Counter
from dataclasses import replace
from itertools import cycle

import numpy as np
import pytest

from capsule.diff import inability
from capsule.diff.inability import Inability
from capsule.manifest import Margin
from capsule.record import Reason
from capsule.summary import MetricRuns
from capsule.verdict import Judged
from tests.support.judging import NEAR, Outcome, codes, judge, metric, states
from tests.support.properties import pin_first
from tests.support.records import make_attempt
from tests.verdict.parts import advice, limits

WIDE_MARGIN = Margin(absolute=0.5)


def failing(runs: int, failures: int) -> list[Outcome]:
    """Run values near 1, the last ones failed."""
    return [*(NEAR[i % 5] for i in range(runs - failures)), *[None] * failures]


@pytest.mark.parametrize(
    ("original", "rerun", "word"),
    [
        ((5, 0), (6, 1), "REPRODUCED"),
        ((5, 0), (5, 2), "INCONCLUSIVE"),
        ((10, 1), (10, 3), "REPRODUCED"),
        ((10, 1), (10, 4), "INCONCLUSIVE"),
        ((6, 1), (6, 1), "REPRODUCED"),
        ((8, 3), (8, 0), "REPRODUCED"),
        ((8, 5), (8, 0), "INCONCLUSIVE"),
    ],
)
def test_failure_rates_veto_only_where_they_are_hardly_chance(
    original: tuple[int, int], rerun: tuple[int, int], word: str
) -> None:
    there, here = metric(failing(*original)), metric(failing(*rerun), first_seed=50)
    assert judge(there, here, type="equivalence", margin=WIDE_MARGIN).word == word


def test_a_veto_says_why_and_how_many_runs_lift_it() -> None:
    ask = {"type": "equivalence", "margin": WIDE_MARGIN}
    vetoed = judge(metric(NEAR), metric(failing(5, 2), first_seed=50), **ask)
    told = "0 of 5 original runs failed, 2 of 5 re-runs"
    assert ("failures-doubtful", (("failures", told),)) in vetoed.sentence.facts
    assert (advice(vetoed).answer, advice(vetoed).if_equal) == ("runs", (6, 6))
    assert states(advice(vetoed).sentence, "failures", now=5, needed=(6, 6))
    followed = judge(metric(NEAR), metric([*failing(5, 2), 1.0], first_seed=50), **ask)
    assert (followed.word, codes(followed)) == ("REPRODUCED", ["unequal-failures"])


def test_failures_that_no_affordable_number_of_runs_makes_up_for() -> None:
    ask = {"type": "equivalence", "margin": WIDE_MARGIN}
    judgement = judge(metric(failing(9, 1)), metric(failing(499, 250), first_seed=50), **ask)
    assert states(advice(judgement).sentence, "failures", needed=(None, None))


@pytest.mark.parametrize("swapped", [False, True])
def test_clearly_unequal_failure_rates_are_different(swapped: bool) -> None:
    good, bad = metric(failing(7, 0)), metric(failing(7, 6), first_seed=50)
    sides = (bad, good) if swapped else (good, bad)
    judgement = judge(*sides, type="equivalence", margin=WIDE_MARGIN)
    assert (judgement.word, judgement.method) == ("DIFFERENT", "failures")
    assert judgement.alpha_used == pytest.approx(0.0125)
    assert judgement.p_different == pytest.approx(2 * 7 / 3003)


def test_a_rerun_that_always_fails_is_different() -> None:
    judgement = judge(metric(NEAR), metric([None] * 5, first_seed=50), type="equivalence")
    assert judgement.word == "DIFFERENT"
    told = "0 of 5 original runs failed, 5 of 5 re-runs"
    assert states(judgement.sentence, "failures-differ", failures=told, margin=None)


def ended(metric: MetricRuns, *lines: str, reason: Reason = "exit") -> MetricRuns:
    """The same runs, of which each that failed ended with one of these lines, by turns."""
    attempts = (
        make_attempt(run.seed, outcome="failed", reason=reason, exit_code=1, message=line)
        for run, line in zip(metric.runs, cycle(lines), strict=False)
    )
    runs = tuple(
        replace(run, failure=attempt) if run.status == "failed" else run
        for run, attempt in zip(metric.runs, attempts, strict=True)
    )
    return replace(metric, runs=runs)


def unable(original: MetricRuns, rerun: MetricRuns) -> Inability | None:
    return inability.find(original, rerun, rerun)


def test_what_a_control_run_says_of_re_runs_that_all_failed_alike() -> None:
    there = metric(NEAR)
    here = ended(metric([None] * 3, first_seed=50), "ValueError: 50", "ValueError: 51")
    again = ended(metric([None]), "ValueError: 1").runs
    inabilities = [
        inability.find(there, here, replace(here, controls=runs))
        for runs in ((), again, there.runs[:1])
    ]
    assert [one and one.fault for one in inabilities] == ["unknown", "machine", "seeds"]


@pytest.mark.parametrize(
    ("there", "here"),
    [
        # one has a value, each fails in its own way, the original failed so too, infinity
        (metric(NEAR), ended(metric([None, 1.0], first_seed=50), "OSError: x")),
        (metric(NEAR), ended(metric([None] * 2, first_seed=50), "OSError: x", "KeyError: x")),
        (ended(metric([1.0, None]), "OSError: y"), ended(metric([None] * 2), "OSError: x")),
        (metric(NEAR), ended(metric([None] * 2, first_seed=50), "inf", reason="non-finite")),
        (ended(metric([None] * 2), "KeyError"), ended(metric([None], first_seed=50), "OSError")),
        (metric(NEAR), metric([], first_seed=50)),
        (metric(NEAR), metric([None, ...], first_seed=50)),
    ],
)
def test_runs_that_were_possible_are_judged(there: MetricRuns, here: MetricRuns) -> None:
    assert unable(there, here) is None


def test_failures_that_decide_show_how_most_of_them_ended() -> None:
    here = ended(metric([None] * 7, first_seed=50), "OSError: disk", "KeyError: x", "OSError: disk")
    judgement = judge(metric(failing(7, 0)), here, type="equivalence", margin=WIDE_MARGIN)
    assert (judgement.word, judgement.failure, judgement.fault) == (
        "DIFFERENT",
        "OSError: disk",
        None,
    )


@pytest.mark.parametrize(
    ("message", "line"),
    [
        ("exit code 1\nTraceback (most recent call last):\n  x\nE: 1\nmore of it\nbye", "E: 1"),
        ("exit code 3\nno such file\n\n", "no such file"),
        ("ValueError: wrong", "ValueError: wrong"),
        ("Traceback (most recent call last):\n  cut", "cut"),
        ("", ""),
    ],
)
def test_the_last_line_of_a_failure_is_the_exception_s(message: str, line: str) -> None:
    assert make_attempt(1, outcome="failed", reason="exit", message=message).last_line == line


def claimed(original: tuple[int, int], rerun: tuple[int, int], margin: float) -> Judged:
    """Runs and failures of either side, under a margin for the rates."""
    there, here = metric(failing(*original)), metric(failing(*rerun), first_seed=500)
    return judge(there, here, type="equivalence", margin=WIDE_MARGIN, failure_margin=margin)


@pytest.mark.parametrize(
    ("original", "rerun", "margin", "word", "method"),
    [
        ((14, 0), (14, 0), 0.2, "REPRODUCED", "envelope"),
        ((13, 0), (14, 0), 0.2, "INCONCLUSIVE", "envelope"),
        ((14, 0), (13, 0), 0.2, "INCONCLUSIVE", "envelope"),
        ((40, 4), (40, 6), 0.3, "REPRODUCED", "envelope"),
        # without a margin these rates are hardly chance, and forbid it
        ((60, 0), (60, 3), 0.2, "REPRODUCED", "envelope"),
        ((60, 8), (60, 0), 0.3, "REPRODUCED", "envelope"),
        ((10, 0), (10, 6), 0.1, "DIFFERENT", "failures"),
        ((10, 6), (10, 0), 0.1, "DIFFERENT", "failures"),
        # clearly unequal, and no farther apart than the author allows
        ((30, 0), (30, 9), 0.4, "INCONCLUSIVE", "envelope"),
    ],
)
def test_a_claimed_margin_is_what_rates_of_failure_are_held_to(
    original: tuple[int, int], rerun: tuple[int, int], margin: float, word: str, method: str
) -> None:
    judgement = claimed(original, rerun, margin)
    assert (judgement.word, judgement.method) == (word, method)


def test_a_margin_that_is_not_confirmed_yet_says_how_many_runs_do_it() -> None:
    judgement = claimed((30, 0), (10, 0), 0.1)
    told = "0 of 30 original runs failed, 0 of 10 re-runs"
    assert ("failures-open", (("failures", told), ("margin", 0.1))) in judgement.sentence.facts
    assert (advice(judgement).answer, advice(judgement).if_equal) == ("runs", (29, 29))
    followed = claimed((30, 0), (29, 0), 0.1)
    assert followed.word == "REPRODUCED"
    assert followed.p_reproduced == pytest.approx(0.9**29, rel=1e-3)


def test_a_margin_that_the_original_is_too_small_for_says_so() -> None:
    judgement = claimed((10, 0), (40, 0), 0.1)
    assert (judgement.word, advice(judgement).answer) == ("INCONCLUSIVE", "original-too-few")
    assert states(advice(judgement).sentence, "failure-margin", needed=(None, None), is_near=False)


def test_rates_beyond_the_margin_are_told_with_how_the_runs_ended() -> None:
    here = ended(metric(failing(10, 6), first_seed=50), "OSError: disk")
    judgement = judge(
        metric(failing(10, 0)), here, type="equivalence", margin=WIDE_MARGIN, failure_margin=0.1
    )
    told = "0 of 10 original runs failed, 6 of 10 re-runs"
    assert states(judgement.sentence, "failures-differ", failures=told, margin=0.1)
    assert judgement.failure == "OSError: disk"
    assert judgement.alpha_used == pytest.approx(0.0125)


def test_values_are_different_at_their_share_where_a_run_failed() -> None:
    """One failure on each side tells nothing of the rates, and still costs the values a quarter."""
    ask = {"type": "equivalence", "margin": Margin(absolute=0.01)}
    there, here = metric(failing(6, 1)), [value + 0.1 for value in NEAR]
    clean = judge(metric(NEAR), metric(here, first_seed=50), **ask)
    shared = judge(there, metric([*here, None], first_seed=50), **ask)
    assert clean.word == shared.word == "DIFFERENT"
    assert (clean.alpha_used, shared.level) == (0.05, 0.05)
    assert shared.alpha_used == pytest.approx(0.0375)
    assert limits(shared).lower < limits(clean).lower


# the few allow four standard errors of 5 %: what their levels are is pinned above
@pytest.mark.parametrize(("repetitions", "most"), pin_first([(40, 0.19), (400, 0.072)]))
def test_values_and_failures_together_keep_the_error_rate(repetitions: int, most: float) -> None:
    """The truth on the margin, three runs in ten failing on both sides: two chances to err."""
    random = np.random.default_rng(20260301)
    words: Counter[str] = Counter()
    for _ in range(repetitions):
        sides = []
        for truth, first_seed in ((0.0, 1), (2.0, 1000)):
            values = [
                None if failed else float(value)
                for value, failed in zip(
                    random.normal(truth, 1, 20), random.random(20) < 0.3, strict=True
                )
            ]
            sides.append(metric(values, first_seed=first_seed))
        words[judge(*sides, type="equivalence", margin=Margin(absolute=2.0)).word] += 1
    # 5 %, and two standard errors
    assert words["DIFFERENT"] <= most * repetitions
    assert words["REPRODUCED"] <= most * repetitions
