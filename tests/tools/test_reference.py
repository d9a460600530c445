"""The generated pages of the reference are those that their sources make."""

import re
import sys

import metric_texts
import pytest
import reference
from warning_texts import WarningText

from capsule.manifest.warnings import WARNINGS


def test_the_pages_are_fresh() -> None:
    stale = [
        path.name
        for path, text in reference.pages().items()
        if not path.is_file() or path.read_text(encoding="utf-8") != text
    ]
    assert not stale, "python tools/reference.py writes them anew"


def test_every_page_of_a_verb_is_of_one_that_exists() -> None:
    committed = set((reference.FOLDER / "cli").glob("*.md"))
    assert committed == {path for path in reference.pages() if path.parent.name == "cli"}


def test_the_commands_of_a_page_are_the_examples_of_its_help() -> None:
    for path, text in reference.pages().items():
        if path.parent.name == "cli":
            for block in re.findall(r"^```text\n(.*?)^```$", text, re.M | re.S):
                body, _, _ = block.partition("\nexample")
                assert not re.search(r"^ *(capsule|python) \S", body, re.M), path.name


def test_no_line_is_too_long_but_rows_of_tables_and_examples() -> None:
    for path, text in reference.pages().items():
        lines = [line for line in text.splitlines() if not line.startswith("|")]
        assert max(map(len, lines)) <= reference.WIDTH, path.name


def test_a_stale_page_ends_with_1_and_is_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    made = reference.pages()
    monkeypatch.setattr(sys, "argv", ["reference.py", "--check"])
    monkeypatch.setattr(reference, "pages", lambda: made)
    assert reference.main() == 0
    made[reference.FOLDER / "warnings.md"] += "more"
    assert reference.main() == 1
    said = capsys.readouterr().out
    assert said == "docs/reference/warnings.md is stale: python tools/reference.py\n"


@pytest.mark.parametrize(
    ("texts", "message"),
    [
        ({}, "codes without text"),
        ({"one-seed": WarningText("a", "b", {"more": 1})}, "sample facts of one-seed"),
    ],
)
def test_a_code_without_text_or_with_other_facts_is_refused(
    texts: dict[str, WarningText], message: str
) -> None:
    say = WARNINGS.say
    with pytest.raises(ValueError, match=message):
        list(reference.entries(["one-seed"], say, texts))


def test_a_list_in_a_description_is_a_list() -> None:
    said = reference.say("One of:\n- a: first\n- b: second", first="- `key` (text): ")
    assert said == "- `key` (text): One of:\n  - a: first\n  - b: second"


def test_every_text_of_a_metric_is_of_one_that_is_reported() -> None:
    assert {name.strip("`") for name, *_ in metric_texts.rows()} == set(metric_texts.METRIC_TEXTS)
