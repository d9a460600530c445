"""Where a manifest says that a number is: what is taken, and what is refused in which words."""

import pytest

from capsule.jsons import Json, JsonObject
from capsule.manifest.sources import Column, LogKey, Pattern, Pointer, Source
from tests.manifest.test_reader import complaint, read, variant

CURVE = "epoch (?P<step>[0-9]+) loss (?P<value>.*)"


def metric(source: Json, **fields: Json) -> JsonObject:
    benchmark: JsonObject = {
        "id": "train",
        "command": ["true"],
        "metrics": {"loss": {**fields, "from": source}},
    }
    return variant(benchmarks=[benchmark], claims=[])


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ({"pattern": "(x)"}, Pattern(text="stdout", pattern="(x)")),
        (
            {"pattern": CURVE, "occurrence": "all", "file": "a/log.txt"},
            Pattern(text="out/a/log.txt", pattern=CURVE, occurrence="all"),
        ),
        ({"json": "/a", "stream": "stderr"}, Pointer(text="stderr", pointer="/a")),
        (
            {"csv": "loss", "file": "stdout", "step": "epoch"},
            Column(text="out/stdout", column="loss", step="epoch"),
        ),
        ({"mllog": "loss"}, LogKey(text="stdout", key="loss")),
    ],
)
def test_a_source_is_read(source: JsonObject, expected: Source) -> None:
    (loss,) = read(metric(source)).benchmarks[0].metrics
    assert loss.source == expected


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ({}, "exactly one of pattern, json, csv and mllog"),
        ({"pattern": "(x)", "json": ""}, "exactly one of pattern, json, csv and mllog"),
        ({"csv": "a", "file": "a", "stream": "stderr"}, "a file or a stream, not both"),
        ({"csv": "a", "occurrence": "all"}, "occurrence goes with a pattern alone"),
        ({"mllog": "a", "step": "b"}, "step goes with csv alone"),
        ({"regex": "(x)"}, "unknown field"),
        ({"json": "a/b"}, "not a JSON pointer"),
        ({"pattern": "x"}, "has no group that holds the number"),
        ({"pattern": "(x)(y)"}, "has 2 groups, and one is to hold the number"),
        ({"pattern": "(?P<loss>x)"}, "the group 'loss' means nothing"),
        ({"pattern": "(?P<step>x)", "occurrence": "all"}, "none for the number"),
        ({"pattern": CURVE}, '"occurrence": "all" alone makes use of'),
        ({"pattern": "(x"}, "not a pattern that is taken: missing )"),
        ({"pattern": "(x)(?!y)"}, "look-around, as in (?=...), is not supported"),
        ({"pattern": r"(x)\1"}, "references back to a group are not supported"),
        ({"pattern": r"(\pL{1,200})"}, "is too large"),
    ],
)
def test_what_means_nothing_is_refused(source: JsonObject, words: str) -> None:
    assert words in complaint(metric(source))


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ({"pattern": "(x)"}, 'needs "occurrence": "all" and a group (?P<step>...)'),
        ({"csv": "a", "file": "a"}, 'needs "step", the column that holds it'),
        ({"json": "", "file": "a"}, "a place in a JSON document has none"),
    ],
)
def test_a_curve_needs_steps(source: JsonObject, words: str) -> None:
    assert words in complaint(metric(source, per="step"))
