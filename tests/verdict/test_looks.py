"""After how many re-run seeds claims are judged, at which level, and what advice says of it."""

import random
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from capsule import diff, stats, verdict
from capsule.diff import Pair
from capsule.manifest import Claim, Margin
from capsule.origin import Added, Verification
from capsule.verdict.model import Judged
from tests.support.judging import NEAR, PATH, judge, judge_all, metric
from tests.support.records import SEEDS, STEP_TIME, make_record
from tests.verdict.parts import advice, look


def noise(seed: int, n: int) -> list[float]:
    source = random.Random(seed)
    return [source.gauss(0, 1) for _ in range(n)]


@pytest.mark.parametrize(
    ("runs", "number", "level"),
    [(3, 1, 0.0232), (6, 2, 0.0232), (12, 3, 0.0232), (5, None, 0.0169)],
)
def test_a_look_is_judged_at_its_own_level(runs: int, number: int | None, level: float) -> None:
    rerun = metric(noise(3, runs), first_seed=50)
    judgement = judge(metric(noise(1, 5)), rerun, type="equivalence", looks=(3, 6, 12))
    own = look(judgement)
    assert (own.number, own.runs, own.planned) == (number, runs, (3, 6, 12))
    assert own.alpha == judgement.level == pytest.approx(level, abs=2e-4)
    assert judgement.alpha_used == judgement.level
    words = f"look {number} of 3 planned" if number else "not a planned look (3, 6, 12)"
    assert any(words in note.sentence for note in judgement.notes)


def test_an_interrupted_or_failed_run_is_a_look_at_its_seed_all_the_same() -> None:
    rerun = metric([*noise(3, 4), None, ...], first_seed=50)
    judgement = judge(metric(noise(1, 5)), rerun, type="equivalence", looks=(3, 6))
    assert (look(judgement).number, look(judgement).runs) == (2, 6)


def plan_and_judge(n: int, claims: Sequence[Claim]) -> list[Judged]:
    """Claims on five runs as they are sealed, judged by so many fresh ones."""
    original, rerun = metric(noise(1, 5)), metric(noise(3, n), first_seed=50)
    pairs = [
        Pair(metric=PATH, claim=one, seeds="all", original=original, rerun=rerun)
        for one in verdict.freeze(claims, {PATH: original})
    ]
    return list(judge_all(*pairs).claims)


@pytest.mark.parametrize(
    ("runs", "number", "level"), [(5, 1, 0.0346), (10, 2, 0.0346), (6, None, 0.0169)]
)
def test_looks_that_nobody_planned_are_the_original_s_runs_and_twice_as_many(
    runs: int, number: int | None, level: float
) -> None:
    (one,) = plan_and_judge(runs, [Claim(metric=PATH, type="equivalence")])
    assert (look(one).planned, look(one).number) == ((5, 10), number)
    assert one.level == pytest.approx(level, abs=1e-4)


@pytest.mark.parametrize(
    ("seeds", "plan"), [(1, (1, 2)), (2, (2, 4)), (3, (6,)), (4, (4, 8)), (5, (5, 10))]
)
def test_a_first_look_that_cannot_confirm_anything_is_not_planned(
    seeds: int, plan: tuple[int, ...]
) -> None:
    original = {PATH: metric(noise(1, seeds))}
    (one,) = verdict.freeze([Claim(metric=PATH, type="equivalence")], original)
    assert one.looks == plan
    # a constant needs no relabelings, and what an author plans stays
    constant = Claim(metric=PATH, type="threshold", at_least=0.0)
    (one,) = verdict.freeze([constant], original)
    assert one.looks == (seeds, 2 * seeds)
    (one,) = verdict.freeze([Claim(metric=PATH, type="equivalence", looks=(3, 6))], original)
    assert one.looks == (3, 6)


def test_three_runs_are_judged_once_at_the_whole_level() -> None:
    claims = [Claim(metric=PATH, type="equivalence", margin=Margin(absolute=2.0))]
    original = metric(noise(1, 3))
    (frozen,) = verdict.freeze(claims, {PATH: original})
    pair = Pair(
        metric=PATH,
        claim=frozen,
        seeds="all",
        original=original,
        rerun=metric(noise(3, 6), first_seed=50),
    )
    (one,) = judge_all(pair).claims
    assert (look(one).number, one.level, one.method) == (1, 0.05, "envelope")


def test_a_claim_without_looks_stops_with_the_others() -> None:
    planned, follows, paired = plan_and_judge(
        3,
        [
            Claim(metric=PATH, type="equivalence", looks=(3, 6)),
            Claim(metric=PATH, type="noninferiority"),
            Claim(metric=PATH, type="equivalence", paired=True),
        ],
    )
    assert look(planned) == look(follows)
    assert planned.level == follows.level < 0.05
    assert (paired.look, paired.level) == (None, 0.05)


def test_advice_names_the_level_that_the_advised_runs_are_judged_at() -> None:
    def ask(there: Sequence[float], here: Sequence[float], **claim: Any) -> str:
        judgement = judge(metric(there), metric(here, first_seed=50), type="equivalence", **claim)
        return advice(judgement).sentence

    coming = ask(noise(1, 5), noise(35, 5), looks=(5, 10))
    assert "10 re-runs in all (now 5) settle this" in coming
    assert coming.endswith("(10: a planned look, at level 0.0346)")
    ten = [*NEAR, *(value + 0.002 for value in NEAR)]
    moved = [value + 0.004 for value in NEAR]
    beyond = ask(ten, moved, looks=(5, 10), margin=Margin(absolute=0.02))
    assert beyond.endswith("(not a planned look, so at level 0.0169)")


@pytest.mark.slow
def test_looks_beyond_the_plan_keep_the_error_rate_too() -> None:
    """At 5 and 10 runs as planned, then whatever comes of it at 15, 20 and 30."""
    random, wrong, repetitions = np.random.default_rng(8), 0, 1500
    claim = Claim(metric=PATH, type="equivalence", margin=Margin(absolute=2.0))
    levels = {runs: plan_and_judge(runs, [claim])[0].level for runs in (5, 10, 15, 20, 30)}
    allowed = stats.Region(lower=-2.0, upper=2.0)
    for _ in range(repetitions):
        there = stats.Runs.of(dict(enumerate(random.standard_normal(5))))
        here = 2 + random.standard_normal(30)
        for runs, level in levels.items():
            interval = stats.shift(there, stats.Runs.of(dict(enumerate(here[:runs]))), alpha=level)
            assert interval is not None
            word = stats.decide(interval, allowed).word
            if word != "INCONCLUSIVE":
                wrong += word == "REPRODUCED"
                break
    assert wrong / repetitions < 0.06  # each at its whole level: 0.08 and more


def test_failures_are_held_against_the_level_of_the_look() -> None:
    good, bad = metric(NEAR), metric([1.0, *[None] * 8], first_seed=50)
    ask = {"type": "equivalence", "margin": Margin(absolute=0.5)}
    assert judge(good, bad, **ask).word == "DIFFERENT"
    assert judge(good, bad, **ask, looks=(3, 6, 12)).word == "INCONCLUSIVE"


def test_pairs_of_a_machine_are_those_of_the_first_verification() -> None:
    """Two fresh runs were made beside the pairs, two more later: these alone are of today."""
    ask = {"metric": STEP_TIME, "type": "equivalence", "margin": {"relative": 0.5}, "paired": True}
    earlier, now = (101, 102), (103, 104)
    added = (Added(id="b" * 64, runs=len(earlier)),)
    rerun = make_record(
        seeds=(*SEEDS, *earlier, *now),
        fresh=(*earlier, *now),
        verifies="a" * 64,
        origin=Verification(of="a" * 64, runs=4, added=added),
    )
    paired, fresh = verdict.judge(diff.compare(make_record(asked=[ask]), rerun)).claims
    assert (paired.seeds, paired.rerun.seeds) == ("same", SEEDS)
    assert (fresh.seeds, fresh.rerun.seeds) == ("fresh", now)
    of_paired, of_fresh = (
        [note.sentence for note in one.notes if note.code == "earlier-runs-left-out"]
        for one in (paired, fresh)
    )
    assert of_paired == [
        "judged by the first verification's runs: only they have the original's seeds"
    ]
    assert of_fresh == [
        "judged by the 2 new runs: the 2 earlier runs may come from another machine or day"
    ]
