"""Claims on the mean of a curve's last evaluations: which number of a run they judge, and how."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from capsule import diff, verdict
from capsule.diff.several import Across
from capsule.manifest import Claim, Margin
from capsule.record import FrozenClaim
from capsule.report.documents.comparison import claim_to_json
from capsule.report.terminal.agreement import group, list_claims
from capsule.report.terminal.claims import ClaimNames
from capsule.summary import MetricRuns
from capsule.verdict import spread, wording
from capsule.verdict.model import Judged, Verdict
from tests.support.judging import PATH, codes, curves, judge_all, metric, run, states
from tests.verdict.parts import limits

Curves = Sequence[Sequence[float]]
# their last values are 5, 1, 3, the means of their last three 3, 2, 4
THREE = ((9.0, 1.0, 3.0, 5.0), (9.0, 2.0, 3.0, 1.0), (9.0, 5.0, 4.0, 3.0))
AGAIN = ((9.0, 1.1, 3.1, 5.1), (9.0, 1.9, 2.9, 0.9), (9.0, 5.2, 3.8, 3.0))

MEAN = "mean of the last 3 evaluations"


def claim(**fields: Any) -> Claim:
    return Claim(**{"metric": PATH, "type": "equivalence", "mean_of_last": 3, **fields})


def freeze(original: MetricRuns, *claims: Claim) -> tuple[FrozenClaim, ...]:
    """As sealing freezes them, judged in one look where they plan none."""
    frozen = verdict.freeze(claims, {PATH: original})
    return tuple(dataclasses.replace(one, looks=one.pattern.looks) for one in frozen)


def compare(original: MetricRuns, rerun: MetricRuns, *claims: Claim) -> Verdict:
    frozen = freeze(original, *claims)
    return judge_all(*diff.pair_up(frozen, {PATH: original}, {PATH: rerun}))


def judge(original: MetricRuns, rerun: MetricRuns, **fields: Any) -> Judged:
    return compare(original, rerun, claim(**fields)).claims[0]


def noisy(n: int, *, first_seed: int, seed: int, shift: float = 0.0) -> MetricRuns:
    """Runs that end on one level each, with twice as much noise from evaluation to evaluation."""
    random = np.random.default_rng(seed)
    levels = shift + random.normal(0, 0.5, (n, 1))
    values = levels + random.normal(0, 1, (n, 8))
    return curves(values.tolist(), first_seed=first_seed)


@pytest.mark.parametrize(("last", "sd"), [(1, 2.0), (3, 1.0), (None, 2.0)])
def test_the_margin_is_frozen_from_the_values_that_will_be_judged(
    last: int | None, sd: float
) -> None:
    (frozen,) = freeze(curves(THREE), claim(mean_of_last=last, margin=Margin(sd=1)))
    assert frozen.upper == pytest.approx(sd / 0.886227, rel=1e-5)
    (relative,) = freeze(curves(THREE), claim(mean_of_last=last, margin=Margin(relative=0.5)))
    assert relative.upper == 1.5


def test_a_counted_metric_keeps_its_step() -> None:
    """Of three whole numbers the mean moves in thirds, but what rounding blurs may be common."""
    (frozen,) = freeze(curves(THREE, resolution=2.0), claim())
    assert frozen.upper == 3.0


def test_the_shift_is_that_of_the_means_on_both_sides() -> None:
    higher = [[value + 2 for value in curve] for curve in THREE]
    judged = judge(curves(THREE), curves(higher, first_seed=9), margin=Margin(absolute=90))
    assert limits(judged).estimate == pytest.approx(2)
    assert judged.original.mean == 3
    assert judged.original.sd == pytest.approx(1)
    assert states(judged.sentence, "equivalence", of=MEAN, is_ratio=False)


@pytest.mark.parametrize(
    ("fields", "code", "facts"),
    [
        ({"type": "equivalence", "margin": Margin(absolute=50)}, "equivalence", {}),
        ({"type": "equivalence", "margin": Margin(ratio=50)}, "equivalence", {"is_ratio": True}),
        ({"type": "noninferiority", "margin": Margin(absolute=50)}, "noninferiority", {}),
        ({"type": "prediction", "margin": Margin(absolute=50)}, "equivalence", {}),
        ({"type": "threshold", "at_most": 50}, "threshold", {"is_geometric": False}),
        (
            {"type": "threshold", "at_most": 50, "mean": "geometric"},
            "threshold",
            {"is_geometric": True},
        ),
        (
            {"mean_of_last": 1, "margin": Margin(absolute=50)},
            "equivalence",
            {"of": "last evaluation"},
        ),
    ],
)
def test_every_rule_of_one_value_a_run_takes_it(
    fields: dict[str, Any], code: str, facts: dict[str, Any]
) -> None:
    judged = judge(curves(THREE), curves(AGAIN, first_seed=9), **fields)
    assert judged.word == "REPRODUCED"
    assert states(judged.sentence, code, **{"of": MEAN, **facts})


def test_pairs_are_of_the_same_value() -> None:
    nearly = [[value + 0.1 * seed for value in curve] for seed, curve in enumerate(THREE)]
    pairs, fresh = compare(
        curves(THREE), curves(nearly), claim(paired=True, margin=Margin(absolute=1))
    ).claims
    assert limits(pairs).estimate == pytest.approx(0.1)
    assert (pairs.method, fresh.seeds) == ("paired", "all")


@pytest.mark.parametrize(("last", "judgements"), [(3, 2), (None, 3), (1, 3)])
def test_only_a_claim_on_the_same_value_stands_beside_pairs(
    last: int | None, judgements: int
) -> None:
    beside = claim(mean_of_last=last, margin=Margin(absolute=2))
    runs = curves(THREE), curves(THREE)
    judged = compare(*runs, claim(paired=True, margin=Margin(absolute=1)), beside)
    assert len(judged.claims) == judgements


def test_two_claims_on_one_metric_are_told_apart_wherever_they_are_named() -> None:
    original, rerun = noisy(6, first_seed=1, seed=3), noisy(6, first_seed=50, seed=4)
    wide = Margin(absolute=6)
    judged = compare(original, rerun, claim(margin=wide), claim(mean_of_last=None, margin=wide))
    mean, last = judged.claims
    assert (mean.word, last.word) == ("REPRODUCED", "REPRODUCED")
    assert limits(mean).estimate != limits(last).estimate
    assert mean.p_different_holm is not None
    claims = list_claims(judged)
    assert [len(one) for one in group(claims)] == [1, 1]
    names = ClaimNames(judged.claims)
    assert [names.name(one) for one in judged.claims] == [
        "loss, mean of the last 3 evaluations",
        "loss",
    ]
    documents = [claim_to_json(one.claim)["value"] for one in claims]
    assert documents == [{"mean_of_last": 3}, None]


def test_the_claim_that_differs_is_named_with_its_value() -> None:
    original = noisy(6, first_seed=1, seed=3)
    far = noisy(6, first_seed=50, seed=4, shift=90)
    verdict = compare(original, far, claim(margin=Margin(absolute=1)))
    assert verdict.word == "DIFFERENT"
    assert states(verdict.sentence, "differs", claims=1, first=f"{PATH}, {MEAN}")


def test_a_run_with_too_few_evaluations_counts_as_failed_and_says_so() -> None:
    short = curves([*THREE, (1.0, 2.0)])
    judged = judge(short, curves(AGAIN, first_seed=9), margin=Margin(absolute=50))
    assert (judged.original.values, judged.original.failed) == (3, 1)
    (note,) = (one for one in judged.notes if one.code == "too-few-evaluations")
    facts = {"short": 1, "runs": 4, "side": "original", "last": 3, "seed": 4, "evaluations": 2}
    assert states(note, "too-few-evaluations", **facts)
    whole = compare(short, curves(AGAIN, first_seed=9), claim(mean_of_last=None))
    assert whole.claims[0].original.failed == 0


def test_runs_that_all_stop_early_in_the_re_execution_are_not_reproduced() -> None:
    early = curves([curve[:2] for curve in AGAIN * 3], first_seed=50)
    judged = judge(curves(THREE * 3), early, margin=Margin(absolute=50))
    assert judged.word == "DIFFERENT"
    assert judged.method == "failures"
    assert judged.rerun.failed == 9


def test_evaluations_of_a_warm_up_are_not_among_the_last() -> None:
    (first, *others) = curves(THREE).runs
    (line,) = first.samples
    warmed = dataclasses.replace(first, samples=(dataclasses.replace(line, warmup=2),))
    original = dataclasses.replace(curves(THREE), runs=(warmed, *others))
    judged = judge(original, curves(AGAIN, first_seed=9), margin=Margin(absolute=50))
    assert judged.original.failed == 1
    short = {"seed": 1, "evaluations": 2}
    assert any(states(note, "too-few-evaluations", **short) for note in judged.notes)


def test_values_without_steps_are_no_evaluations() -> None:
    calls = metric(list(AGAIN), first_seed=9)
    judged = judge(curves(THREE), calls, margin=Margin(absolute=50))
    assert judged.rerun.values == 0
    assert states(judged.sentence, "no-values", side="the re-run")
    short = {"side": "re-run", "evaluations": None}
    assert any(states(note, "too-few-evaluations", **short) for note in judged.notes)


def test_one_value_without_steps_is_no_evaluation_either() -> None:
    judged = judge(metric([[1.0], [2.0], [1.5]]), metric([[1.0], [2.0], [1.5]], first_seed=9))
    assert judged.word == "INCONCLUSIVE"
    assert "too-few-evaluations" in codes(judged)


def test_a_run_ends_where_it_ends_and_other_steps_are_told() -> None:
    longer = [(9.0, 9.0, *curve[1:]) for curve in THREE]
    judged = judge(curves(THREE), curves(longer, first_seed=9), margin=Margin(absolute=50))
    assert limits(judged).estimate == 0
    (note,) = (one for one in judged.notes if one.code == "unequal-steps")
    assert states(note, "unequal-steps", last=3, low=1.0, high=4.0)
    alike = judge(curves(THREE), curves(AGAIN, first_seed=9), margin=Margin(absolute=50))
    assert "unequal-steps" not in codes(alike)


def test_runs_without_a_value_stay_what_they_were() -> None:
    known = {"unit": "1", "direction": "lower", "kind": "portable", "resolution": 0.0}
    lost = [run(7, None, PATH, known), run(8, ..., PATH, known), run(9, math.nan, PATH, known)]
    original = curves(THREE)
    rerun = dataclasses.replace(original, runs=(*curves(THREE, first_seed=4).runs, *lost))
    judged = judge(original, rerun, margin=Margin(absolute=50))
    assert (judged.rerun.failed, judged.rerun.missing) == (2, 1)
    assert "too-few-evaluations" not in codes(judged)


def test_a_mean_beyond_every_double_is_a_failed_run() -> None:
    huge = [[1e308, 1.7e308, 1.7e308], *(curve[1:] for curve in THREE)]
    judged = judge(curves(THREE), curves(huge, first_seed=9), margin=Margin(absolute=50))
    assert judged.rerun.failed == 1


def test_of_several_ranks_the_worst_mean_counts() -> None:
    runs = []
    for one in curves(THREE).runs:
        (line,) = one.samples
        better = tuple(value - 1 for value in line.values)
        runs.append(
            dataclasses.replace(
                one, samples=(dataclasses.replace(line, rank=1, values=better), line)
            )
        )
    original = dataclasses.replace(curves(THREE), runs=tuple(runs))
    judged = judge(original, curves(AGAIN, first_seed=9), margin=Margin(absolute=50))
    assert judged.original.mean == 3


def test_over_several_machines_the_spread_is_that_of_the_judged_value() -> None:
    (frozen,) = freeze(curves(THREE), claim(margin=Margin(absolute=50)))
    sides = tuple(curves(THREE, first_seed=seed) for seed in (1, 11, 21))
    over = spread.over(Across(metric=PATH, claims=(frozen,), sides=sides), ())
    assert [counts.sd for counts in over.counts if counts] == [pytest.approx(1)] * 3
    assert states(over.precision_sentence, "precision", of=MEAN)


def test_what_a_frozen_claim_allows_counts_the_runs_it_was_frozen_from() -> None:
    short = curves([*THREE, (1.0, 2.0)])
    (frozen,) = freeze(short, claim())
    (pair,) = diff.pair_up((frozen,), {PATH: short}, {PATH: curves(AGAIN, first_seed=9)})
    assert wording.region(frozen, pair.original) == "within 2.26 (2 sd of the original's 3 runs)"


@pytest.mark.parametrize("n", [3, 5])
def test_averaging_evaluations_confirms_an_equal_margin_more_often(n: int) -> None:
    """Half the variance: what 70 % of cases confirm, 97 % do, as statistics.md says."""
    words: dict[int, int] = {1: 0, 3: 0}
    random = np.random.default_rng([12, n])
    for _ in range(120):
        sides = []
        for first_seed in (1, 100):
            values = random.normal(0, math.sqrt(0.25), (n, 1)) + random.normal(
                0, math.sqrt(0.75), (n, 3)
            )
            sides.append(curves(values.tolist(), first_seed=first_seed))
        for last in words:
            judged = judge(*sides, mean_of_last=last, margin=Margin(absolute=2))
            words[last] += judged.word == "REPRODUCED"
    share = {last: count / 120 for last, count in words.items()}
    expected = {3: (0.27, 0.63), 5: (0.72, 0.97)}[n]
    assert (share[1], share[3]) == pytest.approx(expected, abs=0.16)
    assert share[3] > share[1] + 0.1
