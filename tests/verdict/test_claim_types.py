"""Pairs, predictions, distributions, curves: claims beyond the shift of two sets of runs."""

import dataclasses
import math
import random
from collections.abc import Mapping, Sequence
from statistics import NormalDist

import pytest

from capsule import diff, verdict
from capsule.diff import Pair
from capsule.freezing import curve_spread
from capsule.manifest import Claim, Margin, Published
from capsule.summary import MetricRuns, run_values
from capsule.verdict.model import Judged
from tests.support.judging import (
    NEAR,
    PATH,
    codes,
    curves,
    frozen,
    judge,
    judge_all,
    metric,
    states,
)
from tests.support.records import LOSS, make_record
from tests.verdict.parts import advice, limits

WIDE = (0.2, 1.7, 0.9, 2.4, 1.3)


def noise(seed: int, n: int, mean: float = 0.0, sd: float = 1.0) -> list[float]:
    source = random.Random(seed)
    return [source.gauss(mean, sd) for _ in range(n)]


# pairs


def test_pairs_decide_what_the_spread_between_seeds_hides() -> None:
    there, here = metric(WIDE), metric([value + 0.01 for value in WIDE])
    ask = {"type": "equivalence", "margin": Margin(absolute=0.05)}
    judgement = judge(there, here, **ask, paired=True)
    assert (judgement.word, judgement.method, judgement.seeds) == ("REPRODUCED", "paired", "same")
    assert states(judgement.notes[0], "paired-seeds", pairs=5, are_rounds=False)
    assert judge(there, here, **ask).word == "INCONCLUSIVE"


def test_pairs_of_a_shifted_side_are_different() -> None:
    here = metric([value * (1.2 + 0.01 * i) for i, value in enumerate(WIDE)])
    judgement = judge(
        metric(WIDE), here, type="equivalence", margin=Margin(ratio=1.01), paired=True
    )
    assert (judgement.word, judgement.scale) == ("DIFFERENT", "log")


def test_only_seeds_with_a_value_on_both_sides_are_pairs() -> None:
    ask = {"type": "equivalence", "margin": Margin(absolute=9.0), "paired": True}
    judgement = judge(metric((*WIDE[:3], None, ...)), metric((*WIDE[:2], None, *WIDE[3:])), **ask)
    (note,) = (note for note in judgement.notes if note.code == "paired-seeds")
    assert states(note, "paired-seeds", pairs=2)
    lonely = judge(metric(WIDE), metric([1.0, None, ..., ..., ...]), **ask)
    assert (lonely.word, lonely.method) == ("INCONCLUSIVE", "none")
    assert lonely.sentence.code == "too-few-pairs"


def test_pairs_can_not_be_decided_by_seeds_that_the_original_has_not() -> None:
    here = metric([value + 0.1 * (-1) ** i for i, value in enumerate(WIDE)])
    judgement = judge(
        metric(WIDE), here, type="equivalence", margin=Margin(absolute=0.1), paired=True
    )
    assert (judgement.word, advice(judgement).answer) == ("INCONCLUSIVE", "original-too-few")
    assert advice(judgement).sentence.code == "pairs"


def test_a_record_is_paired_by_the_originals_seeds_among_fresh_ones() -> None:
    there = make_record()
    claim = Claim(metric=LOSS, type="equivalence", margin=Margin(absolute=0.05), paired=True)
    there = dataclasses.replace(there, claims=verdict.freeze([claim], run_values(there)))
    seeds = (17, 18, 19, 101, 102)
    differences = diff.compare(there, make_record(seeds=seeds, fresh=(101, 102), verifies="a" * 64))
    one, beside = verdict.judge(differences).claims
    assert (one.word, one.rerun.seeds) == ("REPRODUCED", (17, 18, 19))
    assert (beside.seeds, beside.rerun.seeds) == ("fresh", (101, 102))
    assert "paired-seeds" in codes(one)
    assert "2 sd" not in one.sentence
    assert "shared-seeds" not in codes(differences)


# predictions


def test_a_prediction_of_several_runs_reckons_with_their_own_spread() -> None:
    ask = {"type": "prediction", "margin": Margin(absolute=0.1)}
    near = judge(metric(NEAR), metric([1.0, 1.0, 1.001], first_seed=9), **ask)
    assert (near.word, near.method, near.alpha_used) == ("REPRODUCED", "envelope", 0.05)
    # the same mean, but so far apart that it may be anywhere
    apart = judge(metric(NEAR), metric([0.8, 1.0, 1.201], first_seed=9), **ask)
    assert (apart.word, codes(apart)) == ("INCONCLUSIVE", [])


def test_a_prediction_of_one_run_takes_the_spread_of_the_other_side() -> None:
    ask = {"type": "prediction", "margin": Margin(absolute=0.1)}
    judgement = judge(metric(NEAR), metric([1.0], first_seed=9), **ask)
    assert (judgement.word, judgement.method) == ("REPRODUCED", "prediction")
    half = (limits(judgement).upper - limits(judgement).lower) / 2
    assert half == pytest.approx(3.495406 * 0.0158114 * math.sqrt(1 / 5 + 1), rel=1e-5)
    assert states(judgement.sentence, "equivalence", is_of_one_run=True)


def test_a_prediction_that_is_too_wide_is_called_consistent() -> None:
    judgement = judge(
        metric(WIDE), metric([1.0], first_seed=9), type="prediction", margin=Margin(absolute=0.1)
    )
    assert judgement.word == "INCONCLUSIVE"
    assert "consistent" in codes(judgement)


@pytest.mark.parametrize(("mean", "word"), [(1.0, "REPRODUCED"), (9.0, "DIFFERENT")])
def test_a_paper_is_an_original(mean: float, word: str) -> None:
    published = Published(mean=mean, sd=0.02, n=5)
    ask = {"type": "prediction", "margin": Margin(absolute=0.1), "published": published}
    judgement = judge(metric([...]), metric(NEAR, first_seed=9), **ask)
    assert (judgement.word, judgement.method, judgement.alpha_used) == (word, "summary", 0.025)
    assert judgement.superiority is None


@pytest.mark.parametrize("cv", [0.05, 0.6])
@pytest.mark.parametrize("unit", [1.0, 1e-3, 1e6])
def test_a_papers_ratio_is_judged_by_the_mean_of_logarithms(cv: float, unit: float) -> None:
    # lognormal runs of mean 1 and this relative spread, spread evenly by their quantiles
    log_sd = math.sqrt(math.log1p(cv**2))
    quantiles = [NormalDist().inv_cdf((i + 0.5) / 200) for i in range(200)]
    here = [unit * math.exp(log_sd * z - log_sd**2 / 2) for z in quantiles]
    published = Published(mean=unit, sd=cv * unit, n=200)
    ask = {"type": "prediction", "margin": Margin(ratio=1.2), "published": published}
    judgement = judge(metric([...]), metric(here, first_seed=9), **ask)
    estimate, lower, upper = limits(judgement)
    assert estimate == pytest.approx(0.0, abs=1e-9)
    # both sides have the same standard deviation; that of the quantiles is a little less
    reach = 1.966 * log_sd * math.sqrt(2 / 200)
    assert [lower, upper] == pytest.approx([-reach, reach], rel=0.01)
    assert judgement.word == "REPRODUCED"


def test_a_paper_of_hardly_any_mean_is_no_number_but_decides_nothing() -> None:
    for mean, sd in ((1e-300, 1e300), (5e-324, 1.0), (1e300, 0.0)):
        published = Published(mean=mean, sd=sd, n=5)
        ask = {"type": "prediction", "margin": Margin(ratio=1.5), "published": published}
        judgement = judge(metric([...]), metric(NEAR, first_seed=9, resolution=1e-3), **ask)
        assert judgement.word == ("DIFFERENT" if sd == 0 else "INCONCLUSIVE")


@pytest.mark.parametrize(("there", "part"), [(4, 1 / 2), (8, 1 / 2), (16, 1 / 3), (10**6, 1 / 6)])
def test_unequal_numbers_of_a_paper_are_judged_at_a_stricter_level(there: int, part: float) -> None:
    published = Published(mean=1.0, sd=0.02, n=there)
    ask = {"type": "prediction", "margin": Margin(absolute=0.1), "published": published}
    judgement = judge(metric([...]), metric(NEAR[:4], first_seed=9), **ask)
    assert judgement.method == "summary"
    assert judgement.alpha_used == pytest.approx(0.05 * part, rel=1e-4)


def test_a_paper_without_a_number_of_runs_has_three() -> None:
    known, unknown = (
        judge(
            metric(NEAR),
            metric(NEAR, first_seed=9),
            type="prediction",
            margin=Margin(ratio=1.5),
            published=Published(mean=1.0, sd=0.02, n=n),
        )
        for n in (3, None)
    )
    assert (known.lower, known.upper, known.scale) == (unknown.lower, unknown.upper, "log")
    assert known.notes == ()
    assert states(unknown.notes[0], "runs-assumed", runs=3)


# distributions


def latencies(seed: int, runs: int, n: int = 400, shift: float = 0.0) -> MetricRuns:
    lists = [[1 + abs(x) + shift for x in noise(seed + i, n)] for i in range(runs)]
    return metric(lists, first_seed=seed, kind="machine", unit="s")


def close(there: MetricRuns, here: MetricRuns, distance: float = 0.2) -> Judged:
    return judge(there, here, type="distribution", margin=Margin(distance=distance))


def test_equal_distributions_are_close() -> None:
    judgement = close(latencies(1, 5), latencies(50, 5))
    assert (judgement.word, judgement.method) == ("REPRODUCED", "shares")
    assert (judgement.region, judgement.alpha_used) == ((None, 0.2), 0.05)
    estimate, lower, upper = limits(judgement)
    assert 0 <= lower <= estimate <= upper < 0.2
    facts = {"allowed": 0.2, "thresholds": 100, "checkpoints": 100}
    assert states(judgement.sentence, "distribution", word="REPRODUCED", **facts)


@pytest.mark.parametrize("shift", [-1.0, 1.0])
def test_shifted_distributions_are_not(shift: float) -> None:
    judgement = close(latencies(1, 5), latencies(50, 5, shift=shift))
    assert judgement.word == "DIFFERENT"
    assert judgement.p_reproduced == pytest.approx(1.0)
    assert judgement.p_different is not None
    assert judgement.p_different < 1e-3
    estimate, lower, upper = limits(judgement)
    assert 0.2 < lower <= estimate <= upper <= 1.0


def test_the_threshold_of_the_sentence_is_where_the_shares_part() -> None:
    # half of the samples are moved, all of those between 1 and 2
    there = [[1.5] * 100 + [3.0 + i / 100 for i in range(100)] for _ in range(4)]
    here = [[2.5] * 100 + [3.0 + i / 100 for i in range(100)] for _ in range(4)]
    judgement = close(metric(there), metric(here, first_seed=9))
    assert states(judgement.sentence, "distribution", word="DIFFERENT", threshold=1.5)
    assert judgement.estimate == 0.5


def test_runs_are_the_sample_of_a_distribution() -> None:
    few = close(latencies(1, 5), latencies(50, 2, n=40))
    assert (few.word, advice(few).answer) == ("INCONCLUSIVE", "runs")
    assert states(advice(few).sentence, "runs", of="at that threshold alone")
    assert advice(few).if_equal[0] is not None
    many = close(latencies(1, 5), latencies(50, 2, n=40_000))
    assert many.rerun.values == 2
    assert limits(many).upper - limits(many).lower > 0.01


def test_samples_that_share_a_run_are_not_independent() -> None:
    apart = [[10.0 * i + x for x in noise(i, 400)] for i in range(5)]
    again = [[10.0 * i + x for x in noise(50 + i, 400)] for i in range(5)]
    judgement = close(metric(apart), metric(again, first_seed=50), distance=0.3)
    assert judgement.word == "INCONCLUSIVE"
    assert limits(judgement).upper - limits(judgement).lower > 0.5


def test_runs_that_become_steady_late_are_named() -> None:
    def late(first_seed: int) -> MetricRuns:
        lists = [[*noise(first_seed + i, 80, 9.0), *noise(i, 120)] for i in range(3)]
        return metric(lists, first_seed=first_seed)

    steady = metric([noise(i, 200) for i in range(3)], first_seed=50)
    (note,) = close(late(1), steady).notes
    assert states(note, "late-settling", side="original")
    (note,) = close(steady, late(90)).notes
    assert states(note, "late-settling", side="re-run")


@pytest.mark.parametrize(("there", "here"), [(1, 1), (1, 5), (5, 1)])
def test_one_run_of_a_side_decides_nothing_about_a_distribution(there: int, here: int) -> None:
    for shift in (0.0, 5.0):
        judgement = close(latencies(1, there), latencies(50, here, shift=shift))
        assert (judgement.word, judgement.estimate) == ("INCONCLUSIVE", None)
        assert judgement.sentence.code == "one-run-of-samples"
        assert (judgement.advice is not None) == (there == 1)


def test_equal_distributions_of_two_runs_a_side_are_hardly_ever_different() -> None:
    source = random.Random(20260301)

    def side(first_seed: int) -> MetricRuns:
        # runs lie as far apart as the samples inside them
        centres = [source.gauss(0, 1) for _ in range(2)]
        lists = [[source.gauss(centre, 1) for _ in range(50)] for centre in centres]
        return metric(lists, first_seed=first_seed)

    words = [close(side(1), side(9), distance=0.1).word for _ in range(150)]
    # 5 %, and two standard errors
    assert words.count("DIFFERENT") <= 0.086 * len(words)


def test_a_distribution_needs_samples() -> None:
    judgement = close(latencies(1, 3), metric([1.0, 2.0], first_seed=9, kind="machine", unit="s"))
    assert judgement.word == "INCONCLUSIVE"
    assert states(judgement.sentence, "no-samples", side="re-run")


# curves


def bundle(
    seed: int,
    runs: int,
    n: int = 20,
    shift: Mapping[int, float] | None = None,
    sd: float = 0.1,
    base: float = 0.0,
) -> MetricRuns:
    shifts = shift or {}
    lists = []
    for i in range(runs):
        source = random.Random(seed + i)
        offset = source.gauss(0, sd)
        lists.append([base + 3 / (1 + x) + offset + shifts.get(x, 0.0) for x in range(n)])
    return curves(lists, first_seed=seed)


def test_equal_curves_are_reproduced_at_every_step() -> None:
    judgement = judge(bundle(1, 10), bundle(50, 10), type="curve")
    assert (judgement.word, judgement.method) == ("REPRODUCED", "curve")
    steps = {"steps": 20, "first_step": 0.0, "last_step": 19.0}
    assert states(judgement.sentence, "curve", word="REPRODUCED", **steps)
    assert "(3 sd of the original's 10 runs)" in judgement.sentence
    assert judgement.step in range(20)


def test_a_bump_at_one_step_makes_curves_different() -> None:
    bump = {7: 2.0}
    judgement = judge(bundle(1, 10), bundle(50, 10, shift=bump), type="curve")
    assert (judgement.word, judgement.step) == ("DIFFERENT", 7)
    assert states(judgement.sentence, "curve", word="DIFFERENT", worst_step=7.0)
    capsule = judge_all(
        Pair(
            metric=PATH,
            claim=frozen(bundle(1, 10), type="curve"),
            seeds="all",
            original=bundle(1, 10),
            rerun=bundle(50, 10, shift=bump),
        )
    )
    assert capsule.word == "DIFFERENT"


def test_few_curves_are_open_and_advised_at_their_worst_step() -> None:
    judgement = judge(bundle(1, 3), bundle(50, 3), type="curve", margin=Margin(preset="strict"))
    assert judgement.word == "INCONCLUSIVE"
    assert states(advice(judgement).sentence, "runs", of="at that step alone")


def test_one_curve_beside_several_is_told_to_be_taken_for_one_of_them() -> None:
    judgement = judge(bundle(1, 5), bundle(50, 1), type="curve", margin=Margin(preset="lenient"))
    assert states(judgement.sentence, "curve", is_of_one_run=True)
    several = judge(bundle(1, 5), bundle(50, 5), type="curve")
    assert states(several.sentence, "curve", is_of_one_run=False)


def test_curves_that_no_chance_moved_have_an_interval_without_width() -> None:
    flat = curves([[1.0, 2.0]] * 2), curves([[1.0, 2.0]] * 2, first_seed=50)
    judgement = judge(*flat, type="curve", margin=Margin(absolute=1.0))
    assert judgement.word == "REPRODUCED"
    assert judgement.lower == judgement.upper


def test_a_slope_between_steps_may_be_more_than_the_largest_number() -> None:
    # half of the steps of either curve lie between two of the other
    one = curves([[9e299, -9e299, 9e299]], first_seed=1, steps=(0.0, 2e-9, 4e-9))
    other = curves([[9e299, -9e299, 8e299]], first_seed=2, steps=(0.0, 1e-9, 4e-9))
    bundle = dataclasses.replace(one, runs=(*one.runs, *other.runs))
    # their distances at the four steps, over the square root of two, are their standard deviations
    distances = sorted([0.0, 0.9e300, (0.9 - 1 / 3) * 1e300, 0.1e300])
    middle = (distances[1] / 2 + distances[2] / 2) / math.sqrt(2)
    assert curve_spread(bundle) == pytest.approx(middle / math.sqrt(2 / math.pi))


def test_curves_are_compared_on_logarithms_where_the_margin_is_a_ratio() -> None:
    there, here = bundle(1, 10, base=5.0), bundle(50, 10, base=5.0)
    judgement = judge(there, here, type="curve", margin=Margin(ratio=1.2))
    assert (judgement.word, judgement.scale) == ("REPRODUCED", "log")
    below = curves([[1.0, -1.0, 1.0 + i] for i in range(5)], first_seed=50)
    judgement = judge(bundle(1, 10), below, type="curve", margin=Margin(ratio=3))
    assert states(judgement.sentence, "not-positive", of="step")


@pytest.mark.parametrize(
    ("rerun", "code", "facts"),
    [
        (metric(NEAR, first_seed=50), "no-curve", {"side": "re-run"}),
        (curves([[1.0], [2.0]], first_seed=50, steps=(99.0,)), "no-bundle", {"has_steps": False}),
        (metric([None], first_seed=50), "no-values", {"side": "the re-run"}),
    ],
)
def test_what_is_no_curve_is_said(rerun: MetricRuns, code: str, facts: dict[str, object]) -> None:
    judgement = judge(bundle(1, 5), rerun, type="curve")
    assert states(judgement.sentence, code, **facts)
    assert judgement.word == "INCONCLUSIVE"


# one run on each side


def test_one_run_on_each_side_is_told_from_inside_and_never_judged() -> None:
    there, here = metric([noise(1, 50, 5.0)]), metric([noise(2, 50, 5.0)], first_seed=9)
    judgement = judge(there, here, type="equivalence", margin=Margin(absolute=99.0))
    assert (judgement.word, judgement.method) == ("INCONCLUSIVE", "within-run")
    estimate, lower, upper = limits(judgement)
    assert lower < estimate < upper
    assert (judgement.p_reproduced, judgement.p_different) == (None, None)
    assert states(judgement.sentence, "within-run", is_ratio=False)


@pytest.mark.parametrize("samples", [[5.0], [5.0, 5.0, math.inf], [1e200, -1e200, 5.0]])
def test_one_run_without_usable_repetitions_tells_nothing(samples: Sequence[float]) -> None:
    judgement = judge(
        metric([samples]),
        metric([[1.0, 2.0, 5.0]], first_seed=9),
        type="equivalence",
        margin=Margin(absolute=9.0),
    )
    assert (judgement.word, judgement.method, judgement.estimate) == ("INCONCLUSIVE", "none", None)


# information


def test_what_decides_nothing_is_told_beside() -> None:
    shifted = metric([v + 0.05 for v in NEAR], first_seed=50)
    judgement = judge(metric(NEAR), shifted, type="equivalence", margin=Margin(absolute=0.1))
    assert (judgement.word, judgement.superiority) == ("REPRODUCED", 1.0)
    assert judgement.p_zero is not None
    assert judgement.p_zero < 0.01
    same = judge(metric(NEAR), metric(NEAR, first_seed=50), type="equivalence")
    assert (same.superiority, same.p_zero) == (0.5, 1.0)


def test_clean_runs_leave_a_bound_on_the_rate_of_failures() -> None:
    judgement = judge(metric(NEAR), metric([*NEAR, *NEAR], first_seed=50), type="equivalence")
    assert judgement.original.failure_bound == pytest.approx(0.4507, abs=1e-4)
    assert judgement.rerun.failure_bound == pytest.approx(0.2589, abs=1e-4)
