"""Which two records are the sides of one pair, and what of them is judged."""

from __future__ import annotations

import io
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace

import pytest
from rich.console import Console

from capsule import diff, verdict
from capsule.diff.names import Names
from capsule.diff.several import compare_several
from capsule.digest import of_bytes
from capsule.errors import UsageError
from capsule.origin import Original, Side
from capsule.record import Record
from capsule.report.terminal.brief import draw_brief
from capsule.report.terminal.comparison import draw_whole
from capsule.summary import MetricRuns
from capsule.verdict import Judged
from tests.support.judging import judge_all, metric
from tests.support.records import LOSS, make_record

STEP_TIME = "train/default/command/step_time"
A = Side(pair="p", side="a", order="ababa", margin=1.02, metrics=("*/*/*/step_time",))
B = replace(A, side="b")


def side(origin: Side | Original) -> Record:
    return make_record(origin=origin)


def test_the_machine_metrics_of_a_pair_are_judged_by_its_margin_and_nothing_else() -> None:
    differences = diff.compare(side(A), side(B))
    claimed = [pair for pair in differences.pairs if pair.claim is not None]
    assert [pair.metric for pair in claimed] == [STEP_TIME]
    (pair,) = claimed
    claim = pair.claim
    assert claim is not None
    assert (claim.scale, claim.lower, claim.upper) == ("log", -math.log(1.02), math.log(1.02))
    assert (claim.paired, pair.seeds) == (True, "pair")
    # what the authors claim of quality is for another comparison
    assert LOSS not in {pair.metric for pair in differences.pairs}
    assert differences.notes[0].code == "pair"


@pytest.mark.parametrize(("first", "other", "letters"), [(A, B, ("A", "B")), (B, A, ("B", "A"))])
def test_the_sides_are_called_by_their_letters_in_either_order(
    first: Side, other: Side, letters: tuple[str, str]
) -> None:
    differences = diff.compare(side(first), side(other))
    there, here = letters
    assert differences.names == Names.of_variants(there, here)
    assert f"the ratio of {here} to {there}," in differences.notes[0].sentence
    judged = verdict.judge(differences)
    drawn = Console(width=200, file=io.StringIO())
    for part in (*draw_brief(judged), *draw_whole(judged)):
        drawn.print(part)
    written = drawn.file
    assert isinstance(written, io.StringIO)
    assert not re.search("original|re-run|re-exec", written.getvalue())
    assert re.search(rf"claim +{there} +{here} +difference", written.getvalue())


def test_other_images_are_what_a_pair_is_about() -> None:
    image = side(B).image
    assert image is not None
    image = replace(image, manifest_digest=None, config_digest=of_bytes(b"other"), layers=())
    other = replace(side(B), image=image)
    codes = {note.code for note in diff.compare(side(A), other).notes}
    assert "images-differ" not in codes
    assert "images-differ" in {
        note.code for note in diff.compare(side(A), replace(other, origin=Original())).notes
    }


def test_the_sides_of_a_pair_are_not_several() -> None:
    with pytest.raises(UsageError, match="A and C are the two sides of one pair"):
        compare_several([side(A), side(Original()), side(B)], ["1" * 64, "2" * 64, "3" * 64])


@pytest.mark.parametrize(
    "other",
    [A, replace(B, pair="q"), replace(B, margin=1.5), replace(B, order="babab"), Original()],
    ids=["the same side", "another pair", "another margin", "another order", "no side"],
)
def test_what_is_no_pair_is_judged_by_the_claims_of_the_first(other: Side | Original) -> None:
    differences = diff.compare(side(A), side(other))
    assert [pair.metric for pair in differences.pairs if pair.claim is not None] == [LOSS]
    assert "pair" not in [note.code for note in differences.notes]


# what a pair says of rounds that are too noisy, or on the margin


def judge_rounds(ratios: Sequence[float | None]) -> Judged:
    def times(values: Sequence[float | None]) -> Mapping[str, MetricRuns]:
        return {STEP_TIME: metric(values, path=STEP_TIME, unit="s", kind="machine")}

    pairs = diff.pair_rounds(A, times([1.0] * len(ratios)), times(ratios))
    return judge_all(*pairs).claims[0]


def test_noise_is_answered_by_how_many_pairs_would_do() -> None:
    judged = judge_rounds([math.exp(0.1 * (-1) ** (index // 2)) for index in range(20)])
    assert judged.word == "INCONCLUSIVE"
    assert judged.advice is not None
    (seen, _), (equal, _) = judged.advice.as_seen, judged.advice.if_equal
    assert seen is not None
    assert equal is not None
    assert 100 < equal <= seen
    assert f"{seen} rounds (now 20) would settle this" in judged.advice.sentence
    assert f"{equal} with 80 % chance" in judged.advice.sentence


def test_more_pairs_than_one_takes_are_told_all_the_same() -> None:
    judged = judge_rounds([math.exp(0.4 * (-1) ** (index // 2)) for index in range(20)])
    assert judged.advice is not None
    equal, _ = judged.advice.if_equal
    assert equal is not None
    assert equal > 1000
    assert "one pair has at most 1000 rounds" in judged.advice.sentence
    assert "--pairs" not in judged.advice.sentence


def test_the_failures_of_a_pair_advise_no_re_execution() -> None:
    lost = judge_rounds([*[1.0] * 4, *[None] * 4])
    assert lost.word == "INCONCLUSIVE"
    assert lost.advice is None
    assert "0 of 8 runs of A failed, 4 of 8 of B" in lost.sentence
