"""The validator that is fast and the one that finds the words decide alike."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft7Validator

from capsule import schema
from capsule.errors import DamagedError, NotJsonError
from capsule.jsons import Json
from tests.support.capsules import sample_files
from tests.support.properties import examples

MANIFEST = Path(__file__).parents[1] / "manifests" / "level1.json"
FILES = {
    "record-1": "data/capsule.json",
    "hardware-1": "data/records/hardware.json",
    "software-1": "data/records/software.json",
    "environment-1": "data/records/environment.json",
    "image-1": "data/records/image.json",
    "plan-1": "data/records/plan.json",
    "metrics-1": "data/results/metrics.json",
    "sample-1": "data/results/samples.jsonl",
    "attempt-1": "data/results/attempts.jsonl",
}
STRINGS = st.sampled_from(
    ["", "a", "a\n", " a", "1", "0:00", "00:05:00", "٣", "sha256:" + "0" * 64, "x" * 70, "\ud800"]
)
SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.sampled_from([0, 1, -1, 1.0, 0.5, -0.0, 1e300, 2**53 + 1])
    | STRINGS
    | st.text(max_size=5)
)
VALUES: st.SearchStrategy[Json] = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(STRINGS, inner, max_size=3),
    max_leaves=5,
)


def document(name: str) -> Json:
    """One that fits its schema."""
    if name == "manifest-1":
        text = MANIFEST.read_bytes()
    else:
        text = sample_files()[FILES[name]]
        text = text.splitlines()[0] if FILES[name].endswith("l") else text
    parsed: Json = json.loads(text)
    return parsed


def damage(value: Json, data: st.DataObject) -> Json:
    """The value with one part of it, anywhere, changed, added or gone."""
    if isinstance(value, dict) and value and data.draw(st.integers(0, 9)):
        key = data.draw(st.sampled_from(sorted(value)))
        return {**value, key: damage(value[key], data)}
    if isinstance(value, list) and value and data.draw(st.integers(0, 9)):
        place = data.draw(st.integers(0, len(value) - 1))
        return [*value[:place], damage(value[place], data), *value[place + 1 :]]
    if data.draw(st.booleans()):
        return data.draw(VALUES)
    if isinstance(value, dict) and value and data.draw(st.booleans()):
        gone = data.draw(st.sampled_from(sorted(value)))
        return {key: part for key, part in value.items() if key != gone}
    if isinstance(value, dict):
        return {**value, data.draw(STRINGS): data.draw(VALUES)}
    if isinstance(value, list):
        return value + value[:1]
    return data.draw(VALUES)


@pytest.mark.parametrize("name", ["manifest-1", *FILES])
@examples(60)
@given(data=st.data())
def test_both_validators_take_and_refuse_the_same(name: str, data: st.DataObject) -> None:
    value = document(name)
    assert schema.validate(value, name) == []
    for _ in range(data.draw(st.integers(1, 3))):
        value = damage(value, data)
    refused = not Draft7Validator(schema.load(name)).is_valid(value)
    assert bool(schema.validate(value, name)) == refused


@pytest.mark.parametrize("before_the_edge", [0, 1, 2, 3, 69, 70, 71, 75])
@pytest.mark.parametrize("begin", [b'["', b'["\\\\', b'["\\"', b'[\n"', b'["", "'])
def test_brackets_are_counted_beyond_the_first_megabyte(begin: bytes, before_the_edge: int) -> None:
    deep = b"[" * 70
    padding = b"x" * ((1 << 20) - before_the_edge - len(begin))
    inside = begin + padding + deep + b'", [], {}' + b", []" * 40 + b"]"
    assert len(schema.parse(inside, where="x")) > 40
    outside = begin + padding + b'", ' + deep + b"]" * 71
    with pytest.raises(DamagedError, match="nested deeper than 64"):
        schema.parse(outside, where="x")


@pytest.mark.parametrize("before_the_edge", [0, 1, 2, 3])
@pytest.mark.parametrize("escapes", [b'\\"', b"\\\\", b'\\\\\\"'])
def test_an_escape_across_the_edge_ends_no_string(escapes: bytes, before_the_edge: int) -> None:
    begin = b'["' + b"x" * ((1 << 20) - before_the_edge - 2) + escapes
    assert len(schema.parse(begin + b"[" * 70 + b'"]', where="x")) == 1
    with pytest.raises(DamagedError, match="nested deeper than 64"):
        schema.parse(begin + b'", ' + b"[" * 70 + b"]" * 71, where="x")


@pytest.mark.parametrize("text", [b'"', b'"\n', b'"\\', b"x\n", b'"\n"\n'])
def test_what_ends_in_no_string_is_cut_to_its_end(text: bytes) -> None:
    with pytest.raises((DamagedError, NotJsonError)):
        schema.parse(text * 1_000_000 + b"[" * 100, where="x")
