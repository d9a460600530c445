"""Claims frozen, judged one by one, and the capsule as a whole."""

import dataclasses
import math
import random

import pytest

from capsule import diff, verdict
from capsule.diff import Differences, Pair
from capsule.errors import ManifestError
from capsule.manifest import Claim, Margin
from capsule.summary import MetricRuns, Run, run_values
from tests.support.records import LOSS, SEEDS, make_record

PATH = "train/default/command/loss"
NEAR = (1.00, 1.01, 0.99, 1.02, 0.98)


def metric(values, *, first_seed=1, path=PATH, **changes):
    """Runs of one metric; None is a failed run, `...` a missing one."""
    runs = [
        Run(
            seed=first_seed + i,
            seed_source="manifest",
            trial=f"train/default/command/{first_seed + i}",
            status="failed" if value is None else "missing" if value is ... else "ok",
            value=None if value is ... else value,
        )
        for i, value in enumerate(values)
    ]
    known = {"unit": "1", "direction": "lower", "kind": "portable", "resolution": 0.0}
    return MetricRuns(metric=path, runs=tuple(runs), **{**known, **changes})


def frozen(original, **claim):
    (one,) = verdict.freeze([Claim(**{"metric": PATH, **claim})], {PATH: original})
    return one


def judge_all(*pairs):
    empty = diff.compare(make_record(), make_record())
    return verdict.judge(dataclasses.replace(empty, pairs=pairs))


def judge(original, rerun, **claim):
    one = frozen(original, **claim)
    rule = "same" if one.type == "exact" else "all"
    pair = Pair(metric=PATH, claim=one, seeds=rule, original=original, rerun=rerun)
    return judge_all(pair).claims[0]


# freezing


def test_a_star_is_one_segment_and_each_match_a_claim():
    metrics = {
        path: metric(NEAR, path=path)
        for path in ("gemm/a/torch/error", "gemm/b/torch/error", "gemm/a/torch/time")
    }
    found = verdict.freeze([Claim(metric="gemm/*/torch/error", type="exact")], metrics)
    assert [one.metric for one in found] == ["gemm/a/torch/error", "gemm/b/torch/error"]
    assert {one.pattern.metric for one in found} == {"gemm/*/torch/error"}


def test_a_claim_that_matches_nothing_names_the_nearest_metric():
    with pytest.raises(ManifestError, match="matches no metric") as failure:
        verdict.freeze(
            [Claim(metric="train/default/command/los", type="exact")], {PATH: metric([])}
        )
    assert PATH in failure.value.advice


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
        ({"type": "threshold", "at_most": 4.0}, "log", (None, math.log(4)), "author"),
        ({"type": "threshold", "at_least": -1.0}, "linear", (-1.0, None), "author"),
        ({"type": "ratio"}, "log", (None, None), "none"),
        ({"type": "exact"}, "linear", (0.0, 0.0), "author"),
    ],
)
def test_regions_are_numbers(claim, scale, ends, source):
    one = frozen(metric([1.0, 2.0, 3.0]), **claim)
    assert (one.scale, one.margin_source) == (scale, source)
    assert (one.lower, one.upper) == pytest.approx(ends)


def test_no_worse_means_no_lower_where_higher_is_better():
    one = frozen(
        metric(NEAR, direction="higher"), type="noninferiority", margin=Margin(absolute=0.5)
    )
    assert (one.lower, one.upper) == (-0.5, None)


def test_noninferiority_needs_a_direction():
    with pytest.raises(ManifestError, match="direction"):
        frozen(metric(NEAR, direction="none"), type="noninferiority")


def test_the_default_margin_is_two_spreads_of_the_original():
    one = frozen(metric([1.0, 2.0, 3.0]), type="equivalence")
    assert one.margin_source == "spread"
    assert one.upper == pytest.approx(2 / 0.886227, rel=1e-6)


@pytest.mark.parametrize("values", [[1.0], [], [None, None]])
def test_without_a_spread_there_is_no_default_margin(values):
    original = metric(values)
    assert frozen(original, type="equivalence").margin_source == "none"
    found = judge(original, metric(NEAR, first_seed=50), type="equivalence")
    assert found.word == "INCONCLUSIVE"
    assert ("margin" if values == [1.0] else "no run of the original") in found.sentence


def test_a_threshold_is_linear_where_logarithms_do_not_apply():
    ask = {"type": "threshold", "at_most": 4.0}
    assert frozen(metric([0.0, 1.0]), **ask).scale == "linear"
    assert frozen(metric(NEAR, direction="higher"), **ask).scale == "linear"
    assert frozen(metric(NEAR, kind="machine"), **ask).scale == "linear"


# one claim


def test_equal_runs_are_reproduced_with_the_margin_as_a_number():
    found = judge(metric(NEAR), metric(NEAR, first_seed=50), type="equivalence")
    assert (found.word, found.method) == ("REPRODUCED", "envelope")
    assert "is within 0.0336 (2 sd of the original's 5 runs)" in found.sentence
    assert "sigma" not in found.sentence


def test_a_real_shift_inside_the_margin_is_called_detectable():
    shifted = metric([v + 0.05 for v in NEAR], first_seed=50)
    found = judge(metric(NEAR), shifted, type="equivalence", margin=Margin(absolute=0.1))
    assert found.word == "REPRODUCED"
    assert "detectable but inside the margin" in found.sentence
    assert found.lower > 0


def test_a_shift_beyond_the_margin_is_different():
    shifted = metric([v + 0.2 for v in NEAR], first_seed=50)
    found = judge(metric(NEAR), shifted, type="equivalence", margin=Margin(relative=0.1))
    assert found.word == "DIFFERENT"
    assert "is beyond 0.1 (10 % of the original's mean)" in found.sentence


def test_an_open_claim_gets_advice():
    wide = metric([0.7, 1.0, 1.4], first_seed=50)
    found = judge(metric(NEAR), wide, type="equivalence", margin=Margin(absolute=0.2))
    assert found.word == "INCONCLUSIVE"
    assert "runs of the re-execution in all (now 3) decide this" in found.advice


@pytest.mark.parametrize(("shift", "word"), [(-0.5, "REPRODUCED"), (0.5, "DIFFERENT")])
def test_noninferiority_lets_the_better_side_win(shift, word):
    other = metric([v + shift for v in NEAR], first_seed=50)
    found = judge(metric(NEAR), other, type="noninferiority", margin=Margin(absolute=0.1))
    assert found.word == word


def test_a_ratio_margin_is_judged_on_logarithms_and_told_as_a_ratio():
    double = metric([2 * v for v in NEAR], first_seed=50)
    found = judge(metric(NEAR), double, type="equivalence", margin=Margin(ratio=1.5))
    assert (found.word, found.scale) == ("DIFFERENT", "log")
    assert math.exp(found.estimate) == pytest.approx(2)
    assert found.sentence.startswith("ratio 2 (")


def test_a_ratio_margin_needs_positive_values():
    found = judge(
        metric(NEAR),
        metric([0.0, *NEAR], first_seed=50),
        type="equivalence",
        margin=Margin(ratio=2),
    )
    assert found.word == "INCONCLUSIVE"
    assert "positive" in found.sentence


@pytest.mark.parametrize(
    ("values", "word"), [(NEAR, "REPRODUCED"), ([9 * v for v in NEAR], "DIFFERENT")]
)
def test_a_threshold_judges_the_rerun_alone(values, word):
    found = judge(metric(NEAR), metric(values, first_seed=50), type="threshold", at_most=3.0)
    assert (found.word, found.method, found.alpha_used) == (word, "one-sample", 0.025)
    assert "at most 3" in found.sentence


def test_an_error_that_is_exactly_zero_keeps_its_threshold():
    found = judge(metric(NEAR), metric([0.0] * 3, first_seed=50), type="threshold", at_most=1.0)
    assert (found.word, found.method, found.scale) == ("REPRODUCED", "exact", "linear")


def test_exact_values_are_compared_seed_by_seed():
    same = judge(metric(NEAR), metric(NEAR), type="exact")
    assert (same.word, same.p_different) == ("REPRODUCED", 1.0)
    other = judge(metric(NEAR), metric((*NEAR[:4], 0.98000001)), type="exact")
    assert (other.word, other.p_different) == ("DIFFERENT", 0.0)
    assert "first under seed 5: 0.98 became 0.98000001" in other.sentence
    partly = judge(metric(NEAR), metric((*NEAR[:4], ...)), type="exact")
    assert partly.word == "INCONCLUSIVE"
    assert "1 have no value" in partly.sentence


def test_one_run_is_judged_by_the_prediction_interval():
    found = judge(
        metric(NEAR),
        metric([1.0], first_seed=50),
        type="equivalence",
        margin=Margin(absolute=0.2),
    )
    assert (found.word, found.method, found.alpha_used) == ("REPRODUCED", "prediction", 0.025)


# obstacles: each an outcome with a sentence


@pytest.mark.parametrize(
    ("original", "rerun", "said"),
    [
        (NEAR, [], "no run of the re-execution has a value"),
        (NEAR, [..., ...], "no run of the re-execution has a value"),
        ([1.0], [1.1], "one run on each side tells no spread"),
        (NEAR, [1e308, -1e308], "no run of the re-execution has a value"),
    ],
)
def test_nothing_to_compare_is_inconclusive(original, rerun, said):
    found = judge(
        metric(original),
        metric(rerun, first_seed=50),
        type="equivalence",
        margin=Margin(absolute=0.1),
    )
    assert found.word in ("INCONCLUSIVE", "DIFFERENT")
    assert said in found.sentence


def test_a_missing_metric_and_a_changed_unit_are_said():
    one = frozen(metric(NEAR), type="equivalence")
    gone = Pair(metric=PATH, claim=one, seeds="all", original=metric(NEAR), rerun=None)
    other = Pair(
        metric=PATH, claim=one, seeds="all", original=metric(NEAR), rerun=metric(NEAR, unit="s")
    )
    found = judge_all(gone, other)
    assert found.word == "INCONCLUSIVE"
    assert [claim.sentence for claim in found.claims] == [
        "the re-execution has no such metric",
        "the units differ: 1 in the original, s in the re-execution",
    ]


def test_interrupted_runs_are_no_failures():
    found = judge(metric(NEAR), metric((*NEAR, ...), first_seed=50), type="equivalence")
    assert (found.word, found.rerun.failed, found.rerun.missing) == ("REPRODUCED", 0, 1)
    assert "runs of the re-execution that were interrupted" in found.notes[0]


# failures


def test_unequal_failure_rates_veto_reproduced():
    found = judge(metric(NEAR), metric((*NEAR, None), first_seed=50), type="equivalence")
    assert (found.word, found.rerun.failed) == ("INCONCLUSIVE", 1)
    assert "0 of 5 original runs failed, 1 of 6 re-executed ones" in found.sentence


def test_equal_failure_rates_do_not():
    found = judge(metric((*NEAR, None)), metric((*NEAR, None), first_seed=50), type="equivalence")
    assert found.word == "REPRODUCED"


@pytest.mark.parametrize("swapped", [False, True])
def test_clearly_unequal_failure_rates_are_different(swapped):
    good, bad = metric(NEAR), metric([1.0, None, None, None, None], first_seed=50)
    sides = (bad, good) if swapped else (good, bad)
    found = judge(*sides, type="equivalence", margin=Margin(absolute=0.5))
    assert (found.word, found.method, found.alpha_used) == ("DIFFERENT", "failures", 0.025)
    assert found.p_different == pytest.approx(1 / 42)


def test_a_rerun_that_always_fails_is_different():
    found = judge(metric(NEAR), metric([None] * 5, first_seed=50), type="equivalence")
    assert found.word == "DIFFERENT"
    assert "5 of 5 re-executed ones" in found.sentence


# the capsule


def pairs(count, shifted, shift, **claim):
    for i in range(count):
        noise = random.Random(i)
        a = metric([noise.gauss(0, 1) for _ in range(5)])
        move = shift if i < shifted else 0.0
        b = metric([noise.gauss(move, 1) for _ in range(5)], first_seed=50)
        one = frozen(a, **{"type": "equivalence", "margin": Margin(absolute=9.0), **claim})
        yield Pair(metric=PATH, claim=one, seeds="all", original=a, rerun=b)


def test_all_primary_claims_must_be_reproduced():
    found = judge_all(*pairs(20, 0, 0.0))
    assert (found.word, verdict.exit_code(found)) == ("REPRODUCED", 0)
    wide = judge_all(*pairs(20, 1, 8.0))
    assert (wide.word, verdict.exit_code(wide)) == ("INCONCLUSIVE", 3)


def test_one_primary_claim_far_outside_makes_the_capsule_different():
    found = judge_all(*pairs(20, 1, 90.0))
    assert (found.word, verdict.exit_code(found)) == ("DIFFERENT", 1)
    worst = found.claims[0]
    assert worst.p_different < worst.p_different_holm <= 0.05


def test_a_chance_difference_among_many_claims_does_not():
    values = [1.0, 2.0, 3.0, 4.0, 5.0]
    a, b = metric(values), metric([v + 3.2 for v in values], first_seed=50)
    one = frozen(a, type="equivalence", margin=Margin(absolute=1.0))
    marginal = Pair(metric=PATH, claim=one, seeds="all", original=a, rerun=b)
    alone = judge_all(marginal)
    assert alone.word == "DIFFERENT"
    among = judge_all(marginal, *pairs(19, 0, 0.0))
    assert among.claims[0].word == "DIFFERENT"
    assert among.word == "INCONCLUSIVE"
    assert "not after Holm" in among.sentence


def test_secondary_claims_and_ratios_never_change_the_verdict():
    (bad,) = pairs(1, 1, 90.0, primary=False)
    (ratio,) = pairs(1, 0, 0.0, type="ratio", margin=None)
    good = tuple(pairs(1, 0, 0.0))
    found = judge_all(bad, ratio, *good)
    assert [claim.word for claim in found.claims] == ["DIFFERENT", "REPORTED", "REPRODUCED"]
    assert found.word == "REPRODUCED"
    assert found.claims[0].p_different_holm is None


def test_without_a_primary_claim_nothing_is_decided():
    found = judge_all(*pairs(2, 0, 0.0, primary=False))
    assert (found.word, verdict.exit_code(found)) == ("INCONCLUSIVE", 3)


def test_claims_with_different_alphas_share_one_holm():
    (strict,) = pairs(1, 1, 90.0, alpha=0.001)
    found = judge_all(strict, *pairs(3, 0, 0.0))
    assert found.word == "DIFFERENT"
    assert found.claims[0].p_different_holm <= 0.001


# through whole records


def test_two_records_are_judged_and_the_order_of_their_runs_does_not_matter():
    fresh = (101, 102, 103, 104, 105)
    here = make_record(seeds=fresh, fresh=fresh, verifies="a" * 64)
    backwards = make_record(seeds=SEEDS[::-1])
    backwards = dataclasses.replace(backwards, samples=backwards.samples[::-1])
    backwards = dataclasses.replace(backwards, manifest=make_record().manifest)
    forwards = verdict.judge(diff.compare(make_record(), here))
    assert forwards.word == "REPRODUCED"
    assert verdict.judge(diff.compare(backwards, here)) == forwards
    assert isinstance(forwards.differences, Differences)
    assert [one.metric for one in forwards.claims] == [LOSS]
    assert all(one.word == "REPORTED" for one in forwards.reported)


def test_the_margin_is_that_of_the_sealed_claim_not_of_the_values_at_hand():
    record = make_record()
    tight = dataclasses.replace(record.claims[0], lower=-1e-9, upper=1e-9)
    fresh = (101, 102, 103, 104, 105)
    here = make_record(seeds=fresh, fresh=fresh)
    found = verdict.judge(diff.compare(dataclasses.replace(record, claims=(tight,)), here))
    assert found.word != "REPRODUCED"
    assert run_values(record)[LOSS].values
