"""Claims on a device that cannot run them, and metrics of a machine on two devices."""

import dataclasses
from typing import Any

import pytest

from capsule import verdict
from capsule.diff import Pair, words
from capsule.diff.inability import Inability
from capsule.manifest import Margin
from capsule.notes import Note
from capsule.verdict.model import Verdict
from tests.support.judging import NEAR, PATH, frozen, judge_all, metric, states
from tests.verdict.parts import advice

THERE, HERE = metric(NEAR), metric(NEAR, first_seed=50)
WIDE: dict[str, Any] = {"type": "equivalence", "margin": Margin(absolute=0.5)}
NARROW: dict[str, Any] = {"type": "equivalence", "margin": Margin(absolute=0.0001)}


def pair(ask: dict[str, Any], **changes: Any) -> Pair:
    known: dict[str, Any] = {"original": THERE, "rerun": HERE, **changes}
    return Pair(metric=PATH, claim=frozen(THERE, **ask), seeds="all", **known)


def unrun(ask: dict[str, Any] = WIDE) -> Pair:
    return pair(ask, rerun=None, not_run="torch does not support tf32 on cpu")


@pytest.mark.parametrize(
    "ask",
    [
        WIDE,
        {"type": "exact"},
        {"type": "bound", "at_most": 0.5},
        {"type": "threshold", "at_most": 0.5},
    ],
)
def test_what_did_not_run_is_open_and_its_device_at_fault(ask: dict[str, Any]) -> None:
    (judged,) = judge_all(unrun(ask)).claims
    assert (judged.word, judged.fault, judged.look) == ("INCONCLUSIVE", "device", None)
    assert states(judged.sentence, "not-run-here", reason="torch does not support tf32 on cpu")
    assert (advice(judged).answer, advice(judged).sentence.code) == ("mend", "other-device")
    assert judged.notes == ()


def test_a_ratio_that_did_not_run_is_reported_as_ever() -> None:
    whole = judge_all(unrun({"type": "ratio"}), pair(WIDE))
    judged = whole.claims[0]
    assert (judged.word, judged.fault, judged.advice) == ("REPORTED", None, None)
    assert judged.sentence.code == "not-run-here"
    assert whole.word == "REPRODUCED"


@pytest.mark.parametrize(
    ("pairs", "word", "sentence"),
    [
        ([unrun()], "INCONCLUSIVE", "the claim was not run here"),
        (
            [unrun(), pair(WIDE)],
            "INCONCLUSIVE",
            "1 of 2 primary claims not run here, 1 reproduced",
        ),
        (
            [unrun(), unrun(), pair(WIDE), pair(NARROW)],
            "INCONCLUSIVE",
            "2 of 4 primary claims not run here, 1 reproduced, 1 undecided",
        ),
        # a claim that does not decide leaves the verdict alone
        ([unrun({**WIDE, "primary": False}), pair(WIDE)], "REPRODUCED", "the claim holds"),
    ],
)
def test_the_verdict_is_open_at_best(pairs: list[Pair], word: str, sentence: str) -> None:
    whole = judge_all(*pairs)
    assert (whole.word, whole.sentence.partition(". Compared")[0]) == (word, sentence)


def test_what_differs_differs_beside_what_did_not_run() -> None:
    far = pair(WIDE, rerun=metric([v + 2 for v in NEAR], first_seed=50))
    assert judge_all(unrun(), far).word == "DIFFERENT"


def test_runs_that_failed_are_told_before_those_that_were_not_to_be() -> None:
    inability = Inability(seeds=(50,), last_line="ImportError: x", controls=(1,), fault="machine")
    whole = judge_all(unrun(), pair(WIDE, inability=inability))
    assert states(whole.sentence, "unable", claims=2, unable=1, fault="machine")


def test_a_metric_of_the_machine_is_reported_and_decides_nothing() -> None:
    moved = pair(WIDE, is_moved=True)
    whole = judge_all(moved, pair(WIDE))
    assert (whole.claims[0].word, whole.claims[0].look) == ("REPORTED", None)
    assert whole.claims[0].sentence.code == "other-device"
    assert whole.word == "REPRODUCED"
    alone = judge_all(moved)
    assert (alone.word, alone.sentence.code) == ("INCONCLUSIVE", "only-reported")
    unclaimed = dataclasses.replace(moved, claim=None)
    (reported,) = judge_all(unclaimed).reported
    assert states(reported.sentence, "reported", is_ratio=True)


def test_without_a_primary_claim_the_sentence_says_so_as_before() -> None:
    whole = judge_all(pair({**WIDE, "primary": False}))
    assert whole.sentence.code == "no-primary-claim"


def on_device(whole: Verdict, *changes: Note) -> Verdict:
    """The same verdict of a verification with these changes."""
    differences = whole.differences
    sides = (
        dataclasses.replace(differences.original, id="0" * 64),
        dataclasses.replace(differences.rerun, id="1" * 64, verifies="0" * 64),
    )
    moved = dataclasses.replace(differences, original=sides[0], rerun=sides[1], changes=changes)
    return dataclasses.replace(whole, differences=moved)


def test_the_command_that_goes_on_keeps_the_device() -> None:
    wide = pair(
        {"type": "equivalence", "margin": Margin(absolute=0.2)},
        rerun=metric([0.7, 1.0, 1.4], first_seed=50),
    )
    whole = judge_all(wide, unrun())
    change = words.CHANGES(words.ANOTHER_DEVICE, there="cuda", here="cpu")
    further = verdict.advise_further(on_device(whole, change))
    assert further is not None
    assert (further.device, further.add) == ("cpu", True)
    plain = verdict.advise_further(on_device(whole))
    assert plain is not None
    assert plain.device is None
    assert verdict.advise_further(on_device(judge_all(unrun()), change)) is None
