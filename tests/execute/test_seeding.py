"""Reports of seeds: hostile input, and what the runs of several seeds have in common."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from capsule import notes
from capsule.execute import seeding
from capsule.execute.reports import Journal, merge
from capsule.execute.seeding import Kept, Report
from capsule.notes import Note
from tests.support.seeding import make_trial

KEPT = Kept(function="f", seed="0", place="a.py:3", process="", turn=0)
LINE = {
    "kept": "f",
    "value": "0",
    "file": "a.py",
    "line": 3,
    "by": "",
    "process": "",
    "turn": 0,
}
BEGUN, USED, ENDED = {"python": "3.11.2"}, {"used": True}, {"used": False}
FORKED = {"forked": True}


def read(folder: Path, *lines: object) -> Report | None:
    (folder / "report").write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    return seeding.read(folder / "report")


def kept(*seeds: str, place: str = "a.py:3", process: str = "", turn: int = 0) -> list[Report]:
    """A report for each rank, in which one generator kept a seed."""
    one = replace(KEPT, place=place, process=process, turn=turn)
    return [Report(replaced={}, kept=(replace(one, seed=seed),)) for seed in seeds]


def compare(*runs: Sequence[Report], seeds: Sequence[int] = (1, 2, 3)) -> list[Note]:
    trials = map(make_trial, seeds)
    return list(seeding.compare(list(zip(trials, runs, strict=False))))


def test_a_seed_that_was_kept_is_read(tmp_path: Path) -> None:
    assert read(tmp_path, BEGUN, LINE) == Report(replaced={}, kept=(KEPT,))
    by = read(tmp_path, {**LINE, "by": "Sampler.__iter__"})
    assert by is not None
    assert by.kept[0].place == "a.py:3 (Sampler.__iter__)"


@pytest.mark.parametrize(
    "change",
    [{"line": "3"}, {"turn": None}, {"file": 3}, {"kept": ["f"]}, {"by": None}, {"value": 0}],
    ids=str,
)
def test_a_line_of_another_shape_is_left_out(tmp_path: Path, change: dict[str, object]) -> None:
    assert read(tmp_path, {**LINE, **change}) == Report(replaced={})


def test_texts_of_a_program_are_short_and_clean(tmp_path: Path) -> None:
    found = read(tmp_path, *({**LINE, "value": "\x1b[2J" + "x" * 999, "file": "\n"},) * 3)
    assert found is not None
    assert all(one.seed.isprintable() and len(one.seed) <= 200 for one in found.kept)
    assert found.kept[0].place == "\\n:3"


@pytest.mark.parametrize(
    ("lines", "is_unused"),
    [
        ([BEGUN, ENDED], True),
        ([BEGUN, USED], False),
        ([BEGUN, BEGUN, ENDED, ENDED], True),
        ([BEGUN, FORKED, ENDED, ENDED], True),
        ([BEGUN, FORKED, ENDED], False),
        ([BEGUN, FORKED, ENDED, USED], False),
        ([BEGUN], False),
        ([ENDED], False),
        ([BEGUN, {"used": 0}], False),
    ],
    ids=str,
)
def test_a_seed_is_unused_if_every_process_says_so(
    tmp_path: Path, lines: list[object], is_unused: bool
) -> None:
    found = read(tmp_path, *lines)
    assert found is not None
    assert found.is_unused == is_unused


def test_a_seed_that_is_equal_under_all_seeds_is_noted() -> None:
    (note,) = compare(kept("0"), kept("0"), kept("0"))
    assert note == notes.kept_seeds(
        benchmark="b", seeds=3, generators=(("f", "0", "a.py:3"),), more=0
    )


@pytest.mark.parametrize(
    "runs",
    [
        [kept("0"), kept("0"), kept("1")],
        [kept("0")],
        # each in another place, process, turn or rank
        [kept("0"), kept("0", place="a.py:4")],
        [kept("0"), kept("0", process="/fork 0")],
        [kept("0"), kept("0", turn=1)],
        [kept("0", "1"), kept("2", "0")],
    ],
)
def test_another_seed_under_another_seed_is_not_noted(runs: list[list[Report]]) -> None:
    assert compare(*runs) == []


def test_runs_with_one_seed_show_nothing() -> None:
    assert compare(kept("0"), kept("0"), seeds=(1, 1)) == []


def test_the_second_rank_counts_like_the_first() -> None:
    (note,) = compare(kept("1", "0"), kept("2", "0"))
    assert dict(note.facts or ())["generators"] == (("f", "0", "a.py:3"),)


def test_many_places_are_counted() -> None:
    reports = [
        Report(
            replaced={},
            kept=tuple(replace(KEPT, place=f"a.py:{line}") for line in range(13)),
        )
    ]
    (note,) = compare(reports, reports)
    assert dict(note.facts or ())["more"] == 3
    assert note.sentence.endswith("f(0) in a.py:9, and 3 more")


def test_benchmarks_are_compared_by_themselves() -> None:
    runs = [(make_trial(seed, name), kept(name)) for seed in (1, 2) for name in ("x", "y")]
    assert [dict(note.facts or ())["benchmark"] for note in seeding.compare(runs)] == ["x", "y"]


UNUSED = Report(replaced={}, is_unused=True)


def test_a_seed_that_no_run_uses_is_noted() -> None:
    assert compare([UNUSED], [UNUSED]) == [notes.unused_injection(benchmark="b", runs=2)]
    assert compare([UNUSED], seeds=(1,)) == [notes.unused_injection(benchmark="b", runs=1)]
    assert compare([UNUSED], [Report(replaced={})]) == []
    assert compare([UNUSED, Report(replaced={})], [UNUSED, UNUSED]) == []


def test_a_generator_that_takes_the_run_s_seed_itself_uses_it() -> None:
    own = [[replace(UNUSED, kept=(replace(KEPT, seed=seed),))] for seed in ("1", "2")]
    assert compare(*own) == []
    assert compare(own[0], seeds=(1,)) == []
    states = [[replace(UNUSED, kept=(replace(KEPT, seed=f"state {n}"),))] for n in (1, 2)]
    assert [note.code for note in compare(*states)] == ["injection-unused"]
    fixed = own[0]
    assert [note.code for note in compare(fixed, fixed)] == ["seeds-kept", "injection-unused"]


def test_reports_of_ranks_stay_in_order() -> None:
    both = kept("0", "1")
    journals = [
        Journal(software={}, environment={}, reports=(), seedings=(report,)) for report in both
    ]
    assert merge(journals, [make_trial(1)]).seedings == tuple(both)
