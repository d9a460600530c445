"""`capsule show` keeps to one screen, whatever a record holds; `--full` prints all of it."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Sequence

import pytest

from capsule import report
from capsule.manifest import Operator
from capsule.record import Record
from capsule.runs import MetricRuns, Run
from capsule.summary import run_values
from tests.report.test_report import ID, draw
from tests.support.records import (
    LOSS,
    SEEDS,
    STEP_TIME,
    make_attempt,
    make_node,
    make_record,
    noted,
)

WIDTHS = (80, 100, 160)
LETTERS = "bcfm"


def make_paths(number: int, length: int) -> list[str]:
    """Metric paths whose four segments have so many characters and differ."""
    return [
        "/".join(letter * (length - 4) + f"{place:04}" for letter in LETTERS)
        for place in range(number)
    ]


def make_metric(path: str, values: Sequence[float], unit: str = "1") -> MetricRuns:
    runs = [
        Run(seed=seed, seed_source="manifest", trial=f"{path}/{seed}", status="ok", value=value)
        for seed, value in zip(SEEDS, values, strict=False)
    ]
    return MetricRuns(
        metric=path, unit=unit, direction="lower", kind="portable", resolution=0.0, runs=tuple(runs)
    )


def measure(paths: Sequence[str], claimed: int = 10**9, unit: str = "1") -> Record:
    """A record of these metrics, of which the first are claimed."""
    record = make_record()
    (claim,) = record.claims
    claims = tuple(dataclasses.replace(claim, metric=path) for path in paths[:claimed])
    record = dataclasses.replace(record, claims=claims)
    values = [0.123456 + seed for seed in SEEDS]
    vars(record)["_run_values"] = {path: make_metric(path, values, unit) for path in paths}
    return record


def show(record: Record, width: int = 80, *, full: bool = False) -> str:
    return draw(report.draw_record(record, ID, full=full), width)


def assert_fits(shown: str, width: int) -> None:
    lines = shown.splitlines()
    assert len(lines) <= 120
    assert max(map(len, lines)) <= width


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("length", [6, 16, 60])
@pytest.mark.parametrize("number", [1, 40, 1000])
def test_any_number_of_metrics_fits_and_no_name_is_broken(
    number: int, length: int, width: int
) -> None:
    paths = make_paths(number, length)
    shown = show(measure(paths), width)
    assert_fits(shown, width)
    segments = {segment for path in paths for segment in path.split("/")}
    found = re.findall(r"\b(?:b{2,}|c{2,}|f{2,}|m{2,})\d*\b", shown)
    assert found
    assert set(found) <= segments
    assert "equivalence, ±0.05" in shown
    if number == 1000:
        assert re.search(r"and \d+ more metrics: --full", shown)


@pytest.mark.parametrize("width", WIDTHS)
def test_a_thousand_runs_fit_and_are_counted(width: int) -> None:
    seeds = tuple(range(1000))
    shown = show(make_record(seeds=seeds, losses={seed: 1.0 + seed for seed in seeds}), width)
    assert_fits(shown, width)
    assert "1000 completed, seeds 0-999" in " ".join(shown.split())
    assert re.search(r"and 9\d\d more seeds: --full", shown)


@pytest.mark.parametrize("width", WIDTHS)
def test_long_texts_of_every_kind_fit(width: int) -> None:
    record = make_record(failed=SEEDS, nodes=(make_node(),) * 40)
    manifest = dataclasses.replace(
        record.manifest,
        title="word " * 200,
        changed={f"/benchmarks/{n}": n for n in range(100)},
        benchmarks=(dataclasses.replace(record.manifest.benchmarks[0], id="b" * 60),) * 100,
    )
    attempts = [
        dataclasses.replace(one, message=f"ValueError: {one.seed} " + "long " * 300)
        for one in record.attempts
    ]
    record = dataclasses.replace(
        record,
        manifest=manifest,
        attempts=tuple(attempts),
        notes=noted(*(f"{n} " + "word " * 400 for n in range(1000))),
    )
    vars(record)["_run_values"] = run_values(make_record(failed=SEEDS))
    shown = show(record, width)
    assert_fits(shown, width)
    assert "and 995 more notes: --full" in shown
    assert "... (--full)" in shown


def test_failures_stand_first_with_their_reasons() -> None:
    shown = show(make_record(failed=SEEDS))
    facts = shown.split("\n\n")[1]
    assert facts.split()[:5] == ["failed", "all", "of", "5", "runs"]
    assert "exit: Traceback: no (5 times)" in shown
    some = show(make_record(failed=(18,)))
    assert some.split("\n\n")[1].split()[:5] == ["failed", "1", "of", "5", "runs"]


def test_the_head_says_what_ran_on_what() -> None:
    shown = show(make_record(image=False), 100)
    assert shown.startswith("capsule aaaaaaaaaaaa  tiny-training: A tiny training run\n")
    assert "by Ada Author, Ben Author, 1 Mar 2026, capsule-hpc" in shown
    words = " ".join(shown.split())
    for part in (
        "benchmark train python3 train.py",
        "runs 5 completed, seeds 17-21, 7.5 s in all, 1.5 s each",
        "ran on host (no container), Example CPU, 2 cores, 8 GiB memory",
        "data ramp: 64 bytes, sha256:555555555555, no source stated",
        "paper https://doi.org/10.5555/12345678",
    ):
        assert part in words, part


def test_frameworks_come_first_among_packages() -> None:
    names = {"Jinja2": "3.1", "absl": "2", "torch": "2.9.0", "zlib": "1", "numpy": "2.4.6"}
    python = {"implementation": "CPython", "version": "3.11.7"}
    software = {"command": {"python": python, "distributions": names}}
    shown = show(make_record(software=software), 120)
    assert "5, for example torch 2.9.0, numpy 2.4.6" in shown
    assert "CPython 3.11.7" in shown
    full = show(make_record(software=software), 120, full=True)
    for name, version in names.items():
        assert f"{name} {version}" in full


def test_the_prefix_is_printed_once_and_units_stand_in_cells() -> None:
    shown = show(make_record())
    assert shown.count("train/default/command/") == 1
    assert "metrics in train/default/command/" in shown
    (line,) = [line for line in shown.splitlines() if line.startswith("step_time")]
    assert line.split()[2] == "s"
    assert line.split()[-1] == "-"


def test_a_narrow_screen_leaves_out_columns_and_a_wide_one_has_them() -> None:
    record = measure(["b/c/f/" + "m" * 44, "b/c/f/" + "n" * 20], 1, unit="MB")
    narrow, wide = show(record, 80), show(record, 160)
    (heading,) = [line for line in narrow.splitlines() if line.startswith("metric ")]
    assert heading.split() == ["metric", "mean", "claim"]
    assert "left out: min, max (--full)" in narrow
    (heading,) = [line for line in wide.splitlines() if line.startswith("metric ")]
    assert heading.split() == ["metric", "mean", "min", "max", "claim"]


def test_claimed_metrics_stay_longest_among_the_runs() -> None:
    paths = [f"b/c/f/{'m' * 16}{n:02}" for n in range(12)]
    shown = show(measure(paths[::-1], 2))
    (heading,) = [line for line in shown.splitlines() if line.startswith("seed ")]
    assert heading.split()[1:3] == [path.rpartition("/")[2] for path in paths[:-3:-1]]
    assert re.search(r"left out: \d+ columns \(--full\)", shown)


def test_further_claims_on_a_metric_have_rows_of_their_own() -> None:
    asked: list[dict[str, object]] = [
        {"metric": LOSS, "type": "equivalence", "margin": {"absolute": 0.05}, "label": "Table 2"},
        {"metric": LOSS, "type": "threshold", "at_most": 2, "primary": False},
        {"metric": STEP_TIME, "type": "noninferiority", "margin": {"ratio": 1.5}},
    ]
    shown = show(make_record(asked=asked), 100)
    assert "Table 2: equivalence, ±0.05" in shown
    assert "threshold, at most 2, secondary" in shown
    assert "noninferiority, worse by a factor of at most 1.5" in " ".join(shown.split())
    assert len(re.findall("^final_loss", shown, re.MULTILINE)) == 1


def test_a_busy_machine_is_told_where_a_machine_metric_is_claimed() -> None:
    node = make_node()
    node["class"]["cpu"]["threads"] = 2
    node["state"]["momentary"] = {"system": {"load_average_1_minute": 9.04}}
    claims = [{"metric": STEP_TIME, "type": "noninferiority", "margin": {"ratio": 1.5}}]
    timed, quality = make_record(nodes=(node,), asked=claims), make_record(nodes=(node,))
    assert "load 9.04 on 2 processors" in show(timed)
    assert "load 9.04" not in show(quality)
    assert "load 9.04 on 2 processors" in show(quality, full=True)


def test_only_a_value_of_several_numbers_is_explained() -> None:
    lines = {LOSS: (1, 1)}
    record = make_record()
    shown = draw(report.draw_record(record, ID, lines))
    assert "value of a run: median of 4 values (step_time)" in shown
    assert "the only line" not in shown
    assert "the only line" in draw(report.draw_record(record, ID, lines, full=True))


def test_everything_stands_in_the_full_screen() -> None:
    node = make_node()
    paths = make_paths(200, 16)
    record = dataclasses.replace(
        measure(paths, 3), nodes=(node,) * 30, notes=noted(*map(str, range(30)))
    )
    vars(record)["_run_values"] = {path: make_metric(path, [1.0, 2.0]) for path in paths}
    shown = show(record, full=True)
    for words in (ID, record.started, record.ended, *paths, *map(str, SEEDS), "network: 29"):
        assert words in shown, words
    assert "--full" not in shown


def test_the_order_of_time_is_kept_for_the_full_screen() -> None:
    starts = dict(zip(SEEDS, (5, 4, 3, 2, 1), strict=True))
    record = make_record(losses={seed: seed / 10 for seed in SEEDS})
    attempts = tuple(
        dataclasses.replace(one, started=f"2026-03-01T{starts[one.seed]:02}:00:00+00:00")
        for one in record.attempts
    )
    record = dataclasses.replace(record, attempts=attempts)
    assert "values in time order" not in show(record)
    shown = show(record, 160, full=True)
    assert "2.1, 2, 1.9, 1.8, 1.7" in shown
    assert "2026-03-01T05:00:00+00:00" in shown


def test_calls_that_are_timed_otherwise_than_usual_are_named() -> None:
    record = make_record()
    (benchmark,) = record.manifest.benchmarks
    both, fresh = ("fresh", "cold"), ("fresh",)
    benchmarks = [
        dataclasses.replace(
            benchmark, id=name, subject=Operator(name="gemm", conditions=conditions)
        )
        for name, conditions in (("a", both), ("b", ()), ("c", fresh), ("d", fresh))
    ]
    manifest = dataclasses.replace(record.manifest, benchmarks=(benchmark, *benchmarks))
    shown = show(dataclasses.replace(record, manifest=manifest), 140)
    assert "a: with new values for each call and emptied caches before each call" in shown
    assert "c, d: with new values for each call" in shown


@pytest.mark.parametrize("width", WIDTHS)
def test_attempts_that_did_not_complete_are_named_by_seed(width: int) -> None:
    record = make_record(failed=(18,), losses={17: 0.125, 19: 1.0, 20: 1.0, 21: 1.0})
    interrupted = make_attempt(17, outcome="interrupted", reason="killed")
    record = dataclasses.replace(record, attempts=(interrupted, *record.attempts))
    lines = show(record, width).splitlines()
    rows = {line.split()[0]: line.split() for line in lines if line[:2] in map(str, SEEDS)}
    assert rows["17"] == ["17", "0.125", *rows["17"][2:4], "1.5", "completed"]
    assert rows["18"] == ["18", "1.5", "failed", "(exit)"]
    assert "4 completed, 1 failed, 1 interrupted" in " ".join(" ".join(lines).split())
