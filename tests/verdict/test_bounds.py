"""Claims that a single run decides: a hard bound, and values that are not finite."""

import dataclasses
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from capsule import diff, stats, verdict
from capsule.diff import Pair
from capsule.manifest import Claim
from capsule.verdict import Judged, wording
from tests.support.judging import (
    NEAR,
    PATH,
    Outcome,
    codes,
    frozen,
    judge,
    judge_all,
    metric,
    states,
)

RATIOS = (0.020, 0.021, 0.019, 0.022, 0.018)


def judge_bound(
    rerun: Sequence[Outcome], original: Sequence[Outcome] = RATIOS, **ends: float
) -> Judged:
    ends = ends or {"at_most": 1.0}
    return judge(metric(original), metric(rerun, first_seed=50), type="bound", **ends)


# run by run


def test_one_run_of_ten_far_beyond_is_different_and_named() -> None:
    judgement = judge_bound([*RATIOS, *RATIOS[:4], 1000.0])
    assert (judgement.word, judgement.method, judgement.estimate) == ("DIFFERENT", "bound", 1000.0)
    breach = {"runs": 10, "broken": 1, "allowed": "at most 1", "worst": "1000", "seed": 59}
    assert states(judgement.sentence, "bound-broken", is_original=False, **breach)
    # its geometric mean says nothing of it
    averaged = judge(
        metric(RATIOS),
        metric([*RATIOS, *RATIOS[:4], 1000.0], first_seed=50),
        type="threshold",
        at_most=1.0,
        mean="geometric",
    )
    assert averaged.word == "INCONCLUSIVE"
    assert states(averaged.sentence, "threshold", is_geometric=True)


def test_the_worst_of_several_is_named() -> None:
    judgement = judge_bound([0.02, 1.5, 3.0, 0.02])
    assert states(judgement.sentence, "bound-broken", runs=4, broken=2, worst="3", seed=52)


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_a_value_that_is_not_finite_breaks_any_bound(value: float) -> None:
    judgement = judge_bound([0.02, value, 3.0])
    assert (judgement.word, judgement.estimate) == ("DIFFERENT", None)
    assert states(judgement.sentence, "bound-broken", worst=str(value), seed=51)
    assert judge_bound([0.9, value], at_least=0.5).word == "DIFFERENT"


def test_no_finite_value_at_all_is_different_however_few_runs_there_are() -> None:
    assert judge_bound([math.nan]).word == "DIFFERENT"
    assert judge_bound([math.nan] * 3, RATIOS[:3]).word == "DIFFERENT"


@pytest.mark.parametrize(
    ("ends", "within", "beyond"),
    [
        ({"at_most": 1.0}, 1.0, math.nextafter(1.0, 2)),
        ({"at_least": -2.0}, -2.0, math.nextafter(-2.0, -3)),
        ({"at_most": 0.0}, -0.0, 5e-324),
        ({"at_most": 1e200}, 1e200, math.nextafter(1e200, math.inf)),
    ],
)
def test_the_bound_itself_is_allowed_and_the_next_number_is_not(
    ends: dict[str, float], within: float, beyond: float
) -> None:
    original = [ends.get("at_most", ends.get("at_least"))] * 2
    kept, broken = ([0.0, value] if value != -2 else [0.0, -2.0] for value in (within, beyond))
    assert judge_bound(kept, original, **ends).word == "REPRODUCED"
    judgement = judge_bound(broken, original, **ends)
    assert judgement.word == "DIFFERENT"
    shown = str(dict(judgement.sentence.facts)["worst"])
    assert float(shown) > within if "at_most" in ends else float(shown) < within


# what runs that keep it say


@pytest.mark.parametrize(("runs", "rate"), [(1, 95.0), (5, 45.07), (10, 25.89), (59, 4.950)])
def test_reproduced_tells_which_rate_of_bad_runs_is_excluded(runs: int, rate: float) -> None:
    judgement = judge_bound([0.02 + 0.001 * index for index in range(runs)])
    assert judgement.word == "REPRODUCED"
    assert states(judgement.sentence, "bound", runs=runs, allowed="at most 1")
    assert dict(judgement.sentence.facts)["bad_runs"] == pytest.approx(rate, rel=1e-3)


def test_a_run_that_repeats_another_says_nothing_new_of_the_rate() -> None:
    rerun = metric(RATIOS, first_seed=50)
    repeated = [dataclasses.replace(run, trajectory=50, value=0.02) for run in rerun.runs]
    rerun = dataclasses.replace(rerun, runs=tuple(repeated))
    judgement = judge(metric(RATIOS), rerun, type="bound", at_most=1.0)
    assert judgement.word == "REPRODUCED"
    assert dict(judgement.sentence.facts)["bad_runs"] == pytest.approx(95)


def test_the_original_needs_no_runs_of_its_own() -> None:
    assert judge_bound(RATIOS, [...]).word == "REPRODUCED"


def test_the_rates_on_the_page_are_these() -> None:
    page = (Path(__file__).parents[2] / "docs" / "explanation" / "statistics.md").read_text()
    section = " ".join(page.partition("### Hard bounds")[2].partition("\n## ")[0].split())
    assert f"after 5 runs up to {100 * stats.failure_bound(0, 5):.1f} %" in section
    assert f"after 10 up to {100 * stats.failure_bound(0, 10):.1f} %" in section
    assert f"after 59 up to {100 * stats.failure_bound(0, 59):.0f} %" in section
    clean = 0.9**5
    assert f"in B alone in {100 * clean * (1 - clean):.0f} % of cases" in section


# an original beyond its own bound


@pytest.mark.parametrize(
    ("broken", "rerun"),
    [(1.25, RATIOS), (1.25, [0.02, 5.0]), (math.nan, RATIOS), (math.nan, [math.inf, 0.02, 5.0])],
)
def test_an_original_that_breaks_its_own_bound_leaves_nothing_to_reproduce(
    broken: float, rerun: Sequence[float]
) -> None:
    judgement = judge_bound(rerun, [*RATIOS, broken])
    assert judgement.word == "INCONCLUSIVE"
    breach = {"runs": 6, "broken": 1, "worst": str(broken), "seed": 6}
    assert states(judgement.sentence, "bound-broken", is_original=True, **breach)


def test_a_new_value_that_is_not_finite_is_different_even_then() -> None:
    judgement = judge_bound([0.02, math.nan], [*RATIOS, 1.25])
    assert judgement.word == "DIFFERENT"
    assert states(judgement.sentence, "bound-broken", worst="nan", seed=51)


# the capsule's word


def test_a_broken_bound_is_no_chance_among_many_claims() -> None:
    one = frozen(metric(RATIOS), type="bound", at_most=1.0)
    good, bad = metric(RATIOS, first_seed=50), metric([*RATIOS, 1.01], first_seed=50)
    pair = Pair(metric=PATH, claim=one, seeds="fresh", original=metric(RATIOS), rerun=good)
    outcome = judge_all(*[pair] * 999, dataclasses.replace(pair, rerun=bad))
    assert outcome.word == "DIFFERENT"
    assert states(outcome.sentence, "differs", claims=1000, different=1)
    assert outcome.claims[-1].p_different_holm == 0.0
    assert judge_all(*[pair] * 999).word == "REPRODUCED"


def test_a_secondary_bound_does_not_change_the_capsule() -> None:
    one = frozen(metric(RATIOS), type="bound", at_most=1.0, primary=False)
    rerun = metric([2.0], first_seed=50)
    pair = Pair(metric=PATH, claim=one, seeds="fresh", original=metric(RATIOS), rerun=rerun)
    kept = dataclasses.replace(
        pair, claim=frozen(metric(RATIOS), type="bound", at_most=3.0), rerun=rerun
    )
    assert judge_all(pair, kept).word == "REPRODUCED"


def test_looks_that_other_claims_plan_leave_a_bound_as_it_is() -> None:
    looking = frozen(metric(NEAR), type="equivalence", looks=(3, 6))
    bound = frozen(metric(NEAR), type="bound", at_most=3.0)
    original, rerun = metric(NEAR), metric(NEAR[:3], first_seed=50)
    pairs = [
        Pair(metric=PATH, claim=claim, seeds="fresh", original=original, rerun=rerun)
        for claim in (looking, bound)
    ]
    first, second = judge_all(*pairs).claims
    assert first.look is not None
    assert (second.look, second.word) == (None, "REPRODUCED")


def test_another_unit_is_no_bound_kept_or_broken() -> None:
    rerun = metric([1000.0], first_seed=50, unit="ms")
    judgement = judge(metric(NEAR, unit="s"), rerun, type="bound", at_most=3.0)
    assert judgement.word == "INCONCLUSIVE"
    assert judgement.sentence.code == "units-differ"


def test_runs_that_crash_break_no_bound_and_withhold_reproduced() -> None:
    judgement = judge_bound([0.02, 0.02, None, None, None], RATIOS)
    assert judgement.word == "INCONCLUSIVE"
    assert states(judgement.sentence, "bound", runs=2)
    assert judge_bound([None, None], RATIOS).word == "INCONCLUSIVE"


def test_a_bound_is_told_as_one_of_every_run() -> None:
    original = metric(RATIOS)
    claim = frozen(original, type="bound", at_most=1.0)
    assert wording.region(claim, original) == "every run at most 1"


# values that are not finite, under other claims


def test_a_value_that_is_no_longer_finite_is_not_exactly_the_same() -> None:
    judgement = judge(metric(NEAR), metric((*NEAR[:4], math.nan)), type="exact")
    assert (judgement.word, judgement.p_different) == ("DIFFERENT", 0.0)
    assert states(judgement.sentence, "exact-finiteness", changed=1, seed=5, there=0.98)
    assert math.isnan(dict(judgement.sentence.facts)["here"])  # type: ignore[arg-type]
    back = judge(metric((*NEAR[:4], math.nan)), metric(NEAR), type="exact")
    assert back.word == "DIFFERENT"
    assert states(back.sentence, "exact-finiteness", here=0.98)
    both = judge(metric((*NEAR[:4], math.nan)), metric((*NEAR[:4], math.nan)), type="exact")
    assert both.word == "INCONCLUSIVE"
    # in whatever order they ran
    late = metric((math.nan, math.inf, *NEAR[2:]))
    turned = dataclasses.replace(late, runs=late.runs[::-1])
    for here in (late, turned):
        sentence = judge(metric(NEAR), here, type="exact").sentence
        assert states(sentence, "exact-finiteness", values=5, changed=2, seed=1, there=1.0)


CHANCE: list[dict[str, Any]] = [{"type": "equivalence"}, {"type": "threshold", "at_most": 3.0}]


@pytest.mark.parametrize("claim", CHANCE)
def test_where_chance_has_a_part_it_is_a_run_that_failed_and_is_told(claim: dict[str, Any]) -> None:
    judgement = judge(metric(NEAR), metric((*NEAR[:4], math.inf), first_seed=50), **claim)
    assert judgement.word != "DIFFERENT"
    assert "not-finite" in codes(judgement)
    (note,) = (note for note in judgement.notes if note.code == "not-finite")
    assert states(note, "not-finite", values=1, runs=5, value=math.inf, seed=54)
    several = judge(metric(NEAR), metric((*NEAR[:3], -math.inf, math.inf), first_seed=50), **claim)
    (note,) = (note for note in several.notes if note.code == "not-finite")
    assert states(note, "not-finite", values=2, runs=5, value=-math.inf, seed=53)
    original = metric((*NEAR[:4], math.nan))
    known = judge(original, metric((*NEAR[:4], math.inf), first_seed=50), **claim)
    assert "not-finite" not in codes(known)


def test_all_of_enough_runs_without_a_finite_value_are_different_under_any_claim() -> None:
    judgement = judge(metric(NEAR), metric([math.nan] * 5, first_seed=50), type="equivalence")
    assert judgement.word == "DIFFERENT"


# bounds that are no small part of what they judge

HELD = "train/default/torch/node_error_ratio"
SHARE = "train/default/torch/bound_share"


def judge_held(ratios: Sequence[Outcome], shares: Sequence[Outcome], **claim: Any) -> Judged:
    whole = {"metric": HELD, "type": "bound", "at_most": 1.0, **claim}
    there = {HELD: metric(RATIOS, path=HELD), SHARE: metric([0.5] * 5, path=SHARE)}
    here = {
        HELD: metric(ratios, path=HELD, first_seed=50),
        SHARE: metric(shares, path=SHARE, first_seed=50),
    }
    claims = verdict.freeze([Claim(**whole)], there)
    return judge_all(*diff.pair_up(claims, there, here)).claims[0]


def test_a_bound_that_is_no_small_part_of_what_it_judges_confirms_nothing() -> None:
    judgement = judge_held([0.3, 0.4, 0.2], [0.01, 0.25, 0.12])
    assert judgement.word == "INCONCLUSIVE"
    assert states(judgement.sentence, "wide-bound", wide=2, runs=3, share=0.25, seed=51)
    assert judge_held([0.3, 0.4], [0.01, math.inf]).word == "INCONCLUSIVE"


def test_a_small_one_confirms_and_any_is_broken() -> None:
    assert judge_held([0.3, 0.4, 0.2], [0.01, 0.1, 0.02]).word == "REPRODUCED"
    assert judge_held([0.3, 1.4, 0.2], [0.5] * 3).word == "DIFFERENT"


def test_runs_that_failed_have_no_bound_to_be_too_wide() -> None:
    assert judge_held([0.3, None], [0.01, None]).sentence.code != "wide-bound"
