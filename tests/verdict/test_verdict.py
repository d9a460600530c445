"""Claims judged one by one, and the capsule as a whole."""

import dataclasses
import math
import random
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pytest

from capsule import diff, verdict
from capsule.diff import Differences, Pair
from capsule.manifest import Claim, Margin, Published
from capsule.record import FrozenClaim, Record
from capsule.summary import run_values
from tests.support.judging import (
    NEAR,
    PATH,
    Outcome,
    frozen,
    judge,
    judge_all,
    metric,
    states,
)
from tests.support.records import LOSS, SEEDS, make_record
from tests.verdict.parts import advice, both, limits

# one claim


def test_equal_runs_are_reproduced_with_the_margin_as_a_number() -> None:
    judgement = judge(metric(NEAR), metric(NEAR, first_seed=50), type="equivalence")
    assert (judgement.word, judgement.method) == ("REPRODUCED", "envelope")
    allowed = "0.0336 (2 sd of the original's 5 runs)"
    assert states(judgement.sentence, "equivalence", word="REPRODUCED", allowed=allowed)


def test_a_real_shift_inside_the_margin_is_called_detectable() -> None:
    shifted = metric([v + 0.05 for v in NEAR], first_seed=50)
    judgement = judge(metric(NEAR), shifted, type="equivalence", margin=Margin(absolute=0.1))
    assert judgement.word == "REPRODUCED"
    assert states(judgement.sentence, "equivalence", is_detectable=True)
    assert limits(judgement).lower > 0


def test_a_shift_beyond_the_margin_is_different() -> None:
    shifted = metric([v + 0.2 for v in NEAR], first_seed=50)
    judgement = judge(metric(NEAR), shifted, type="equivalence", margin=Margin(relative=0.1))
    assert judgement.word == "DIFFERENT"
    allowed = "0.1 (10 % of the original's mean)"
    assert states(judgement.sentence, "equivalence", word="DIFFERENT", allowed=allowed)


def test_an_open_claim_gets_advice() -> None:
    wide = metric([0.7, 1.0, 1.4], first_seed=50)
    judgement = judge(metric(NEAR), wide, type="equivalence", margin=Margin(absolute=0.2))
    assert judgement.word == "INCONCLUSIVE"
    as_seen = both(advice(judgement).as_seen)
    assert states(advice(judgement).sentence, "runs", now=3, as_seen=as_seen)
    assert 3 < as_seen[0] <= as_seen[1]
    assert 3 < both(advice(judgement).if_equal)[0] <= as_seen[0]


@pytest.mark.parametrize(("shift", "word"), [(-0.5, "REPRODUCED"), (0.5, "DIFFERENT")])
def test_noninferiority_lets_the_better_side_win(shift: float, word: str) -> None:
    other = metric([v + shift for v in NEAR], first_seed=50)
    judgement = judge(metric(NEAR), other, type="noninferiority", margin=Margin(absolute=0.1))
    assert judgement.word == word


def test_a_ratio_margin_is_judged_on_logarithms_and_told_as_a_ratio() -> None:
    double = metric([2 * v for v in NEAR], first_seed=50)
    judgement = judge(metric(NEAR), double, type="equivalence", margin=Margin(ratio=1.5))
    assert (judgement.word, judgement.scale) == ("DIFFERENT", "log")
    assert math.exp(limits(judgement).estimate) == pytest.approx(2)
    assert states(judgement.sentence, "equivalence", is_ratio=True)


def test_a_ratio_margin_needs_positive_values() -> None:
    judgement = judge(
        metric(NEAR),
        metric([0.0, *NEAR], first_seed=50),
        type="equivalence",
        margin=Margin(ratio=2),
    )
    assert judgement.word == "INCONCLUSIVE"
    assert states(judgement.sentence, "not-positive", is_mean=False, of="run")


def test_a_ratio_margin_needs_positive_values_of_the_original_too() -> None:
    ask: dict[str, Any] = {"type": "prediction", "margin": Margin(ratio=2)}
    zero, positive = metric([0.0, *NEAR]), metric(NEAR, first_seed=50)
    assert states(judge(zero, positive, **ask).sentence, "not-positive", is_mean=False)
    # a paper's number stands for the original, whose own values are compared with nothing
    paper = judge(zero, positive, **ask, published=Published(mean=1.0, sd=0.02, n=5))
    assert paper.word == "REPRODUCED"


def test_a_claim_is_judged_at_its_own_alpha() -> None:
    ask: dict[str, Any] = {"type": "equivalence", "margin": Margin(absolute=0.03)}
    sides = metric(NEAR), metric([v + 0.012 for v in NEAR], first_seed=50)
    usual = judge(*sides, **ask)
    lax, strict = (judge(*sides, **ask, alpha=alpha) for alpha in (0.2, 0.01))
    assert [one.alpha for one in (usual, lax, strict)] == [0.05, 0.2, 0.01]
    assert [one.alpha_used for one in (usual, lax, strict)] == [0.05, 0.2, 0.01]
    assert [one.word for one in (lax, strict)] == ["REPRODUCED", "INCONCLUSIVE"]
    widths = [limits(one).upper - limits(one).lower for one in (lax, usual, strict)]
    assert widths == sorted(set(widths))


def pair_of(claim: FrozenClaim | None, **changes: Any) -> Pair:
    sides = metric(NEAR), metric(NEAR, first_seed=50)
    known: dict[str, Any] = {"original": sides[0], "rerun": sides[1], **changes}
    return Pair(metric=PATH, claim=claim, seeds="all", **known)


def test_what_depends_on_a_changed_field_is_reported_only() -> None:
    claim = frozen(metric(NEAR), type="equivalence")
    (judged,) = judge_all(pair_of(claim, altered="/resources")).claims
    assert (judged.word, judged.look) == ("REPORTED", None)
    assert states(judged.sentence, "altered", fields="/resources")
    (unclaimed,) = judge_all(pair_of(None, altered="/resources")).reported
    assert states(unclaimed.sentence, "reported", is_ratio=True)


@pytest.mark.parametrize(
    ("claim", "changes", "code", "facts"),
    [
        ({"type": "exact"}, {"rerun": metric([])}, "no-common-seeds", {"is_exact": True}),
        (
            {"type": "equivalence", "paired": True},
            *({"rerun": metric([])}, "no-common-seeds", {"is_exact": False}),
        ),
        ({"type": "equivalence"}, {"original": metric([1.0])}, "no-margin", {}),
        (
            {"type": "equivalence"},
            *({"rerun": metric([], first_seed=50)}, "no-values", {"side": "the re-run"}),
        ),
        (
            {"type": "threshold", "at_most": 3.0},
            *({"rerun": None}, "no-metric", {"side": "the re-run"}),
        ),
    ],
)
def test_what_keeps_values_from_being_compared_is_told(
    claim: dict[str, Any], changes: dict[str, Any], code: str, facts: dict[str, Any]
) -> None:
    original = changes.get("original", metric(NEAR))
    pair = dataclasses.replace(
        pair_of(frozen(original, **claim), **changes),
        seeds="same" if claim["type"] == "exact" or "paired" in claim else "all",
    )
    (judged,) = judge_all(pair).claims
    assert judged.word == "INCONCLUSIVE"
    assert states(judged.sentence, code, **facts)


def test_a_side_without_the_metric_is_a_look_at_no_runs() -> None:
    claim = frozen(metric(NEAR), type="equivalence", looks=(3, 6))
    (judged,) = judge_all(pair_of(claim, rerun=None)).claims
    assert judged.look is not None
    assert (judged.look.runs, judged.look.number) == (0, None)


def test_a_metric_without_a_claim_has_a_ratio_or_says_why_not() -> None:
    for claim in (None, frozen(metric(NEAR), type="ratio")):
        verdict_of = judge_all(pair_of(claim))
        (judged,) = (*verdict_of.claims, *verdict_of.reported)
        assert (judged.word, judged.alpha) == ("REPORTED", 0.05)
        assert states(judged.sentence, "reported", is_ratio=True)
        other = metric(NEAR, first_seed=50, unit="s")
        verdict_of = judge_all(pair_of(claim, rerun=other))
        (judged,) = (*verdict_of.claims, *verdict_of.reported)
        assert judged.word == "REPORTED"
        assert states(judged.sentence, "units-differ")


@pytest.mark.parametrize("primary", [False, True])
def test_what_a_quick_side_left_out_is_skipped(primary: bool) -> None:
    sides = metric(NEAR), metric([])
    claim = dataclasses.replace(frozen(sides[0], type="equivalence"), primary=primary, looks=(3,))
    pair = Pair(
        metric=PATH,
        claim=claim,
        seeds="all",
        original=sides[0],
        rerun=sides[1],
        skipped="the re-run",
    )
    judged = judge_all(pair).claims[0]
    assert (judged.word, judged.look, judged.notes) == ("SKIPPED", None, ())
    left_out = {"sides": "the re-run", "is_decisive": primary}
    assert states(judged.sentence, "skipped", **left_out)


@pytest.mark.parametrize(
    ("values", "word"), [(NEAR, "REPRODUCED"), ([9 * v for v in NEAR], "DIFFERENT")]
)
def test_a_threshold_judges_the_rerun_alone(values: Sequence[float], word: str) -> None:
    judgement = judge(metric(NEAR), metric(values, first_seed=50), type="threshold", at_most=3.0)
    assert (judgement.word, judgement.method) == (word, "one-sample")
    assert judgement.alpha_used == pytest.approx(0.05 / 6)
    assert states(judgement.sentence, "threshold", word=word, allowed="at most 3")


def test_a_mean_above_its_bound_is_not_hidden_by_logarithms() -> None:
    """The arithmetic mean is 1.5 and the geometric one 0.88: the constant is about the first."""
    values = [0.5, 0.5, 0.5, 0.5, 5.5, 0.5, 0.5, 0.5, 0.5, 5.5]
    ask = {"type": "threshold", "at_most": 1.4}
    plain = judge(metric(NEAR), metric(values, first_seed=50), **ask)
    assert (plain.word, plain.scale) == ("INCONCLUSIVE", "linear")
    assert states(plain.sentence, "threshold", is_geometric=False)
    declared = judge(metric(NEAR), metric(values, first_seed=50), **ask, mean="geometric")
    assert declared.scale == "log"
    assert states(declared.sentence, "threshold", is_geometric=True)
    zero = judge(metric(NEAR), metric([0.0, *values], first_seed=50), **ask, mean="geometric")
    assert (zero.word, zero.estimate) == ("INCONCLUSIVE", None)
    assert states(zero.sentence, "not-positive", is_mean=True)


def test_an_error_that_is_exactly_zero_keeps_its_threshold() -> None:
    judgement = judge(metric(NEAR), metric([0.0] * 3, first_seed=50), type="threshold", at_most=1.0)
    assert (judgement.word, judgement.method, judgement.scale) == ("REPRODUCED", "exact", "linear")


def test_exact_values_are_compared_seed_by_seed() -> None:
    same = judge(metric(NEAR), metric(NEAR), type="exact")
    assert (same.word, same.p_different) == ("REPRODUCED", 1.0)
    other = judge(metric(NEAR), metric((*NEAR[:4], 0.98000001)), type="exact")
    assert (other.word, other.p_different) == ("DIFFERENT", 0.0)
    assert states(other.sentence, "exact", unequal=1, seed=5, there=0.98, here=0.98000001)
    partly = judge(metric(NEAR), metric((*NEAR[:4], ...)), type="exact")
    assert partly.word == "INCONCLUSIVE"
    assert states(partly.sentence, "exact", unequal=0, lost=1)


def test_one_run_is_judged_by_the_prediction_interval() -> None:
    judgement = judge(
        metric(NEAR),
        metric([1.0], first_seed=50),
        type="equivalence",
        margin=Margin(absolute=0.2),
    )
    assert (judgement.word, judgement.method, judgement.alpha_used) == (
        "REPRODUCED",
        "prediction",
        0.05 / 4,
    )
    assert states(judgement.sentence, "equivalence", is_of_one_run=True)


# obstacles: each an outcome with a sentence


@pytest.mark.parametrize(
    ("original", "rerun", "code", "side"),
    [
        (NEAR, [], "no-values", "the re-run"),
        (NEAR, [..., ...], "no-values", "the re-run"),
        ([1.0], [1.1], "one-run-each", None),
        (NEAR, [1e308, -1e308], "values-too-large", "the re-run"),
        ([1e301] * 3, NEAR, "values-too-large", "the original"),
    ],
)
def test_nothing_to_compare_is_inconclusive(
    original: Sequence[float], rerun: Sequence[Outcome], code: str, side: str | None
) -> None:
    judgement = judge(
        metric(original),
        metric(rerun, first_seed=50),
        type="equivalence",
        margin=Margin(absolute=0.1),
    )
    assert judgement.word in ("INCONCLUSIVE", "DIFFERENT")
    assert states(judgement.sentence, code, **({"side": side} if side else {}))


def test_a_missing_metric_and_a_changed_unit_are_said() -> None:
    one = frozen(metric(NEAR), type="equivalence")
    gone = Pair(metric=PATH, claim=one, seeds="all", original=metric(NEAR), rerun=None)
    other = Pair(
        metric=PATH, claim=one, seeds="all", original=metric(NEAR), rerun=metric(NEAR, unit="s")
    )
    outcome = judge_all(gone, other)
    assert outcome.word == "INCONCLUSIVE"
    missing, other_unit = (claim.sentence for claim in outcome.claims)
    assert states(missing, "no-metric", side="the re-run")
    units = (("1", "the original"), ("s", "the re-run"))
    assert states(other_unit, "units-differ", units=units)


def test_interrupted_runs_are_no_failures() -> None:
    judgement = judge(metric(NEAR), metric((*NEAR, ...), first_seed=50), type="equivalence")
    assert (judgement.word, judgement.rerun.failed, judgement.rerun.missing) == ("REPRODUCED", 0, 1)
    assert states(judgement.notes[0], "no-outcome", side="the re-run", runs=1)


# the capsule


def pairs(count: int, shifted: int, shift: float, **claim: Any) -> Iterator[Pair]:
    for i in range(count):
        noise = random.Random(i)
        a = metric([noise.gauss(0, 1) for _ in range(5)])
        move = shift if i < shifted else 0.0
        b = metric([noise.gauss(move, 1) for _ in range(5)], first_seed=50)
        one = frozen(a, **{"type": "equivalence", "margin": Margin(absolute=9.0), **claim})
        yield Pair(metric=PATH, claim=one, seeds="all", original=a, rerun=b)


def test_all_primary_claims_must_be_reproduced() -> None:
    outcome = judge_all(*pairs(20, 0, 0.0))
    assert (outcome.word, verdict.exit_code(outcome)) == ("REPRODUCED", 0)
    wide = judge_all(*pairs(20, 1, 8.0))
    assert (wide.word, verdict.exit_code(wide)) == ("INCONCLUSIVE", 3)


def test_one_primary_claim_far_outside_makes_the_capsule_different() -> None:
    outcome = judge_all(*pairs(20, 1, 90.0))
    assert (outcome.word, verdict.exit_code(outcome)) == ("DIFFERENT", 1)
    worst = outcome.claims[0]
    assert worst.p_different is not None
    assert worst.p_different_holm is not None
    assert worst.p_different < worst.p_different_holm <= 0.05


def test_a_chance_difference_among_many_claims_does_not() -> None:
    values = [1.0, 2.0, 3.0, 4.0, 5.0]
    a, b = metric(values), metric([v + 3.2 for v in values], first_seed=50)
    one = frozen(a, type="equivalence", margin=Margin(absolute=1.0))
    marginal = Pair(metric=PATH, claim=one, seeds="all", original=a, rerun=b)
    alone = judge_all(marginal)
    assert alone.word == "DIFFERENT"
    among = judge_all(marginal, *pairs(19, 0, 0.0))
    assert among.claims[0].word == "DIFFERENT"
    assert among.word == "INCONCLUSIVE"
    assert states(among.sentence, "chance", different=1)


def test_the_far_tail_of_welchs_test_makes_no_capsule_different() -> None:
    a = metric([-0.2, 0.0, 0.2])
    b = metric([2.5 + 0.4 * (index % 5 - 2) for index in range(12)], first_seed=50)
    one = frozen(a, type="equivalence", margin=Margin(absolute=1.0))
    far = Pair(metric=PATH, claim=one, seeds="all", original=a, rerun=b)
    assert judge_all(far).word == "DIFFERENT"
    among = judge_all(far, *pairs(19, 0, 0.0))
    p_different, adjusted = among.claims[0].p_different, among.claims[0].p_different_holm
    assert p_different is not None
    assert adjusted is not None
    assert 20 * p_different < 0.001 < 0.05 < adjusted
    assert among.word == "INCONCLUSIVE"


def test_secondary_claims_and_ratios_never_change_the_verdict() -> None:
    (bad,) = pairs(1, 1, 90.0, primary=False)
    (ratio,) = pairs(1, 0, 0.0, type="ratio", margin=None)
    good = tuple(pairs(1, 0, 0.0))
    outcome = judge_all(bad, ratio, *good)
    assert [claim.word for claim in outcome.claims] == ["DIFFERENT", "REPORTED", "REPRODUCED"]
    assert outcome.word == "REPRODUCED"
    assert outcome.claims[0].p_different_holm is None


def test_without_a_primary_claim_nothing_is_decided() -> None:
    outcome = judge_all(*pairs(2, 0, 0.0, primary=False))
    assert (outcome.word, verdict.exit_code(outcome)) == ("INCONCLUSIVE", 3)


def test_claims_with_different_alphas_share_one_holm() -> None:
    (strict,) = pairs(1, 1, 90.0, alpha=0.001)
    outcome = judge_all(strict, *pairs(3, 0, 0.0))
    assert outcome.word == "DIFFERENT"
    p_different = outcome.claims[0].p_different_holm
    assert p_different is not None
    assert p_different <= 0.001


# through whole records


def test_two_records_are_judged_and_the_order_of_their_runs_does_not_matter() -> None:
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


def test_the_margin_is_that_of_the_sealed_claim_not_of_the_values_at_hand() -> None:
    record = make_record()
    tight = dataclasses.replace(record.claims[0], lower=-1e-9, upper=1e-9)
    fresh = (101, 102, 103, 104, 105)
    here = make_record(seeds=fresh, fresh=fresh)
    outcome = verdict.judge(diff.compare(dataclasses.replace(record, claims=(tight,)), here))
    assert outcome.word != "REPRODUCED"
    assert run_values(record)[LOSS].values


# runs that are one and the same


def looping(
    seeds: tuple[int, ...],
    fresh: tuple[int, ...] = (),
    values: Mapping[int, tuple[float, float]] | None = None,
    **changes: Any,
) -> Record:
    """A record whose loss went through the same values under every seed, or the values given."""
    record = make_record(seeds=seeds, fresh=fresh, **changes)
    samples = tuple(
        dataclasses.replace(line, values=(values or {}).get(line.seed, (3.0, 2.0, 1.0)))
        if line.metric == LOSS
        else line
        for line in record.samples
    )
    return dataclasses.replace(record, samples=samples)


def test_a_workload_that_ignores_its_seed_has_one_run() -> None:
    fresh = (101, 102, 103)
    judgement = verdict.judge(
        diff.compare(looping(SEEDS), looping(fresh, fresh, verifies="a" * 64))
    ).claims[0]
    assert judgement.word == "INCONCLUSIVE"
    assert (judgement.original.values, judgement.original.independent) == (5, 1)
    assert (judgement.rerun.values, judgement.rerun.independent) == (3, 1)
    assert states(judgement.notes[0], "repeated-runs", side="the original", runs=5, independent=1)
    assert judgement.sentence.code == "copied-values"


def test_a_repeated_run_is_counted_once() -> None:
    again = dict.fromkeys((17, 18), (3.0, 1.005))
    values = {seed: (3.0, 1 + 0.01 * i) for i, seed in enumerate(SEEDS)} | again
    fresh = (101, 102, 103)
    there = looping(SEEDS, values=values)
    whole = verdict.judge(diff.compare(there, make_record(seeds=fresh, fresh=fresh))).claims[0]
    kept = {seed: values[seed] for seed in SEEDS[1:]}
    alone = looping(SEEDS[1:], values=kept)
    alone = dataclasses.replace(alone, claims=there.claims)
    less = verdict.judge(diff.compare(alone, make_record(seeds=fresh, fresh=fresh))).claims[0]
    assert (whole.estimate, whole.lower, whole.upper) == (less.estimate, less.lower, less.upper)
    assert (whole.original.values, whole.original.independent) == (5, 4)


def test_an_exact_claim_is_about_every_run_however_alike() -> None:
    claim = Claim(metric=LOSS, type="exact")
    there = looping(SEEDS)
    there = dataclasses.replace(there, claims=verdict.freeze([claim], run_values(there)))
    judgement = verdict.judge(diff.compare(there, looping(SEEDS, verifies="a" * 64))).claims[0]
    assert judgement.word == "REPRODUCED"
    assert (judgement.original.independent, judgement.notes) == (5, ())


# how many seeds to begin with


def test_a_rerun_begins_with_the_first_planned_look() -> None:
    record = make_record()

    def first(**claim: Any) -> int | None:
        claims = verdict.freeze([Claim(metric=LOSS, **claim)], run_values(record))
        return verdict.advise_runs(dataclasses.replace(record, claims=claims))

    assert first(type="equivalence", margin=Margin(absolute=1e-6)) == 5
    assert first(type="threshold", at_most=3.0) == 5
    assert first(type="equivalence", looks=(3, 6)) == 3
    assert first(type="exact") == 5
