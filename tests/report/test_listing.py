"""A listing leaves out columns before it breaks a name, and rows before it has too many lines."""

from __future__ import annotations

from capsule.report.terminal.listing import Column, Listing
from capsule.report.terminal.prose import Prose
from tests.report.test_report import draw

CLAIM = "equivalence within a margin of a few words that do not fit in a line"


def make(names: list[str], most_lines: int | None = 20, more_rows: int = 0) -> Listing:
    rows = len(names)
    columns = [
        Column(heading="mean", cells=["0.12345"] * rows),
        Column(heading="min", cells=["0.1"] * rows, rank=2),
        Column(heading="claim", cells=[CLAIM] * rows, is_text=True),
    ]
    return Listing(names=names, columns=columns, most_lines=most_lines, more_rows=more_rows)


def test_words_wrap_beside_names_that_do_not() -> None:
    shown = draw([make(["loss", "accuracy"])], 60)
    heading, rule, first, second, *_ = shown.splitlines()
    assert heading.split() == ["metric", "mean", "min", "claim"]
    assert set(rule.strip()) == {"─"}
    assert first.startswith("loss")
    assert not second[:20].strip()
    assert " ".join(first.split()[3:] + second.split()) in CLAIM


def test_columns_go_by_rank_and_are_named() -> None:
    shown = draw([make(["a" * 24])], 64)
    assert shown.splitlines()[0].split() == ["metric", "mean", "claim"]
    assert shown.splitlines()[-1].strip() == "left out: min (--full)"
    assert "min" in draw([make(["a" * 24])], 100).splitlines()[0]


def test_a_name_without_room_has_its_values_below() -> None:
    name = f"{'a' * 30}/{'b' * 30}"
    first, second, third, *_ = draw([make([name, ""])], 40).splitlines()
    assert (first, second) == (f"{'a' * 30}/", "b" * 30)
    assert third.startswith("    mean 0.12345, min 0.1, claim")


def test_rows_that_have_no_room_are_counted() -> None:
    lines = draw([make([*map(str, range(30)), "", ""], 10, more_rows=5)], 120).splitlines()
    assert len(lines) == 10
    assert lines[-1].strip() == "and 28 more metrics, 2 more claims: --full"


def test_without_a_limit_all_rows_and_columns_are_there() -> None:
    lines = draw([make([f"{n}" * 40 for n in range(10, 90)], None)], 60).splitlines()
    assert sum(line.lstrip().startswith("mean") for line in lines) == 80
    assert not any("--full" in line for line in lines)


def test_prose_is_cut_between_words() -> None:
    words = f"of {'a' * 10}/{'b' * 10}/{'c' * 10} and more words that go on and on"
    assert draw([Prose(words, most_lines=2)], 24).splitlines() == [
        "of",
        "... (--full)",
    ]
    assert draw([Prose(words)], 24).splitlines()[1] == "aaaaaaaaaa/bbbbbbbbbb/"
