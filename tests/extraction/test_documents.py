"""Places of documents and cells of tables, one rule each."""

import pytest

from capsule.extraction import documents, values
from capsule.extraction.values import UnreadError, Value
from capsule.manifest.sources import Column, Pointer


def at(pointer: str, text: bytes) -> list[float]:
    source = Pointer(text="a.json", pointer=pointer)
    return [one.value for one in documents.at_pointer(source, text, "it")]


@pytest.mark.parametrize(
    ("pointer", "found"),
    [
        ("/a/0", [7.0]),
        ("/a/1", [8.0]),
        ("/b~1c/d~0e", [3.0]),
        ("/f", [1.0, 2.0]),
    ],
)
def test_a_pointer_names_members_and_entries(pointer: str, found: list[float]) -> None:
    assert at(pointer, b'{"a": [7, 8], "b/c": {"d~e": 3}, "f": [1, 2]}') == found


@pytest.mark.parametrize(
    ("pointer", "message"),
    [
        ("/a/2", "it has no /a/2: expected entry '2', found a list of 2 entries"),
        ("/a/-1", "found a list of 2 entries"),
        ("/a/\u0661", "found a list of 2 entries"),
        ("/a/9999999999999", "found a list of 2 entries"),
        ("/b", "expected 'b', found a, c"),
        ("/c/x", "no 'x' in 5"),
        ("/a/0/x", "no 'x' in 7"),
    ],
)
def test_a_place_that_is_not_there_is_told_beside_what_is(pointer: str, message: str) -> None:
    with pytest.raises(UnreadError) as refused:
        at(pointer, b'{"a": [7, 8], "c": 5}')
    assert message in str(refused.value)
    assert refused.value.reason == "no-result"


def test_a_json_document_has_as_many_bytes_as_it_may(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(documents, "MOST_JSON_BYTES", 8)
    assert at("/a", b'{"a": 1}') == [1.0]
    with pytest.raises(UnreadError, match="JSON file: found 9 bytes, expected at most 8 bytes"):
        at("/a", b'{"a": 12}')


def test_lists_and_columns_have_as_many_values_as_they_may(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(values, "MOST_VALUES", 2)
    assert at("/a", b'{"a": [1, 2]}') == [1.0, 2.0]
    with pytest.raises(UnreadError, match="more than 2 values"):
        at("/a", b'{"a": [1, 2, 3]}')
    assert len(table("s,b\n1,1\n2,2\n", step="s")) == 2
    with pytest.raises(UnreadError, match="more than 2 values"):
        table("s,b\n1,1\n2,2\n3,3\n", step="s")


def table(text: str, step: str | None = None) -> tuple[Value, ...]:
    source = Column(text="a.csv", column="b", step=step)
    return documents.of_column(source, text.encode(), "it").values


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("a,b\n1,2\n3,4\n", Value(value=4.0, line=3)),
        # a short row, an empty cell and an empty line have none
        ("a,b\n1,2\n3\n", Value(value=2.0, line=2)),
        ("a,b\n1,2\n3, \n\n", Value(value=2.0, line=2)),
        ("a;b\n1;2\n", Value(value=2.0, line=2)),
        ("a\tb\n1\t2", Value(value=2.0, line=2)),
        (" b ,a\n5,1\n", Value(value=5.0, line=2)),
        ('a,b\n"x\ny",7\n', Value(value=7.0, line=3)),
        # the header tells what separates cells, whatever stands in them
        ('a,b\n"x;y;z;w",5\n', Value(value=5.0, line=2)),
        # more cells than the header, but nothing in them
        ("a,b\n1,2,\n", Value(value=2.0, line=2)),
    ],
)
def test_the_last_cell_of_a_column_gives_the_number(text: str, found: Value) -> None:
    assert table(text) == (found,)


def test_what_lies_behind_the_last_number_is_told() -> None:
    source = Column(text="a.csv", column="b")
    found = documents.of_column(source, b"a,b\n1,2\n3,\n", "it")
    assert found.notes == ("the last number of column b of it is in line 2 of 3",)
    assert documents.of_column(source, b"a,b\n1,2\n", "it").notes == ()


def test_a_column_of_steps_makes_a_curve() -> None:
    assert table("s,b\n1,5\n2,\n4,6\n", step="s") == (
        Value(value=5.0, step=1.0, line=2),
        Value(value=6.0, step=4.0, line=4),
    )
    # the step's cell is missing, which is no number
    with pytest.raises(UnreadError, match="s in line 2 of it: expected a number, found ''"):
        table("b,s\n5\n", step="s")


@pytest.mark.parametrize(
    ("text", "message", "reason"),
    [
        ("a,b\n1,2,3\n", "line 2 of it has 3 cells, expected 2 as in the header", "bad-result"),
        ("a,c\n1,2\n", "it has no column b; its columns: a, c", "no-result"),
        ("", "it has no column b; its columns: none", "no-result"),
        ("b,b\n1,2\n", "it has column b 2 times", "bad-result"),
        ("a,b\n", "column b of it is empty", "no-result"),
        (f'a,b\n"{"x" * 200_000}",1\n', "cannot read line 2 of it as CSV", "bad-result"),
        ("b", "column b of it is empty", "no-result"),
    ],
)
def test_what_is_no_table_is_told(text: str, message: str, reason: str) -> None:
    with pytest.raises(UnreadError) as refused:
        table(text)
    assert message in str(refused.value)
    assert refused.value.reason == reason
