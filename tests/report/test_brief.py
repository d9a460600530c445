"""A verdict as an artifact evaluator reads it first: about eight lines, and all of them true."""

import dataclasses
import io
import json
import random
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pytest
from rich.console import Console

from capsule import diff, report, verdict
from capsule.diff import Pair
from capsule.manifest import Claim, Margin, Published
from capsule.summary import run_values
from capsule.verdict.model import Verdict
from tests.support.judging import NEAR, PATH, metric
from tests.support.records import LOSS, SEEDS, make_record, noted

FRESH = (101, 102, 103, 104, 105)
OURS, THEIRS = "a" * 64, "b" * 64
WITHIN = Claim(metric=LOSS, type="equivalence", margin=Margin(relative=0.2))


def draw(outcome: Verdict, width: int = 160, *, full: bool = False) -> str:
    stream = io.StringIO()
    console = Console(file=stream, width=width)
    for item in report.draw_verdict(outcome, full=full):
        console.print(item)
    return "".join(f"{line.rstrip()}\n" for line in stream.getvalue().splitlines())


def judged(*claims: Claim, seeds: tuple[int, ...] = FRESH, **changes: Any) -> Verdict:
    there = make_record()
    there = dataclasses.replace(
        there, claims=verdict.freeze(claims or (WITHIN,), run_values(there))
    )
    fresh = tuple(seed for seed in seeds if seed not in SEEDS)
    here = make_record(**{"seeds": seeds, "fresh": fresh, "verifies": OURS, **changes})
    here = dataclasses.replace(here, manifest=there.manifest)
    return verdict.judge(diff.compare(there, here, original_id=OURS, rerun_id=THEIRS))


def judge_all(*pairs: Pair) -> Verdict:
    here = make_record(seeds=FRESH, fresh=FRESH, verifies=OURS)
    empty = diff.compare(make_record(), here, original_id=OURS, rerun_id=THEIRS)
    return verdict.judge(dataclasses.replace(empty, pairs=pairs, notes=()))


@pytest.mark.parametrize("full", [False, True])
@pytest.mark.parametrize(("there", "here"), [("s", "ms"), ("1", "%"), ("kg", "1")])
def test_each_mean_has_the_unit_of_its_own_side(there: str, here: str, full: bool) -> None:
    units = {"original": there, "rerun": here}
    a, b = (metric([4.25] * 3, unit=unit) for unit in units.values())
    (one,) = verdict.freeze([Claim(metric=PATH, type="equivalence")], {PATH: a})
    outcome = judge_all(Pair(metric=PATH, claim=one, seeds="fresh", original=a, rerun=b))
    assert outcome.word == "INCONCLUSIVE"
    shown = " ".join(draw(outcome, full=full).split())
    for unit in (there, here):
        assert f"4.25 {'' if unit == '1' else unit}".strip() in shown
    assert f"4.25 {here}" in shown or here == "1"
    document = json.loads(json.dumps(report.verdict_to_json(outcome, None)))
    (claim,) = document["claims"]
    assert {name: claim[name]["unit"] for name in units} == units


def pairs(claim: Mapping[str, Any], names: Sequence[str], shift: float = 0.0) -> Iterator[Pair]:
    """Equal runs of many metrics, each claimed alike."""
    for number, path in enumerate(names):
        chance = random.Random(number)
        values = [1 + chance.gauss(0, 0.01) for _ in range(12)]
        there = metric(values[:6], path=path)
        here = metric([value + shift for value in values[6:]], path=path, first_seed=50)
        (one,) = verdict.freeze([Claim(metric=path, **claim)], {path: there})
        yield Pair(metric=path, claim=one, seeds="fresh", original=there, rerun=here)


def many(count: int, names: int = 3) -> list[str]:
    """Paths of so many claims of three benchmarks, with so many names of metrics."""
    return [f"{'abc'[i % 3]}/case{i}/torch/metric{i // 3 % names}" for i in range(count)]


EQUIVALENCE = {"type": "equivalence", "margin": Margin(relative=0.1)}


def test_one_claim_that_holds_is_one_sentence() -> None:
    lines = draw(judged()).splitlines()
    assert [line.split()[0] for line in lines] == [
        "REPRODUCED",
        "title",
        "original",
        "re-run",
        "REPRODUCED",
        "besides",
        "error",
    ]
    (claim,) = [line for line in lines if "final_loss" in line]
    assert " final_loss: original 1 (5 runs), here 1.008 (5 runs), allowed" in claim
    assert claim.endswith("allowed +-0.2 (20 % of the original's mean)")
    assert lines[1].endswith("A tiny training run, by Ada Author, Ben Author")
    for words in ("aaaaaaaaaaaa", "5 runs in 42 s", "Example CPU, 2 cores", "docker dc51d779663c"):
        assert words in lines[2]
    assert "bbbbbbbbbbbb" in lines[3]


def test_many_claims_that_agree_take_about_a_dozen_lines() -> None:
    shown = draw(judge_all(*pairs(EQUIVALENCE, many(42))), 100)
    assert len(shown.splitlines()) <= 12
    assert shown.count("15 of a, b, c: the largest shift is ") == 2
    assert "metric2, 12 of a, b, c: the largest shift is 14 % of its margin" in shown
    assert "all 42 primary claims are reproduced" in shown
    widely = draw(judge_all(*pairs(EQUIVALENCE, many(42, names=14))), 100)
    assert len(widely.splitlines()) <= 12
    assert "27 more claims on 9 other metrics: --full" in widely


@pytest.mark.parametrize(
    ("claim", "sentence"),
    [
        ({"type": "threshold", "at_most": 3.0}, "worst 0.9976, at most 3"),
        ({"type": "threshold", "at_least": 0.5}, "worst 0.9958, at least 0.5"),
        (
            {"type": "threshold", "at_least": 0.5, "at_most": 2.0},
            "0.9958 to 0.9976, at least 0.5 and at most 2",
        ),
        ({"type": "noninferiority", "margin": Margin(ratio=1.5)}, "the worst shift is "),
        (EQUIVALENCE, "the largest shift is 5.8 % of its margin"),
    ],
)
def test_claims_that_agree_name_the_one_nearest_to_what_is_allowed(
    claim: Mapping[str, Any], sentence: str
) -> None:
    shown = draw(judge_all(*pairs(claim, ["a/x/torch/loss", "b/x/torch/loss"])))
    assert f"loss, 2 of a, b: {sentence}" in shown


def test_claims_under_equal_seeds_that_are_equal_say_so_together() -> None:
    def exact(path: str) -> Pair:
        runs = metric(NEAR, path=path)
        (one,) = verdict.freeze([Claim(metric=path, type="exact")], {path: runs})
        return Pair(metric=path, claim=one, seeds="same", original=runs, rerun=runs)

    shown = draw(judge_all(exact("a/x/torch/loss"), exact("b/x/torch/loss")))
    assert "loss, 2 of a, b: all values are equal, seed by seed" in shown


def test_what_fails_is_told_in_full_beside_what_agrees() -> None:
    outcome = judge_all(
        *pairs(EQUIVALENCE, many(9, names=1)), *pairs(EQUIVALENCE, ["d/x/torch/metric0"], 0.5)
    )
    shown = draw(outcome)
    assert "DIFFERENT   d/x/torch/metric0\n" in shown
    assert "original 0.9969 (6 runs), here 1.498 (6 runs)" in shown
    assert "is beyond 0.0997 (10 % of the original's mean)" in shown
    assert "metric0, 9 of a, b, c: the largest shift" in shown


def test_too_many_failures_are_counted_by_name() -> None:
    shown = draw(judge_all(*pairs(EQUIVALENCE, many(42), 0.5)))
    assert shown.count("is beyond") == 12
    assert "metric1, 12 more: --full" in shown


def test_an_open_claim_says_what_would_decide_it() -> None:
    shown = draw(judged(Claim(metric=LOSS, type="equivalence", margin=Margin(relative=0.012))))
    assert "INCONCLUSIVE  the only primary claim is neither reproduced nor different" in shown
    assert "no number of re-runs decides this: the original itself has too few runs" in shown


def test_published_numbers_stand_in_the_originals_place() -> None:
    shown = draw(
        judged(
            Claim(
                metric=LOSS,
                type="prediction",
                published=Published(mean=1.0, sd=0.01, n=5),
                margin=Margin(relative=0.2),
            )
        )
    )
    assert "final_loss: published 1, here 1.0" in shown
    assert "allowed +-0.2 (20 % of the published mean)" in shown


@pytest.mark.parametrize(
    ("claim", "ending"),
    [
        (
            {"type": "equivalence"},
            "original 1 (4 runs), here 1 (4 runs), allowed a margin of 0 (the original's 4 runs do"
            " not differ from each other)",
        ),
        (
            {"type": "equivalence", "margin": Margin(ratio=1.5)},
            "allowed a factor of 1.5 (the author's margin)",
        ),
        (
            {"type": "noninferiority", "margin": Margin(absolute=0.5)},
            "allowed no worse than by 0.5 (the author's margin)",
        ),
        ({"type": "threshold", "at_most": 2.0}, "here 1 (4 runs), allowed at most 2"),
    ],
)
def test_one_claim_says_what_was_allowed(claim: Mapping[str, Any], ending: str) -> None:
    path = "a/x/torch/loss"
    there, here = (metric([1.0] * 4, path=path, first_seed=first) for first in (1, 50))
    (one,) = verdict.freeze([Claim(metric=path, **claim)], {path: there})
    shown = draw(
        judge_all(Pair(metric=path, claim=one, seeds="fresh", original=there, rerun=here)), 200
    )
    assert f"{ending}\n" in shown
    assert "REPRODUCED  loss: original 1" in shown


def test_everything_else_is_one_line() -> None:
    software = {"distributions": {"numpy": "2.2.0"}}
    shown = draw(judged(WITHIN, Claim(metric=LOSS, type="exact", primary=False), software=software))
    assert (
        "besides     1 secondary claim (1 INCONCLUSIVE), 1 metric that nobody claimed,"
        " not the same: software (2): --full\n" in shown
    )


def test_warnings_stand_before_the_error_rate_and_are_few() -> None:
    notes = noted(*(f"warning {number}" for number in range(7)))
    lines = draw(judged(notes=notes)).splitlines()
    heads = [line.split()[0] for line in lines]
    assert heads[-5:] == ["warning"] * 4 + ["error"]
    assert lines[-2].endswith("4 more: --full")


def test_a_side_without_a_container_says_so_in_its_line() -> None:
    shown = draw(judged(image=False))
    assert "host, not contained" in shown
    assert shown.startswith(
        "REPRODUCED  the only primary claim is reproduced, without the original's image\n"
    )


def test_a_machine_whose_runs_failed_says_so_in_its_line() -> None:
    assert "5 runs (1 failed) in 42 s" in draw(judged(failed=(101,)))


# how likely a wrong verdict is


@pytest.mark.parametrize(
    ("claims", "seeds", "rate"),
    [
        ([WITHIN], FRESH, "either wrong verdict on a claim has a probability of at most 5 %"),
        ([WITHIN], SEEDS, "none can be stated for 1 claim without runs to compare"),
        ([WITHIN], (101,), "none can be stated for 1 claim on a single run of a side"),
        (
            [Claim(metric=LOSS, type="exact")],
            SEEDS,
            "none can be stated for 1 exact claim",
        ),
        (
            [Claim(metric=LOSS, type="exact"), dataclasses.replace(WITHIN, alpha=0.01)],
            (*SEEDS, *FRESH),
            "either wrong verdict on a claim has a probability of at most 1 %; none can be"
            " stated for 1 exact claim",
        ),
    ],
)
@pytest.mark.parametrize("full", [True, False])
def test_an_error_rate_is_printed_only_where_it_holds(
    claims: Sequence[Claim], seeds: tuple[int, ...], rate: str, full: bool
) -> None:
    shown = draw(judged(*claims, seeds=seeds), full=full)
    printed = rf"{re.escape(rate)}\." if full else rf"error rate +{re.escape(rate)}\n"
    assert re.search(printed, re.sub(r"\s+", " ", shown) if full else shown)


def test_of_runs_that_do_not_differ_no_rate_is_printed() -> None:
    there, here = metric([1.0, 1.0]), metric([1.0, 1.0], first_seed=50)
    (one,) = verdict.freeze(
        [dataclasses.replace(WITHIN, metric=there.metric)], {there.metric: there}
    )
    pair = Pair(metric=there.metric, claim=one, seeds="fresh", original=there, rerun=here)
    shown = draw(judge_all(pair))
    assert "REPRODUCED" in shown
    assert "none can be stated for 1 claim on runs that no chance moved" in shown


def test_of_a_bound_no_rate_is_printed() -> None:
    claim = Claim(metric=LOSS, type="bound", at_most=2.0)
    assert "none can be stated for 1 hard bound, which chance does not decide" in draw(
        judged(claim)
    )


def test_a_pair_has_a_rate_though_its_seeds_are_equal() -> None:
    sides = metric(NEAR), metric([value + 0.001 * i for i, value in enumerate(NEAR)])
    claim = dataclasses.replace(WITHIN, metric=sides[0].metric, paired=True)
    (one,) = verdict.freeze([claim], {sides[0].metric: sides[0]})

    def rate(rule: diff.SeedRule) -> str:
        pair = Pair(metric=one.metric, claim=one, seeds=rule, original=sides[0], rerun=sides[1])
        return draw(judge_all(pair))

    assert "has a probability of at most 5 %" in rate("pair")
    assert "none can be stated for 1 claim on equal seeds of both sides" in rate("same")


def test_nothing_is_said_of_errors_where_nothing_is_decided() -> None:
    assert "error rate" not in draw(judged(Claim(metric=LOSS, type="ratio")))
