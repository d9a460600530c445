"""Numbers, steps and lines one by one, at the edges of what is taken."""

import math

import pytest

from capsule.extraction import values
from capsule.extraction.values import UnreadError, Value
from capsule.jsons import Json


@pytest.mark.parametrize(
    ("word", "hint"),
    [("1,000", "; print the number without grouped digits"), ("12%", ""), ("x", "")],
)
def test_a_comma_in_a_number_is_hinted_at(word: str, hint: str) -> None:
    with pytest.raises(UnreadError) as refused:
        values.to_number(word, "it")
    assert str(refused.value) == f"it: expected a number, found {word!r}{hint}"
    assert refused.value.reason == "bad-result"


def test_a_number_may_have_white_space_and_a_typographers_minus() -> None:
    assert values.to_number(" \u22121.5\t", "it") == -1.5
    assert math.isnan(values.to_number("NaN", "it"))


@pytest.mark.parametrize("value", [True, None, "1", [1], {}])
def test_a_json_value_of_another_kind_is_no_number(value: Json) -> None:
    with pytest.raises(UnreadError, match="expected a number"):
        values.json_number(value, "it")
    assert values.json_number(2, "it") == 2.0


def test_a_trial_has_as_many_values_as_it_may(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(values, "MOST_VALUES", 3)
    values.require_room(3)
    with pytest.raises(UnreadError, match="more than 3 values"):
        values.require_room(4)


@pytest.mark.parametrize(("count", "shown"), [(80, "x" * 80), (81, "x" * 80 + "...")])
def test_what_is_quoted_is_cut(count: int, shown: str) -> None:
    assert values.cut("x" * count) == shown


@pytest.mark.parametrize(
    ("steps", "message"),
    [
        ([1, 2, None, 3], None),
        ([1, None, 1], "line 3 has step 1 after step 1"),
        ([3, 1], "line 2 has step 1 after step 3"),
        ([1, 3, 2], "line 3 has step 2 after step 3"),
        ([0, math.inf], "line 2 has step inf"),
        ([-1, -0.5, 0], None),
    ],
)
def test_steps_increase_and_are_finite(steps: list[float | None], message: str | None) -> None:
    found = [Value(value=1.0, step=step, line=n) for n, step in enumerate(steps, 1)]
    if message is None:
        values.check_steps(found)
    else:
        with pytest.raises(UnreadError, match=message):
            values.check_steps(found)


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        (b"", []),
        (b"\n", []),
        (b"\na", [(2, b"a")]),
        (b"a\n\nb\n", [(1, b"a"), (3, b"b")]),
        (b"a\r\nb", [(1, b"a"), (2, b"b")]),
        (b"1\r\r2\r", [(1, b"1"), (1, b"2")]),
        (b"\xef\xbb\xbfa\nb", [(1, b"a"), (2, b"b")]),
    ],
)
def test_lines_have_their_numbers(text: bytes, lines: list[tuple[int, bytes]]) -> None:
    assert list(values.lines(text)) == lines
