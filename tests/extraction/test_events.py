"""Scalars are read from event files as their programs wrote them, and as TensorBoard shows them."""

import math
import struct
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from capsule import extraction
from capsule.extraction import Extract, values
from capsule.manifest.sources import EventTag
from tests.support import eventfiles
from tests.support.eventfiles import VERSION, event, inside, record, scalars, simple, tensor
from tests.support.properties import examples

TEXT = "out/runs/scalars.tfevents"
WRITTEN = Path(__file__).parent.parent / "data" / "events"
DOUBLE = b"\x08\x02"


def read(data: bytes, tag: str = "loss", *, curve: bool = True) -> Extract:
    source = EventTag(text=TEXT, tag=tag, is_curve=curve)
    return extraction.extract({"loss": source}, {TEXT: data})


def points(data: bytes, tag: str = "loss") -> list[tuple[float | None, float]]:
    extract = read(data, tag)
    assert extract.reason is None, extract.message
    return [(value.step, value.value) for value in extract.values["loss"]]


def load(name: str) -> bytes:
    return b"".join(path.read_bytes() for path in sorted((WRITTEN / name).iterdir()))


THIRD = 0.3333333432674408  # of 32 bits


@pytest.mark.parametrize(
    ("program", "tag", "expected"),
    [
        ("torch", "train/loss", [(0, 1.0), (1, 0.5), (2, THIRD), (3, 13.0), (4, 14.0)]),
        ("torch", "new", [(0, 2.5)]),
        ("torch", "double", [(0, 1 / 3)]),
        ("tf1", "loss", [(0, 1.0), (1, 0.5), (2, THIRD)]),
        ("tf1", "accuracy", [(0, 0.5), (1, 0.5), (2, 0.5)]),
        ("tf2", "train/loss", [(0, 1.0), (1, 0.5), (2, THIRD)]),
    ],
)
def test_what_programs_wrote_is_read(
    program: str, tag: str, expected: list[tuple[float, float]]
) -> None:
    data = load(program)
    assert points(data, tag) == expected
    # and so it is of what is kept, in which nothing else is left
    kept = extraction.keep_scalars(data)
    assert points(kept, tag) == expected
    assert b"hello" not in kept
    assert b"weights" not in kept


def test_of_several_values_the_last_counts_and_says_where_it_stands() -> None:
    (value,) = read(scalars((1, 0.5), (2, 0.25)), curve=False).values["loss"]
    assert (value.value, value.step, value.line) == (0.25, None, None)
    assert value.words == "step 2, 2026-11-22T18:20:55.000+00:00, loss = 0.25"


STEPS = st.lists(st.tuples(st.integers(-5, 20), st.floats(width=32, allow_nan=False)), min_size=1)


@given(STEPS)
@examples(100)
def test_a_step_that_is_taken_again_replaces_what_came_after_it(
    taken: list[tuple[int, float]],
) -> None:
    left: dict[int, float] = {}
    for step, number in taken:
        left = {one: value for one, value in left.items() if one < step} | {step: number}
    assert points(scalars(*taken)) == list(left.items())
    assert points(extraction.keep_scalars(scalars(*taken))) == list(left.items())


def test_a_writer_that_begins_anew_takes_back_what_other_tags_have_there() -> None:
    data = scalars((1, 0.5), (2, 0.25), (3, 0.125)) + record(eventfiles.begins(2))
    assert points(data) == [(1, 0.5)]
    assert points(extraction.keep_scalars(data)) == [(1, 0.5)]


@pytest.mark.parametrize("number", [math.nan, math.inf])
def test_a_number_that_is_not_finite_is_read_as_it_is(number: float) -> None:
    (value,) = read(scalars((1, number))).values["loss"]
    assert repr(value.value) == repr(number)


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (DOUBLE + inside(6, struct.pack("<d", 0.1)), 0.1),
        (DOUBLE + inside(4, struct.pack("<d", 0.1)), 0.1),
        (DOUBLE + struct.pack("<Bd", 6 << 3 | 1, 0.1), 0.1),
        (DOUBLE + inside(2, inside(2, b"\x08\x01")) + inside(4, struct.pack("<d", 0.1)), 0.1),
        (DOUBLE + inside(4, struct.pack("<dd", 1, 2)), None),
        (DOUBLE + inside(2, inside(2, b"\x08\x05")) + inside(4, struct.pack("<d", 0.1)), None),
        (b"\x08\x07" + inside(8, b"text"), None),
        (DOUBLE, None),
    ],
)
def test_a_tensor_of_one_number_is_a_scalar(content: bytes, expected: float | None) -> None:
    extract = read(record(event(1, tensor("loss", content))))
    if expected is None:
        assert (
            "tag loss in the event files of runs has a value that is no scalar; log only"
            in extract.message
        )
    else:
        assert extract.values["loss"][0].value == expected


LOSS = record(event(1, simple("loss", 0.5)))


@pytest.mark.parametrize(
    ("data", "reason", "words"),
    [
        (b"", "no-result", "the event files of runs are empty"),
        (record(VERSION), "no-result", "has no scalar loss; its tags: none"),
        (scalars((1, 2), tag="Loss"), "no-result", "has no scalar loss; its tags: Loss"),
        (LOSS[:-1], "bad-result", "truncated within a record, after 0 bytes"),
        (LOSS + LOSS[:5], "bad-result", f"truncated within a record, after {len(LOSS)} bytes"),
        (LOSS[:-1] + b"\0", "bad-result", "wrong checksum of a record"),
        (b"\1" + LOSS[1:], "bad-result", "wrong checksum of a record's length"),
        (record(b"\x0b"), "bad-result", "a field of the unknown type 3"),
        (record(b"\x2a\x7f"), "bad-result", "a message is truncated within a field"),
        (record(b"\x10" + b"\xff" * 20), "bad-result", "an integer, or an integer exceeds 64"),
        (
            record(b"\x0d\0\0\0\0"),
            "bad-result",
            "field wall_time of an event contains 4 bytes, expected 8 bytes",
        ),
        (
            record(b"\x28\1"),
            "bad-result",
            "field summary of an event contains the integer 1, expected a protobuf",
        ),
        (
            record(inside(2, b"")),
            "bad-result",
            "field step of an event contains 0 bytes, expected an integer",
        ),
        (b"loss: 0.5\n" * 10, "bad-result", "wrong checksum of a record's length"),
    ],
)
def test_what_is_no_event_file_fails_and_the_same_of_what_is_kept(
    data: bytes, reason: str, words: str
) -> None:
    for text in (data, extraction.keep_scalars(data)):
        extract = read(text)
        assert (extract.reason, extract.values) == (reason, {})
        assert words.partition(",")[0] in extract.message
    assert words in read(data).message


@pytest.mark.parametrize("most", [3, 4])
def test_a_curve_has_no_more_points_than_any_metric(
    monkeypatch: pytest.MonkeyPatch, most: int
) -> None:
    monkeypatch.setattr(values, "MOST_VALUES", most)
    one = event(0, simple("loss", 0.5))
    # the step is the tenth byte of an event whose step is one byte long
    many = [record(one[:10] + eventfiles.varint(n) + one[11:]) for n in range(most + 1)]
    assert f"more than {most} values" in read(b"".join(many)).message
    assert read(b"".join(many[:-1])).reason is None


@given(st.binary(max_size=60) | st.binary(max_size=60).map(lambda data: inside(5, inside(1, data))))
@examples(200, times=200)
def test_no_bytes_end_the_reader_and_what_is_kept_reads_alike(payload: bytes) -> None:
    for data in (payload, record(payload), LOSS + record(payload), LOSS + payload):
        extract, again = read(data), read(extraction.keep_scalars(data))
        assert (extract.reason is None) == ("loss" in extract.values)
        assert extract.reason == again.reason
        assert repr(extract.values) == repr(again.values)
