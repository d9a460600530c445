"""Numbers are read where a text has them, by one rule each, and nothing else is taken for one."""

import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from capsule import extraction
from capsule.extraction import Extract, Value
from capsule.manifest.sources import Column, LogKey, Pattern, Pointer, Source
from tests.support.properties import examples

LOSS = Pattern(text="stdout", pattern="loss: ([^ ]+)")
ALL = Pattern(text="stdout", pattern="loss: ([^ ]+)", occurrence="all")
CURVE = Pattern(text="stdout", pattern="step (?P<step>[^ ]+) loss: (?P<value>.*)", occurrence="all")
FINITE = st.floats(allow_nan=False, allow_infinity=False)
WORDS = st.text(st.characters(codec="utf-8"), max_size=20)


def read(source: Source, text: bytes) -> Extract:
    return extraction.extract({"loss": source}, {source.text: text})


def numbers(source: Source, text: bytes) -> list[tuple[float, float | None]]:
    extract = read(source, text)
    assert extract.reason is None, extract.message
    return [(value.value, value.step) for value in extract.values["loss"]]


@given(FINITE, st.lists(WORDS, max_size=5), st.sampled_from(["\n", "\r\n", "\r"]))
@examples(100)
def test_the_last_line_that_a_pattern_fits_gives_the_number(
    number: float, others: list[str], end: str
) -> None:
    other = [word for word in others if "loss: " not in word]
    text = end.join(["loss: 7", *other, f"loss: {number!r}", *other, ""])
    assert numbers(LOSS, text.encode()) == [(number, None)]


@given(st.lists(FINITE, min_size=1, max_size=20))
@examples(100)
def test_all_lines_in_their_order_make_calls_or_a_curve(values: list[float]) -> None:
    text = "".join(f"step {n} loss: {value!r}\n" for n, value in enumerate(values)).encode()
    assert numbers(ALL, text) == [(value, None) for value in values]
    assert numbers(CURVE, text) == [(value, n) for n, value in enumerate(values)]


def test_a_bar_that_is_drawn_anew_is_several_lines_and_one_number() -> None:
    extract = read(ALL, b"begin\n10% loss: 2\r20% loss: 1\r\nloss: 0.5")
    assert extract.values["loss"] == (
        Value(value=2.0, line=2),
        Value(value=1.0, line=2),
        Value(value=0.5, line=3),
    )


def test_empty_lines_are_counted_from_the_first_byte_on() -> None:
    extract = read(ALL, b"\nloss: 2\n\n\nloss: 1\n")
    assert extract.values["loss"] == (Value(value=2.0, line=2), Value(value=1.0, line=5))


@pytest.mark.parametrize(
    ("word", "value"),
    [("1", 1.0), ("-.5", -0.5), ("+1.e-3", 0.001), ("Infinity", math.inf), ("-INF", -math.inf)],
)
def test_a_number_is_what_programs_print(word: str, value: float) -> None:
    assert numbers(LOSS, f"loss: {word}".encode()) == [(value, None)]


@pytest.mark.parametrize("word", ["1_000", "1,000", "٣", "0x1p3", "0.3.", "1e", ".", "-", "12%"])
def test_what_looks_like_a_number_is_none(word: str) -> None:
    extract = read(LOSS, f"loss: {word}\n".encode())
    assert (extract.reason, dict(extract.values)) == ("bad-result", {})
    assert (
        f"the match of loss: ([^ ]+) in line 1 of stdout: expected a number, found {word!a}"
        in extract.message
    )
    assert "stdout ends with\n  | loss: " in extract.message


@pytest.mark.parametrize(
    ("source", "text", "reason", "words"),
    [
        (CURVE, "step 1 loss: 2\nstep 1 loss: 1", "bad-result", "line 2 has step 1 after step 1"),
        (CURVE, "step nan loss: 2", "bad-result", "line 1 has step nan"),
        (
            Pattern(text="stdout", pattern="(?:loss: (?P<value>.*))?end"),
            "the end",
            "bad-result",
            "its group matched nothing",
        ),
        (
            Pointer(text="out/a", pointer="/b/c"),
            '{"b": {"d": 1, "e": 2}}',
            "no-result",
            "expected 'c', found d, e",
        ),
        (Pointer(text="out/a", pointer="/1"), "[1]", "no-result", "found a list of 1 entries"),
        (Pointer(text="out/a", pointer="/b/c"), '{"b": 3}', "no-result", "no 'c' in 3"),
        (Pointer(text="out/a", pointer="/b"), '{"b": "3"}', "bad-result", "expected a number"),
        (Pointer(text="out/a", pointer="/b"), '{"b": true}', "bad-result", "expected a number"),
        (Pointer(text="out/a", pointer="/b"), '{"b": []}', "no-result", "is an empty list"),
        (Pointer(text="out/a", pointer=""), "1" * 400, "bad-result", "an integer of 1326 bits"),
        (Pointer(text="out/a", pointer=""), "1" * 5000, "bad-result", "cannot read a as JSON"),
        (Pointer(text="out/a", pointer=""), "[" * 9999, "bad-result", "cannot read a as JSON"),
        (Column(text="out/a", column="b"), "a,c\n1,2", "no-result", "its columns: a, c"),
        (Column(text="out/a", column="b"), "b,b\n1,2", "bad-result", "has column b 2 times"),
        (Column(text="out/a", column="b"), "a,b\n1,\n", "no-result", "is empty"),
        (
            Column(text="out/a", column="b"),
            "a,b\n1,x\n",
            "bad-result",
            "b in line 2 of a: expected a number, found 'x'",
        ),
        (Column(text="out/a", column="b", step="a"), "a,b\n,1", "bad-result", "a in line 2 of a"),
        (LogKey(text="stdout", key="k"), ':::MLLOG {"key": "j"}', "no-result", "has the key k"),
        (
            LogKey(text="stdout", key="k"),
            ':::MLLOG {"key": "k"',
            "bad-result",
            "expected a JSON object",
        ),
        (LogKey(text="stdout", key="k"), ':::MLLOG ["k"]', "bad-result", "expected a JSON object"),
        (
            LogKey(text="stdout", key="k"),
            ':::MLLOG {"key": "k"}',
            "bad-result",
            "expected a number, found None",
        ),
    ],
)
def test_what_is_not_there_or_is_something_else_is_told(
    source: Source, text: str, reason: str, words: str
) -> None:
    extract = read(source, text.encode())
    assert (extract.reason, dict(extract.values)) == (reason, {})
    assert words in extract.message.rpartition("\n")[2]


@pytest.mark.parametrize("separator", [",", ";", "\t"])
def test_a_table_is_separated_as_its_header_is(separator: str) -> None:
    rows = (("epoch", " loss "), ("1", "0.5"), ("2", ""), ("3", "0.25"))
    text = "\ufeff" + "\r\n".join(separator.join(row) for row in rows)
    column = Column(text="out/log.csv", column="loss")
    assert numbers(column, text.encode()) == [(0.25, None)]
    curve = Column(text="out/log.csv", column="loss", step="epoch")
    assert numbers(curve, text.encode()) == [(0.5, 1.0), (0.25, 3.0)]


@given(st.dictionaries(WORDS, FINITE, min_size=1), st.data())
@examples(100)
def test_a_pointer_finds_every_member_and_every_list(
    document: dict[str, float], data: st.DataObject
) -> None:
    key = data.draw(st.sampled_from(sorted(document)))
    pointer = "/all/" + key.replace("~", "~0").replace("/", "~1")
    text = json.dumps({"all": document, "list": list(document.values())}).encode()
    assert numbers(Pointer(text="out/a", pointer=pointer), text) == [(document[key], None)]
    every = numbers(Pointer(text="out/a", pointer="/list"), text)
    assert every == [(value, None) for value in document.values()]


def test_steps_of_mlperf_count_where_every_line_has_them() -> None:
    key = LogKey(text="stderr", key="eval_loss")
    lines = [
        {"key": "eval_loss", "value": n / 4, "metadata": {"epoch_num": n, "step_num": 9 * n}}
        for n in (1, 2)
    ]
    text = "".join(f"0: :::MLLOG {json.dumps(line)}\nother\n" for line in lines)
    assert numbers(key, text.encode()) == [(0.25, 1.0), (0.5, 2.0)]
    without = text + ':::MLLOG {"key": "eval_loss", "value": 1, "metadata": null}\n'
    assert numbers(key, without.encode()) == [(0.25, None), (0.5, None), (1.0, None)]


def test_every_fault_is_told_and_only_the_first_text_is_quoted() -> None:
    other = Pointer(text="out/a.json", pointer="/b")
    absent = {"out/a.json": "there is no such file"}
    extract = extraction.extract(
        {"loss": LOSS, "other": other}, {"stdout": b"nothing\n"}, absent=absent
    )
    assert extract.reason == "no-result"
    assert extract.message.splitlines() == [
        "stdout ends with",
        "  | nothing",
        "loss: no line of stdout matches loss: ([^ ]+)",
        "other: there is no such file",
    ]


@pytest.mark.parametrize(
    "source",
    [
        *(LOSS, ALL, CURVE, Pointer(text="stdout", pointer="/a"), LogKey(text="stdout", key="a")),
        *(Column(text="stdout", column="a"), Column(text="stdout", column="a", step="b")),
    ],
    ids=repr,
)
@given(
    st.binary(max_size=200)
    | st.lists(
        st.sampled_from(
            (
                *(b"step 1 loss: 2", b'{"a": [1]}', b':::MLLOG {"key": "a", "value": 1}'),
                *(b"a,b", b"1,2", b"\n", b"\r", b'"', b"\0", b"\xff", b",", b" "),
            )
        ),
        max_size=12,
    ).map(b"".join)
)
@examples(100, times=200)
def test_no_text_ends_a_reader_and_each_number_has_its_line(source: Source, text: bytes) -> None:
    extract = read(source, text)
    assert (extract.reason is None) == ("loss" in extract.values)
    for value in extract.values.get("loss", ()):
        assert isinstance(value.value, float)
        assert value.line is None or 1 <= value.line <= text.count(b"\n") + 1


def test_a_text_that_is_too_large_is_not_searched() -> None:
    pieces = [b"loss: 1\n" * 1000] * (extraction.MOST_BYTES // 8000 + 1)
    extract = read(LOSS, extraction.take(pieces))
    assert extract.reason == "bad-result"
    assert "the most that capsule searches" in extract.message
