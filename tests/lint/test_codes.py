"""Each code of a warning has an entry in the reference, and each sentence says what to do."""

from __future__ import annotations

from pathlib import Path

import pytest

from capsule.manifest.warnings import WARNINGS
from tests.golden.words import sentences

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "warnings.md"
# whoever finds the pointer words it
WORDED_ELSEWHERE = ("pointer", "image-missing")


@pytest.mark.parametrize("code", WARNINGS.codes)
def test_a_code_has_an_entry(code: str) -> None:
    warnings, _, _ = PAGE.read_text().partition("\n## Notes in a capsule\n")
    _, _, entry = warnings.partition(f"\n### {code}\n")
    entry, _, _ = entry.partition("\n### ")
    for part in ("- Text: ", "- Why: ", "- Do: "):
        assert part in entry


@pytest.mark.parametrize("code", [one for one in WARNINGS.codes if one not in WORDED_ELSEWHERE])
def test_a_sentence_says_what_is_wrong_and_then_what_to_do(code: str) -> None:
    for sentence in sentences(WARNINGS, code):
        what, _, remedy = sentence.partition(". ")
        assert what
        assert remedy[:1].isupper(), sentence
        assert not remedy.endswith(".")
