"""Margins turned into numbers at sealing, which no later run moves."""

import dataclasses
import math
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from capsule import verdict
from capsule.errors import ManifestError
from capsule.manifest import Claim, Margin, Published
from tests.support.judging import NEAR, PATH, curves, frozen, judge, metric


def test_a_star_is_one_segment_and_each_match_a_claim() -> None:
    metrics = {
        path: metric(NEAR, path=path)
        for path in ("gemm/a/torch/error", "gemm/b/torch/error", "gemm/a/torch/time")
    }
    claims = verdict.freeze([Claim(metric="gemm/*/torch/error", type="exact")], metrics)
    assert [one.metric for one in claims] == ["gemm/a/torch/error", "gemm/b/torch/error"]
    assert {one.pattern.metric for one in claims} == {"gemm/*/torch/error"}


def test_a_claim_that_matches_nothing_names_the_nearest_metric() -> None:
    with pytest.raises(ManifestError, match="matches no metric") as failure:
        verdict.freeze(
            [Claim(metric="train/default/command/los", type="exact")], {PATH: metric([])}
        )
    assert PATH in str(failure.value.advice)


@pytest.mark.parametrize(
    ("claim", "scale", "ends", "source"),
    [
        ({"type": "equivalence", "margin": Margin(absolute=0.5)}, "linear", (-0.5, 0.5), "author"),
        ({"type": "equivalence", "margin": Margin(relative=0.1)}, "linear", (-0.2, 0.2), "author"),
        (
            {"type": "equivalence", "margin": Margin(ratio=2)},
            "log",
            (-math.log(2), math.log(2)),
            "author",
        ),
        (
            {"type": "noninferiority", "margin": Margin(absolute=0.5)},
            "linear",
            (None, 0.5),
            "author",
        ),
        ({"type": "threshold", "at_most": 4.0}, "linear", (None, 4.0), "author"),
        (
            {"type": "threshold", "at_most": 4.0, "mean": "geometric"},
            "log",
            (None, math.log(4)),
            "author",
        ),
        ({"type": "threshold", "at_least": -1.0}, "linear", (-1.0, None), "author"),
        ({"type": "bound", "at_most": 4.0}, "linear", (None, 4.0), "author"),
        ({"type": "bound", "at_least": 0.5}, "linear", (0.5, None), "author"),
        ({"type": "ratio"}, "log", (None, None), "none"),
        ({"type": "exact"}, "linear", (0.0, 0.0), "author"),
    ],
)
def test_regions_are_numbers(
    claim: Mapping[str, Any], scale: str, ends: tuple[float | None, float | None], source: str
) -> None:
    one = frozen(metric([1.0, 2.0, 3.0]), **claim)
    assert (one.scale, one.margin_source) == (scale, source)
    assert (one.lower, one.upper) == pytest.approx(ends)


def test_no_worse_means_no_lower_where_higher_is_better() -> None:
    one = frozen(
        metric(NEAR, direction="higher"), type="noninferiority", margin=Margin(absolute=0.5)
    )
    assert (one.lower, one.upper) == (-0.5, None)


def test_noninferiority_needs_a_direction() -> None:
    with pytest.raises(ManifestError, match="direction"):
        frozen(metric(NEAR, direction="none"), type="noninferiority")


def test_the_default_margin_is_two_spreads_of_the_original() -> None:
    one = frozen(metric([1.0, 2.0, 3.0]), type="equivalence")
    assert one.margin_source == "spread"
    assert one.upper == pytest.approx(2 / 0.886227, rel=1e-6)


@pytest.mark.parametrize("values", [[1.0], [], [None, None]])
def test_without_a_spread_there_is_no_default_margin(values: Sequence[float | None]) -> None:
    original = metric(values)
    assert frozen(original, type="equivalence").margin_source == "none"
    judgement = judge(original, metric(NEAR, first_seed=50), type="equivalence")
    assert judgement.word == "INCONCLUSIVE"
    assert ("margin" if values == [1.0] else "the original has no run") in judgement.sentence


# margins in standard deviations


@pytest.mark.parametrize(
    ("margin", "spreads"),
    [
        (None, 2),
        (Margin(sd=0.7), 0.7),
        (Margin(preset="strict"), 1),
        (Margin(preset="middle"), 1.5),
        (Margin(preset="default"), 2),
        (Margin(preset="lenient"), 2.8),
    ],
)
@pytest.mark.parametrize("kind", ["equivalence", "prediction"])
def test_a_margin_in_standard_deviations_is_frozen_to_a_number(
    kind: str, margin: Margin | None, spreads: float
) -> None:
    one = frozen(metric([1.0, 2.0, 3.0]), type=kind, margin=margin)
    assert one.margin_source == "spread"
    assert (one.lower, one.upper) == pytest.approx((-spreads / 0.886227, spreads / 0.886227))
    judgement = judge(metric([1.0, 2.0, 3.0]), metric(NEAR, first_seed=9), type=kind, margin=margin)
    assert f"({spreads:g} sd of the original's 3 runs)" in judgement.sentence


@pytest.mark.parametrize(
    ("values", "margin", "source"),
    [
        ([17, 17, 17], 1.5, "1.5 steps of 1"),
        ([17, 18, 17], 1.5, "1.5 steps of 1"),
        ([17, 18, 19], 2.5, "2 sd of the original's 3 runs, put halfway between two steps of 1"),
        ([10, 20, 30], 20 / 0.886227, "2 sd of the original's 3 runs"),
    ],
)
def test_a_margin_of_counts_lies_halfway_between_two_steps(
    values: Sequence[float], margin: float, source: str
) -> None:
    original = metric(values, resolution=1.0)
    one = frozen(original, type="equivalence")
    assert one.upper == pytest.approx(margin, rel=1e-6)
    judgement = judge(original, metric(values, first_seed=9, resolution=1.0), type="equivalence")
    assert f"({source})" in judgement.sentence


def test_the_claims_own_resolution_replaces_the_metrics() -> None:
    one = frozen(metric([17, 17, 17], resolution=1.0), type="equivalence", resolution=0.5)
    assert (one.resolution, one.upper) == (0.5, 0.75)


def test_a_fraction_of_a_test_set_blurs_by_its_own_standard_error() -> None:
    original = metric([0.9, 0.9, 0.9], direction="higher", test_set=100)
    one = frozen(original, type="equivalence")
    assert one.upper == pytest.approx(0.03)
    judgement = judge(original, metric([0.9] * 3, first_seed=9), type="equivalence")
    assert (
        "lies within the margin of 0.03 (one standard error of 100 test examples)"
        in judgement.sentence
    )


def test_published_numbers_stand_for_the_original() -> None:
    ask = {"type": "prediction", "published": Published(mean=2.0, sd=0.1, n=5)}
    assert frozen(metric(NEAR), **ask).upper == pytest.approx(2 * 0.1 / 0.939986, rel=1e-5)
    assert frozen(metric(NEAR), **ask, margin=Margin(relative=0.1)).upper == pytest.approx(0.2)
    judgement = judge(metric(NEAR), metric([2.0, 2.01, 1.99], first_seed=9), **ask)
    assert judgement.sentence.startswith("difference from the published mean")
    assert "(2 sd of the 5 published runs)" in judgement.sentence


def test_runs_that_repeat_each_other_have_no_spread_of_their_own() -> None:
    whole = metric(NEAR)
    first, second, *rest = whole.runs
    copied = [dataclasses.replace(run, trajectory=1, value=1.0) for run in (first, second)]
    original = dataclasses.replace(whole, runs=(*copied, *rest))
    alone = frozen(metric([1.0, 0.99, 1.02, 0.98]), type="equivalence")
    assert frozen(original, type="equivalence").upper == alone.upper


def test_a_claim_carries_its_looks_pairing_and_resolution() -> None:
    one = frozen(metric(NEAR), type="equivalence", looks=(3, 6), resolution=0.1)
    assert (one.looks, one.paired, one.resolution) == ((3, 6), False, 0.1)
    assert frozen(metric(NEAR), type="equivalence", paired=True).paired


# curves and distributions


def test_a_curve_gets_three_standard_deviations_of_its_middle_step() -> None:
    original = curves([[5, 1, 1], [5, 2, 1.1], [5, 3, 1.2]])
    one = frozen(original, type="curve")
    assert one.upper is not None
    assert one.margin_source == "spread"
    assert one.upper == pytest.approx(3 * 0.1 / 0.886227, rel=1e-5)
    assert frozen(original, type="curve", margin=Margin(sd=1)).upper == pytest.approx(one.upper / 3)
    assert frozen(metric(NEAR), type="curve").margin_source == "none"
    assert frozen(curves([[5, 1, 1]]), type="curve").margin_source == "none"


def test_a_distribution_is_allowed_a_distance() -> None:
    one = frozen(metric(NEAR), type="distribution", margin=Margin(distance=0.1))
    assert (one.lower, one.upper, one.margin_source) == (None, 0.1, "author")
