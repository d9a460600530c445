"""The file of words is what the templates say, so that whoever rewords one sees it in a diff."""

import re

from tests.golden.words import FILE, TABLES, render

MOST_LINES = 600


def test_the_file_is_fresh() -> None:
    assert FILE.read_text() == render(), "write it again: python -m tests.golden"


def test_the_file_can_be_read_as_a_whole() -> None:
    assert len(FILE.read_text().splitlines()) < MOST_LINES


def test_each_code_is_one_that_documents_take() -> None:
    codes = [code for table in TABLES.values() for code in table.codes]
    assert [code for code in codes if not re.fullmatch(r"[a-z][a-z-]{0,63}", code)] == []
