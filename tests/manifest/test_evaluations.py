"""Claims on the mean of a curve's last evaluations, as an author writes them."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from capsule import lint
from capsule.jsons import Json, JsonObject
from tests.manifest.test_reader import command, complaint, read, variant

LOSS = "train/default/command/loss"
LAST_THREE: JsonObject = {"mean_of_last": 3}


def on_loss(metric: str = LOSS, per: str = "step", **claim: Json) -> JsonObject:
    """A manifest of one claim, on a command's curve and a number beside it."""
    curve = command(metrics={"loss": {"per": per}, "epochs": {}})
    return {**curve, "claims": [{"metric": metric, "type": "equivalence", **claim}]}


@pytest.mark.parametrize(
    ("last", "words"),
    [(3, "mean of the last 3 evaluations"), (3.0, "mean of the last 3"), (1, "last evaluation")],
)
def test_a_claim_may_judge_the_mean_of_the_last_evaluations(last: float, words: str) -> None:
    document = on_loss(value={"mean_of_last": last})
    (claim,) = read(document).claims
    assert claim.mean_of_last == last
    assert claim.name.startswith(f"{LOSS}, {words}")
    (reach,) = lint.outlook(read(document))
    assert reach.mean_of_last == last
    assert reach.sentence.startswith(f"{LOSS}, {words}")


def test_without_a_value_the_claim_judges_what_a_run_has_by_itself() -> None:
    (claim,) = read(on_loss()).claims
    assert (claim.mean_of_last, claim.value, claim.name) == (None, "", LOSS)


@pytest.mark.parametrize(
    "claim",
    [
        {"type": "noninferiority"},
        {"type": "threshold", "at_most": 1},
        {"type": "prediction", "published": {"mean": 0.7, "sd": 0.1}},
        {"type": "equivalence", "paired": True},
        {"type": "equivalence", "looks": [3, 6]},
    ],
)
def test_every_claim_on_one_value_a_run_may_have_it(claim: JsonObject) -> None:
    curve = command(metrics={"loss": {"per": "step", "direction": "lower"}})
    document = {**curve, "claims": [{"metric": LOSS, "value": LAST_THREE, **claim}]}
    assert read(document).claims[0].mean_of_last == 3


def test_the_same_claim_with_and_without_it_are_two() -> None:
    last: JsonObject = {"metric": LOSS, "type": "equivalence"}
    claims = read({**on_loss(), "claims": [last, {**last, "value": LAST_THREE}]}).claims
    assert [claim.mean_of_last for claim in claims] == [None, 3]


_NOT_JUDGED = "value is for claims of equivalence, noninferiority, threshold"
MISTAKES: dict[str, tuple[JsonObject, Sequence[str]]] = {
    "exact": (on_loss(type="exact", value=LAST_THREE), [_NOT_JUDGED]),
    "bound": (on_loss(type="bound", at_most=1, value=LAST_THREE), [_NOT_JUDGED]),
    "curve": (on_loss(type="curve", value=LAST_THREE), [_NOT_JUDGED]),
    "distribution": (
        on_loss(type="distribution", margin={"distance": 0.1}, value=LAST_THREE),
        [_NOT_JUDGED],
    ),
    "ratio": (on_loss(type="ratio", value=LAST_THREE), [_NOT_JUDGED]),
    "none": (
        on_loss(value={"mean_of_last": 0}),
        ["/claims/0/value/mean_of_last", "0 is below the minimum, 1"],
    ),
    "one and a half": (
        on_loss(value={"mean_of_last": 1.5}),
        ["/claims/0/value/mean_of_last", "1.5 is not a whole number"],
    ),
    "nothing said": (on_loss(value={}), ["the field 'mean_of_last' is missing"]),
    "a number": (on_loss(value=3), ['3: write {"mean_of_last": 3} for the mean of']),
    "misspelled": (on_loss(value={"mean_of_lst": 3}), ["did you mean 'mean_of_last'?"]),
    "no steps declared": (
        on_loss(per="call", value=LAST_THREE),
        [
            "/claims/0/metric",
            'is judged by the mean of the last 3 of its evaluations, but "loss" is declared per',
            'per call: declare it "per": "step", and report a step beside each value',
        ],
    ),
    "one number for the trial": (
        on_loss(per="trial", value={"mean_of_last": 1}),
        ['is judged by the last of its evaluations, but "loss" is declared per trial'],
    ),
    "a star that reaches a metric without steps": (
        on_loss(metric="train/*/*/*", value=LAST_THREE),
        ['"epochs" is declared per call'],
    ),
    "an operator": (
        variant(
            claims=[{"metric": "gemm/*/*/*", "type": "equivalence", "value": {"mean_of_last": 1}}]
        ),
        ["has no steps", 'remove "value"'],
    ),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_what_cannot_be_judged_so_is_refused_with_the_remedy(mistake: str) -> None:
    document, told = MISTAKES[mistake]
    message = complaint(document)
    for part in told:
        assert part in message
