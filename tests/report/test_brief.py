"""A verdict as an artifact evaluator reads it first: on one screen, and all of it true."""

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
from capsule.report.terminal import agreement
from capsule.report.terminal.environment import word_environment
from capsule.summary import run_values
from capsule.verdict.model import Verdict
from tests.support.judging import NEAR, PATH, metric
from tests.support.records import LOSS, SEEDS, STEP_TIME, make_node, make_record, noted

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


def test_one_claim_that_holds_is_one_row() -> None:
    lines = draw(judged(), 80).splitlines()
    assert [line.split()[0] for line in lines if line[:1].strip()] == [
        "REPRODUCED",
        "metrics",
        "claim",
        "final_loss",
        "error",
        "original",
        "re-run",
        "environment",
        "other",
    ]
    assert lines[:2] == ["REPRODUCED   A tiny training run", "             the claim holds"]
    (claim,) = [line for line in lines if line.startswith("final_loss")]
    assert re.search(r"final_loss +1 \(n=5\) +1.008 \(n=5\) +\+0.00\d+ +\xb10.2", claim)
    assert "20 % of the" in " ".join(lines)
    (there,) = [line for line in lines if line.startswith("original")]
    for words in ("aaaaaaaaaaaa", "docker dc51d779663c", "Example CPU, 2 cores"):
        assert words in there
    assert "re-run       bbbbbbbbbbbb, same machine class, " in "\n".join(lines)


def test_many_claims_that_agree_take_a_line_for_each_name() -> None:
    shown = draw(judge_all(*pairs(EQUIVALENCE, many(42))), 100)
    assert len(shown.splitlines()) <= 16
    assert shown.count("15 claims in a, b, c: largest difference ") == 2
    assert "metric2, 12 claims in a, b, c: largest difference 14 % of its margin" in shown
    assert "all 42 primary claims hold" in shown
    widely = draw(judge_all(*pairs(EQUIVALENCE, many(120, names=40))), 100)
    assert len(widely.splitlines()) <= 40
    assert re.search(r"and \d+ more claims on \d+ other metrics \(--full\)", widely)


@pytest.mark.parametrize(
    ("claim", "sentence"),
    [
        ({"type": "threshold", "at_most": 3.0}, "worst 0.9976, at most 3"),
        ({"type": "threshold", "at_least": 0.5}, "worst 0.9958, at least 0.5"),
        (
            {"type": "threshold", "at_least": 0.5, "at_most": 2.0},
            "0.9958 to 0.9976, at least 0.5 and at most 2",
        ),
        ({"type": "noninferiority", "margin": Margin(ratio=1.5)}, "worst difference "),
        (EQUIVALENCE, "largest difference 5.8 % of its margin"),
    ],
)
def test_claims_that_agree_name_the_one_nearest_to_what_is_allowed(
    claim: Mapping[str, Any], sentence: str
) -> None:
    outcome = judge_all(*pairs(claim, ["a/x/torch/loss", "b/x/torch/loss"]))
    line = agreement.word_group(agreement.list_claims(outcome))
    assert f"loss, 2 claims in a, b: {sentence}" in line


def test_claims_under_equal_seeds_that_are_equal_say_so_together() -> None:
    def exact(path: str) -> Pair:
        runs = metric(NEAR, path=path)
        (one,) = verdict.freeze([Claim(metric=path, type="exact")], {path: runs})
        return Pair(metric=path, claim=one, seeds="same", original=runs, rerun=runs)

    shown = draw(judge_all(*(exact(f"a/x{case}/torch/loss") for case in range(13))))
    assert "loss, 13 claims in a: all values are equal, seed by seed" in shown


def test_what_fails_is_told_in_full_beside_what_agrees() -> None:
    outcome = judge_all(
        *pairs(EQUIVALENCE, many(9, names=1)), *pairs(EQUIVALENCE, ["d/x/torch/metric0"], 0.5)
    )
    lines = draw(outcome).splitlines()
    assert lines[0].startswith("DIFFERENT ")
    assert lines[1].strip() == (
        "1 of 10 primary claims differs (after Holm's correction), first metric0"
    )
    (claim,) = [line for line in lines if line.startswith("d/x/torch/metric0")]
    assert re.search(r" 0.9969 \(n=6\) +1.498 \(n=6\) +\+0.50\d+ \[\+0.4\d+, \+0.5\d+\] ", claim)
    assert claim.endswith(" \xb10.0997, 10 % of the original's mean")
    assert lines.index("DIFFERENT (1)") < lines.index(claim) < lines.index("REPRODUCED (9)")
    assert "what now     Before reporting DIFFERENT: compare environments" in "\n".join(lines)


def test_too_many_failures_are_counted_by_name() -> None:
    lines = draw(judge_all(*pairs(EQUIVALENCE, many(60), 0.5)), 80).splitlines()
    rows = [line for line in lines if "(n=6)" in line]
    assert len(rows) < 60
    assert f"and {60 - len(rows)} more claims: metric" in "\n".join(lines)
    assert len(lines) <= 70


def test_an_open_claim_says_what_would_decide_it() -> None:
    shown = draw(judged(Claim(metric=LOSS, type="equivalence", margin=Margin(relative=0.012))))
    assert shown.startswith("INCONCLUSIVE A tiny training run\n             1 claim undecided\n")
    assert (
        "what now     More re-runs cannot settle this claim: the original has too few runs."
        in shown
    )


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
    assert re.search(r"final_loss +1 \(published, n=5\) +1.0\d+ \(n=5\) ", shown)
    assert "\xb10.2, 20 % of the published mean" in shown


@pytest.mark.parametrize(
    ("claim", "ending"),
    [
        (
            {"type": "equivalence"},
            "0 [0, 0]          \xb10, the original's 4 runs all have the same value",
        ),
        ({"type": "equivalence", "margin": Margin(ratio=1.5)}, "ratio 1 [1, 1]  factor of 1.5"),
        ({"type": "noninferiority", "margin": Margin(absolute=0.5)}, "0 [0, 0]    0.5 worse"),
        ({"type": "threshold", "at_most": 2.0}, "mean 1 [1, 1]  at most 2"),
        ({"type": "bound", "at_most": 2.0}, "worst 1      at most 2 in every run"),
    ],
)
def test_one_claim_says_what_was_allowed(claim: Mapping[str, Any], ending: str) -> None:
    path = "a/x/torch/loss"
    there, here = (metric([1.0] * 4, path=path, first_seed=first) for first in (1, 50))
    (one,) = verdict.freeze([Claim(metric=path, **claim)], {path: there})
    shown = draw(
        judge_all(Pair(metric=path, claim=one, seeds="fresh", original=there, rerun=here)), 200
    )
    (row,) = [line for line in shown.splitlines() if line.startswith("loss ")]
    assert " ".join(row.split()).endswith(" ".join(ending.split()))
    assert shown.startswith("REPRODUCED ")


def test_claims_are_told_apart_by_their_labels_or_types() -> None:
    labelled = dataclasses.replace(WITHIN, label="Table 2, row 3")
    shown = draw(judged(labelled, Claim(metric=LOSS, type="threshold", at_most=2.0)))
    assert "\nTable 2, row 3 final_loss " in shown
    assert "\nfinal_loss " in shown
    shown = draw(judged(WITHIN, Claim(metric=LOSS, type="threshold", at_most=2.0)))
    assert "\nfinal_loss, equivalence " in shown
    assert "\nfinal_loss, threshold " in shown


def test_a_terminal_without_the_sign_of_margins_has_another() -> None:
    stream = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    console = Console(file=stream, width=80)
    for item in report.draw_verdict(judged()):
        console.print(item)
    stream.flush()
    stream.seek(0)
    assert " +-0.2" in stream.read()


def test_everything_else_is_one_line() -> None:
    software = {"distributions": {"numpy": "2.2.0"}}
    shown = draw(judged(WITHIN, Claim(metric=LOSS, type="exact", primary=False), software=software))
    assert "1 secondary claim (1 INCONCLUSIVE), 1 unclaimed metric (--full)\n" in shown


def test_the_likeliest_cause_is_named_first() -> None:
    names = ("attrs", "jinja2", "matplotlib", "numpy", "torch", "zipp")
    there, here = (
        make_record(software={"distributions": dict.fromkeys(names, version)})
        for version in ("1.0", "2.0")
    )
    differences = diff.compare(there, here)
    assert word_environment(differences) == (
        "software: torch 1.0 -> 2.0, numpy 1.0 -> 2.0, attrs 1.0 -> 2.0, 3 more (--full)"
    )
    other = make_record(software={"distributions": dict.fromkeys(names, "1.0")}, image=False)
    assert word_environment(diff.compare(there, other)).startswith("another image; engine (")
    assert word_environment(diff.compare(there, there)) == "no difference recorded"


def test_warnings_are_few_and_follow_the_environment() -> None:
    notes = noted(*(f"warning {number}" for number in range(7)))
    lines = draw(judged(notes=notes)).splitlines()
    first = next(place for place, line in enumerate(lines) if line.startswith("warning"))
    assert lines[first - 1].startswith("environment")
    assert sum(line.startswith("warning") for line in lines) == 3
    assert lines[first + 3].strip() == "4 more: --full"


@pytest.mark.parametrize("kind", ["machine", "portable"])
def test_a_busy_machine_is_a_warning_only_where_its_times_are_judged(kind: str) -> None:
    node = make_node()
    node["class"]["cpu"]["threads"] = 2
    node["state"]["momentary"] = {"system": {"load_average_1_minute": 9.04}}
    metric = STEP_TIME if kind == "machine" else LOSS
    claim = Claim(metric=metric, type="equivalence", margin=Margin(relative=0.2))
    outcome = judged(claim, nodes=(node,))
    assert ("busy at start" in draw(outcome)) == (kind == "machine")
    assert "busy at start" in draw(outcome, full=True)


def test_two_capsules_without_a_common_metric_say_so_first() -> None:
    there, here = make_record(), make_record(seeds=FRESH)
    here = dataclasses.replace(here, samples=(), attempts=(), plan={**here.plan, "groups": []})
    shown = draw(verdict.judge(diff.compare(there, here, original_id=OURS, rerun_id=THEIRS)))
    assert shown.startswith("INCONCLUSIVE the two capsules have no common metric with runs\n")


def test_a_side_without_a_container_says_so_in_its_line() -> None:
    shown = draw(judged(image=False))
    assert "host (no container)" in shown
    assert shown.splitlines()[1].strip() == (
        "the claim holds. Compared: a re-run without the original's image"
    )


def test_runs_that_failed_are_counted_beside_the_others() -> None:
    assert "(n=4, 1 failed)" in draw(judged(failed=(101,)))


# how likely a wrong verdict is


@pytest.mark.parametrize(
    ("claims", "seeds", "rate"),
    [
        (
            [WITHIN],
            FRESH,
            "about 5 % for two sides alike; about 10 %, and up to 25 %, where their runs look"
            " different (wrong REPRODUCED, wrong DIFFERENT, per claim)",
        ),
        ([WITHIN], SEEDS, "none for 1 claim without runs to compare"),
        ([WITHIN], (101,), "none for 1 claim with a single run on one side"),
        ([Claim(metric=LOSS, type="exact")], SEEDS, "none for 1 exact claim"),
        (
            [Claim(metric=LOSS, type="exact"), dataclasses.replace(WITHIN, alpha=0.01)],
            (*SEEDS, *FRESH),
            "about 1 % for two sides alike; more where their runs look different (wrong REPRODUCED,"
            " wrong DIFFERENT, per claim); none for 1 exact claim",
        ),
    ],
)
@pytest.mark.parametrize("full", [True, False])
def test_an_error_rate_is_printed_only_where_it_holds(
    claims: Sequence[Claim], seeds: tuple[int, ...], rate: str, full: bool
) -> None:
    shown = draw(judged(*claims, seeds=seeds), full=full)
    assert f"error rate {rate} " in f"{' '.join(shown.split())} "


def test_of_runs_that_do_not_differ_no_rate_is_printed() -> None:
    there, here = metric([1.0, 1.0]), metric([1.0, 1.0], first_seed=50)
    (one,) = verdict.freeze(
        [dataclasses.replace(WITHIN, metric=there.metric)], {there.metric: there}
    )
    pair = Pair(metric=there.metric, claim=one, seeds="fresh", original=there, rerun=here)
    shown = draw(judge_all(pair))
    assert "REPRODUCED" in shown
    assert "none for 1 claim on runs that do not vary" in shown


def test_of_a_bound_no_rate_is_printed() -> None:
    claim = Claim(metric=LOSS, type="bound", at_most=2.0)
    assert "none for 1 hard bound (no chance involved)" in draw(judged(claim))


def test_a_pair_has_a_rate_though_its_seeds_are_equal() -> None:
    sides = metric(NEAR), metric([value + 0.001 * i for i, value in enumerate(NEAR)])
    claim = dataclasses.replace(WITHIN, metric=sides[0].metric, paired=True)
    (one,) = verdict.freeze([claim], {sides[0].metric: sides[0]})

    def rate(rule: diff.SeedRule) -> str:
        pair = Pair(metric=one.metric, claim=one, seeds=rule, original=sides[0], rerun=sides[1])
        return draw(judge_all(pair))

    assert "about 5 % for two sides alike; 6 to 13 % where their runs look different" in rate(
        "pair"
    )
    assert "none for 1 claim under equal seeds" in rate("same")


def test_nothing_is_said_of_errors_where_nothing_is_decided() -> None:
    assert "error rate" not in draw(judged(Claim(metric=LOSS, type="ratio")))
