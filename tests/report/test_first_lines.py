"""Cautions stand in the first lines of a verdict, on screens and in documents."""

import dataclasses
import io
import json
from typing import Any

import pytest
from rich.console import Console

from capsule import diff, report, verdict
from capsule.diff.several import compare_several
from capsule.manifest import Claim, Margin
from capsule.record import Record
from capsule.summary import run_values
from capsule.verdict.several import judge_several
from tests.support.records import LOSS, make_record

FRESH = (101, 102, 103, 104, 105)
LAX = Claim(metric=LOSS, type="equivalence", margin=Margin(relative=1.5), alpha=0.4)
THERE, HERE = "a" * 64, "b" * 64


def original(claim: Claim) -> Record:
    record = make_record()
    return dataclasses.replace(record, claims=verdict.freeze([claim], run_values(record)))


def rerun(first: int = FRESH[0]) -> Record:
    seeds = tuple(range(first, first + len(FRESH)))
    return make_record(seeds=seeds, fresh=seeds, verifies=THERE)


def draw(items: Any, width: int = 80) -> str:
    stream = io.StringIO()
    console = Console(file=stream, width=width)
    for item in items:
        console.print(item)
    return stream.getvalue()


def judged(claim: Claim) -> verdict.Verdict:
    return verdict.judge(diff.compare(original(claim), rerun(), original_id=THERE, rerun_id=HERE))


@pytest.mark.parametrize("full", [False, True])
def test_cautions_follow_the_word_and_its_reason(full: bool) -> None:
    lines = draw(report.draw_verdict(judged(LAX), full=full)).splitlines()
    assert all(len(line) <= 80 for line in lines)
    assert lines[0].startswith("REPRODUCED ")
    labels = [line.split()[0] for line in lines if line[:1].strip()][:3]
    assert labels == ["REPRODUCED", "caution", "caution"]
    told = " ".join(" ".join(lines).split())
    assert told.count("the margin 1.5 is at least the mean, 1") == 1
    assert told.count("the author allows wrong verdicts in 40 % of cases (alpha 0.4") == 1


def test_a_usual_verdict_has_none() -> None:
    outcome = judged(dataclasses.replace(LAX, margin=Margin(relative=0.2), alpha=0.05))
    assert "caution" not in draw(report.draw_verdict(outcome))
    assert report.verdict_to_json(outcome)["cautions"] == []


def test_the_document_has_their_codes_and_facts() -> None:
    document = json.loads(json.dumps(report.verdict_to_json(judged(LAX))))
    vague, alpha = document["cautions"]
    assert (vague["code"], alpha["code"]) == ("margin-allows-anything", "alpha-large")
    assert vague["facts"]["reason"] == "mean"
    assert alpha["facts"] == {"alpha": 0.4, "claims": 1, "metric": "final_loss"}


@pytest.mark.parametrize("full", [False, True])
def test_of_several_re_runs_each_is_told_once(full: bool) -> None:
    records = [original(LAX), rerun(), rerun(201)]
    several = judge_several(compare_several(records, [THERE, HERE, "c" * 64]))
    lines = draw(report.draw_several(several, full=full)).splitlines()
    (first, *_) = [place for place, line in enumerate(lines) if line.startswith("caution")]
    assert first <= 3
    assert "A-B, A-C: final_loss: the margin 1.5" in " ".join(" ".join(lines[: first + 3]).split())
