"""A claim has an error rate only where a row of the acceptance table covers its design."""

import dataclasses
from collections.abc import Sequence
from typing import Any

import pytest

from capsule import report, verdict
from capsule.diff import Pair, SeedRule
from capsule.manifest import Claim, Margin, Published
from capsule.origin import Added
from capsule.summary import MetricRuns
from capsule.verdict import rates
from capsule.verdict.model import Judged
from tests.support.judging import PATH, curves, judge_all, metric

HERE = 50  # first seed of the re-run
# as far apart as runs of one population
A = (1.00, 1.01, 0.99, 1.02, 0.98)
B = (1.005, 0.995, 1.015, 0.985, 1.01)
EQUIVALENCE: dict[str, Any] = {"type": "equivalence", "margin": Margin(absolute=0.5)}
THRESHOLD: dict[str, Any] = {"type": "threshold", "at_most": 2.0}
PUBLISHED: dict[str, Any] = {
    "type": "prediction",
    "margin": Margin(absolute=0.5),
    "published": Published(mean=1.0, sd=0.015, n=5),
}


def pair(
    there: Sequence[float] | MetricRuns,
    here: Sequence[float] | MetricRuns,
    *,
    rule: SeedRule = "fresh",
    path: str = PATH,
    kind: str = "portable",
    **claim: Any,
) -> Pair:
    first = 1 if rule in ("same", "pair") else HERE
    a = there if isinstance(there, MetricRuns) else metric(there, path=path, kind=kind)
    b = (
        here
        if isinstance(here, MetricRuns)
        else metric(here, path=path, kind=kind, first_seed=first)
    )
    written = Claim(**{**EQUIVALENCE, **claim, "metric": a.metric})
    (one,) = verdict.freeze([written], {a.metric: a})
    one = dataclasses.replace(one, looks=())
    return Pair(metric=a.metric, claim=one, seeds=rule, original=a, rerun=b)


def reason(judged: Judged) -> str | None:
    return None if judged.no_rate is None else judged.no_rate.code


def reasons(*pairs: Pair) -> list[str | None]:
    return [reason(one) for one in judge_all(*pairs).claims]


def started(runs: MetricRuns, hours: float) -> MetricRuns:
    """The same runs, begun so many hours after each other."""
    return dataclasses.replace(
        runs,
        runs=tuple(
            dataclasses.replace(
                run,
                started=f"2026-03-{1 + int(place * hours) // 24:02d}"
                f"T{int(place * hours) % 24:02d}:00:00+00:00",
            )
            for place, run in enumerate(runs.runs)
        ),
    )


def interrupted(runs: MetricRuns) -> MetricRuns:
    """The same runs, the last of which was begun twice."""
    *others, last = runs.runs
    return dataclasses.replace(runs, runs=(*others, dataclasses.replace(last, interrupted=1)))


def test_like_sides_have_a_rate() -> None:
    assert reasons(pair(A, B), pair(A, B, alpha=0.01)) == [None, None]


# machine metrics


@pytest.mark.parametrize("kind", ["machine", "portable"])
@pytest.mark.parametrize("side", [0, 1])
def test_interrupted_attempts_take_the_rate_of_a_machine_metric(kind: str, side: int) -> None:
    sides = [metric(A, kind=kind), metric(B, kind=kind, first_seed=HERE)]
    sides[side] = interrupted(sides[side])
    assert reasons(pair(*sides)) == ["interrupted" if kind == "machine" else None]


@pytest.mark.parametrize("kind", ["machine", "portable"])
@pytest.mark.parametrize(("hours", "due"), [(5, "one-allocation"), (30, None)])
def test_a_side_of_one_day_takes_the_rate_of_a_machine_metric(
    kind: str, hours: int, due: str | None
) -> None:
    there = started(metric(A, kind=kind), hours=30)
    here = started(metric(B, kind=kind, first_seed=HERE), hours)
    assert reasons(pair(there, here)) == [due if kind == "machine" else None]


def test_of_a_claim_on_one_side_only_that_side_counts() -> None:
    there = interrupted(started(metric(A, kind="machine"), hours=1))
    here = started(metric(B, kind="machine", first_seed=HERE), hours=30)
    assert reasons(pair(there, here, **THRESHOLD, margin=None)) == [None]
    assert reasons(pair(there, here, **PUBLISHED)) == [None]
    assert reasons(pair(there, here)) == ["interrupted"]


def test_rounds_of_a_pair_share_their_day_on_purpose() -> None:
    sides = [started(metric(values, kind="machine"), hours=1) for values in (A, B)]
    assert reasons(pair(*sides, rule="pair", paired=True)) == [None]
    sides[1] = interrupted(sides[1])
    assert reasons(pair(*sides, rule="pair", paired=True)) == ["interrupted"]


# sides that differ


@pytest.mark.parametrize(("factor", "due"), [(1.9, None), (2.5, "spreads"), (0.3, "spreads")])
def test_sides_with_unlike_spreads_have_none(factor: float, due: str | None) -> None:
    here = [1 + factor * (value - 1) for value in A]
    assert reasons(pair(A, here)) == [due]
    assert reasons(pair(A, here, margin=Margin(ratio=1.5))) == [due]


def test_a_published_spread_counts() -> None:
    assert reasons(pair(A, B, **PUBLISHED)) == [None]
    wide = Published(mean=1.0, sd=0.06, n=5)
    assert reasons(pair(A, B, **{**PUBLISHED, "published": wide})) == ["spreads"]


def test_a_side_that_alone_does_not_vary_is_unlike_the_other() -> None:
    assert reasons(pair([1.0] * 5, B)) == ["spreads"]


def test_rounding_counts_as_spread() -> None:
    counts = (metric([18.0, 18.0, 19.0, 18.0, 18.0], resolution=1.0),
              metric([18.0] * 5, resolution=1.0, first_seed=HERE))  # fmt: skip
    assert reasons(pair(*counts, margin=Margin(absolute=2.5))) == [None]


@pytest.mark.parametrize("side", [0, 1])
def test_a_side_with_an_outlier_has_none(side: int) -> None:
    sides = [list(A), list(B)]
    # both have one, so that their spreads are alike
    sides[0][0], sides[1][0] = 3.0, 3.1
    assert reasons(pair(*sides, margin=Margin(absolute=5.0))) == ["outlier"]
    alone = [list(A), list(B)]
    alone[side][2] = 3.0
    assert reasons(pair(*alone, margin=Margin(absolute=5.0))) == ["spreads"]
    assert reasons(pair(A, [*B[:4], 9.0], **{**THRESHOLD, "margin": None})) == ["outlier"]


# numbers of claims and of verifications


def several(number: int, **claim: Any) -> list[Pair]:
    """Claims on so many metrics."""
    return [pair(A, B, path=f"train/case{place}/command/loss", **claim) for place in range(number)]


@pytest.mark.parametrize(("number", "due"), [(5, None), (6, "many-claims")])
@pytest.mark.parametrize(
    "claim",
    [{**THRESHOLD, "margin": None}, PUBLISHED, {"rule": "pair", "paired": True}],
    ids=["threshold", "published", "rounds"],
)
def test_more_than_five_claims_on_one_set_of_values_have_none(
    claim: dict[str, Any], number: int, due: str | None
) -> None:
    found = reasons(*several(number, **claim), pair(A, B))
    assert set(found[:-1]) == {due}
    assert found[-1] is None  # two sides guard each other


def test_claims_that_do_not_decide_do_not_count() -> None:
    beside = several(3, **THRESHOLD, margin=None, primary=False)
    found = reasons(*several(5, **THRESHOLD, margin=None), *beside)
    assert found == [None] * 8


@pytest.mark.parametrize(("claims", "due"), [(40, None)])
def test_many_claims_on_two_sides_keep_theirs(claims: int, due: None) -> None:
    assert reasons(pair(A, B), *several(claims))[0] is due


@pytest.mark.parametrize(("earlier", "due"), [(4, None), (5, "chain")])
def test_a_chain_of_more_than_five_verifications_has_none(earlier: int, due: str | None) -> None:
    whole = judge_all(pair(A, B)).differences
    added = tuple(Added(id=f"{place:064d}", runs=1) for place in range(earlier))
    rerun = dataclasses.replace(whole.rerun, added=added)
    (one,) = verdict.judge(dataclasses.replace(whole, rerun=rerun)).claims
    assert reason(one) == due


@pytest.mark.parametrize(("reruns", "due"), [(5, None), (6, "chain")])
def test_more_than_five_re_runs_have_none(reruns: int, due: str | None) -> None:
    claims = judge_all(pair(A, B)).claims
    assert [reason(one) for one in rates.mark_chain(claims, reruns)] == [due]


# curves


@pytest.mark.parametrize(("runs", "due"), [(2, "few-curves"), (3, None)])
def test_a_curve_with_two_runs_on_a_side_has_none(runs: int, due: str | None) -> None:
    there = curves([[value, value / 2, value / 3] for value in A[:runs]])
    here = curves([[value, value / 2, value / 3] for value in B[1:4]], first_seed=HERE)
    assert reasons(pair(there, here, type="curve")) == [due]


# the line and the document


def line(*pairs: Pair) -> str:
    sentence = rates.summarize(judge_all(*pairs).claims)
    assert sentence is not None
    return str(sentence)


def test_the_line_says_what_holds_and_why_the_rest_has_none() -> None:
    here = [1 + 3 * (value - 1) for value in A]
    exact = pair(A, A, rule="same", type="exact", margin=None, path="a/b/c/d")
    assert line(
        pair(A, B), pair(A, here, path="a/b/c/e"), pair(A, here, path="a/b/c/f"), exact
    ) == (
        "about 5 % for two sides alike; about 10 %, and up to 25 %, where their runs look different"
        " (wrong REPRODUCED, wrong DIFFERENT, per claim); none for 2 claims on sides whose spreads"
        " differ by more than a factor of 2 and 1 exact claim"
    )
    assert line(pair(A, here)) == (
        "none for 1 claim on sides whose spreads differ by more than a factor of 2"
    )


def test_of_one_side_nothing_can_be_unlike() -> None:
    assert line(pair(A, B, **THRESHOLD, margin=None)) == (
        "about 5 % (wrong REPRODUCED, wrong DIFFERENT, per claim)"
    )


def test_rounds_have_rates_of_their_own() -> None:
    assert line(pair(A, B, rule="pair", paired=True)) == (
        "about 5 % for two sides alike; 6 to 13 % where their runs look different, if rounds vary"
        " independently of each other (wrong REPRODUCED, wrong DIFFERENT, per claim)"
    )


def document(*pairs: Pair) -> dict[str, Any]:
    return dict(report.verdict_to_json(judge_all(*pairs), None))


def test_the_document_has_codes_and_facts() -> None:
    here = [1 + 3 * (value - 1) for value in A]
    told = document(pair(A, B), pair(A, here, path="a/b/c/d"))
    assert told["error_rate"]["code"] == "rates"
    assert told["error_rate"]["facts"]["levels"] == [0.05]
    first, second = told["claims"]
    assert (first["error_rate"], first["no_error_rate"]) == (0.05, None)
    assert second["error_rate"] is None
    assert second["no_error_rate"]["code"] == "spreads"
    assert second["no_error_rate"]["facts"] == {"claims": 1, "most": 2}


def test_what_decides_nothing_has_neither() -> None:
    told = document(pair(A, B, primary=False))
    assert told["error_rate"] is None
    assert [told["claims"][0][name] for name in ("error_rate", "no_error_rate")] == [None, None]
