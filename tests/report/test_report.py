"""Verdicts and records as people and programs see them."""

import csv
import dataclasses
import io
import json
import math
import re
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest
from rich.console import Console, RenderableType

from capsule import diff, report, schema, verdict
from capsule.digest import canonical_json
from capsule.errors import ExecutionError
from capsule.manifest import Claim, Margin
from capsule.record import Attempt, Record
from capsule.report.terminal import style
from capsule.summary import run_values
from capsule.verdict.model import Verdict
from tests.support.records import LOSS, SEEDS, STEP_TIME, make_node, make_record, noted

FRESH = (101, 102, 103, 104, 105)
ID, OTHER_ID = "a" * 64, "b" * 64


def draw(items: Sequence[RenderableType], width: int = 80, *, color: bool = False) -> str:
    stream = io.StringIO()
    system: Literal["standard"] | None = "standard" if color else None
    console = Console(file=stream, width=width, color_system=system, force_terminal=color)
    for item in items:
        console.print(item)
    return stream.getvalue()


def judged(
    *claims: Claim, rerun_id: str = OTHER_ID, backwards: bool = False, **changes: Any
) -> Verdict:
    there = make_record(seeds=SEEDS[::-1] if backwards else SEEDS)
    there = dataclasses.replace(there, manifest=make_record().manifest)
    claims = claims or (Claim(metric=LOSS, type="equivalence", margin=Margin(absolute=0.05)),)
    there = dataclasses.replace(there, claims=verdict.freeze(claims, run_values(there)))
    seeds = FRESH[::-1] if backwards else FRESH
    here = make_record(**{"seeds": seeds, "fresh": seeds, "verifies": ID, **changes})
    return verdict.judge(diff.compare(there, here, original_id=ID, rerun_id=rerun_id))


def document_of(outcome: Verdict) -> dict[str, Any]:
    """What `--json` prints of a verdict."""
    return report.verdict_to_json(outcome)


def image_digest(record: Record) -> str:
    assert record.image is not None
    return str(record.image.manifest_digest)


def failing() -> Verdict:
    return judged(
        Claim(metric=LOSS, type="threshold", at_most=0.5),
        Claim(metric=LOSS, type="equivalence", margin=Margin(relative=0.012)),
        Claim(metric=LOSS, type="noninferiority", margin=Margin(ratio=2), primary=False),
        Claim(metric=LOSS, type="exact", primary=False),
        Claim(metric=STEP_TIME, type="ratio"),
        image=False,
        failed=(101,),
        notes=noted("no network isolation"),
    )


# JSON


@pytest.mark.parametrize("make", [judged, failing])
def test_the_document_fits_its_schema_and_is_json(make: Callable[[], Verdict]) -> None:
    document = report.verdict_to_json(make())
    assert schema.validate(document, "comparison-1") == []
    assert schema.parse(canonical_json(document), where="here") == document


def test_a_document_with_a_wrong_word_does_not_fit() -> None:
    document = document_of(judged())
    assert schema.validate({**document, "verdict": "SAME"}, "comparison-1")
    assert schema.validate({**document, "surplus": 1}, "comparison-1")
    document["claims"][0]["p_different"] = 2
    assert schema.validate(document, "comparison-1")


def test_every_field_of_the_schema_is_required() -> None:
    def objects(node: Any) -> Iterator[dict[str, Any]]:
        if isinstance(node, dict):
            if "properties" in node:
                yield node
            for inner in node.values():
                yield from objects(inner)

    for node in objects(schema.load("comparison-1")):
        assert sorted(node["required"]) == sorted(node["properties"])
        assert node["additionalProperties"] is False


def test_every_field_of_the_schema_is_described() -> None:
    published = schema.load("comparison-1")

    def check(node: Any, name: str = "") -> None:
        if isinstance(node, dict):
            for field, inner in (node.get("properties") or {}).items():
                assert inner.get("description"), f"{name}/{field}"
            for key, inner in node.items():
                check(inner, f"{name}/{key}")

    check(published)


def test_bytes_do_not_depend_on_the_order_of_runs() -> None:
    there, back = judged(), judged(backwards=True)
    assert canonical_json(report.verdict_to_json(there)) == canonical_json(
        report.verdict_to_json(back)
    )


def test_the_document_says_who_was_compared_and_how() -> None:
    document = document_of(judged())
    assert document["sides"]["original"]["id"] == ID
    assert document["sides"]["rerun"]["verifies"] == ID
    assert (document["image"], document["changes"]) == ("same-manifest", [])
    assert document["sides"]["original"]["authors"] == ["Ada Author", "Ben Author"]
    changed = document_of(judged(image=False))
    assert "without-image" in [note["code"] for note in changed["changes"]]
    assert changed["sentence"].startswith("the claim holds. Compared: a re-run without the")
    (claim,) = document["claims"]
    assert (claim["verdict"], claim["method"], claim["seeds"]) == (
        "REPRODUCED",
        "envelope",
        "fresh",
    )
    assert claim["claim"]["region"] == [-0.05, 0.05]
    assert claim["rerun"]["seeds"] == list(FRESH)
    assert document["exit_code"] == 0


def test_numbers_have_twelve_significant_digits() -> None:
    text = json.dumps(document_of(judged())["claims"][0]["interval"])
    for digits in re.findall(r"\d+\.\d+", text):
        assert len(digits.replace(".", "").lstrip("0")) <= 12


def test_the_document_tells_looks_advice_and_failures() -> None:
    strict = Claim(metric=LOSS, type="equivalence", margin=Margin(preset="strict"), looks=(3, 5))
    (claim,) = document_of(judged(strict, failed=(101,)))["claims"]
    assert claim["look"] == {
        "planned": [3, 5],
        "runs": 5,
        "number": 2,
        "alpha": claim["alpha_used"],
    }
    assert claim["verdict"] == "INCONCLUSIVE"
    assert claim["advice"]["powers"] == [0.8, 0.9]
    assert claim["region"] == pytest.approx(claim["claim"]["region"])
    assert (claim["rerun"]["failed"], claim["rerun"]["independent"]) == (1, 4)
    assert claim["rerun"]["failure_bound"] == pytest.approx(0.6574, abs=1e-4)
    assert 0 <= claim["p_zero"] <= 1
    assert 0 <= claim["superiority"] <= 1


# terminal


@pytest.mark.parametrize("width", [60, 80, 100, 160])
def test_the_words_are_there_without_colour_at_any_width(width: int) -> None:
    shown = draw(report.draw_verdict(failing(), full=True), width)
    assert all(len(line) <= width for line in shown.splitlines())
    assert shown.startswith("DIFFERENT")
    for word in ("DIFFERENT", "INCONCLUSIVE", "REPORTED", "secondary", "contained"):
        assert word in shown
    assert "\x1b" not in shown


def test_colour_repeats_the_word() -> None:
    shown = draw(report.draw_verdict(judged()), color=True)
    assert re.search(r"\x1b\[[0-9;]*32mREPRODUCED", shown)


def test_the_gravest_claim_comes_first() -> None:
    shown = draw(report.draw_verdict(failing(), full=True), 160)
    words = [
        line.split()[0] for line in shown.splitlines() if re.fullmatch(r"[A-Z]+ \(\d+\)", line)
    ]
    assert words == ["DIFFERENT", "INCONCLUSIVE", "REPRODUCED", "REPORTED"]


def test_differences_seeds_and_rates_stand_beside_the_verdict() -> None:
    shown = draw(report.draw_verdict(failing(), full=True), 160)
    assert "not necessarily the cause" in shown
    assert "note         re-run: workloads could reach the network: no network isolation" in shown
    assert "fresh, derived from the id of the original" in shown
    assert "the original's seeds (exact and paired claims)" in shown
    assert (
        "about 5 % (wrong REPRODUCED, wrong DIFFERENT, per claim); none for 1 claim on sides"
        in shown
    )
    assert "original 0 of 5 (true rate below 45 %), re-run 1 of 5 (true rate below 66 %)" in shown
    assert "for information: P(re-run > original)" in shown


def test_a_long_list_of_differences_is_cut_but_for_full() -> None:
    software = {"distributions": {f"package{i}": "1" for i in range(50)}}
    outcome = judged(software=software)
    assert draw(report.draw_verdict(outcome), 120).count("package") == 1
    assert draw(report.draw_verdict(outcome, full=True), 120).count("package") == 50


@pytest.mark.parametrize("width", [12, 20, 31, 32])
def test_a_path_breaks_after_its_slashes(width: int) -> None:
    lines = style.Path("train/default/command/final_loss").lines(width)
    assert "".join(lines) == "train/default/command/final_loss"
    assert all(line.endswith("/") for line in lines[:-1])
    assert all(len(line) <= width for line in lines)


def test_a_strangers_strings_can_not_steer_the_terminal() -> None:
    node = make_node()
    node["class"] = {**node["class"], "cpu": {"model": "\x1b]0;owned\x07[red]CPU[/red]"}}
    for shown in (
        draw(
            report.draw_verdict(judged(nodes=(node,), notes=noted("\x1b[2J")), full=True),
            120,
        ),
        draw(report.draw_verdict(judged(nodes=(node,), notes=noted("\x1b[2J"))), 120),
        draw(report.draw_record(make_record(nodes=(node,), notes=noted("\x1b[2J")), ID), 120),
    ):
        assert "\x1b" not in shown
        assert "\x07" not in shown
        assert "[red]CPU[/red]" in shown


# one record


def test_a_new_capsule_shows_the_means_that_a_verdict_will_show() -> None:
    losses = {17: 1.0, 18: 1.0, 19: 4.0}
    record = make_record(seeds=(17, 18, 19), losses=losses)
    sealed = draw(tuple(report.draw_sealed(record, ID, [])), 120)
    (line,) = [line for line in sealed.splitlines() if line.startswith("final_loss")]
    assert line.split()[1:4] == ["2", "1", "4"]
    assert "median" not in sealed.replace("median of 4 values", "")
    # but for how each run's value is made
    shown = draw(report.draw_record(record, ID), 120)
    assert "median" not in shown.replace("median of 4 values", "")
    here = make_record(seeds=FRESH, fresh=FRESH, verifies=ID)
    outcome = verdict.judge(diff.compare(record, here, original_id=ID))
    full = draw(report.draw_verdict(outcome, full=True), 160)
    for screen in (full, draw(report.draw_verdict(outcome), 160)):
        (line,) = [line for line in screen.splitlines() if line.startswith("final_loss")]
        assert line.split()[1:3] == ["2", "(n=3)"]


def test_show_tells_what_ran_and_what_is_claimed() -> None:
    record = make_record()
    shown = draw(report.draw_record(record, ID, full=True), 140)
    for words in (
        ID,
        image_digest(record),
        "Example CPU",
        LOSS,
        "0.05",
        "5 completed",
        "5 of 5",
    ):
        assert words in shown


def test_show_of_an_uncontained_run_with_failures_says_so() -> None:
    shown = draw(report.draw_record(make_record(image=False, failed=(18,)), None), 120)
    assert "host (no container)" in shown
    assert "1 failed" in shown
    assert "4 of 5" in shown
    assert "not sealed" in shown


def test_show_json_names_the_image_and_the_numbers() -> None:
    record = make_record()
    document: Any = report.record_to_json(record, ID)
    assert document["image"]["manifest_digest"] == image_digest(record)
    assert (document["runtime"], document["contained"]) == ("docker", True)
    assert document["metrics"][LOSS]["n"] == 5
    assert document["claims"][0]["region"] == [-0.05, 0.05]
    assert document["attempts"] == {"completed": 5, "failed": 0, "interrupted": 0}
    assert schema.parse(canonical_json(document), where="here") == document
    assert report.record_to_json(make_record(image=False), None)["image"] is None


def test_show_tells_how_the_calls_of_a_run_lie() -> None:
    values = (9.0, *(0.1 * n for n in range(1, 13)))
    record = make_record(step_times=dict.fromkeys(SEEDS, values))
    metrics: Any = report.record_to_json(record, ID)["metrics"]
    calls = metrics[STEP_TIME]["runs"][0]["calls"]
    warmup = len(values) - calls["values"]
    kept = sorted(values[warmup:])
    assert (warmup, calls["level"]) == (1, 0.95)
    assert calls["median_interval"] == [pytest.approx(kept[2]), pytest.approx(kept[9])]
    assert calls["variation"] == pytest.approx(np.std(kept, ddof=1) / np.mean(kept))
    assert all("calls" not in run for run in metrics[LOSS]["runs"])
    shown = draw(report.draw_record(record, ID), 140)
    assert "cv of calls" in shown
    assert "55.5%" in shown


# start-up


def test_importing_the_rooms_loads_neither_numbers_nor_drawing() -> None:
    code = (
        "import sys, capsule.diff, capsule.verdict, capsule.report;"
        "print([m for m in ('numpy', 'scipy', 'rich', 'jsonschema') if m in sys.modules])"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "[]"


def test_a_framework_that_an_image_lacks_is_told_with_those_that_it_has(tmp_path: Path) -> None:
    there, absent = (
        dataclasses.replace(make_record().attempts[0], trial=f"gemm/m1n1k1/{name}/17")
        for name in ("numpy", "tensorflow")
    )
    absent = dataclasses.replace(absent, outcome="failed", reason="error", message="no such module")

    def advise(*attempts: Attempt, tensorflow: Mapping[str, str] | None = None) -> ExecutionError:
        frameworks: dict[str, Mapping[str, str]] = {"numpy": {}}
        if tensorflow:
            frameworks["tensorflow"] = tensorflow
        record = dataclasses.replace(
            make_record(),
            attempts=attempts,
            software={
                name: {"python": {}, "frameworks": frameworks} for name in ("numpy", "tensorflow")
            },
        )
        return report.failure(record, tmp_path / "a.zip")

    error = advise(there, absent)
    assert error.where == "gemm/m1n1k1/tensorflow/17"
    assert "to run without tensorflow: --frameworks numpy" in str(error)
    assert "--frameworks" not in str(advise(absent))
    # it is there, and fails by itself
    assert "--frameworks" not in str(advise(there, absent, tensorflow={"version": "2.20"}))


def test_what_a_command_did_wrong_lacks_no_framework(tmp_path: Path) -> None:
    record = make_record(failed=(17,))
    assert "--frameworks" not in str(report.failure(record, tmp_path / "a.zip"))


@pytest.mark.parametrize("unit", ["=1+1", "+x", "-x", "@SUM(A1)", "\tx", "\rx", "s", "m=s", "'=x"])
def test_no_text_of_a_table_is_a_formula_and_numbers_stay(unit: str) -> None:
    record = make_record()
    samples = dataclasses.replace(record.samples[0], unit=unit, values=(-1.5, math.inf, -math.inf))
    table = "\n".join(report.samples_to_csv(dataclasses.replace(record, samples=(samples,))))
    rows = list(csv.DictReader(io.StringIO(table, newline="")))
    assert [row["value"] for row in rows] == ["-1.5", "inf", "-inf"]
    assert {row["unit"] for row in rows} == {f"'{unit}" if unit[0] in "=+-@\t\r" else unit}
