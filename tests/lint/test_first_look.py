"""What lint foretells where nobody plans looks: the look that `capsule verify` then makes first."""

from __future__ import annotations

import math
import re
from pathlib import Path

import numpy as np
import pytest

from capsule import lint, stats, verdict
from capsule.diff import Pair
from capsule.jsons import Json, JsonObject
from capsule.manifest import Claim, looks
from tests.manifest.test_reader import read, variant
from tests.support.judging import PATH, judge_all, metric
from tests.support.properties import pin_first

FIRST = " at the first look"
POWERS = (0.8, 0.9)
LEVEL = stats.default_alpha(0.05)

Sample = list[float]


def on_loss(seeds: int, *claims: JsonObject) -> JsonObject:
    on_it: list[JsonObject] = [{"metric": PATH, "type": "equivalence", **one} for one in claims]
    return variant(claims=on_it, seeds=list(range(seeds)))


def outlook(seeds: int, **claim: Json) -> lint.Outlook:
    (one,) = lint.outlook(read(on_loss(seeds, claim)))
    return one


def claim_with(**claim: Json) -> Claim:
    (one,) = read(on_loss(5, claim)).claims
    return one


def decide(claim: Claim, there: Sample, here: Sample) -> tuple[tuple[int, ...], str]:
    """The looks of a sealed claim, and its word at the level of one of them."""
    (sealed,) = verdict.freeze([claim], {PATH: metric(there)})
    level = looks.level(claim, sealed.looks, len(there))
    sides = (stats.Runs.of(dict(enumerate(values))) for values in (there, here))
    interval = stats.shift(*sides, alpha=level)
    assert interval is not None
    assert sealed.lower is not None
    assert sealed.upper is not None
    region = stats.Region(lower=sealed.lower, upper=sealed.upper)
    return sealed.looks, stats.decide(interval, region).word


def confirmed(
    seeds: int, claim: Claim, *, sd: float = 1.0, repetitions: int, by_look: int = 1
) -> float:
    """How often the claim is REPRODUCED by a look, each taken only while the one before is open."""
    random = np.random.default_rng([20260301, seeds])
    hits = 0
    for _ in range(repetitions):
        there, fresh = ((sd * random.standard_normal(n)).tolist() for n in (seeds, 2 * seeds))
        for look in range(1, by_look + 1):
            looks, word = decide(claim, there, fresh[: look * seeds])
            assert looks == (seeds, 2 * seeds)
            if word != "INCONCLUSIVE":
                hits += word == "REPRODUCED"
                break
    return hits / repetitions


def test_what_is_simulated_here_is_what_the_product_says() -> None:
    random, words = np.random.default_rng(11), set()
    for shift in (0.0, 0.0, 0.0, 0.0, 2.0, 6.0):
        there, here = random.standard_normal(5).tolist(), (random.standard_normal(5) + shift)
        (sealed,) = verdict.freeze([claim_with()], {PATH: metric(there)})
        a, b = metric(there), metric(here.tolist(), first_seed=1000)
        pair = Pair(metric=PATH, claim=sealed, seeds="all", original=a, rerun=b)
        (judged,) = judge_all(pair).claims
        assert judged.level == LEVEL
        assert judged.word == decide(claim_with(), there, here.tolist())[1]
        words.add(judged.word)
    assert len(words) > 1


# the promise is kept


REPETITIONS = {5: 800, 8: 400, 10: 300}


def is_kept(share: float, power: float, seeds: int) -> bool:
    """Within a few points: from ten runs on the reckoning errs towards too little by some."""
    error = math.sqrt(power * (1 - power) / REPETITIONS[seeds])
    return -3 * error < share - power < 3 * error + (0.05 if seeds == 10 else 0.0)


@pytest.mark.parametrize("seeds", pin_first([5, 10]))
def test_runs_that_scatter_as_little_as_told_confirm_as_often_as_told(seeds: int) -> None:
    sentence = outlook(seeds, margin={"absolute": 1}).sentence
    claim = claim_with(margin={"absolute": 1})
    for power, told in zip(POWERS, re.findall(r"below ([\d.]+)", sentence), strict=True):
        share = confirmed(seeds, claim, sd=float(told), repetitions=REPETITIONS[seeds])
        assert is_kept(share, power, seeds)


@pytest.mark.parametrize("seeds", pin_first([5, 8, 10]))
def test_runs_that_are_usually_enough_confirm_in_four_of_five_cases(seeds: int) -> None:
    margins = (k / 100 for k in range(50, 400))
    sd = next(k for k in margins if outlook(seeds, margin={"sd": k}).enough == "usually")
    share = confirmed(seeds, claim_with(margin={"sd": sd}), repetitions=REPETITIONS[seeds])
    assert is_kept(share, 0.8, seeds)


@pytest.mark.parametrize(
    ("place", "seeds", "margin", "look"),
    pin_first(
        [
            (4, 5, None, 2),
            (3, 5, None, 1),
            (0, 8, None, 1),
            (1, 8, {"absolute": 2}, 1),
            (2, 8, None, 2),
        ]
    ),
)
def test_the_page_of_statistics_says_how_often_each_look_confirms_the_default(
    place: int, seeds: int, margin: JsonObject | None, look: int
) -> None:
    page = (Path(__file__).parents[2] / "docs" / "explanation" / "statistics.md").read_text()
    sentence = re.search(
        r"the first look confirms the default margin in (\d+) % of cases; a margin of two true sd"
        r" would be confirmed in (\d+) % of cases\. The second look, .* raises \d+ % to (\d+) %\."
        r" With five published runs the first look confirms the default margin in (\d+) % of cases,"
        r" both looks together in (\d+) %",
        " ".join(page.split()),
    )
    assert sentence is not None
    claim, repetitions = claim_with(**({"margin": margin} if margin else {})), REPETITIONS[seeds]
    share = confirmed(seeds, claim, repetitions=repetitions, by_look=look)
    error = math.sqrt(share * (1 - share) / repetitions)
    assert int(sentence[place + 1]) / 100 == pytest.approx(share, abs=4 * error)


# what is said


@pytest.mark.parametrize(
    "claim",
    [
        {},
        {"margin": {"absolute": 1}},
        {"type": "curve"},
        {"type": "noninferiority", "margin": {"relative": 0.1}},
        {"type": "distribution", "margin": {"distance": 0.2}},
        {"type": "prediction", "published": {"mean": 1, "sd": 1, "n": 9}},
    ],
)
def test_the_look_is_named_where_nobody_planned_it(claim: JsonObject) -> None:
    first, second = outlook(6, **claim), outlook(6, **claim, looks=[6, 12])
    assert (first.rerun_seeds, second.rerun_seeds) == (6, 12)
    # published runs are as many as they are, and have no part in the exact level
    of_paper = stats.nominal_alpha(0.05, 2) / 2
    assert first.alpha == second.alpha == (of_paper if "published" in claim else LEVEL)
    assert FIRST in first.sentence
    assert "look" not in second.sentence


def test_a_claim_beside_one_with_looks_has_these_looks() -> None:
    epochs = "train/default/command/epochs"
    document = on_loss(6, {"margin": {"absolute": 1}}, {"metric": epochs, "looks": [6, 12, 24]})
    beside, planned = lint.outlook(read(document))
    for one in (beside, planned):
        assert (one.rerun_seeds, one.alpha) == (24, stats.nominal_alpha(0.05, 3))
    assert "look" not in beside.sentence


def test_pairs_are_looked_at_once() -> None:
    pairs, fresh = lint.outlook(read(on_loss(6, {"paired": True})))
    assert pairs.alpha == 0.05
    assert "look" not in pairs.sentence
    assert fresh.alpha == LEVEL
    assert FIRST in fresh.sentence


def test_a_warning_of_too_few_seeds_names_the_look() -> None:
    # of three runs the first look confirms nothing, so there is one look
    for seeds, share in (
        ("4 seeds and 4 re-runs (the first look)", 50),
        ("5 seeds and 5 re-runs (the first look)", 80),
        ("3 seeds and 6 re-runs", 80),
    ):
        first = f"{seeds} confirm a margin of 2 sd in fewer than {share} %"
        warnings = "\n".join(lint.warnings(read(on_loss(int(seeds[0]), {}))))
        assert first in warnings
        assert "Use 8 seeds" in warnings
    planned = "\n".join(lint.warnings(read(on_loss(3, {"looks": [3, 6]}))))
    assert "3 seeds and 6 re-runs confirm a margin of 2 sd in fewer than" in planned
    assert not any("re-runs" in one for one in lint.warnings(read(on_loss(8, {}))))
