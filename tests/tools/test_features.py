"""The table of features is the one that its program writes, and names tests that are there."""

import dataclasses

import features
import practices
import pytest


def test_the_page_is_the_one_that_the_program_writes() -> None:
    assert features.PAGE.read_text(encoding="utf-8") == features.page()


def test_what_is_not_there_claims_no_test() -> None:
    for practice in practices.PRACTICES:
        assert bool(practice.tests) is (practice.state in ("yes", "in part"))
        assert practice.state in ("yes", "in part", "no")


def test_a_test_that_is_not_there_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    wrong = dataclasses.replace(features.ROWS[0], tests=("test_features::test_nothing",))
    monkeypatch.setattr(features, "ROWS", (wrong,))
    with pytest.raises(ValueError, match="there is no test test_features::test_nothing"):
        features.page()
