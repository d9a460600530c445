"""What of a text a screen shows as it is, what is written out, and how much of it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from capsule import plain
from capsule.errors import CapsuleError, UsageError

JOINERS = "\u200c\u200d"
NAMES = (
    "Jos\xe9 \xd1and\xfa",
    "\u0d9a\u0dca\u200d\u0dbb\u0dd2",  # Sinhala, joined in the middle
    "\u0d05\u0d35\u0d28\u0d4d\u200d",  # Malayalam, joined at the end
    "\u0645\u062d\u0645\u062f\u200c\u0631\u0636\u0627",  # Persian, kept apart
    "\U0001f469\u200d\U0001f52c",
    "O'Brien-M\xfcller, \u5f35\u4e09",
)
ODD = st.text(st.one_of(st.characters(), st.sampled_from("\x1b\x9b\r\n\0\u202e\u2028\ud800\xa0")))


@pytest.mark.parametrize("name", NAMES)
def test_names_of_people_stay_as_they_are(name: str) -> None:
    assert plain.clean(name) == name
    assert plain.is_clean(name)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("\x1b[2J", r"\x1b[2J"),
        ("\x9b2J\x07\x7f\0", r"\x9b2J\x07\x7f\x00"),
        ("a\r\nb\tc", r"a\r\nb\tc"),
        ("\u202eab\u2066", r"\u202eab\u2066"),
        ("\u2028\u2029\ufeff\U000e0041", r"\u2028\u2029\ufeff\U000e0041"),
        ("\udcff\ud800", r"\udcff\ud800"),
        ("adm\u200din", r"adm\u200din"),
        ("\xe9\u200d\u200d", r"\xe9\u200d\u200d".replace(r"\xe9", "\xe9")),
    ],
)
def test_what_would_steer_or_hide_is_written_out(text: str, shown: str) -> None:
    assert plain.clean(text) == shown
    assert not plain.is_clean(text)


def test_a_space_of_another_width_is_a_space() -> None:
    assert plain.clean("5\xa0%\u2009\u3000") == "5 %  "


@given(ODD)
def test_whatever_it_was_it_can_be_shown_and_stays_so(text: str) -> None:
    shown = plain.clean(text)
    assert "".join(c for c in shown if c not in JOINERS).isprintable()
    assert plain.clean(shown) == shown
    if plain.is_clean(text) and len(text) <= plain.LONGEST_LINE:
        assert shown == text


@pytest.mark.parametrize("character", ["x", "\x1b", "\U000e0041", "\u0dca\u200d"])
def test_a_text_without_end_is_cut_and_says_how_long_it_is(character: str) -> None:
    text = character * 100_000
    shown = plain.clean(text)
    assert len(shown) <= plain.LONGEST_LINE
    assert shown.endswith(f"... ({len(text)} characters)")
    assert plain.clean(shown) == shown
    rows = plain.clean_lines("row\n" * 100_000)
    assert rows.count("\n") < plain.MOST_LINES
    assert rows.endswith("... (100001 lines)")
    assert plain.clean_lines(rows) == rows


def test_the_longest_line_is_not_cut() -> None:
    assert plain.clean("x" * plain.LONGEST_LINE) == "x" * plain.LONGEST_LINE


@given(ODD, ODD, ODD)
def test_an_error_is_one_line_and_what_stands_below_it(what: str, where: str, advice: str) -> None:
    error = UsageError(what, where=where, advice=advice)
    _, *rest = str(error).split("\n")
    assert all(row.startswith("  ") for row in rest)
    assert (error.what, error.where, error.advice) == (what, where, advice)
    again = CapsuleError(str(error))
    assert str(again) == str(error)
