"""The table of claims at every width: no name broken, no narrow column, never endless."""

import re
from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from itertools import pairwise
from typing import Any

import pytest

from capsule import verdict
from capsule.diff import Pair, SeedRule
from capsule.manifest import Claim, Margin, Published
from capsule.summary import MetricRuns
from capsule.verdict.model import Judged, Verdict
from tests.report.test_brief import draw, judge_all
from tests.support.judging import NEAR, curves, metric

WIDTHS = (80, 100, 160)
_LETTERS = "abcdefghijklmnopqrstuvwxyz0123456789_"


def segment(kind: str, number: int) -> str:
    """A name of 60 characters, whose first dozen no other one has."""
    return f"{kind}{number:04}-{_LETTERS * 2}"[:60]


def path(number: int) -> str:
    """A metric path of which every segment has 60 characters."""
    parts = (("benchmark", number % 10), ("case", number % 7), ("command", 0), ("metric", number))
    return "/".join(segment(kind, place) for kind, place in parts)


def sides(name: str, shift: float, **known: Any) -> tuple[MetricRuns, MetricRuns]:
    there = metric(NEAR, path=name, **known)
    return there, metric([value + shift for value in NEAR], path=name, first_seed=50, **known)


EQUIVALENCE: dict[str, Any] = {"type": "equivalence", "margin": Margin(absolute=0.05)}
SHIFTS = {"REPRODUCED": 0.0, "DIFFERENT": 0.5, "INCONCLUSIVE": 0.05}
CLAIMS: Mapping[str, dict[str, Any]] = {
    "equivalence": EQUIVALENCE,
    "ratio of": {"type": "equivalence", "margin": Margin(ratio=1.05)},
    "of the spread": {"type": "equivalence", "margin": Margin(preset="strict")},
    "noninferiority": {"type": "noninferiority", "margin": Margin(absolute=0.05)},
    "threshold": {"type": "threshold", "at_most": 1.05},
    "bound": {"type": "bound", "at_most": 1.1},
    "exact": {"type": "exact"},
    "paired": {**EQUIVALENCE, "paired": True},
    "published": {
        "type": "prediction",
        "published": Published(mean=1.0, sd=0.01, n=5),
        "margin": Margin(absolute=0.05),
    },
    "labelled": {**EQUIVALENCE, "label": f"Table 2, {_LETTERS}"},
}


@cache
def judged(kind: str, shift: float) -> tuple[Pair, Judged]:
    """One claim and its judgement, which hundreds of others repeat."""
    name, claim = path(0), CLAIMS[kind]
    there, here = sides(name, shift)
    (one,) = verdict.freeze([Claim(metric=name, **claim)], {name: there})
    if one.type == "exact" or one.paired:
        here = metric([value + shift for value in NEAR], path=name)
    rule: SeedRule = "same" if one.type == "exact" or one.paired else "fresh"
    pair = Pair(metric=name, claim=one, seeds=rule, original=there, rerun=here)
    return pair, judge_all(pair).claims[0]


def judge_many(kind: str, count: int, word: str) -> Verdict:
    """The verdict on so many claims of one kind."""
    pair, one = judged(kind, SHIFTS[word])
    names = [path(number) for number in range(count)]
    outcome = judge_all(pair)
    claims = tuple(replace(one, metric=name) for name in names)
    pairs = tuple(replace(pair, metric=name) for name in names)
    return replace(outcome, claims=claims, differences=replace(outcome.differences, pairs=pairs))


def check(shown: str, width: int, names: set[str]) -> None:
    """Hold the rules of every screen."""
    lines = shown.splitlines()
    assert len(lines) <= 120
    segments = {part for name in names for part in name.split("/")}
    for line in lines:
        assert len(line) <= width, line
        for part in segments:
            assert part[:14] not in line or part in line, line
    for heading in (line for line in lines if re.search(r"difference +margin", line)):
        starts = [word.start() for word in re.finditer(r"\S+", heading)]
        assert all(later - start >= 8 for start, later in pairwise(starts))


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("word", SHIFTS)
@pytest.mark.parametrize("kind", CLAIMS)
def test_a_claim_of_any_type_keeps_the_rules(kind: str, word: str, width: int) -> None:
    outcome = judge_many(kind, 2, word)
    check(draw(outcome, width), width, {path(0), path(1)})


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("count", [1, 40, 1000])
@pytest.mark.parametrize("word", SHIFTS)
def test_any_number_of_claims_fits_on_a_screen(count: int, word: str, width: int) -> None:
    outcome = judge_many("equivalence", count, word)
    shown = draw(outcome, width)
    if word == "REPRODUCED" and count > 1:
        assert len(shown.splitlines()) <= 120
    else:
        check(shown, width, {path(number) for number in range(count)})


@pytest.mark.parametrize("width", WIDTHS)
def test_units_and_large_numbers_move_below_the_name(width: int) -> None:
    large = [value * 123456789 for value in NEAR]
    name = "benchmark/default/command/throughput"
    there = metric(large, path=name, unit="operations/s")
    here = metric(large, path=name, unit="operations/s", first_seed=50)
    (one,) = verdict.freeze([Claim(metric=name, **EQUIVALENCE)], {name: there})
    pair = Pair(metric=name, claim=one, seeds="fresh", original=there, rerun=here)
    check(draw(judge_all(pair), width), width, {name})


@pytest.mark.parametrize("width", WIDTHS)
def test_a_curve_is_told_at_its_worst_step(width: int) -> None:
    shapes = [[value + step / 100 for step in range(4)] for value in NEAR]
    there, here = curves(shapes), curves(shapes[::-1], first_seed=50)
    claim = Claim(metric=there.metric, type="curve", margin=Margin(absolute=0.1))
    (one,) = verdict.freeze([claim], {there.metric: there})
    pair = Pair(metric=there.metric, claim=one, seeds="fresh", original=there, rerun=here)
    shown = draw(judge_all(pair), width)
    check(shown, width, {there.metric})
    assert "at step 0" in " ".join(shown.split())
    assert "at every step" in " ".join(shown.split())


@pytest.mark.parametrize("width", WIDTHS)
def test_single_runs_and_failures_say_why_below_their_row(width: int) -> None:
    name = path(3)
    there = metric(NEAR, path=name)
    alone = metric([1.0], path=name, first_seed=50)
    failed = metric([None] * 4 + [1.0], path=name, first_seed=60)
    for here in (alone, failed):
        (one,) = verdict.freeze([Claim(metric=name, **EQUIVALENCE)], {name: there})
        pair = Pair(metric=name, claim=one, seeds="fresh", original=there, rerun=here)
        shown = draw(judge_all(pair), width)
        check(shown, width, {name})
        assert re.search("single run|4 of 5 re-runs", " ".join(shown.split()))
