"""What lint foretells of paired claims: by the rule of pairs, and of fresh seeds beside them."""

from __future__ import annotations

import math

import numpy as np
import pytest

from capsule import lint, stats
from capsule.jsons import Json, JsonObject
from tests.manifest.test_reader import read, variant

LOSS = "train/default/command/loss"


def on_loss(*claims: JsonObject, seeds: int = 6) -> JsonObject:
    on_it: list[JsonObject] = [{"metric": LOSS, "type": "equivalence", **one} for one in claims]
    return variant(claims=on_it, seeds=list(range(seeds)))


def outlooks(*claims: JsonObject, seeds: int = 6) -> tuple[lint.Outlook, ...]:
    return lint.outlook(read(on_loss(*claims, seeds=seeds)))


@pytest.mark.parametrize("pairs", [2, 3, 5, 12])
def test_pairs_confirm_as_often_as_promised(pairs: int) -> None:
    random = np.random.default_rng([7, pairs])
    for power in (0.8, 0.9):
        margin = stats.narrowest_paired_margin(pairs, alpha=0.05, power=power)
        region, hits = stats.Region(lower=-margin, upper=margin), 0
        for _ in range(2000):
            differences = stats.Runs.of(dict(enumerate(random.standard_normal(pairs))))
            interval = stats.paired_shift(differences, alpha=0.05)
            assert interval is not None
            hits += stats.decide(interval, region).word == "REPRODUCED"
        assert hits / 2000 == pytest.approx(power, abs=0.036)


@pytest.mark.parametrize("pairs", [0, 1])
def test_one_pair_confirms_nothing(pairs: int) -> None:
    assert math.isinf(stats.narrowest_paired_margin(pairs, alpha=0.05, power=0.8))


@pytest.mark.parametrize(
    ("margin", "said"),
    [
        ({"absolute": 1.0}, "6 pairs suffice for a margin of 1 if their differences have a"),
        ({"relative": 0.1}, "6 pairs suffice for a margin of 10 % if"),
        ({"ratio": 1.1}, "6 pairs suffice for a margin of factor 1.1 if"),
        ({"sd": 1}, "6 pairs usually suffice for a margin of 1 sd if their differences"),
        (None, "6 pairs usually suffice for a margin of 2 sd if their differences"),
    ],
)
def test_a_paired_claim_is_foretold_by_its_differences(margin: Json, said: str) -> None:
    claim: JsonObject = {"paired": True, **({"margin": margin} if margin else {})}
    pairs, fresh = outlooks(claim)
    assert (pairs.paired, fresh.paired) == (True, False)
    assert pairs.sentence.startswith(f"{LOSS}, paired: {said}")
    # what the fresh seeds beside the pairs confirm is what an unpaired claim confirms
    (unpaired,) = outlooks({**claim, "paired": False})
    assert fresh == unpaired


def test_the_scatter_that_is_named_is_confirmed_as_often_as_it_says() -> None:
    (pairs, _) = outlooks({"paired": True, "margin": {"absolute": 1.0}}, seeds=5)
    scatter = float(pairs.sentence.partition("below ")[2].split()[0])
    random = np.random.default_rng(8)
    hits, region = 0, stats.Region(lower=-1.0, upper=1.0)
    for _ in range(2000):
        differences = stats.Runs.of(dict(enumerate(scatter * random.standard_normal(5))))
        interval = stats.paired_shift(differences, alpha=0.05)
        assert interval is not None
        hits += stats.decide(interval, region).word == "REPRODUCED"
    assert hits / 2000 == pytest.approx(0.8, abs=0.036)


def test_fresh_seeds_that_another_claim_judges_are_foretold_by_that_claim() -> None:
    wide: JsonObject = {"margin": {"absolute": 2}}
    both = outlooks({"paired": True, "margin": {"absolute": 1}}, wide)
    assert [one.paired for one in both] == [True, False]


def test_one_seed_is_no_pair_to_speak_of() -> None:
    pairs, _ = outlooks({"paired": True}, seeds=1)
    assert pairs.narrowest is None
    assert "no margin can be confirmed: the margin 2 sd needs at least two pairs" in pairs.sentence
