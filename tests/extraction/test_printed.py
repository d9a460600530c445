"""Numbers of lines: one, all or the only one of a pattern, and those of MLPerf's logging."""

import json

import pytest

from capsule.extraction import printed, values
from capsule.extraction.values import Found, UnreadError, Value
from capsule.manifest.sources import LogKey, Occurrence, Pattern

STEPS = "(?:step (?P<step>[0-9]+) )?loss: (?P<value>[0-9.]+)"


def pattern(occurrence: Occurrence, text: str = "loss: ([0-9.]+)") -> Pattern:
    return Pattern(text="stdout", pattern=text, occurrence=occurrence)


def before(occurrence: Occurrence, text: bytes, shape: str = "loss: ([0-9.]+)") -> Found:
    return printed.by_pattern_before(pattern(occurrence, shape), text, "it")


@pytest.mark.parametrize("read", [printed.by_pattern, printed.by_pattern_before])
@pytest.mark.parametrize(
    ("occurrence", "found"),
    [
        ("last", (Value(value=3.0, line=4),)),
        ("all", (Value(value=2.0, line=1), Value(value=3.0, line=4))),
    ],
)
def test_a_pattern_gives_the_last_number_or_all(
    read: object, occurrence: Occurrence, found: tuple[Value, ...]
) -> None:
    assert callable(read)
    text = b"loss: 2\nother\n\nloss: 3\nend"
    result = read(pattern(occurrence), text, "it")
    assert (result.values, result.lines) == (found, 2)


def test_the_only_line_that_a_pattern_fits_gives_the_number() -> None:
    for read in (printed.by_pattern, printed.by_pattern_before):
        assert read(pattern("only"), b"a\nloss: 2\n", "it").values == (Value(value=2.0, line=2),)
        with pytest.raises(UnreadError, match=r"^2 lines of it match loss: "):
            read(pattern("only"), b"loss: 2\nloss: 2\n", "it")
        with pytest.raises(UnreadError, match="no line of it matches loss: ") as refused:
            read(pattern("only"), b"lost\n", "it")
        assert refused.value.reason == "no-result"
    with pytest.raises(UnreadError, match=r"\(lines 1, 2, 3, 4, 5\)$"):
        printed.by_pattern(pattern("only"), b"loss: 2\n" * 6, "it")


def test_what_was_read_before_has_its_steps_and_its_room(monkeypatch: pytest.MonkeyPatch) -> None:
    text = b"step 1 loss: 5\nstep 3 loss: 4\n"
    assert before("all", text, STEPS).values == (
        Value(value=5.0, step=1.0, line=1),
        Value(value=4.0, step=3.0, line=2),
    )
    with pytest.raises(
        UnreadError, match="the step in line 2 of it is empty: its group matched nothing"
    ):
        before("all", b"step 1 loss: 5\nloss: 4\n", STEPS)
    monkeypatch.setattr(values, "MOST_VALUES", 1)
    assert len(before("last", text, STEPS).values) == 1
    with pytest.raises(UnreadError, match="more than 1 values"):
        before("all", text, STEPS)


def log(*entries: object) -> bytes:
    return b"".join(b"at 0: :::MLLOG " + json.dumps(entry).encode() + b"\n" for entry in entries)


def entry(value: object, **metadata: object) -> dict[str, object]:
    return {"key": "loss", "value": value, "metadata": metadata}


KEY = LogKey(text="stdout", key="loss")


@pytest.mark.parametrize(
    ("entries", "steps"),
    [
        ([entry(1, epoch_num=1, step_num=10), entry(2, epoch_num=2, step_num=20)], [1.0, 2.0]),
        ([entry(1, epoch_num=1, step_num=10), entry(2, step_num=20)], [10.0, 20.0]),
        ([entry(1, samples_count=0.5), entry(2, samples_count=1)], [0.5, 1.0]),
        ([entry(1, epoch_num=True), entry(2, epoch_num=2)], [None, None]),
        ([entry(1, epoch_num="1"), entry(2, epoch_num=2)], [None, None]),
        ([{"key": "loss", "value": 1, "metadata": 5}, entry(2, epoch_num=2)], [None, None]),
        ([entry(1), {"key": "other", "value": "loss"}, entry(2)], [None, None]),
    ],
)
def test_steps_are_what_all_lines_of_a_key_have(
    entries: list[object], steps: list[float | None]
) -> None:
    found = printed.by_key(KEY, b"begin\n" + log(*entries), "it")
    assert [one.value for one in found] == [1.0, 2.0]
    assert [one.step for one in found] == steps
    assert (found[0].line, found[-1].line) == (2, len(entries) + 1)


def test_a_mark_may_begin_its_line_and_a_key_without_one_is_other_text() -> None:
    line = b':::MLLOG {"key": "loss", "value": 1}'
    assert [one.value for one in printed.by_key(KEY, line, "it")] == [1.0]
    with pytest.raises(UnreadError, match="no :::MLLOG line of it has the key loss"):
        printed.by_key(KEY, b'"loss": 1\n:::MLLOG {"key": "other"}\n', "it")


def test_a_key_has_as_many_values_as_it_may(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(values, "MOST_VALUES", 2)
    assert len(printed.by_key(KEY, log(entry(1), entry(2)), "it")) == 2
    with pytest.raises(UnreadError, match="more than 2 values"):
        printed.by_key(KEY, log(entry(1), entry(2), entry(3)), "it")
