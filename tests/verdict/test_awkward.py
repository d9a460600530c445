"""Whatever two sides hold, each claim has a defined outcome with a sentence, and never a fault."""

import dataclasses
import json
import math
from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from capsule import diff, report, schema, verdict
from capsule.diff import Pair
from capsule.jsons import Json
from capsule.manifest import Margin, Published
from capsule.summary import MetricRuns
from tests.support.judging import PATH, Outcome, curves, frozen, metric
from tests.support.properties import examples
from tests.support.records import LOSS, STEP_TIME, make_record
from tests.verdict.parts import limits

CLAIMS: Sequence[Mapping[str, Any]] = (
    {"type": "exact"},
    {"type": "equivalence"},
    {"type": "equivalence", "margin": Margin(ratio=1.5), "looks": (3, 6)},
    {"type": "equivalence", "margin": Margin(relative=0.1), "paired": True},
    {"type": "equivalence", "margin": Margin(ratio=1.5), "paired": True, "resolution": 0.5},
    {"type": "noninferiority", "margin": Margin(absolute=1.0)},
    {"type": "threshold", "at_most": 1.0},
    {"type": "threshold", "at_least": -1.0, "looks": (3, 6)},
    {"type": "bound", "at_most": 1.0},
    {"type": "bound", "at_least": 0.0},
    {"type": "prediction", "margin": Margin(preset="lenient")},
    {"type": "prediction", "published": Published(mean=1.0, sd=0.0)},
    {
        "type": "prediction",
        "published": Published(mean=1.0, sd=0.1, n=2),
        "margin": Margin(ratio=2),
    },
    {"type": "distribution", "margin": Margin(distance=0.2)},
    {"type": "curve"},
    {"type": "curve", "margin": Margin(ratio=2.0), "looks": (3, 6)},
    {"type": "ratio"},
)
numbers = st.sampled_from(
    [0.0, -0.0, 1.0, 1.0, 2.0, 1e-320, 5e-324, -3.0, 1e200, -1e308, 1.7e308, 1 / 3]
)
not_finite = st.sampled_from([math.nan, math.inf, -math.inf])
values = st.lists(
    numbers | not_finite | st.none() | st.just(...) | st.lists(numbers, min_size=1, max_size=9)
)
bundles = st.lists(st.lists(numbers, min_size=1, max_size=5) | st.none() | st.just(...), max_size=4)
sides = st.builds(
    lambda make, seed, resolution: make(seed, resolution),
    values.map(lambda outcomes: lambda s, q: metric(outcomes[:7], first_seed=s, resolution=q))
    | bundles.map(lambda outcomes: lambda s, q: curves_or_failed(outcomes, s, q)),
    st.sampled_from([1, 3, 50]),
    st.sampled_from([0.0, 1.0]),
)


def curves_or_failed(outcomes: Sequence[Outcome], seed: int, resolution: float) -> MetricRuns:
    whole = metric(outcomes, first_seed=seed, resolution=resolution)
    lists = [one for one in outcomes if isinstance(one, Sequence)]
    own = iter(curves(lists, resolution=resolution).runs)
    runs = [
        dataclasses.replace(run, samples=next(own).samples) if run.samples else run
        for run in whole.runs
    ]
    return dataclasses.replace(whole, runs=tuple(runs))


@examples(300)
@given(st.sampled_from(CLAIMS), sides, sides | st.none(), sides)
def test_every_claim_on_anything_has_an_outcome_and_a_sentence(
    claim: Mapping[str, Any], there: MetricRuns, here: MetricRuns | None, frozen_on: MetricRuns
) -> None:
    one = frozen(frozen_on, **claim)
    pair = Pair(metric=PATH, claim=one, seeds="all", original=there, rerun=here)
    empty = diff.compare(make_record(), make_record())
    outcome = verdict.judge(dataclasses.replace(empty, pairs=(pair,)))
    (judged,) = outcome.claims
    assert judged.sentence
    assert judged.word in ("REPRODUCED", "DIFFERENT", "INCONCLUSIVE", "REPORTED")
    document = json.loads(json.dumps(report.verdict_to_json(outcome), allow_nan=False))
    assert schema.validate(document, "comparison-1") == []
    assert report.draw_verdict(outcome)


def unequal_failures(judged: verdict.Judged) -> bool:
    """Whether one side failed more often, of all its runs, than the other."""
    a, b = judged.original, judged.rerun
    return a.failed * (b.failed + b.values) != b.failed * (a.failed + a.values)


@examples(100)
@given(sides, sides)
def test_swapping_the_sides_of_a_shift_mirrors_its_interval(
    there: MetricRuns, here: MetricRuns
) -> None:
    claim = frozen(there, type="equivalence", margin=Margin(absolute=1.0))
    forwards, backwards = (
        Pair(metric=PATH, claim=claim, seeds="all", original=a, rerun=b)
        for a, b in ((there, here), (here, there))
    )
    empty = diff.compare(make_record(), make_record())
    one, other = (
        verdict.judge(dataclasses.replace(empty, pairs=(pair,))).claims[0]
        for pair in (forwards, backwards)
    )
    if unequal_failures(one):  # one run more that fails is odd sooner than one less
        assert {one.word, other.word} != {"REPRODUCED", "DIFFERENT"}
    else:
        assert one.word == other.word
    if one.estimate is not None:
        mirrored = limits(other)
        assert limits(one) == (-mirrored.estimate, -mirrored.upper, -mirrored.lower)


@pytest.mark.parametrize("claim", CLAIMS, ids=lambda claim: claim["type"])
def test_nothing_at_all_is_inconclusive(claim: Mapping[str, Any]) -> None:
    nothing = MetricRuns(
        metric=PATH, unit="1", direction="lower", kind="portable", resolution=0.0, runs=()
    )
    one = frozen(nothing, **claim)
    pair = Pair(metric=PATH, claim=one, seeds="all", original=nothing, rerun=nothing)
    empty = diff.compare(make_record(), make_record())
    outcome = verdict.judge(dataclasses.replace(empty, pairs=(pair,)))
    assert outcome.word == "INCONCLUSIVE"
    assert outcome.claims[0].sentence == "the re-run has no run with a value"
    assert math.isclose(outcome.claims[0].rerun.failure_bound, 1.0)


KINDS: Sequence[Mapping[str, Any]] = (
    {"metric": LOSS, "type": "equivalence", "looks": [3, 5]},
    {"metric": LOSS, "type": "equivalence", "paired": True},
    {"metric": LOSS, "type": "prediction"},
    {"metric": LOSS, "type": "prediction", "published": {"mean": 1, "sd": 0.02, "n": 5}},
    {"metric": STEP_TIME, "type": "distribution", "margin": {"distance": 0.5}},
    {"metric": LOSS, "type": "curve"},
    {"metric": STEP_TIME, "type": "ratio"},
)


def document(
    seeds: tuple[int, ...], again: tuple[int, ...], fresh: tuple[int, ...]
) -> dict[str, Json]:
    manifest = make_record(asked=KINDS).manifest
    there = make_record(seeds=seeds, asked=KINDS)
    losses = {seed: 1 + (seed * 7 % 11) / 1000 for seed in (*fresh, *again)}
    here = make_record(seeds=tuple(losses), fresh=fresh, losses=losses, verifies="a" * 64)
    there, here = (dataclasses.replace(record, manifest=manifest) for record in (there, here))
    return report.verdict_to_json(verdict.judge(diff.compare(there, here)))


def test_the_report_is_the_same_for_any_order_of_runs() -> None:
    fresh = (101, 102, 103, 104, 105)
    forwards = document((17, 18, 19, 20, 21), (17, 18, 19), fresh)
    backwards = document((19, 18, 17, 21, 20), (18, 19, 17), fresh[::-1])
    assert json.dumps(forwards, sort_keys=True) == json.dumps(backwards, sort_keys=True)
    assert schema.validate(forwards, "comparison-1") == []
    claims: Any = forwards["claims"]
    assert {claim["method"] for claim in claims} > {"envelope", "paired", "summary"}
